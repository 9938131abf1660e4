/* Counts the calls by which a process and its children change files below one folder, and makes one of them fail.
 *
 * Preloaded (LD_PRELOAD) into Python, the JVM and what they load: Rust's and Arrow's libraries call libc as well. strace
 * would count per thread, which names no n-th call of a process with many.
 *
 * FAULTS_ROOT   the folder, absolute and without links
 * FAULTS_LOG    a line for each call that counts: process, kind of file, call, path (O_APPEND, one write each)
 * FAULTS_SHARED a file of a `struct shared`, which all processes map
 * FAULTS_POINT  "process kind-of-file call": these calls are counted, and the one with the number
 * FAULTS_NUMBER (from 1) gets FAULTS_FAULT: EIO, ENOSPC, kill or short
 *
 * ENOSPC lasts until FAULTS_SHARED is another file: a disk that is full stays full, for everybody.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>
#undef open
#undef open64
#undef openat
#undef openat64

struct shared {
    uint64_t calls, fired, full;
};

enum fault { NONE, EIO_ONCE, FULL, KILL, SHORT };

static char root[PATH_MAX], point[PATH_MAX + 64];
static size_t root_length;
static const char *process = "other";
static int log_fd = -1;
static uint64_t number;
static enum fault fault;
static struct shared *shared;

/* In both forms of a file's name digits, hashes and UUIDs are what differs from run to run. */
static int is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
static int is_word(char c) { return is_hex(c) || (c >= 'g' && c <= 'z') || (c >= 'G' && c <= 'Z'); }

static size_t uuid(const char *p) {
    for (int i = 0; i < 36; i++)
        if (i == 8 || i == 13 || i == 18 || i == 23 ? p[i] != '-' : !is_hex(p[i])) return 0;
    return 36;
}

static size_t hash(const char *p) {
    size_t length = 0;
    int digits = 0;
    for (; is_hex(p[length]); length++) digits += p[length] <= '9';
    return length >= 16 && digits && !is_word(p[length]) ? length : 0;
}

/* "silver/partition_hw/part-<uuid>.parquet" is of the kind "silver/<>/part-*.parquet", <> an asterisk. */
static void kind_of(const char *path, char *kind, size_t size) {
    static const char *tables[] = {"silver/", "gold/", "ops/", "_ingest/", "_locks/"};
    size_t out = 0, skip;
    int fresh = 1;
    const char *p = path;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (!strncmp(p, tables[i], strlen(tables[i]))) {
            out = (size_t)snprintf(kind, size, "%s*", tables[i]);
            for (p += strlen(tables[i]); *p && *p != '/'; p++) {}
        }
    for (; *p && out + 2 < size; fresh = !is_word(p[-1])) {
        if (fresh && ((skip = uuid(p)) || (skip = hash(p)))) {
            kind[out++] = '*';
            p += skip;
        } else if (*p >= '0' && *p <= '9') {
            kind[out++] = '*';
            while (*p >= '0' && *p <= '9') p++;
        } else if (*p == '%') { /* a name that was made fit for a file: what it is called is not its kind */
            while (out && kind[out - 1] != '/') out--;
            kind[out++] = '*';
            while (*p && *p != '/') p++;
        } else {
            kind[out++] = *p++;
        }
    }
    kind[out] = 0;
    char *last = strrchr(kind, '/'); /* Hadoop's checksum of a file is of that file's kind */
    if (last && last[1] == '.' && out > 4 && !strcmp(kind + out - 4, ".crc")) {
        kind[out - 4] = 0;
        memmove(last + 1, last + 2, strlen(last + 2) + 1);
    }
}

static void who_am_i(void) {
    char exe[PATH_MAX] = "", words[8192] = "";
    ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
    const char *name = length > 0 ? strrchr(exe, '/') + 1 : "";
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY);
    length = fd < 0 ? 0 : syscall(SYS_read, fd, words, sizeof words - 1);
    if (fd >= 0) syscall(SYS_close, fd);
    for (ssize_t i = 0; i + 1 < length; i++)
        if (!words[i]) words[i] = ' ';
    if (!strcmp(name, "java"))
        process = "jvm";
    else if (!strncmp(name, "python", 6))
        process = strstr(words, "-m pipelines.streaming.workers.") || strstr(words, "-m pyspark.") ? "worker" : "command";
}

__attribute__((constructor)) static void begin(void) {
    const char *given = getenv("FAULTS_ROOT"), *log = getenv("FAULTS_LOG");
    const char *map = getenv("FAULTS_SHARED"), *wanted = getenv("FAULTS_POINT");
    const char *nth = getenv("FAULTS_NUMBER"), *what = getenv("FAULTS_FAULT");
    if (!given) return;
    who_am_i();
    if (log) log_fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (map && wanted && nth && what) {
        int fd = (int)syscall(SYS_openat, AT_FDCWD, map, O_RDWR | O_CLOEXEC);
        void *at = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        syscall(SYS_close, fd);
        snprintf(point, sizeof point, "%s", wanted);
        number = strtoull(nth, NULL, 10);
        fault = !strcmp(what, "EIO") ? EIO_ONCE : !strcmp(what, "ENOSPC") ? FULL : !strcmp(what, "kill") ? KILL : SHORT;
        if (at != MAP_FAILED) shared = at;
    }
    snprintf(root, sizeof root, "%s", given);
    root_length = strlen(root);
}

/* The path below the root, or NULL where it lies elsewhere; a path that is not absolute is below `at`. */
static const char *below(int at, const char *path, char *whole, size_t size) {
    char folder[PATH_MAX];
    if (!root_length) return NULL;
    if (path && *path == '/') {
        snprintf(whole, size, "%s", path);
    } else {
        char link[48];
        ssize_t length;
        snprintf(link, sizeof link, at == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", at);
        length = readlink(link, folder, sizeof folder - 1);
        if (length <= 0 || *folder != '/') return NULL; /* a socket or a pipe */
        folder[length] = 0;
        snprintf(whole, size, path && *path ? "%s/%s" : "%s", folder, path);
    }
    if (strncmp(whole, root, root_length) || whole[root_length] != '/') return NULL;
    return whole + root_length + 1;
}

static void note(const char *kind, const char *call, const char *path, const char *what) {
    char line[2 * PATH_MAX];
    int length = snprintf(line, sizeof line, "%s\t%s\t%s\t%s\t%s\n", process, kind, call, path, what);
    if (log_fd >= 0 && length > 0) syscall(SYS_write, log_fd, line, (size_t)length);
}

/* What this call is to do: nothing special, or fail with errno set; `half` is asked for where it may be cut short. */
static int fails(int at, const char *path, const char *call, int grows, int *half) {
    char whole[2 * PATH_MAX], kind[PATH_MAX], mine[PATH_MAX + 64];
    int saved = errno, hit = 0;
    const char *name = below(at, path, whole, sizeof whole);
    errno = saved;
    if (!name) return 0;
    kind_of(name, kind, sizeof kind);
    if (shared) {
        snprintf(mine, sizeof mine, "%s %s %s", process, kind, call);
        hit = !strcmp(mine, point) && __atomic_add_fetch(&shared->calls, 1, __ATOMIC_SEQ_CST) == number;
    } else {
        note(kind, call, name, "");
    }
    if (hit) {
        __atomic_add_fetch(&shared->fired, 1, __ATOMIC_SEQ_CST);
        note(kind, call, name, "here");
        if (fault == FULL) __atomic_store_n(&shared->full, 1, __ATOMIC_SEQ_CST);
        if (fault == KILL) syscall(SYS_kill, getpid(), SIGKILL);
        if (fault == SHORT && half) return *half = 1, 0;
        errno = fault == FULL ? ENOSPC : EIO;
        return fault == FULL || fault == EIO_ONCE;
    }
    if (grows && shared && __atomic_load_n(&shared->full, __ATOMIC_SEQ_CST)) return errno = ENOSPC, 1;
    errno = saved;
    return 0;
}

static void die(void) { syscall(SYS_kill, getpid(), SIGKILL); }

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

#define WRITES(name, offset_type) \
    ssize_t name(int fd, const void *data, size_t size, offset_type offset) { \
        int half = 0; \
        REAL(ssize_t, #name, int, const void *, size_t, offset_type); \
        if (fails(fd, NULL, "write", 1, &half)) return -1; \
        ssize_t written = real(fd, data, half ? size / 2 : size, offset); \
        if (half) die(); \
        return written; \
    }
WRITES(pwrite, off_t)
WRITES(pwrite64, off64_t)

ssize_t write(int fd, const void *data, size_t size) {
    int half = 0;
    REAL(ssize_t, "write", int, const void *, size_t);
    if (fails(fd, NULL, "write", 1, &half)) return -1;
    ssize_t written = real(fd, data, half ? size / 2 : size);
    if (half) die();
    return written;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    int half = 0;
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    if (fails(fd, NULL, "write", 1, &half)) return -1;
    if (!half) return real(fd, parts, count);
    for (int i = 0; i < count / 2; i++) syscall(SYS_write, fd, parts[i].iov_base, parts[i].iov_len);
    syscall(SYS_write, fd, parts[count / 2].iov_base, parts[count / 2].iov_len / 2);
    die();
    return -1;
}

#define COPIES(name, source, ...) \
    ssize_t name(__VA_ARGS__) { \
        int half = 0; \
        REAL(ssize_t, #name, __VA_ARGS__); \
        if (fails(out, NULL, "write", 1, &half)) return -1; \
        if (half) size /= 2; \
        ssize_t written = real source; \
        if (half) die(); \
        return written; \
    }
COPIES(sendfile, (out, in, offset, size), int out, int in, off_t *offset, size_t size)
COPIES(sendfile64, (out, in, offset, size), int out, int in, off64_t *offset, size_t size)
COPIES(copy_file_range, (in, from, out, to, size, flags), int in, off64_t *from, int out, off64_t *to, size_t size,
       unsigned flags)

#define OPENS(name, has_at, parameters, at, path, arguments) \
    int name parameters { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        static int (*real)(int, const char *, int, ...); \
        if (!real) real = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, has_at); \
        if (flags & (O_CREAT | O_TRUNC) && fails(at, path, "create", 1, NULL)) return -1; \
        return real arguments; \
    }
OPENS(open, "openat", (const char *path, int flags, ...), AT_FDCWD, path, (AT_FDCWD, path, flags, mode))
OPENS(open64, "openat64", (const char *path, int flags, ...), AT_FDCWD, path, (AT_FDCWD, path, flags, mode))
OPENS(openat, "openat", (int at, const char *path, int flags, ...), at, path, (at, path, flags, mode))
OPENS(openat64, "openat64", (int at, const char *path, int flags, ...), at, path, (at, path, flags, mode))
int creat(const char *path, mode_t mode) { return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return open64(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

#define CALLS(type, name, call, grows, at, path, arguments, ...) \
    type name(__VA_ARGS__) { \
        REAL(type, #name, __VA_ARGS__); \
        if (fails(at, path, call, grows, NULL)) return -1; \
        return real arguments; \
    }
CALLS(int, fsync, "sync", 0, fd, NULL, (fd), int fd)
CALLS(int, fdatasync, "sync", 0, fd, NULL, (fd), int fd)
CALLS(int, ftruncate, "truncate", 0, fd, NULL, (fd, size), int fd, off_t size)
CALLS(int, ftruncate64, "truncate", 0, fd, NULL, (fd, size), int fd, off64_t size)
CALLS(int, truncate, "truncate", 0, AT_FDCWD, path, (path, size), const char *path, off_t size)
CALLS(int, truncate64, "truncate", 0, AT_FDCWD, path, (path, size), const char *path, off64_t size)
CALLS(int, rename, "rename", 0, AT_FDCWD, to, (from, to), const char *from, const char *to)
CALLS(int, renameat, "rename", 0, t, to, (f, from, t, to), int f, const char *from, int t, const char *to)
CALLS(int, renameat2, "rename", 0, t, to, (f, from, t, to, flags), int f, const char *from, int t, const char *to,
      unsigned flags)
CALLS(int, link, "link", 1, AT_FDCWD, to, (from, to), const char *from, const char *to)
CALLS(int, linkat, "link", 1, t, to, (f, from, t, to, flags), int f, const char *from, int t, const char *to, int flags)
CALLS(int, symlink, "link", 1, AT_FDCWD, to, (from, to), const char *from, const char *to)
CALLS(int, unlink, "remove", 0, AT_FDCWD, path, (path), const char *path)
CALLS(int, unlinkat, "remove", 0, at, path, (at, path, flags), int at, const char *path, int flags)
CALLS(int, remove, "remove", 0, AT_FDCWD, path, (path), const char *path)
CALLS(int, rmdir, "remove", 0, AT_FDCWD, path, (path), const char *path)
CALLS(int, mkdir, "mkdir", 1, AT_FDCWD, path, (path, mode), const char *path, mode_t mode)
CALLS(int, mkdirat, "mkdir", 1, at, path, (at, path, mode), int at, const char *path, mode_t mode)
