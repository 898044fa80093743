/* A wall clock that is CLOCK_AHEAD_S seconds ahead of the machine's, plus the number of seconds in the file
   CLOCK_AHEAD_FILE (a long, which may change). The monotonic clock does not change. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef int (*get_time)(clockid_t, struct timespec *);

static get_time real;
static long ahead_s;
static long none;
static volatile const long *more_s = &none;

__attribute__((constructor)) static void begin(void) {
    const char *ahead = getenv("CLOCK_AHEAD_S"), *file = getenv("CLOCK_AHEAD_FILE");
    ahead_s = ahead ? atol(ahead) : 0;
    int open_file = file ? open(file, O_RDONLY) : -1;
    if (open_file >= 0) {
        void *mapped = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, open_file, 0);
        if (mapped != MAP_FAILED) more_s = mapped;
        close(open_file);
    }
    real = (get_time)dlsym(RTLD_NEXT, "clock_gettime");
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!real) begin();
    int result = real(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead_s + *more_s;
    return result;
}
