/* Memory that is locked or filled in advance, as databases, audio servers and real-time programs have it (Redis'
 * and memcached's -k, JACK, Elasticsearch's bootstrap.memory_lock), with Linux's promises and limits. Exits 0 if all of
 * it held, else with the line of the first that did not. */
/* Report: GrapheneOS/hardened_malloc, issue 128. */
#include "check.h"
#include <sys/resource.h>

#define ON_FAULT 1

/* How many of up to 64 pages are in memory. */
static int held(char *at, int pages) {
    unsigned char each[64];
    int count = 0;
    CHECK(mincore(at, pages * PAGE, each) == 0);
    for (int i = 0; i < pages; i++)
        count += each[i] & 1;
    return count;
}

static void ranges(void) {
    char *at = map(64);
    CHECK(mlock(at + PAGE + 5, 7 * PAGE) == 0);
    CHECK(held(at + PAGE, 8) == 8 && held(at, 1) == 0);
    errno = 0;
    CHECK(madvise(at, 4 * PAGE, MADV_DONTNEED) == -1 && errno == EINVAL);
    memset(at, 3, 64 * PAGE);
    CHECK(madvise(at, 4 * PAGE, 24 /* MADV_DONTNEED_LOCKED */) == 0 && at[PAGE] == 0 && at[4 * PAGE] == 3);
    CHECK(munlock(at + PAGE, 8 * PAGE) == 0 && madvise(at, 4 * PAGE, MADV_DONTNEED) == 0);
    char *touched = map(64);
    CHECK(syscall(SYS_mlock2, touched, 64 * PAGE, ON_FAULT) == 0 && held(touched, 64) == 0);
    touched[5 * PAGE] = 1;
    CHECK(held(touched, 64) == 1);
    CHECK(held(map_with(16, MAP_LOCKED), 16) == 16 && held(map_with(16, MAP_POPULATE), 16) == 16);
    char *filled = map(16);
    CHECK(madvise(filled, 8 * PAGE, 22 /* MADV_POPULATE_READ */) == 0 && madvise(filled + 8 * PAGE, 8 * PAGE, 23) == 0);
    CHECK(held(filled + 8 * PAGE, 8) == 8);
    CHECK(mprotect(filled, PAGE, PROT_READ) == 0);
    errno = 0;
    CHECK(madvise(filled, 4 * PAGE, 23 /* MADV_POPULATE_WRITE */) == -1 && errno == EINVAL);
    CHECK(munmap(filled + 4 * PAGE, PAGE) == 0);
    errno = 0;
    CHECK(madvise(filled + PAGE, 8 * PAGE, 23) == -1 && errno == ENOMEM);
    errno = 0;
    CHECK(mlock(filled, 8 * PAGE) == -1 && errno == ENOMEM);
    errno = 0;
    CHECK(syscall(SYS_mlock2, at, PAGE, 8) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(mlockall(8) == -1 && errno == EINVAL);
    /* What is locked in part is two mappings: it does not grow as one. */
    errno = 0;
    CHECK(mlock(at + 32 * PAGE, 4 * PAGE) == 0);
    CHECK(mremap(at + 30 * PAGE, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED && errno == EFAULT);
    CHECK(munlockall() == 0);
}

/* What is to come is locked, wherever it comes from; a child has nothing of it. */
static void future(void) {
    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
    char *at = map(16);
    CHECK(held(at, 16) == 16);
    char *moved = mremap(at, 16 * PAGE, 32 * PAGE, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED && held(moved, 32) == 32);
    char *end = (char *)(((size_t)sbrk(0) + PAGE - 1) & -PAGE);
    CHECK(brk(end + 16 * PAGE) == 0 && held(end, 16) == 16);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(held(map(16), 16) == 0 && madvise(moved, PAGE, MADV_DONTNEED) == 0);
        _exit(5);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
    CHECK(munlockall() == 0 && held(map(16), 16) == 0);
}

/* A megabyte of locked memory: nothing but the program's own counts. */
static void limited(void) {
    struct rlimit limit = {1 << 20, 1 << 20};
    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    CHECK(getuid() != 0 || setresuid(65534, 65534, 65534) == 0);
    char *at = map(1024);
    errno = 0;
    CHECK(mlock(at, 1024 * PAGE) == -1 && errno == ENOMEM);
    CHECK(mlock(at, 200 * PAGE) == 0 && mlock(at, 200 * PAGE) == 0);
    errno = 0;
    CHECK(mlock(at + 200 * PAGE, 100 * PAGE) == -1 && errno == ENOMEM);
    errno = 0;
    CHECK(mlockall(MCL_CURRENT) == -1 && errno == ENOMEM);
    CHECK(munlockall() == 0 && mlockall(MCL_FUTURE) == 0);
    char *first = map(200);
    errno = 0;
    CHECK(mmap(0, 200 * PAGE, RW, PLAIN, -1, 0) == MAP_FAILED && errno == EAGAIN);
    errno = 0;
    CHECK(mremap(first, 200 * PAGE, 400 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED && errno == EAGAIN);
    CHECK(sbrk(200 * PAGE) == (void *)-1);
    CHECK(munmap(first, 200 * PAGE) == 0);
    map(200);
    CHECK(munlockall() == 0);
    map(800);
    errno = 0;
    CHECK(mmap(0, 800 * PAGE, RW, PLAIN | MAP_LOCKED, -1, 0) == MAP_FAILED && errno == EAGAIN);
    limit.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    errno = 0;
    CHECK(mlock(at, PAGE) == -1 && errno == EPERM);
}

/* Limits on addresses and data, which shared memory would not count against. */
static void addresses(void) {
    struct rlimit limit = {64 << 20, 64 << 20};
    CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
    errno = 0;
    CHECK(mmap(0, 128 << 20, RW, PLAIN, -1, 0) == MAP_FAILED && errno == ENOMEM);
    CHECK(mmap(0, 128 << 20, PROT_NONE, PLAIN, -1, 0) != MAP_FAILED);
    CHECK(sbrk(128 << 20) == (void *)-1);
    limit.rlim_cur = limit.rlim_max = 256 << 20;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    errno = 0;
    CHECK(mmap(0, 128 << 20, PROT_NONE, PLAIN, -1, 0) == MAP_FAILED && errno == ENOMEM);
    CHECK(mmap(0, 16 << 20, RW, PLAIN, -1, 0) != MAP_FAILED);
}

int main(int count, char **words) {
    if (count > 1 && !strcmp(words[1], "limited")) {
        limited();
        addresses();
    } else {
        ranges();
        future();
    }
    return 0;
}
