/* A stand-in for NCCL: a collective that waits for its peers on its own, one that waits through the CUDA driver, and the
 * thread that serves them, parked. */
#include <poll.h>
#include <pthread.h>
#include <time.h>

#define API __attribute__((visibility("default"))) int
#define INTERNAL static __attribute__((noinline))

extern int cuStreamSynchronize(long us);

INTERNAL int spin(long us) {
    struct timespec start, time;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do clock_gettime(CLOCK_MONOTONIC, &time);
    while ((time.tv_sec - start.tv_sec) * 1000000L + (time.tv_nsec - start.tv_nsec) / 1000 < us);
    return 0;
}

INTERNAL void *serve(void *nothing) {
    while (poll(0, 0, -1) == 0) continue;
    return nothing;
}

API ncclCommInitAll(void) {
    pthread_t thread;
    return pthread_create(&thread, 0, serve, 0);
}

API ncclAllReduce(long us) { return spin(us); }
API ncclCommInitRank(long us) { return cuStreamSynchronize(us); }
