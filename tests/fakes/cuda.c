/* A stand-in for the CUDA driver: it exports the entry points that matter and takes as long as it is told.
 *
 * Each call takes its duration in microseconds instead of its real arguments. As in the driver, only the entry points
 * have names: the work is done a few static functions deeper, and the library is stripped. How a call passes its time
 * is what was seen on an H200: waits spin on clock_gettime, a full launch queue yields, an event created for blocking
 * polls.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default"))) int
#define INTERNAL static __attribute__((noinline))

static volatile unsigned sink;

INTERNAL long now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000L + time.tv_nsec / 1000;
}

INTERNAL int spin_until(long end) {
    while (now_us() < end) sink++;
    return 0;
}

INTERNAL int spin(long us) { return spin_until(now_us() + us); }

INTERNAL int work_until(long end) {
    unsigned value = sink;
    do {
        for (int i = 0; i < 3000; i++) value = value * 1664525u + 1013904223u;
    } while (now_us() < end);
    sink = value;
    return 0;
}

INTERNAL int work(long us) { return work_until(now_us() + us); }

INTERNAL int yield_until(long end) {
    while (now_us() < end) sched_yield();
    return 0;
}

INTERNAL int yield(long us) { return yield_until(now_us() + us); }

INTERNAL int block_in_poll(long us) {
    struct timespec timeout = {us / 1000000, us % 1000000 * 1000};
    ppoll(NULL, 0, &timeout, NULL);
    return (int)(sink & 0);
}

INTERNAL int block_in_futex(long us) {
    static int word;
    struct timespec timeout = {us / 1000000, us % 1000000 * 1000};
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &timeout, NULL, 0);
    return (int)(sink & 0);
}

API cuInit(long us) { return work(us); }
API cuCtxGetCurrent(long us) { return work(us); }
API cuModuleLoadData(long us) { return work(us); }
API cuStreamSynchronize(long us) { return spin(us); }
API cuCtxSynchronize(long us) { return spin(us); }
API cuEventSynchronize(long us) { return block_in_poll(us); }
API cuEventQuery(long us) { return work(us); }
API cuEventRecord(long us) { return work(us); }
API cuMemcpy(long us) { return spin(us); }
API cuMemcpyDtoHAsync_v2(long us) { return spin(us); }
API cuMemcpyHtoDAsync_v2(long us) { return spin(us); }
API cuMemcpyDtoDAsync_v2(long us) { return work(us); }
API cuLaunchKernel(long us) { return work(us); }
API cuLaunchKernelEx(long us) { return yield(us); }
API cuLaunchCooperativeKernel(long us) { return block_in_futex(us); }
API cuGraphLaunch(long us) { return work(us); }
API cuGraphUpload(long us) { return block_in_poll(us); }
API cuMemAlloc_v2(long us) { return work(us); }
API cuMemFree_v2(long us) { return yield(us); }
API cuMemFreeHost(long us) { return block_in_poll(us); }
