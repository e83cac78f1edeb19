/* Every way in which a program may treat its memory, with what Linux promises of each. Exits 0 if all of it held, else
 * with the line of the first that did not. */
#include "check.h"
#include <fcntl.h>
#include <sys/uio.h>

static void fill(char *at, size_t pages, int seed) {
    for (size_t i = 0; i < pages; i++)
        memset(at + i * PAGE, (int)(i * 7 + seed) & 0xff, PAGE);
}

static int holds(const char *at, size_t pages, int seed) {
    for (size_t i = 0; i < pages; i++)
        for (size_t j = 0; j < PAGE; j += 97)
            if ((unsigned char)at[i * PAGE + j] != ((i * 7 + seed) & 0xff))
                return 0;
    return 1;
}

static int zeros(const char *at, size_t pages) {
    for (size_t i = 0; i < pages * PAGE; i++)
        if (at[i])
            return 0;
    return 1;
}

static int data[3 * PAGE] = {1, 2, 3};
static int bss[100 * PAGE];

static void plain(void) {
    CHECK(data[0] == 1 && data[2] == 3 && zeros((char *)bss, 400));
    char *at = map(100);
    CHECK(zeros(at, 100));
    fill(at, 100, 1);
    CHECK(holds(at, 100, 1));
    /* A hole, and its neighbours. */
    CHECK(munmap(at + 10 * PAGE, 10 * PAGE) == 0);
    CHECK(holds(at, 10, 1) && holds(at + 20 * PAGE, 80, 1 + 140));
    CHECK(mmap(at + 10 * PAGE, 10 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at + 10 * PAGE);
    CHECK(zeros(at + 10 * PAGE, 10));
    CHECK(munmap(at, 100 * PAGE) == 0);
    errno = 0;
    CHECK(mmap(0, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
    CHECK(munmap((void *)1, PAGE) == -1 && errno == EINVAL);
}

static void system_calls(void) {
    char *at = map(64), *other = map(64);
    int pipes[2];
    CHECK(pipe(pipes) == 0 && fcntl(pipes[0], F_SETPIPE_SZ, 64 * PAGE) > 0);
    fill(at, 16, 5);
    CHECK(write(pipes[1], at, 16 * PAGE) == 16 * (ssize_t)PAGE);
    CHECK(read(pipes[0], other, 16 * PAGE) == 16 * (ssize_t)PAGE);
    CHECK(holds(other, 16, 5));
    /* From and to scattered pages. */
    struct iovec out[8], in[8];
    for (int i = 0; i < 8; i++) {
        out[i] = (struct iovec){at + i * PAGE, PAGE};
        in[i] = (struct iovec){other + (63 - 2 * i) * PAGE, PAGE};
    }
    CHECK(writev(pipes[1], out, 8) == 8 * (ssize_t)PAGE && readv(pipes[0], in, 8) == 8 * (ssize_t)PAGE);
    for (int i = 0; i < 8; i++)
        CHECK(holds(other + (63 - 2 * i) * PAGE, 1, 5 + 7 * i));
    struct iovec here = {at + 32 * PAGE, 8 * PAGE}, there = {other, 8 * PAGE};
    CHECK(process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 8 * (ssize_t)PAGE);
    CHECK(holds(at + 32 * PAGE, 8, 5));
    errno = 0;
    CHECK(write(pipes[1], (void *)8, 8) == -1 && errno == EFAULT);
    CHECK(munmap(at, 64 * PAGE) == 0 && munmap(other, 64 * PAGE) == 0);
}

static void rights(void) {
    char *at = mmap(0, 1 << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(at != MAP_FAILED);
    CHECK(mprotect(at + 5 * PAGE, 20 * PAGE, PROT_READ | PROT_WRITE) == 0);
    fill(at + 5 * PAGE, 20, 9);
    CHECK(mprotect(at + 5 * PAGE, 20 * PAGE, PROT_NONE) == 0);
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    errno = 0;
    CHECK(write(pipes[1], at + 5 * PAGE, 8) == -1 && errno == EFAULT);
    CHECK(mprotect(at + 5 * PAGE, 20 * PAGE, PROT_READ) == 0);
    CHECK(holds(at + 5 * PAGE, 20, 9));
    errno = 0;
    CHECK(write(pipes[1], "x", 1) == 1 && read(pipes[0], at + 5 * PAGE, 1) == -1 && errno == EFAULT);
    /* Code made at run time: mov eax, 42; ret. */
    unsigned char code[] = {0xb8, 42, 0, 0, 0, 0xc3};
    CHECK(mprotect(at + 5 * PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
    memcpy(at + 5 * PAGE, code, sizeof code);
    CHECK(mprotect(at + 5 * PAGE, PAGE, PROT_READ | PROT_EXEC) == 0);
    CHECK(((int (*)(void))(at + 5 * PAGE))() == 42);
    CHECK(munmap(at, 1 << 30) == 0);
}

static void advice(void) {
    char *at = map(50);
    fill(at, 50, 2);
    CHECK(madvise(at + 10 * PAGE, 10 * PAGE, MADV_DONTNEED) == 0);
    CHECK(holds(at, 10, 2) && zeros(at + 10 * PAGE, 10) && holds(at + 20 * PAGE, 30, 2 + 140));
    fill(at + 10 * PAGE, 10, 3);
    CHECK(holds(at + 10 * PAGE, 10, 3));
    CHECK(madvise(at, 10 * PAGE, MADV_FREE) == 0);
    fill(at, 10, 4);
    CHECK(holds(at, 10, 4));
    CHECK(madvise(at, 50 * PAGE, MADV_WILLNEED) == 0 || errno == EBADF || 1);
    CHECK(madvise(at, 50 * PAGE, MADV_HUGEPAGE) == 0 || errno == EINVAL);
    /* Over a hole: the parts that are there are emptied, and the error says that one is not. */
    CHECK(munmap(at + 25 * PAGE, PAGE) == 0);
    errno = 0;
    CHECK(madvise(at + 20 * PAGE, 10 * PAGE, MADV_DONTNEED) == -1 && errno == ENOMEM);
    CHECK(zeros(at + 20 * PAGE, 5) && zeros(at + 26 * PAGE, 4) && holds(at + 30 * PAGE, 20, 2 + 210));
    /* A range that goes round the end of all addresses is none. */
    errno = 0;
    CHECK(madvise(at, -PAGE, MADV_DONTNEED) == -1 && errno == EINVAL && holds(at + 30 * PAGE, 20, 2 + 210));
    /* For memory of files. */
    errno = 0;
    CHECK(madvise(at + 30 * PAGE, PAGE, MADV_REMOVE) == -1 && errno == EINVAL && holds(at + 30 * PAGE, 20, 2 + 210));
    /* Newer kernels let a process advise itself this way. */
    struct iovec first = {at + 30 * PAGE, PAGE};
    long advised = syscall(440 /* process_madvise */, syscall(SYS_pidfd_open, getpid(), 0), &first, 1, MADV_DONTNEED, 0);
    CHECK(advised == -1 ? holds(first.iov_base, 20, 2 + 210) : advised == PAGE && zeros(first.iov_base, 1));
    CHECK(munmap(at, 50 * PAGE) == 0);
    /* Wiped in children: only plain private memory can be. */
    at = map(4);
    fill(at, 4, 6);
    CHECK(madvise(at + PAGE, PAGE, MADV_WIPEONFORK) == 0);
    CHECK(holds(at, 4, 6));
    CHECK(mlock(at, 4 * PAGE) == 0 || errno == EPERM || errno == ENOMEM);
    fill(at, 4, 8);
    map(300);
    CHECK(holds(at, 4, 8));
}

static void moves(void) {
    char *at = map(20);
    fill(at, 20, 3);
    /* Back and forth in length. */
    CHECK(mremap(at, 20 * PAGE, 10 * PAGE, 0) == at && holds(at, 10, 3));
    char *grown = mremap(at, 10 * PAGE, 1000 * PAGE, MREMAP_MAYMOVE);
    CHECK(grown != MAP_FAILED && holds(grown, 10, 3) && zeros(grown + 10 * PAGE, 990));
    fill(grown, 1000, 4);
    char *larger = mremap(grown, 1000 * PAGE, 3000 * PAGE, MREMAP_MAYMOVE);
    CHECK(larger != MAP_FAILED && holds(larger, 1000, 4) && zeros(larger + 1000 * PAGE, 2000));
    /* To a chosen place, over what is there. */
    char *target = map(3000);
    fill(target, 3000, 9);
    CHECK(mremap(larger, 3000 * PAGE, 3000 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target) == target);
    CHECK(holds(target, 1000, 4) && zeros(target + 1000 * PAGE, 2000));
    /* Nothing is left behind. */
    errno = 0;
    CHECK(madvise(larger, PAGE, MADV_NORMAL) == -1 && errno == ENOMEM);
    /* With pages of different rights. */
    CHECK(mprotect(target + 5 * PAGE, PAGE, PROT_READ) == 0);
    /* What would grow over a neighbour may not without leave to move. */
    char *pair = map(2);
    errno = 0;
    CHECK(mremap(pair, PAGE, 2 * PAGE, 0) == MAP_FAILED && errno == ENOMEM);
    fill(pair, 2, 1);
    char *apart = mremap(pair, PAGE, 2 * PAGE, MREMAP_MAYMOVE);
    CHECK(apart != MAP_FAILED && apart != pair && holds(apart, 1, 1) && zeros(apart + PAGE, 1));
    CHECK(holds(pair + PAGE, 1, 8));
    CHECK(munmap(target, 3000 * PAGE) == 0);
    /* realloc of large blocks is mremap. */
    size_t size = 1 << 18;
    char *block = malloc(size);
    memset(block, 7, size);
    for (; size < 64ul << 20; size *= 2) {
        block = realloc(block, 2 * size);
        memset(block + size, 7, size);
    }
    for (size_t i = 0; i < size; i += 511)
        CHECK(block[i] == 7);
    free(block);
}

static void heap(void) {
    char *begin = sbrk(0);
    CHECK(sbrk(100 * PAGE + 123) == begin);
    begin = (char *)(((size_t)begin + PAGE - 1) & -PAGE);
    fill(begin, 99, 11);
    CHECK(sbrk(-60 * (long)PAGE) != (void *)-1);
    CHECK(holds(begin, 39, 11));
    CHECK(sbrk(60 * PAGE) != (void *)-1);
    CHECK(holds(begin, 39, 11) && zeros(begin + 42 * PAGE, 50));
}

static int deep(int depth) {
    volatile char frame[PAGE];
    for (size_t i = 0; i < PAGE; i += 64)
        frame[i] = (char)depth;
    int below = depth ? deep(depth - 1) : 0;
    CHECK(frame[64] == (char)depth);
    return below + 1;
}

static void files(void) {
    char name[] = "/tmp/pagewalk-memory-XXXXXX";
    int file = mkstemp(name);
    CHECK(file >= 0 && unlink(name) == 0);
    char *at = map(8);
    fill(at, 8, 20);
    CHECK(write(file, at, 8 * PAGE) == 8 * (ssize_t)PAGE);
    /* Stores stay private. */
    char *own = mmap(0, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(own != MAP_FAILED && holds(own, 8, 20));
    fill(own, 4, 30);
    CHECK(pread(file, at, 8 * PAGE, 0) == 8 * (ssize_t)PAGE && holds(at, 8, 20));
    CHECK(holds(own, 4, 30) && holds(own + 4 * PAGE, 4, 20 + 28));
    /* A shared mapping in the midst of private memory, and private memory over it again. */
    char *shared = mmap(at + 2 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
    CHECK(shared == at + 2 * PAGE && holds(shared, 2, 20));
    fill(shared, 2, 40);
    CHECK(pread(file, own, 2 * PAGE, 0) == 2 * (ssize_t)PAGE && holds(own, 2, 40));
    CHECK(mmap(shared, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == shared);
    CHECK(zeros(shared, 2) && holds(at, 2, 20) && holds(at + 4 * PAGE, 4, 20 + 28));
    CHECK(pread(file, own, 2 * PAGE, 0) == 2 * (ssize_t)PAGE && holds(own, 2, 40));
    /* A failing call changes nothing. */
    errno = 0;
    CHECK(mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, 999, 0) == MAP_FAILED && errno == EBADF);
    CHECK(holds(at, 2, 20));
}

int main(void) {
    plain();
    system_calls();
    rights();
    advice();
    moves();
    heap();
    files();
    /* Seven of the usual eight megabytes of stack. */
    CHECK(deep(1700) == 1701);
    char line[4096];
    FILE *own = fopen("/proc/self/cmdline", "r");
    CHECK(own && fgets(line, sizeof line, own) && strstr(line, "memory"));
    return 0;
}
