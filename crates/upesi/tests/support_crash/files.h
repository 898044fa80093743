/*
 * Shared parts of the libraries of these tests: the C library's own calls, the path of a descriptor, the content of a
 * file, and system calls that bypass the C library.
 */
#ifndef FILES_H
#define FILES_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <ucontext.h>
#include <unistd.h>

/* The function of the C library that this library replaces. */
static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static int plain_open(const char *path, int flags)
{
    int (*real)(int, const char *, int, ...) = next("openat64");
    return real(AT_FDCWD, path, flags | O_CLOEXEC, 0600);
}

static ssize_t plain_write(int descriptor, const void *bytes, size_t count)
{
    ssize_t (*real)(int, const void *, size_t) = next("write");
    return real(descriptor, bytes, count);
}

/* The link in /proc to the file of a descriptor. */
struct place_in_proc {
    char text[64];
};

static struct place_in_proc link_of(int descriptor)
{
    struct place_in_proc link;
    snprintf(link.text, sizeof link.text, "/proc/self/fd/%d", descriptor);
    return link;
}

/* The path of a descriptor. Returns 0 if it has none. */
static int path_of(int descriptor, char *path, size_t room)
{
    ssize_t length = readlink(link_of(descriptor).text, path, room - 1);
    if (length <= 0)
        return 0;
    path[length] = '\0';
    return 1;
}

/* Reads up to `count` bytes of a file. Returns the number of bytes that were read. */
static __attribute__((unused)) size_t read_all(int descriptor, void *bytes, size_t count, off_t offset)
{
    ssize_t (*real)(int, void *, size_t, off_t) = next("pread64");
    size_t filled = 0;
    while (filled < count) {
        ssize_t part = real(descriptor, (char *)bytes + filled, count - filled, offset + (off_t)filled);
        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            break;
        filled += (size_t)part;
    }
    return filled;
}

/*
 * Some calls bypass the C library. With a filter, the kernel sends SIGSYS to this process for each of them, and the
 * handler makes the call. Calls of the handler have this value as their sixth argument, which these calls do not use
 * otherwise, so that the filter lets them through.
 */
#define FROM_HERE 0x5ca1ab1e

#if defined(__x86_64__)
#define ARGUMENT(at, index) ((at)->uc_mcontext.gregs[(const int[]){REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8}[index]])
#define RESULT(at) ((at)->uc_mcontext.gregs[REG_RAX])
#elif defined(__aarch64__)
#define ARGUMENT(at, index) ((at)->uc_mcontext.regs[index])
#define RESULT(at) ((at)->uc_mcontext.regs[0])
#else
#error "where are the arguments of a system call on this processor?"
#endif

#define FILTERED_MAX 8

/* Installs `handler` for these calls. */
static void filter_calls(const int *calls, int count, void (*handler)(int, siginfo_t *, void *))
{
    struct sock_filter filter[FILTERED_MAX + 6];
    int at = 0;
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int call = 0; call < count; call++) {
        /* Skips the remaining comparisons, and "allow". */
        unsigned char to_the_check = (unsigned char)(count - call);
        filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[call], to_the_check, 0);
    }
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5]));
    filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FROM_HERE, 1, 0);
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {(unsigned short)at, filter};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    if (sigaction(SIGSYS, &action, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("system calls cannot be filtered");
        abort();
    }
}

#endif
