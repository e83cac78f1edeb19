/* What newer kernels let programs do with ranges of their memory, and what runtimes do with protected pages. Exits 0 if
 * all of it held, else with the line of the first that did not. Linux 6.13 for guard regions, 6.10 for seals: where the
 * kernel refuses one, natively too, it is left out. */
#include "check.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/uio.h>

#define GUARD_INSTALL 102
#define GUARD_REMOVE 103
#define MSEAL 462

static void ends_with(pid_t child, int code) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == code);
}

static sigjmp_buf back;

static void jump(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

/* Whether a reference to it fails. */
static int fails(volatile char *at) {
    struct sigaction action = {.sa_handler = jump}, before;
    CHECK(sigaction(SIGSEGV, &action, &before) == 0);
    int failed = sigsetjmp(back, 1);
    if (!failed)
        *at = *at + 1;
    CHECK(sigaction(SIGSEGV, &before, 0) == 0);
    return failed;
}

/* As the C library (2.42) puts them below the stacks of threads. */
static void guards(void) {
    char *at = map(16);
    memset(at, 5, 16 * PAGE);
    if (madvise(at + 4 * PAGE, 2 * PAGE, GUARD_INSTALL) == -1 && errno == EINVAL)
        return;
    CHECK(fails(at + 4 * PAGE) && fails(at + 5 * PAGE) && !fails(at + 6 * PAGE) && !fails(at + 3 * PAGE));
    CHECK(madvise(at, 16 * PAGE, MADV_DONTNEED) == 0 && fails(at + 4 * PAGE) && at[3 * PAGE] == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(fails(at + 4 * PAGE) && madvise(at + 4 * PAGE, PAGE, GUARD_REMOVE) == 0 && at[4 * PAGE] == 0);
        at[4 * PAGE] = 1;
        CHECK(fails(at + 5 * PAGE));
        _exit(3);
    }
    ends_with(child, 3);
    memset(at, 6, 4 * PAGE);
    CHECK(madvise(at, 5 * PAGE, GUARD_REMOVE) == 0);
    CHECK(at[4 * PAGE] == 0 && at[3 * PAGE] == 6 && fails(at + 5 * PAGE));
    /* A guard outlives a change of rights, and ends with its memory. */
    CHECK(mprotect(at, 16 * PAGE, PROT_NONE) == 0 && mprotect(at, 16 * PAGE, RW) == 0 && fails(at + 5 * PAGE));
    CHECK(munmap(at, 16 * PAGE) == 0);
    CHECK(mmap(at, 16 * PAGE, RW, PLAIN | MAP_FIXED, -1, 0) == at && !fails(at + 5 * PAGE));
    memset(at, 7, 16 * PAGE);
    CHECK(madvise(at, 16 * PAGE, GUARD_REMOVE) == 0 && at[5 * PAGE] == 7);
}

/* As Chromium and loaders seal what must not change; a child has it sealed too. */
static void seals(void) {
    char *at = map(16);
    memset(at, 5, 16 * PAGE);
    CHECK(mprotect(at + 4 * PAGE, 4 * PAGE, PROT_READ) == 0);
    if (syscall(MSEAL, at + 2 * PAGE, 4 * PAGE, 0) != 0)
        return;
    errno = 0;
    CHECK(munmap(at, 16 * PAGE) == -1 && errno == EPERM);
    errno = 0;
    CHECK(mprotect(at + 2 * PAGE, PAGE, PROT_READ) == -1 && errno == EPERM);
    errno = 0;
    CHECK(mmap(at + 2 * PAGE, PAGE, RW, PLAIN | MAP_FIXED, -1, 0) == MAP_FAILED && errno == EPERM);
    errno = 0;
    CHECK(madvise(at + 4 * PAGE, PAGE, MADV_DONTNEED) == -1 && errno == EPERM);
    for (int i = 0; i < 16; i++)
        CHECK(at[i * PAGE] == 5);
    at[2 * PAGE] = 7;
    pid_t child = fork();
    if (child == 0) {
        CHECK(at[2 * PAGE] == 7 && at[5 * PAGE] == 5);
        at[2 * PAGE] = 8;
        _exit(3);
    }
    ends_with(child, 3);
    CHECK(at[2 * PAGE] == 7);
}

/* The contents move, the place stays. */
static void moves(void) {
    char *at = map(16);
    for (int i = 0; i < 16; i++)
        memset(at + i * PAGE, i + 1, PAGE);
    CHECK(mprotect(at + 3 * PAGE, PAGE, PROT_READ) == 0 && mprotect(at + 3 * PAGE, PAGE, RW) == 0);
    char *to = mremap(at, 16 * PAGE, 16 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);
    CHECK(to != MAP_FAILED && to != at);
    for (int i = 0; i < 16; i++)
        CHECK(to[i * PAGE] == i + 1 && at[i * PAGE] == 0);
    at[0] = 9;
    to[PAGE] = 8;
    CHECK(to[0] == 1 && at[PAGE] == 0);
    char *fixed = map(32);
    memset(fixed, 3, 32 * PAGE);
    int how = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
    CHECK(mremap(to + 2 * PAGE, 4 * PAGE, 4 * PAGE, how, fixed + 8 * PAGE) == fixed + 8 * PAGE);
    CHECK(fixed[7 * PAGE] == 3 && fixed[8 * PAGE] == 3 && fixed[11 * PAGE] == 6 && fixed[12 * PAGE] == 3);
    CHECK(to[2 * PAGE] == 0 && to[5 * PAGE] == 0 && to[6 * PAGE] == 7);
    errno = 0;
    CHECK(mremap(to, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0) == MAP_FAILED && errno == EINVAL);
    errno = 0;
    CHECK(mremap(to, 4 * PAGE, 4 * PAGE, MREMAP_DONTUNMAP, 0) == MAP_FAILED && errno == EINVAL);
    pid_t child = fork();
    if (child == 0) {
        CHECK(at[0] == 9 && to[PAGE] == 8);
        at[PAGE] = 1;
        _exit(2);
    }
    ends_with(child, 2);
    CHECK(at[PAGE] == 0);
}

static volatile int repaired;

static void repair(int signal, siginfo_t *about, void *context) {
    (void)signal, (void)context;
    CHECK(about->si_code == SEGV_ACCERR);
    repaired++;
    CHECK(mprotect((char *)((size_t)about->si_addr & -PAGE), PAGE, RW) == 0);
}

/* A reservation whose pages are given rights as they fail, on a stack of its own: the JVM's, V8's and Go's way. */
static void repairs(void) {
    struct sigaction action = {.sa_sigaction = repair, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    stack_t stack = {.ss_sp = map(16), .ss_size = 16 * PAGE};
    CHECK(sigaltstack(&stack, 0) == 0 && sigaction(SIGSEGV, &action, 0) == 0);
    size_t bytes = 64ul << 30;
    char *area = mmap(0, bytes, PROT_NONE, PLAIN | MAP_NORESERVE, -1, 0);
    CHECK(area != MAP_FAILED);
    for (size_t i = 0; i < 300; i++)
        area[i * (200 << 20)] = 1;
    CHECK(repaired == 300);
    pid_t child = fork();
    if (child == 0) {
        area[5 * PAGE] = 1;
        _exit(repaired - 290 + area[200 << 20]);
    }
    ends_with(child, 12);
    CHECK(munmap(area, bytes) == 0);
}

/* One process reads and writes the other's memory. */
static void others(void) {
    char *at = map(64);
    memset(at, 3, 64 * PAGE);
    pid_t child = fork();
    if (child == 0) {
        char *own = map(64);
        struct iovec here = {own, 64 * PAGE}, there = {at, 64 * PAGE};
        CHECK(process_vm_readv(getppid(), &here, 1, &there, 1, 0) == 64 * (long)PAGE);
        for (int i = 0; i < 64; i++)
            CHECK(own[i * PAGE] == 3);
        memset(own, 4, 64 * PAGE);
        CHECK(process_vm_writev(getppid(), &here, 1, &there, 1, 0) == 64 * (long)PAGE);
        _exit(6);
    }
    ends_with(child, 6);
    for (int i = 0; i < 64; i++)
        CHECK(at[i * PAGE] == 4);
}

int main(void) {
    guards();
    seals();
    moves();
    others();
    repairs();
    return 0;
}
