/* A wall clock that is CLOCK_AHEAD_S seconds ahead of the machine's. The monotonic clock is left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

typedef int (*get_time)(clockid_t, struct timespec *);

static get_time real;
static long ahead_s;

__attribute__((constructor)) static void begin(void) {
    const char *ahead = getenv("CLOCK_AHEAD_S");
    ahead_s = ahead ? atol(ahead) : 0;
    real = (get_time)dlsym(RTLD_NEXT, "clock_gettime");
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!real) begin();
    int result = real(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead_s;
    return result;
}
