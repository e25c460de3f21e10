/* A stand-in for libnvidia-ml.so.1 that is told what to say by the file named in GPUTOP_NVML_SCRIPT.
 *
 * It is read at nvmlInit. One order a line; GPU is a number or *; a later line wins:
 *
 *   gpus N
 *   set GPU KEY STEP...           a STEP is VALUE, SECONDS:VALUE, or either with +RATE (growth each second)
 *   text GPU KEY STRING           KEY is name or uuid
 *   error FUNCTION CODE [GPU [SECONDS]]      from SECONDS after nvmlInit on
 *   delay FUNCTION MILLISECONDS   FUNCTION is a name or *
 *   hang FUNCTION PATH            as long as there is such a file
 *   grow FUNCTION TIMES           so many times the list has grown between size query and call
 *   process GPU KIND PID BYTES [FROM UNTIL]  KIND is C, G or M; C2 and C3 show in one version only; BYTES may be -
 *   use GPU PID SM MEMORY [FROM UNTIL]       a sample a second
 *
 * Keys: util mem_util power limit temp slowdown clock1 clock2 fan enc dec ecc energy reasons mig mig_count
 * mem_total mem_used mem_reserved ring boot_stamps field.ID narrow.ID gpm gpm.ID
 */
#include "nvml_script.h"

/* ------------------------------------------------------------------------------------------- library and GPUs */

API int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    read_script();
    started = real(CLOCK_MONOTONIC);
    wall_offset = real(CLOCK_REALTIME);
    memset(calls, 0, sizeof calls);
    for (int i = 0; i < GPUS * 8; i++) devices[i] = (Device){i % GPUS, i / GPUS};
    int code = enter("nvmlInit", -1);
    running = !code;
    return code;
}
API int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API int nvmlShutdown(void) { count_call(__func__); running = 0; return OK; }
API const char *nvmlErrorString(int code) { (void)code; return "an error of the stand-in"; }

API int nvmlSystemGetDriverVersion(char *buffer, unsigned size) { snprintf(buffer, size, "580.00"); return OK; }
API int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return OK; }

API int nvmlDeviceGetCount_v2(unsigned *count) {
    int code = enter(__func__, -1);
    if (code) return code;
    Order *order = find("gpus", order_count - 1);
    *count = order ? atoi(order->word[1]) : 1;
    return OK;
}
API int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
    CHECK(&devices[index]);
    *device = &devices[index];
    return OK;
}
API int nvmlDeviceGetIndex(Device *device, unsigned *index) { CHECK(device); *index = device->gpu; return OK; }
API int nvmlDeviceGetMinorNumber(Device *device, unsigned *minor) { CHECK(device); *minor = device->gpu; return OK; }

API int nvmlDeviceGetName(Device *device, char *buffer, unsigned size) {
    CHECK(device);
    snprintf(buffer, size, "%s", text(device->gpu, "name", "Stand-in"));
    return OK;
}
API int nvmlDeviceGetUUID(Device *device, char *buffer, unsigned size) {
    CHECK(device);
    char made[96];
    snprintf(made, sizeof made, device->instance ? "MIG-%d-%d" : "GPU-%d", device->gpu, device->instance);
    snprintf(buffer, size, "%s", device->instance ? made : text(device->gpu, "uuid", made));
    return OK;
}

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
API int nvmlDeviceGetPciInfo_v3(Device *device, Pci *info) {
    CHECK(device);
    memset(info, 0, sizeof *info);
    info->bus = device->gpu + 1;
    snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", device->gpu + 1);
    return OK;
}

#define NUMBER(function, type, key, otherwise) \
    API int function(Device *device, type *value) { \
        CHECK(device); \
        *value = (type)get(device->gpu, key, otherwise); \
        return OK; \
    }
NUMBER(nvmlDeviceGetPowerUsage, unsigned, "power", 200000)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, "limit", 700000)
NUMBER(nvmlDeviceGetPowerManagementLimit, unsigned, "limit", 700000)
NUMBER(nvmlDeviceGetTotalEnergyConsumption, u64, "energy", 0)
NUMBER(nvmlDeviceGetFanSpeed, unsigned, "fan", 40)
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, u64, "reasons", 0)
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, u64, "reasons", 0)
NUMBER(nvmlDeviceGetPerformanceState, unsigned, "pstate", 0)
NUMBER(nvmlDeviceGetMaxMigDeviceCount, unsigned, "mig_count", 0)

#define BY_KIND(function, key, otherwise) \
    API int function(Device *device, unsigned kind, unsigned *value) { \
        (void)kind; \
        CHECK(device); \
        *value = (unsigned)get(device->gpu, key, otherwise); \
        return OK; \
    }
BY_KIND(nvmlDeviceGetTemperature, "temp", 45)
BY_KIND(nvmlDeviceGetTemperatureThreshold, "slowdown", 90)
BY_KIND(nvmlDeviceGetPcieThroughput, "pcie", 1)
BY_KIND(nvmlDeviceGetMaxClockInfo, "max_clock", 1980)

API int nvmlDeviceGetClockInfo(Device *device, unsigned kind, unsigned *value) {
    CHECK(device);
    *value = (unsigned)get(device->gpu, kind == 2 ? "clock2" : "clock1", kind == 2 ? 3201 : 1980);
    return OK;
}
API int nvmlDeviceGetTotalEccErrors(Device *device, int type, int counter, u64 *value) {
    (void)type, (void)counter;
    CHECK(device);
    *value = (u64)get(device->gpu, "ecc", 0);
    return OK;
}
API int nvmlDeviceGetUtilizationRates(Device *device, unsigned *rates) {
    CHECK(device);
    rates[0] = (unsigned)get(device->gpu, "util", 30);
    rates[1] = (unsigned)get(device->gpu, "mem_util", 10);
    return OK;
}
#define ENGINE(function, key) \
    API int function(Device *device, unsigned *percent, unsigned *period) { \
        CHECK(device); \
        *percent = (unsigned)get(device->gpu, key, 0); \
        *period = 167000; \
        return OK; \
    }
ENGINE(nvmlDeviceGetEncoderUtilization, "enc")
ENGINE(nvmlDeviceGetDecoderUtilization, "dec")

typedef struct { u64 total, free, used; } Memory;
typedef struct { unsigned version; u64 total, reserved, free, used; } Memory2;
API int nvmlDeviceGetMemoryInfo_v2(Device *device, Memory2 *info) {
    CHECK(device);
    info->total = (u64)get(device->gpu, "mem_total", 80e9);
    info->reserved = (u64)get(device->gpu, "mem_reserved", 5e8);
    info->used = (u64)get(device->gpu, "mem_used", 1e10);
    info->free = info->total - info->used - info->reserved;
    return OK;
}
API int nvmlDeviceGetMemoryInfo(Device *device, Memory *info) {
    CHECK(device);
    info->total = (u64)get(device->gpu, "mem_total", 80e9);
    info->used = (u64)(get(device->gpu, "mem_used", 1e10) + get(device->gpu, "mem_reserved", 5e8));
    info->free = info->total - info->used;
    return OK;
}

API int nvmlDeviceGetMigMode(Device *device, unsigned *current, unsigned *pending) {
    CHECK(device);
    int set;
    *current = *pending = (unsigned)at(device->gpu, "mig", seconds(), &set);
    return set ? OK : NOT_SUPPORTED;
}
API int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **instance) {
    CHECK(device);
    if (index >= 6) return NOT_FOUND;
    *instance = &devices[(index + 1) * GPUS + device->gpu];
    return OK;
}
API int nvmlDeviceGetGpuInstanceId(Device *device, unsigned *id) { CHECK(device); *id = device->instance; return OK; }

/* -------------------------------------------------------------------------------------------------- processes */

typedef struct { unsigned pid; u64 bytes; unsigned gpu_instance, compute_instance; } Process;

static int list(const char *function, Device *device, const char *kind, unsigned *count, Process *found) {
    unsigned n = 0, room = found ? *count : 0;
    EACH(order, "process") {
        const char *word = order->count >= 5 ? order->word[2] : "?";
        if (*word != *kind || (word[1] && word[1] != kind[1]) || !is_gpu(order->word[1], device->gpu)) continue;
        if (!within(order, 5)) continue;
        u64 bytes = *order->word[4] == '-' ? ~0ULL : strtoull(order->word[4], NULL, 10);
        if (n < room) found[n] = (Process){(unsigned)strtoul(order->word[3], NULL, 10), bytes, 0, 0};
        n++;
    }
    *count = n;
    return n > room || (found && grown(function)) ? TOO_SMALL : OK;
}
#define LIST(function, kind) \
    API int function(Device *device, unsigned *count, Process *found) { \
        CHECK(device); \
        return list(__func__, device, kind, count, found); \
    }
LIST(nvmlDeviceGetComputeRunningProcesses_v2, "C2")
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, "G2")
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, "M2")
#ifndef WITHOUT_V3
LIST(nvmlDeviceGetComputeRunningProcesses_v3, "C3")
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, "G3")
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, "M3")
#endif

typedef struct { unsigned pid; u64 stamp; unsigned sm, memory, enc, dec; } Sample;
typedef struct { u64 stamp; unsigned pid, sm, memory, enc, dec, jpg, ofa; } Sample2;
typedef struct { unsigned version, count; u64 since; Sample2 *rows; } Samples2;

static unsigned samples(Device *device, u64 since, Sample *rows, unsigned room) {
    unsigned n = 0;
    double second = (double)(long)seconds();
    EACH(order, "use") {
        if (order->count < 5 || !is_gpu(order->word[1], device->gpu)) continue;
        double from = order->count > 5 ? atof(order->word[5]) : -1e18;
        double until = order->count > 6 ? atof(order->word[6]) : 1e18;
        double when = second < until ? second : (double)(long)until;
        u64 stamp = (u64)((stamp_base((int)get(device->gpu, "boot_stamps", 0)) + when) * 1e6);
        if (when < from || stamp <= since) continue;
        if (n < room)
            rows[n] = (Sample){(unsigned)strtoul(order->word[2], NULL, 10), stamp, (unsigned)atoi(order->word[3]),
                               (unsigned)atoi(order->word[4]), 0, 0};
        n++;
    }
    return n;
}

API int nvmlDeviceGetProcessUtilization(Device *device, Sample *rows, unsigned *count, u64 since) {
    CHECK(device);
    unsigned room = rows ? *count : 0, n = samples(device, since, rows, room);
    *count = n;
    if (rows && grown(__func__)) return TOO_SMALL;
    return n > room ? TOO_SMALL : n ? OK : NOT_FOUND;
}
API int nvmlDeviceGetProcessesUtilizationInfo(Device *device, Samples2 *info) {
    CHECK(device);
    static Sample rows[256];
    unsigned room = info->rows ? info->count : 0, n = samples(device, info->since, rows, 256);
    for (unsigned i = 0; i < n && i < room; i++)
        info->rows[i] = (Sample2){rows[i].stamp, rows[i].pid, rows[i].sm, rows[i].memory, 0, 0, 0, 0};
    info->count = n;
    if (info->rows && grown(__func__)) return TOO_SMALL;
    return n > room ? TOO_SMALL : n ? OK : get(device->gpu, "empty_is_ok", 0) ? OK : NOT_FOUND;
}

/* ----------------------------------------------------------------------------------- ring, field values, GPM */

typedef union { double d; unsigned u; u64 ull; } Value;
typedef struct { u64 stamp; Value value; } RingSample;
API int nvmlDeviceGetSamples(Device *device, unsigned type, u64 since, unsigned *kind, unsigned *count, RingSample *out) {
    (void)type;
    CHECK(device);
    if (!get(device->gpu, "ring", 1)) return NOT_FOUND;
    int set;
    unsigned n = 0, room = out ? *count : ~0U;
    double base = stamp_base((int)get(device->gpu, "boot_stamps", 0));
    for (long k = 0; k * 0.2 <= seconds(); k++) {
        u64 stamp = (u64)((base + k * 0.2) * 1e6);
        if (stamp <= since || n >= room) continue;
        if (out) out[n] = (RingSample){stamp, {.u = (unsigned)(at(device->gpu, "util", k * 0.2, &set) + (set ? 0 : 30))}};
        n++;
    }
    *kind = 1;
    *count = n;
    return n ? OK : NOT_FOUND;
}

typedef struct { unsigned id, scope; long long stamp, latency; unsigned kind; int code; Value value; } Field;
API int nvmlDeviceGetFieldValues(Device *device, int count, Field *fields) {
    CHECK(device);
    for (int i = 0; i < count; i++) {
        char key[32], narrow[32];
        snprintf(key, sizeof key, "field.%u", fields[i].id);
        snprintf(narrow, sizeof narrow, "narrow.%u", fields[i].id);
        int set;
        double value = at(device->gpu, key, seconds(), &set);
        fields[i].code = set ? OK : NOT_SUPPORTED;
        fields[i].kind = get(device->gpu, narrow, 0) ? 1 : 3;
        fields[i].value.ull = (u64)value;
    }
    return OK;
}

typedef struct { int gpu, instance; double time; } GpmSample;
typedef struct { unsigned id; int code; double value; const char *names[3]; } GpmMetric;
typedef struct { unsigned version, count; GpmSample *older, *newer; GpmMetric metrics[]; } GpmRequest;
API int nvmlGpmQueryDeviceSupport(Device *device, unsigned *support) {
    CHECK(device);
    support[1] = (unsigned)get(device->gpu, "gpm", 1);
    return OK;
}
API int nvmlGpmSampleAlloc(GpmSample **sample) {
    count_call(__func__);
    *sample = calloc(1, sizeof **sample);
    return OK;
}
API int nvmlGpmSampleFree(GpmSample *sample) { count_call(__func__); free(sample); return OK; }
API int nvmlGpmSampleGet(Device *device, GpmSample *sample) {
    CHECK(device);
    *sample = (GpmSample){device->gpu, device->instance, seconds()};
    return OK;
}
API int nvmlGpmMigSampleGet(Device *device, unsigned instance, GpmSample *sample) {
    CHECK(device);
    *sample = (GpmSample){device->gpu, (int)instance, seconds()};
    return OK;
}
API int nvmlGpmMetricsGet(GpmRequest *request) {
    count_call(__func__);
    double apart = request->newer->time - request->older->time;
    for (unsigned i = 0; i < request->count; i++) {
        char key[32];
        snprintf(key, sizeof key, "gpm.%u", request->metrics[i].id);
        int set;
        double value = at(request->newer->gpu, key, seconds(), &set);
        request->metrics[i].code = set ? OK : NOT_SUPPORTED;
        request->metrics[i].value = apart >= 0.1 ? value : 0;
    }
    return OK;
}
