// Decodes pictures on the CPU, waits for the GPU and sleeps; says "ready", ends when standard input does, and prints
// the truth as the Python jobs do. Compiled as plain C++ there is no GPU, and its wait is a sleep.
#include <poll.h>
#include <time.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

enum State { NATIVE, GPU_API, GPU_WAIT, IDLE, STARVED, STATES };
static const char *const names = "\"native\", \"gpu_api\", \"gpu_wait\", \"idle\", \"starved\"";

struct Row {
    double at, seconds[STATES];
};

static double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static double starved() {
    unsigned long long ran = 0, waited = 0;
    if (FILE *file = fopen("/proc/thread-self/schedstat", "r")) {
        if (fscanf(file, "%llu %llu", &ran, &waited) != 2) waited = 0;
        fclose(file);
    }
    return waited * 1e-9;
}

static void pause_ms(long milliseconds) {
    timespec time = {0, milliseconds * 1000000};
    nanosleep(&time, nullptr);
}

__attribute__((noinline)) double decode_image(double shade) {
    for (int pixel = 0; pixel < 1000000; pixel++) shade += std::sin(shade + pixel) * 0.5;
    return shade;
}

#ifdef __CUDACC__
__global__ void spin(long long cycles) {
    for (long long start = clock64(); clock64() - start < cycles;) {
    }
}
static const State WAIT = GPU_WAIT;
static void start_gpu() { spin<<<1, 1>>>(25000000); }
static void wait_gpu() { cudaStreamSynchronize(0); }
#else
static const State WAIT = IDLE;
static void start_gpu() {}
static void wait_gpu() { pause_ms(12); }
#endif

static double seconds[STATES];

template <class Work>
static void timed(State state, Work work) {
    double start = now(), lacked = starved();
    work();
    lacked = starved() - lacked;
    seconds[state] += now() - start - lacked;
    seconds[STARVED] += lacked;
}

static double step(double shade) {
    timed(NATIVE, [&] { shade = decode_image(shade); });
    timed(GPU_API, start_gpu);
    timed(WAIT, wait_gpu);
    timed(IDLE, [] { pause_ms(5); });
    return shade;
}

static void tell(const std::vector<Row> &rows, double shade) {
    double start = rows.front().at, wall = now() - start;
    printf("{\"wall\": %.3f, \"rate\": %.4f, \"shade\": %.3f, \"hot\": {\"function\": \"decode_image\"}, \"marks\": [",
           wall, (rows.size() - 1) / wall, shade);
    for (size_t i = 0; i < rows.size(); i++) printf("%s%.6f", i ? ", " : "", rows[i].at);
    printf("], \"ledgers\": {}, \"ledger\": {\"states\": [%s], \"rows\": [", names);
    for (size_t i = 0; i < rows.size(); i++) {
        printf("%s[%.6f", i ? ", " : "", rows[i].at);
        for (double spent : rows[i].seconds) printf(", %.6f", spent);
        printf("]");
    }
    printf("]}}\n");
}

static Row row() {
    Row result = {now(), {}};
    for (int state = 0; state < STATES; state++) result.seconds[state] = seconds[state];
    return result;
}

int main() {
    pollfd input = {0, POLLIN, 0};
    double shade = step(1);
    for (double &spent : seconds) spent = 0;
    std::vector<Row> rows = {row()};
    printf("ready\n");
    fflush(stdout);
    while (poll(&input, 1, 0) == 0 && now() - rows.front().at < 900) {
        shade = step(shade);
        rows.push_back(row());
    }
    tell(rows, shade);
    return 0;
}
