/*
 * Makes system calls of one process fail: loaded in front of the C library with LD_PRELOAD. A call fails when the file
 * FAULT_ARMED exists, the call is one of FAULT_CALLS ("fallocate,fdatasync,fsync,pwrite64,rename,write"), the path of its
 * descriptor, or the new name, contains FAULT_PATH, and it is the FAULT_FROM-th such call since then (1 is the next) or one of the FAULT_COUNT - 1 after it (0: all
 * that come). It sets errno to FAULT_ERRNO; with 0 a write stores only its first half and says so. The file FAULT_MET grows by
 * one byte with each call that met a fault; a write of one byte, which has no half, meets none.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <ucontext.h>
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

static int is_armed_for(const char *call)
{
    const char *armed = getenv("FAULT_ARMED");
    return armed && is_listed(call) && !access(armed, F_OK);
}

/* Whether a call that is listed is to fail, by the path of its file. */
static int fails_on(const char *path)
{
    const char *part = getenv("FAULT_PATH");
    if (!part || !strstr(path, part))
        return 0;
    long nth = atomic_fetch_add(&seen, 1) + 1;
    long from = number("FAULT_FROM"), count = number("FAULT_COUNT");
    return nth >= from && (count == 0 || nth < from + count);
}

/* Whether this call is to fail. Leaves errno as it was. */
static int fails(const char *call, int descriptor)
{
    int before = errno;
    char link[64], path[4096];
    int found = 0;
    if (is_armed_for(call)) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
        ssize_t length = readlink(link, path, sizeof path - 1);
        if (length > 0) {
            path[length] = '\0';
            found = fails_on(path);
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

int rename(const char *from, const char *to)
{
    int (*real)(const char *, const char *) = next("rename");
    int before = errno;
    int is_due = is_armed_for("rename") && fails_on(to);
    errno = before;
    return is_due ? fail() : real(from, to);
}

/*
 * The journal allocates its room by a system call of its own, past the C library. Where it is to fail, a filter has the kernel
 * hand each such call to this process first, as SIGSYS; what is not to fail is then called from here. The sixth argument,
 * which fallocate does not have, tells the filter which calls come from here.
 */
#define FROM_HERE 0x5ca1ab1e

#if defined(__x86_64__)
#define ARGUMENT(at, index) ((at)->uc_mcontext.gregs[(const int[]){REG_RDI, REG_RSI, REG_RDX, REG_R10}[index]])
#define RESULT(at) ((at)->uc_mcontext.gregs[REG_RAX])
#elif defined(__aarch64__)
#define ARGUMENT(at, index) ((at)->uc_mcontext.regs[index])
#define RESULT(at) ((at)->uc_mcontext.regs[0])
#else
#error "where are the arguments of a system call on this processor?"
#endif

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

__attribute__((constructor)) static void filter_fallocate(void)
{
    if (!is_listed("fallocate"))
        return;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FROM_HERE, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fallocate;
    action.sa_flags = SA_SIGINFO;
    if (sigaction(SIGSYS, &action, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("the shim cannot filter fallocate");
        abort();
    }
}
