// A library whose functions compute until so much of the thread's own CPU time went by: grind and polish.
#define _GNU_SOURCE
#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static inline __attribute__((always_inline)) double spin(double seconds, double factor) {
    double value = 1, end = now() + seconds;
    while (now() < end)
        for (int turn = 0; turn < 200000; turn++) value = value * factor + turn;
    return value;
}

__attribute__((noinline)) double grind(double seconds) {
    return spin(seconds, 0.999) + 1;
}

__attribute__((noinline)) double polish(double seconds) {
    return spin(seconds, 0.998) - 1;
}
