/* The stand-in as a driver from before 2022 has it: no third version of the process lists. */
#define WITHOUT_V3
#include "nvml.c"
