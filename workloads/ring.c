/* Processes in a ring that pass a token through pipes, as the multi-server emulator of Uhlig et al., "Design Tradeoffs
   for Software-Managed TLBs", 1994, section 5.2.1: each waits for the token, touches pages of its own and passes it on.

   ring PROCESSES PAGES ROUNDS [APART]: at each visit of the token, a process touches PAGES pages of each of its three
   segments: text (it executes a function on each page), data, and stack. They lie far apart, where a Unix process has
   them: in the program's file, from the program break on, and on the stack; so each is in 4 MiB of its own, what a page
   of a linear page table maps with entries of 4 bytes. With APART, data lie in a mapping at a multiple of APART MiB.
   Link it with -static: libraries would be further segments. */
#define _DEFAULT_SOURCE
#include <alloca.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, REGION = 4 << 20, PAGES_MAX = 64, PROCESSES_MAX = 60 };

static volatile unsigned calls;

/* A page of text. The functions differ, so that no compiler makes them one. */
#define TEXT(n) __attribute__((aligned(4096), noinline)) static void text_##n(void) { calls += n + 1; }
#define TEXT_4(n) TEXT(n##0) TEXT(n##1) TEXT(n##2) TEXT(n##3)
#define NAMES_4(n) text_##n##0, text_##n##1, text_##n##2, text_##n##3
/* Numbered in base four, with a first digit that keeps them decimal. */
#define TEXT_16(n) TEXT_4(n##0) TEXT_4(n##1) TEXT_4(n##2) TEXT_4(n##3)
#define NAMES_16(n) NAMES_4(n##0), NAMES_4(n##1), NAMES_4(n##2), NAMES_4(n##3)
TEXT_16(1) TEXT_16(2) TEXT_16(3) TEXT_16(4)
static void (*const text[PAGES_MAX])(void) = {NAMES_16(1), NAMES_16(2), NAMES_16(3), NAMES_16(4)};

static void die(const char *what) {
    perror(what);
    exit(1);
}

static unsigned long number(const char *text, const char *name, unsigned long most) {
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*text == 0 || *end != 0 || value < 1 || value > most) {
        fprintf(stderr, "ring: %s = %s: give a number from 1 to %lu\n", name, text, most);
        exit(2);
    }
    return value;
}

/* `pages` pages: from the program break on, where the C library has its own data too, or at a multiple of `apart`. */
static volatile char *segment(size_t pages, size_t apart) {
    if (apart == 0) {
        char *room = sbrk((intptr_t)((pages + 1) * PAGE));
        if (room == (void *)-1) die("ring: sbrk");
        return room + (PAGE - (uintptr_t)room % PAGE) % PAGE;
    }
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *room = mmap(NULL, pages * PAGE + apart, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (room == MAP_FAILED) die("ring: mmap");
    return room + (apart - (uintptr_t)room % apart) % apart;
}

static void touch(volatile char *from, size_t pages) {
    for (size_t page = 0; page < pages; page++) from[page * PAGE]++;
}

static __attribute__((noinline)) void visit(volatile char *data, size_t pages) {
    for (size_t page = 0; page < pages; page++) text[page]();
    touch(data, pages);
    volatile char *stack = alloca(pages * PAGE);
    /* Downwards, as stacks grow. */
    for (size_t page = pages; page-- > 0;) stack[page * PAGE] = (char)page;
}

static void pass(int to) {
    if (write(to, "t", 1) != 1) die("ring: write");
}

static void await(int from) {
    char token;
    ssize_t got = read(from, &token, 1);
    if (got < 0) die("ring: read");
    if (got == 0) {
        fprintf(stderr, "ring: the process before has ended\n");
        exit(1);
    }
}

/* What a process of the ring does. */
static __attribute__((noinline)) void serve(int from, int to, size_t pages, unsigned long rounds, size_t apart) {
    volatile char *data = segment(pages, apart);
    for (unsigned long round = 0; round < rounds; round++) {
        await(from);
        visit(data, pages);
        pass(to);
    }
}

/* The same with all of its stack in one region: if there is too little left of this one, in the next one below. */
static __attribute__((noinline)) void
serve_in_region(int from, int to, size_t pages, unsigned long rounds, size_t apart) {
    size_t left = (uintptr_t)__builtin_frame_address(0) % REGION;
    size_t needed = (pages + 4) * PAGE;
    volatile char *gap = alloca(left < needed ? left + PAGE : 1);
    *gap = 0;
    serve(from, to, pages, rounds, apart);
}

int main(int count, char **arguments) {
    if (count != 4 && count != 5) {
        fprintf(stderr, "usage: ring PROCESSES PAGES ROUNDS [APART]\n");
        return 2;
    }
    size_t processes = number(arguments[1], "PROCESSES", PROCESSES_MAX);
    size_t pages = number(arguments[2], "PAGES", PAGES_MAX);
    unsigned long rounds = number(arguments[3], "ROUNDS", 1000000000);
    size_t apart = (count == 5 ? number(arguments[4], "APART", 1 << 16) : 0) << 20;
    /* Process i reads from the pipe i and writes to the next. */
    int pipes[PROCESSES_MAX][2];
    for (size_t i = 0; i < processes; i++) {
        if (pipe(pipes[i]) != 0) die("ring: pipe");
    }
    pid_t children[PROCESSES_MAX];
    for (size_t i = 0; i < processes; i++) {
        children[i] = fork();
        if (children[i] < 0) die("ring: fork");
        if (children[i] > 0) continue;
        int from = pipes[i][0], to = pipes[(i + 1) % processes][1];
        for (size_t other = 0; other < processes; other++) {
            /* What is closed here cannot keep a pipe open whose writers have ended. */
            if (pipes[other][0] != from) close(pipes[other][0]);
            if (pipes[other][1] != to) close(pipes[other][1]);
        }
        serve_in_region(from, to, pages, rounds, apart);
        /* The last process writes to a pipe that is still open. */
        if (i == 0) await(from);
        return 0;
    }
    /* The token comes from here: so each visit of each process begins as it returns from a read. */
    pass(pipes[0][1]);
    for (size_t i = 0; i < processes; i++) {
        close(pipes[i][0]);
        close(pipes[i][1]);
    }
    int failed = 0;
    for (size_t i = 0; i < processes; i++) {
        int status;
        /* In order, so that every run of the parent is alike. */
        if (waitpid(children[i], &status, 0) < 0) die("ring: waitpid");
        failed |= status != 0;
    }
    return failed;
}
