/* A stand-in for NCCL: a collective that waits for its peers on its own, and one that waits through the CUDA driver. */
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

API ncclAllReduce(long us) { return spin(us); }
API ncclCommInitRank(long us) { return cuStreamSynchronize(us); }
