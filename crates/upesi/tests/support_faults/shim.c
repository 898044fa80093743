/*
 * Lets system calls of one process fail. LD_PRELOAD loads this library in front of the C library. A call fails if all
 * of these conditions hold:
 *
 * - The file FAULT_ARMED exists.
 * - The call is one of FAULT_CALLS ("fallocate,fdatasync,fsync,pread64,pwrite64,rename,write").
 * - The path of its descriptor, or the new name, contains FAULT_PATH.
 * - It is the FAULT_FROM-th such call (1 is the first), or one of the FAULT_COUNT - 1 calls after it. With
 *   FAULT_COUNT=0, all later calls fail.
 *
 * The call sets errno to FAULT_ERRNO. With FAULT_ERRNO=0, a write stores only its first half and returns its length,
 * and a sync does nothing and reports success. The file FAULT_MET grows by one byte per failed call. A write of one
 * byte cannot be halved, so it does not fail.
 *
 * With FAULT_LOSES=1, a sync that fails also undoes all writes to its file since the last successful sync. The kernel
 * behaves in this way: after a failed write-back it treats pages as clean, so no later sync writes them, and it may
 * drop them at any time.
 */
#include "files.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#define SECTOR_BYTES 512
#define PATH_BYTES 4096

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

static int is_armed_for(const char *call)
{
    const char *armed = getenv("FAULT_ARMED");
    return armed && is_listed(call) && !access(armed, F_OK);
}

static int is_meant(const char *path)
{
    const char *part = getenv("FAULT_PATH");
    return part && strstr(path, part);
}

/* Whether a listed call fails, according to the path of its file. */
static int fails_on(const char *path)
{
    if (!is_meant(path))
        return 0;
    long nth = atomic_fetch_add(&seen, 1) + 1;
    long from = number("FAULT_FROM"), count = number("FAULT_COUNT");
    return nth >= from && (count == 0 || nth < from + count);
}

/* Whether this call fails. Does not change errno. */
static int fails(const char *call, int descriptor)
{
    int before = errno;
    char path[PATH_BYTES];
    int found = is_armed_for(call) && path_of(descriptor, path, sizeof path) && fails_on(path);
    errno = before;
    return found;
}

/* Records that a call failed. */
static void tell(void)
{
    const char *met = getenv("FAULT_MET");
    int file = met ? plain_open(met, O_WRONLY | O_CREAT | O_APPEND) : -1;
    if (file < 0)
        return;
    if (plain_write(file, ".", 1) != 1)
        abort();
    close(file);
}

static int fail(void)
{
    tell();
    errno = (int)number("FAULT_ERRNO");
    return -1;
}

/* Half of the length, in whole sectors if it has more than one. */
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

/* The bytes that a write has replaced, and the length of the file before it. */
struct change {
    struct change *older;
    /* A second descriptor of the file, so that its inode is not reused meanwhile. */
    int file;
    dev_t device;
    ino_t inode;
    long serial;
    off_t offset, size;
    size_t length;
    char bytes[];
};

/* Changes that were not followed by a successful sync, the newest first. */
static struct change *changes;
static long serials;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Whether writes to a descriptor may have to be undone. Does not change errno. */
static int may_be_lost(int descriptor)
{
    int before = errno;
    char path[PATH_BYTES];
    struct stat about;
    int may = number("FAULT_LOSES") && !fstat(descriptor, &about) && S_ISREG(about.st_mode) &&
              path_of(descriptor, path, sizeof path) && is_meant(path);
    errno = before;
    return may;
}

/* Saves the bytes that a write is about to replace. The caller holds the lock until the write is done. A negative
   offset means the current one. */
static void keep(int descriptor, off_t offset, size_t count)
{
    int before = errno;
    struct stat about;
    int file = plain_open(link_of(descriptor).text, O_RDWR);
    if (file < 0 || fstat(file, &about))
        abort();
    if (offset < 0)
        offset = fcntl(descriptor, F_GETFL) & O_APPEND ? about.st_size : lseek(descriptor, 0, SEEK_CUR);
    size_t length = offset < about.st_size ? (size_t)(about.st_size - offset) : 0;
    if (length > count)
        length = count;
    struct change *change = malloc(sizeof *change + length);
    if (!change)
        abort();
    *change = (struct change){changes, file, about.st_dev, about.st_ino, ++serials, offset, about.st_size, length};
    if (read_all(file, change->bytes, length, offset) != length)
        abort();
    changes = change;
    errno = before;
}

/* Removes the saved changes of a file up to a serial number. If they are to be lost, undoes them first. Does not change
   errno. */
static void let_go(const struct stat *about, long until, int is_lost)
{
    int before = errno;
    ssize_t (*real)(int, const void *, size_t, off_t) = next("pwrite64");
    pthread_mutex_lock(&lock);
    for (struct change **at = &changes; *at;) {
        struct change *change = *at;
        if (change->device != about->st_dev || change->inode != about->st_ino || change->serial > until) {
            at = &change->older;
            continue;
        }
        if (is_lost && (real(change->file, change->bytes, change->length, change->offset) != (ssize_t)change->length ||
                        ftruncate(change->file, change->size)))
            abort();
        *at = change->older;
        close(change->file);
        free(change);
    }
    pthread_mutex_unlock(&lock);
    errno = before;
}

static int sync_or_fail(const char *call, int descriptor)
{
    int (*real)(int) = next(call);
    struct stat about;
    if (!may_be_lost(descriptor) || fstat(descriptor, &about)) {
        if (!fails(call, descriptor))
            return real(descriptor);
        return number("FAULT_ERRNO") ? fail() : (tell(), 0);
    }
    if (fails(call, descriptor)) {
        let_go(&about, LONG_MAX, 1);
        return number("FAULT_ERRNO") ? fail() : (tell(), 0);
    }
    pthread_mutex_lock(&lock);
    long until = serials;
    pthread_mutex_unlock(&lock);
    int outcome = real(descriptor);
    if (!outcome)
        let_go(&about, until, 0);
    return outcome;
}

int fdatasync(int descriptor)
{
    return sync_or_fail("fdatasync", descriptor);
}

int fsync(int descriptor)
{
    return sync_or_fail("fsync", descriptor);
}

ssize_t pread64(int descriptor, void *bytes, size_t count, off64_t offset)
{
    ssize_t (*real)(int, void *, size_t, off64_t) = next("pread64");
    return fails("pread64", descriptor) ? fail() : real(descriptor, bytes, count, offset);
}

/* Writes; a negative offset means the current one. */
static ssize_t store(int descriptor, const void *bytes, size_t count, off64_t offset)
{
    ssize_t (*real)(int, const void *, size_t, off64_t) = next("pwrite64");
    return offset < 0 ? plain_write(descriptor, bytes, count) : real(descriptor, bytes, count, offset);
}

static ssize_t write_or_fail(const char *call, int descriptor, const void *bytes, size_t count, off64_t offset)
{
    if (fails(call, descriptor)) {
        if (number("FAULT_ERRNO"))
            return fail();
        count = half(count);
    }
    if (!may_be_lost(descriptor))
        return store(descriptor, bytes, count, offset);
    pthread_mutex_lock(&lock);
    keep(descriptor, offset, count);
    ssize_t outcome = store(descriptor, bytes, count, offset);
    pthread_mutex_unlock(&lock);
    return outcome;
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset)
{
    return write_or_fail("pwrite64", descriptor, bytes, count, offset);
}

ssize_t write(int descriptor, const void *bytes, size_t count)
{
    return write_or_fail("write", descriptor, bytes, count, -1);
}

int rename(const char *from, const char *to)
{
    int (*real)(const char *, const char *) = next("rename");
    int before = errno;
    int is_due = is_armed_for("rename") && fails_on(to);
    errno = before;
    return is_due ? fail() : real(from, to);
}

/* The journal allocates its space with a system call that bypasses the C library. */
static void on_fallocate(int signal, siginfo_t *about, void *context)
{
    (void)signal;
    (void)about;
    ucontext_t *at = context;
    int before = errno;
    long outcome;
    if (fails("fallocate", (int)ARGUMENT(at, 0))) {
        tell();
        outcome = -number("FAULT_ERRNO");
    } else {
        outcome = syscall(SYS_fallocate, ARGUMENT(at, 0), ARGUMENT(at, 1), ARGUMENT(at, 2), ARGUMENT(at, 3), 0L, (long)FROM_HERE);
        if (outcome < 0)
            outcome = -errno;
    }
    errno = before;
    RESULT(at) = outcome;
}

__attribute__((constructor)) static void begin(void)
{
    if (is_listed("fallocate"))
        filter_calls((const int[]){SYS_fallocate}, 1, on_fallocate);
}
