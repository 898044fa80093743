/*
 * Makes system calls of one process fail: loaded in front of the C library with LD_PRELOAD. A call fails when the file
 * FAULT_ARMED exists, the call is one of FAULT_CALLS ("fdatasync,fsync,pwrite64,write"), the path of its descriptor contains
 * FAULT_PATH, and it is the FAULT_FROM-th such call since then (1 is the next) or one of the FAULT_COUNT - 1 after it (0: all
 * that come). It sets errno to FAULT_ERRNO; with 0 a write stores only its first half and says so. The file FAULT_MET grows by
 * one byte with each call that met a fault; a write of one byte, which has no half, meets none.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define SECTOR_BYTES 512

static atomic_long seen;

static long number(const char *name)
{
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

static int is_listed(const char *call)
{
    const char *calls = getenv("FAULT_CALLS");
    size_t length = strlen(call);
    for (const char *at = calls; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, call, length) && (at[length] == ',' || at[length] == '\0'))
            return 1;
    return 0;
}

/* Whether this call is to fail. Leaves errno as it was. */
static int fails(const char *call, int descriptor)
{
    int before = errno;
    const char *armed = getenv("FAULT_ARMED");
    const char *part = getenv("FAULT_PATH");
    char link[64], path[4096];
    int found = 0;
    if (armed && part && is_listed(call) && !access(armed, F_OK)) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
        ssize_t length = readlink(link, path, sizeof path - 1);
        if (length > 0) {
            path[length] = '\0';
            if (strstr(path, part)) {
                long nth = atomic_fetch_add(&seen, 1) + 1;
                long from = number("FAULT_FROM"), count = number("FAULT_COUNT");
                found = nth >= from && (count == 0 || nth < from + count);
            }
        }
    }
    errno = before;
    return found;
}

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static ssize_t (*real_write(void))(int, const void *, size_t)
{
    return next("write");
}

/* Says that a call met a fault. */
static void tell(void)
{
    const char *met = getenv("FAULT_MET");
    int file = met ? open(met, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (file < 0)
        return;
    if (real_write()(file, ".", 1) != 1)
        abort();
    close(file);
}

static int fail(void)
{
    tell();
    errno = (int)number("FAULT_ERRNO");
    return -1;
}

/* Half of it, in whole sectors where there is more than one. */
static size_t half(size_t bytes)
{
    size_t half = bytes / 2;
    if (half >= SECTOR_BYTES)
        half -= half % SECTOR_BYTES;
    if (!half)
        return bytes;
    tell();
    return half;
}

int fdatasync(int descriptor)
{
    int (*real)(int) = next("fdatasync");
    return fails("fdatasync", descriptor) ? fail() : real(descriptor);
}

int fsync(int descriptor)
{
    int (*real)(int) = next("fsync");
    return fails("fsync", descriptor) ? fail() : real(descriptor);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset)
{
    ssize_t (*real)(int, const void *, size_t, off64_t) = next("pwrite64");
    if (!fails("pwrite64", descriptor))
        return real(descriptor, bytes, count, offset);
    return number("FAULT_ERRNO") ? fail() : real(descriptor, bytes, half(count), offset);
}

ssize_t write(int descriptor, const void *bytes, size_t count)
{
    ssize_t (*real)(int, const void *, size_t) = real_write();
    if (!fails("write", descriptor))
        return real(descriptor, bytes, count);
    return number("FAULT_ERRNO") ? fail() : real(descriptor, bytes, half(count));
}
