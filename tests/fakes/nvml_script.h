/* What the stand-in for NVML is told: its script, its clock, its count of calls. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define GPUS 64
#define ORDERS 2048
#define WORDS 24
enum { OK, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7 };

typedef unsigned long long u64;
typedef struct { int gpu, instance; } Device;
typedef struct { int count; char *word[WORDS]; char text[400]; } Order;

static Order orders[ORDERS];
static int order_count, running;
static Device devices[GPUS * 8];
static double started, wall_offset, now_set = -1, wall_set;
static struct { const char *name; int calls; } calls[200];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ------------------------------------------------------------------------------------------------- the script */

static double real(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static double seconds(void) { return now_set >= 0 ? now_set : real(CLOCK_MONOTONIC) - started; }

static double stamp_base(int boot) {
    if (boot) return 1000;
    return now_set >= 0 ? wall_set - now_set : wall_offset;
}

static void read_script(void) {
    const char *path = getenv("GPUTOP_NVML_SCRIPT");
    FILE *file = path ? fopen(path, "r") : NULL;
    order_count = 0;
    while (file && order_count < ORDERS && fgets(orders[order_count].text, sizeof orders[0].text, file)) {
        Order *order = &orders[order_count];
        char *rest = order->text, *word;
        order->count = 0;
        while (order->count < WORDS && (word = strsep(&rest, " \n")))
            if (*word) order->word[order->count++] = word;
        if (order->count) order_count++;
    }
    if (file) fclose(file);
}

static int is(const char *word, const char *name) { return !strcmp(word, "*") || !strcmp(word, name); }
static int is_gpu(const char *word, int gpu) { return !strcmp(word, "*") || atoi(word) == gpu; }

static Order *find(const char *verb, int from) {
    for (int i = from; i >= 0; i--)
        if (!strcmp(orders[i].word[0], verb)) return &orders[i];
    return NULL;
}
#define EACH(order, verb) \
    for (Order *order = find(verb, order_count - 1); order; order = find(verb, (int)(order - orders) - 1))

static double step_value(const char *step, double since) {
    const char *plus = strchr(step + 1, '+');
    return atof(step) + (plus ? atof(plus + 1) * since : 0);
}

/* The value of a key at a time; 0 is returned, and *set cleared, when the script does not set it. */
static double at(int gpu, const char *key, double when, int *set) {
    EACH(order, "set") {
        if (order->count < 4 || !is_gpu(order->word[1], gpu) || strcmp(order->word[2], key)) continue;
        double value = 0;
        for (int i = 3; i < order->count; i++) {
            char *colon = strchr(order->word[i], ':');
            double from = colon ? atof(order->word[i]) : 0;
            if (when >= from) value = step_value(colon ? colon + 1 : order->word[i], when - from);
        }
        if (set) *set = 1;
        return value;
    }
    if (set) *set = 0;
    return 0;
}

static double get(int gpu, const char *key, double otherwise) {
    int set;
    double value = at(gpu, key, seconds(), &set);
    return set ? value : otherwise;
}

static const char *text(int gpu, const char *key, const char *otherwise) {
    EACH(order, "text")
        if (order->count >= 4 && is_gpu(order->word[1], gpu) && !strcmp(order->word[2], key)) return order->word[3];
    return otherwise;
}

static int within(Order *order, int first) {
    double from = order->count > first ? atof(order->word[first]) : 0;
    double until = order->count > first + 1 ? atof(order->word[first + 1]) : 1e18;
    return seconds() >= from && seconds() < until;
}

static void count_call(const char *name) {
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < 199 && calls[i].name && strcmp(calls[i].name, name)) i++;
    calls[i].name = name;
    calls[i].calls++;
    pthread_mutex_unlock(&lock);
}

/* What every function does first: be slow, hang, or fail, as the script says. */
static int enter(const char *function, int gpu) {
    count_call(function);
    EACH(order, "delay")
        if (order->count >= 3 && is(order->word[1], function)) {
            usleep((useconds_t)(atof(order->word[2]) * 1000));
            break;
        }
    EACH(order, "hang")
        while (order->count >= 3 && is(order->word[1], function) && !access(order->word[2], F_OK)) usleep(5000);
    EACH(order, "error") {
        if (order->count < 3 || !is(order->word[1], function)) continue;
        if (order->count > 3 && gpu >= 0 && !is_gpu(order->word[3], gpu)) continue;
        if (order->count > 4 && seconds() < atof(order->word[4])) continue;
        return atoi(order->word[2]);
    }
    return OK;
}

static int check(const char *function, Device *device) {
    if (!running) return UNINITIALIZED;
    if (!device) {
        count_call("NULL");
        return INVALID;
    }
    return enter(function, device->gpu);
}
#define CHECK(device) do { int code = check(__func__, device); if (code) return code; } while (0)

static int grown(const char *function) {
    EACH(order, "grow") {
        int left = order->count >= 3 && is(order->word[1], function) ? atoi(order->word[2]) : 0;
        if (left) {
            sprintf(order->word[2], "%d", left - 1);
            return 1;
        }
    }
    return 0;
}

/* For tests in the same process: set the clock, and ask how often a function was called. */
API void standin_clock(double now, double wall) { now_set = now; wall_set = wall; }
API int standin_calls(const char *name) {
    for (int i = 0; i < 200 && calls[i].name; i++)
        if (!strcmp(calls[i].name, name)) return calls[i].calls;
    return 0;
}
