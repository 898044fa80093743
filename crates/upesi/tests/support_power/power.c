/*
 * Records all changes that one process makes to the files below a directory. After the end of the process, a test can
 * undo every change that no sync has made durable, as if the machine had lost its power. LD_PRELOAD loads this library
 * in front of the C library.
 *
 * POWER_BELOW is the directory. POWER_LOG is a file: the library appends a line before each change, and lines for each
 * sync. POWER_KEPT is a directory of the same file system for files that lose their name. All three are absolute paths,
 * and no name contains a blank.
 *
 *     write INODE OFFSET LENGTH SIZE BYTES            SIZE is the length of the file before the write. BYTES are the
 *                                                     bytes that it replaces, in hexadecimal: 0 if all are zero,
 *                                                     - if there are none
 *     resize INODE SIZE AFTER PIECES                  PIECES are the bytes that are cut off, except zeros:
 *                                                     OFFSET:BYTES,OFFSET:BYTES or -
 *     create DIRECTORY NAME                           a new file or directory. DIRECTORY is an inode
 *     rename INODE DIRECTORY NAME DIRECTORY NAME KEPT KEPT is the name of the replaced file in POWER_KEPT; - for none
 *     unlink DIRECTORY NAME KEPT
 *     rmdir DIRECTORY NAME KEPT
 *     sync NUMBER INODE                               a sync of a file or directory begins; all changes above were made
 *     synced NUMBER                                   this sync succeeded
 *
 * One lock covers a change and its line. The library cannot follow links, copies by the kernel, and directories that
 * replace others: then it ends the process with a message. It does not see writes through memory mappings, which the
 * hub does not use.
 */
#include "files.h"

#include <dirent.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#define PATH_BYTES 4096
#define NAME_BYTES 256
#define CHUNK_BYTES (256 * 1024)
/* Size of the pieces of a `resize` line. */
#define PIECE_BYTES 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Empty until the library is set up. */
static char below[PATH_BYTES];
static size_t below_length;
static const char *kept_in;
static int log_file = -1;
static long syncs, kept_so_far;

/* The line that is being built. */
static char *line;
static size_t line_length, line_room;

static void give_up(const char *why, const char *path)
{
    fprintf(stderr, "power.c: %s: %s: %s\n", path, why, strerror(errno));
    abort();
}

static char *room_for(size_t bytes)
{
    if (line_length + bytes > line_room) {
        line_room = 2 * (line_length + bytes);
        line = realloc(line, line_room);
        if (!line)
            give_up("no memory", "the log");
    }
    return line + line_length;
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list values;
    size_t room = 2 * NAME_BYTES + 256;
    va_start(values, format);
    int length = vsnprintf(room_for(room), room, format, values);
    va_end(values);
    if (length < 0 || (size_t)length >= room)
        give_up("a name is too long", "the log");
    line_length += (size_t)length;
}

/* Ends a line and writes it to the log, before the change that it describes. */
static void end_line(void)
{
    *room_for(1) = '\n';
    line_length++;
    for (size_t written = 0; written < line_length;) {
        ssize_t part = plain_write(log_file, line + written, line_length - written);
        if (part < 0 && errno != EINTR)
            give_up("cannot be written", "the log");
        written += part > 0 ? (size_t)part : 0;
    }
    line_length = 0;
}

static int is_zero(const char *bytes, size_t count)
{
    return !count || (!*bytes && !memcmp(bytes, bytes + 1, count - 1));
}

static void say_bytes(const char *bytes, size_t count)
{
    static const char digits[] = "0123456789abcdef";
    char *at = room_for(2 * count);
    for (size_t index = 0; index < count; index++) {
        *at++ = digits[(unsigned char)bytes[index] >> 4];
        *at++ = digits[(unsigned char)bytes[index] & 15];
    }
    line_length += 2 * count;
}

/* Adds the bytes of a file that are about to be overwritten. */
static void say_before(int file, off_t offset, size_t count)
{
    char *bytes = count ? malloc(count) : NULL;
    if (count && (!bytes || read_all(file, bytes, count, offset) != count))
        give_up("cannot be read", "a file before it is written");
    if (!count)
        say(" -");
    else if (is_zero(bytes, count))
        say(" 0");
    else {
        say(" ");
        say_bytes(bytes, count);
    }
    free(bytes);
}

/* Adds a `resize` line with the bytes that are about to be cut off. */
static void say_resize(int file, ino_t inode, off_t size, off_t after)
{
    say("resize %ju %jd %jd", (uintmax_t)inode, (intmax_t)size, (intmax_t)after);
    char *chunk = malloc(CHUNK_BYTES);
    int pieces = 0;
    for (off_t at = after; at < size && chunk; at += CHUNK_BYTES) {
        size_t count = read_all(file, chunk, size - at < CHUNK_BYTES ? (size_t)(size - at) : CHUNK_BYTES, at);
        for (size_t from = 0; from < count; from += PIECE_BYTES) {
            size_t piece = count - from < PIECE_BYTES ? count - from : PIECE_BYTES;
            if (is_zero(chunk + from, piece))
                continue;
            say("%s%jd:", pieces++ ? "," : " ", (intmax_t)at + (intmax_t)from);
            say_bytes(chunk + from, piece);
        }
    }
    free(chunk);
    if (!pieces)
        say(" -");
    end_line();
}

static int is_below(const char *path)
{
    return below_length && !strncmp(path, below, below_length) && (path[below_length] == '/' || !path[below_length]);
}

/* Whether a descriptor belongs to a file or directory below POWER_BELOW. Does not change errno. */
static int is_ours(int descriptor, struct stat *about)
{
    int before = errno;
    char path[PATH_BYTES];
    int is = below_length && !fstat(descriptor, about) && (S_ISREG(about->st_mode) || S_ISDIR(about->st_mode)) &&
             path_of(descriptor, path, sizeof path) && is_below(path);
    errno = before;
    return is;
}

/* A name in a directory below POWER_BELOW. */
struct place {
    char path[PATH_BYTES];
    const char *name;
    ino_t directory;
    /* The file with this name; st_nlink is 0 if there is none. */
    struct stat about;
};

/* Resolves a name. Returns 0 if it is not below POWER_BELOW, or has no directory. Does not change errno. */
static int find(int at, const char *path, struct place *place)
{
    int before = errno, found = 0;
    char base[PATH_BYTES] = "";
    struct stat parent;
    if (!below_length)
        return 0;
    if (*path != '/' && !(at == AT_FDCWD ? getcwd(base, sizeof base) != NULL : path_of(at, base, sizeof base)))
        give_up("its directory has no path", path);
    int length = snprintf(place->path, sizeof place->path, "%s%s%s", base, *base ? "/" : "", path);
    if (length < 0 || (size_t)length >= sizeof place->path)
        give_up("is too long", path);
    while (length > 1 && place->path[length - 1] == '/')
        place->path[--length] = '\0';
    char *slash = strrchr(place->path, '/');
    if (slash && is_below(place->path) && place->path[below_length]) {
        if (strstr(place->path, "/../") || strpbrk(place->path, " \n") || strlen(slash) > NAME_BYTES)
            give_up("cannot be followed", place->path);
        *slash = '\0';
        found = !stat(place->path, &parent);
        *slash = '/';
        place->name = slash + 1;
        place->directory = found ? parent.st_ino : 0;
        if (lstat(place->path, &place->about))
            place->about.st_nlink = 0;
    }
    errno = before;
    return found;
}

/* A new path in POWER_KEPT. Returns its name. */
static const char *keep_at(char *path)
{
    snprintf(path, PATH_BYTES, "%s/%d-%ld", kept_in, (int)getpid(), ++kept_so_far);
    return strrchr(path, '/') + 1;
}

/* Creates a second name for a file, so that the file survives the removal of the first. */
static const char *keep_file(const struct place *place, char *path)
{
    const char *name = keep_at(path);
    if (syscall(SYS_linkat, AT_FDCWD, place->path, AT_FDCWD, path, 0))
        give_up("cannot be kept", place->path);
    return name;
}

static long move(const char *from, const char *to, long flags)
{
    return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags, (long)FROM_HERE);
}

/* ---- contents ---- */

/* Locks, and logs the bytes that a write replaces. A negative offset means the current one. Returns 0, without the
   lock, if the file is not below POWER_BELOW. */
static int begin_write(int descriptor, size_t count, off_t offset)
{
    struct stat about;
    int before = errno;
    if (!count || !is_ours(descriptor, &about) || !S_ISREG(about.st_mode))
        return 0;
    pthread_mutex_lock(&lock);
    int file = plain_open(link_of(descriptor).text, O_RDONLY);
    if (file < 0 || fstat(file, &about))
        give_up("cannot be opened", link_of(descriptor).text);
    if (offset < 0)
        offset = fcntl(descriptor, F_GETFL) & O_APPEND ? about.st_size : lseek(descriptor, 0, SEEK_CUR);
    say("write %ju %jd %zu %jd", (uintmax_t)about.st_ino, (intmax_t)offset, count, (intmax_t)about.st_size);
    off_t there = offset < about.st_size ? about.st_size - offset : 0;
    say_before(file, offset, (size_t)there < count ? (size_t)there : count);
    end_line();
    close(file);
    errno = before;
    return 1;
}

static void end_change(int is_ours)
{
    if (is_ours)
        pthread_mutex_unlock(&lock);
}

ssize_t write(int descriptor, const void *bytes, size_t count)
{
    int is = begin_write(descriptor, count, -1);
    ssize_t outcome = plain_write(descriptor, bytes, count);
    end_change(is);
    return outcome;
}

ssize_t writev(int descriptor, const struct iovec *parts, int count)
{
    ssize_t (*real)(int, const struct iovec *, int) = next("writev");
    size_t bytes = 0;
    for (int index = 0; index < count; index++)
        bytes += parts[index].iov_len;
    int is = begin_write(descriptor, bytes, -1);
    ssize_t outcome = real(descriptor, parts, count);
    end_change(is);
    return outcome;
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset)
{
    ssize_t (*real)(int, const void *, size_t, off64_t) = next("pwrite64");
    int is = offset >= 0 && begin_write(descriptor, count, offset);
    ssize_t outcome = real(descriptor, bytes, count, offset);
    end_change(is);
    return outcome;
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset)
{
    return pwrite64(descriptor, bytes, count, offset);
}

int ftruncate64(int descriptor, off64_t size)
{
    int (*real)(int, off64_t) = next("ftruncate64");
    struct stat about;
    int before = errno, is = is_ours(descriptor, &about) && S_ISREG(about.st_mode);
    if (is) {
        pthread_mutex_lock(&lock);
        int file = plain_open(link_of(descriptor).text, O_RDONLY);
        if (file < 0 || fstat(file, &about))
            give_up("cannot be opened", link_of(descriptor).text);
        say_resize(file, about.st_ino, about.st_size, size);
        close(file);
        errno = before;
    }
    int outcome = real(descriptor, size);
    end_change(is);
    return outcome;
}

int ftruncate(int descriptor, off_t size)
{
    return ftruncate64(descriptor, size);
}

/* ---- names ---- */

static int open_any(int at, const char *path, int flags, mode_t mode)
{
    int (*real)(int, const char *, int, ...) = next("openat64");
    struct place place;
    if (!(flags & (O_CREAT | O_TRUNC)) || !find(at, path, &place))
        return real(at, path, flags, mode);
    int before = errno;
    pthread_mutex_lock(&lock);
    int is_there = !lstat(place.path, &place.about);
    int is_fresh = (flags & O_CREAT) && (flags & O_EXCL);
    if (!is_there && (flags & O_CREAT)) {
        say("create %ju %s", (uintmax_t)place.directory, place.name);
        end_line();
    } else if (is_there && S_ISREG(place.about.st_mode) && (flags & O_TRUNC) && !is_fresh && place.about.st_size) {
        int file = plain_open(place.path, O_RDONLY);
        if (file < 0)
            give_up("cannot be opened", place.path);
        say_resize(file, place.about.st_ino, place.about.st_size, 0);
        close(file);
    }
    errno = before;
    int outcome = real(at, path, flags, mode);
    pthread_mutex_unlock(&lock);
    return outcome;
}

#define MODE_OF(flags) \
    mode_t mode = 0; \
    if ((flags) & O_CREAT || ((flags) & O_TMPFILE) == O_TMPFILE) { \
        va_list values; \
        va_start(values, flags); \
        mode = va_arg(values, mode_t); \
        va_end(values); \
    }

int open(const char *path, int flags, ...)
{
    MODE_OF(flags)
    return open_any(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    MODE_OF(flags)
    return open_any(AT_FDCWD, path, flags, mode);
}

int openat(int at, const char *path, int flags, ...)
{
    MODE_OF(flags)
    return open_any(at, path, flags, mode);
}

int openat64(int at, const char *path, int flags, ...)
{
    MODE_OF(flags)
    return open_any(at, path, flags, mode);
}

int mkdir(const char *path, mode_t mode)
{
    int (*real)(const char *, mode_t) = next("mkdir");
    struct place place;
    int is = find(AT_FDCWD, path, &place);
    if (is) {
        pthread_mutex_lock(&lock);
        int before = errno;
        if (lstat(place.path, &place.about)) {
            say("create %ju %s", (uintmax_t)place.directory, place.name);
            end_line();
        }
        errno = before;
    }
    int outcome = real(path, mode);
    end_change(is);
    return outcome;
}

/* Removes a name. The caller holds the lock. */
static int remove_name(int at, const char *path, int flags, struct place *place)
{
    int (*real)(int, const char *, int) = next("unlinkat");
    char kept[PATH_BYTES];
    if (lstat(place->path, &place->about) || S_ISDIR(place->about.st_mode) != !!(flags & AT_REMOVEDIR))
        return real(at, path, flags);
    if (!(flags & AT_REMOVEDIR)) {
        say("unlink %ju %s %s", (uintmax_t)place->directory, place->name, keep_file(place, kept));
        end_line();
        return real(at, path, flags);
    }
    /* The directory is moved to POWER_KEPT, so that its inode stays. */
    DIR *directory = opendir(place->path);
    int entries = 0;
    while (directory && readdir(directory))
        entries++;
    if (!directory || closedir(directory))
        return -1;
    if (entries > 2) {
        errno = ENOTEMPTY;
        return -1;
    }
    say("rmdir %ju %s %s", (uintmax_t)place->directory, place->name, keep_at(kept));
    end_line();
    return (int)move(place->path, kept, 0);
}

int unlinkat(int at, const char *path, int flags)
{
    int (*real)(int, const char *, int) = next("unlinkat");
    struct place place;
    if (!find(at, path, &place))
        return real(at, path, flags);
    pthread_mutex_lock(&lock);
    int outcome = remove_name(at, path, flags, &place);
    pthread_mutex_unlock(&lock);
    return outcome;
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

/* Adds a `rename` line. The caller holds the lock. */
static void say_rename(const struct place *from, const struct place *to)
{
    char kept[PATH_BYTES];
    int is_replaced = to->about.st_nlink > 0;
    if (is_replaced && (S_ISDIR(to->about.st_mode) || to->about.st_ino == from->about.st_ino))
        give_up("is a directory, or the same file, and is replaced", to->path);
    const char *name = is_replaced ? keep_file(to, kept) : "-";
    say("rename %ju %ju %s %ju %s %s", (uintmax_t)from->about.st_ino, (uintmax_t)from->directory, from->name,
        (uintmax_t)to->directory, to->name, name);
    end_line();
}

static int rename_any(int from_at, const char *from, int to_at, const char *to, long flags)
{
    struct place old, new;
    int is_from = find(from_at, from, &old), is_to = find(to_at, to, &new);
    if (is_from != is_to && (is_from || is_to))
        give_up("comes from elsewhere or goes there", is_from ? from : to);
    if (is_from) {
        pthread_mutex_lock(&lock);
        /* Resolve the names again, because now no other thread can change them. */
        is_from = find(from_at, from, &old) && find(to_at, to, &new);
        if (is_from && old.about.st_nlink > 0 && !(flags && new.about.st_nlink > 0))
            say_rename(&old, &new);
        int outcome = (int)syscall(SYS_renameat2, from_at, from, to_at, to, flags, (long)FROM_HERE);
        pthread_mutex_unlock(&lock);
        return outcome;
    }
    return (int)syscall(SYS_renameat2, from_at, from, to_at, to, flags, (long)FROM_HERE);
}

int rename(const char *from, const char *to)
{
    return rename_any(AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* ---- syncs ---- */

static int sync_any(const char *call, int descriptor)
{
    int (*real)(int) = next(call);
    struct stat about;
    int before = errno;
    if (!is_ours(descriptor, &about))
        return real(descriptor);
    pthread_mutex_lock(&lock);
    long number = ++syncs;
    say("sync %ld %ju", number, (uintmax_t)about.st_ino);
    end_line();
    pthread_mutex_unlock(&lock);
    errno = before;
    int outcome = real(descriptor);
    if (!outcome) {
        pthread_mutex_lock(&lock);
        say("synced %ld", number);
        end_line();
        pthread_mutex_unlock(&lock);
    }
    return outcome;
}

int fsync(int descriptor)
{
    return sync_any("fsync", descriptor);
}

int fdatasync(int descriptor)
{
    return sync_any("fdatasync", descriptor);
}

/* ---- calls that cannot be followed ---- */

ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t count, unsigned flags)
{
    ssize_t (*real)(int, off64_t *, int, off64_t *, size_t, unsigned) = next("copy_file_range");
    struct stat about;
    if (is_ours(to, &about))
        give_up("the kernel copies to it", link_of(to).text);
    return real(from, from_at, to, to_at, count, flags);
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t count)
{
    ssize_t (*real)(int, int, off64_t *, size_t) = next("sendfile64");
    struct stat about;
    if (is_ours(to, &about))
        give_up("the kernel copies to it", link_of(to).text);
    return real(to, from, at, count);
}

int linkat(int from_at, const char *from, int to_at, const char *to, int flags)
{
    int (*real)(int, const char *, int, const char *, int) = next("linkat");
    struct place place;
    if (find(to_at, to, &place))
        give_up("is a second name", to);
    return real(from_at, from, to_at, to, flags);
}

/* ---- calls that bypass the C library: the journal's allocations, and renames of the embedded store's lists ---- */

static long allocate(ucontext_t *at)
{
    int descriptor = (int)ARGUMENT(at, 0);
    off_t end = (off_t)(ARGUMENT(at, 2) + ARGUMENT(at, 3));
    struct stat about;
    int is = is_ours(descriptor, &about);
    if (is) {
        pthread_mutex_lock(&lock);
        if (ARGUMENT(at, 1) || fstat(descriptor, &about))
            give_up("room is taken or given back in another way", link_of(descriptor).text);
        if (end > about.st_size)
            say_resize(descriptor, about.st_ino, about.st_size, end);
    }
    long outcome = syscall(SYS_fallocate, descriptor, ARGUMENT(at, 1), ARGUMENT(at, 2), ARGUMENT(at, 3), 0L, (long)FROM_HERE);
    end_change(is);
    return outcome;
}

static void on_call(int signal, siginfo_t *about, void *context)
{
    (void)signal;
    ucontext_t *at = context;
    int before = errno;
    long outcome = about->si_syscall == SYS_fallocate
                       ? allocate(at)
                       : rename_any((int)ARGUMENT(at, 0), (const char *)ARGUMENT(at, 1), (int)ARGUMENT(at, 2),
                                    (const char *)ARGUMENT(at, 3), about->si_syscall == SYS_renameat2 ? (long)ARGUMENT(at, 4) : 0);
    RESULT(at) = outcome < 0 ? -errno : outcome;
    errno = before;
}

__attribute__((constructor)) static void begin(void)
{
    const char *directory = getenv("POWER_BELOW"), *log = getenv("POWER_LOG");
    kept_in = getenv("POWER_KEPT");
    if (!directory || !log || !kept_in || strlen(directory) >= sizeof below)
        return;
    log_file = plain_open(log, O_WRONLY | O_CREAT | O_APPEND);
    if (log_file < 0)
        give_up("cannot be opened", log);
    filter_calls((const int[]){SYS_fallocate, SYS_renameat, SYS_renameat2}, 3, on_call);
    strcpy(below, directory);
    below_length = strlen(below);
}
