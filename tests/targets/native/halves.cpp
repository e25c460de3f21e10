// Two C++ functions at a known ratio of time: three parts of work::crunch to one of work::mill, by the thread's CPU clock.
// Ends when its input closes; prints the seconds in each.
#include <cstdio>
#include <ctime>
#include <poll.h>

namespace work {

static volatile double sink;

static double now() {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

template <typename Number>
__attribute__((noinline)) double crunch(Number start, double seconds) {
    double begin = now(), end = begin + seconds;
    Number value = start;
    while (now() < end)
        for (int turn = 0; turn < 200000; turn++) value = value * 0.999 + turn;
    sink = value;
    return now() - begin;
}

__attribute__((noinline)) double mill(double seconds) {
    double begin = now(), end = begin + seconds;
    double value = 1;
    while (now() < end)
        for (int turn = 0; turn < 200000; turn++) value = value * 0.998 - turn;
    sink = value;
    return now() - begin;
}

}  // namespace work

int main() {
    std::puts("ready");
    std::fflush(stdout);
    pollfd input = {0, POLLIN, 0};
    double crunched = 0, milled = 0;
    while (poll(&input, 1, 0) == 0) {
        crunched += work::crunch<double>(1.0, 0.006);
        milled += work::mill(0.002);
    }
    std::printf("{\"crunch\": %f, \"mill\": %f}\n", crunched, milled);
}
