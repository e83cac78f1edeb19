/* Memory of known patterns: prints `NAME ADDRESS PAGES` for each, then waits until its input ends. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, HUGE = 512 };

static void say(const char *name, const char *at, long pages) {
    printf("%s %lx %ld\n", name, (unsigned long)at, pages);
}

/* A mapping with a hole on both sides, that huge pages leave alone. */
static char *map(long pages, int protection) {
    char *at = mmap(NULL, (pages + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(at + PAGE, pages * PAGE, protection)) abort();
    madvise(at + PAGE, pages * PAGE, MADV_NOHUGEPAGE);
    return at + PAGE;
}

static void touch(char *at, long pages) {
    for (long page = 0; page < pages; page++) at[page * PAGE] = 1;
}

int main(int count, char **arguments) {
    if (count != 2) return 2;

    char *second = map(1000, PROT_READ | PROT_WRITE);
    for (long page = 0; page < 1000; page += 2) touch(second + page * PAGE, 1);
    say("every_second", second, 500);

    /* Runs of 1, 2, ... 20 pages with a hole of one page between. */
    char *runs = map(400, PROT_READ | PROT_WRITE), *at = runs;
    for (long pages = 1; pages <= 20; pages++, at += PAGE) {
        touch(at, pages);
        at += pages * PAGE;
    }
    say("runs", runs, 210);

    /* One run of pages, of which the middle may not be written: three runs of rights. */
    char *rights = map(30, PROT_READ | PROT_WRITE);
    touch(rights, 30);
    if (mprotect(rights + 10 * PAGE, 10 * PAGE, PROT_READ)) abort();
    say("rights", rights, 30);

    /* Huge pages, if the host gives any: at an aligned place. */
    char *area = mmap(NULL, 4 * HUGE * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED) abort();
    char *huge = (char *)(((uintptr_t)area + HUGE * PAGE - 1) & -(uintptr_t)(HUGE * PAGE));
    madvise(huge, 2 * HUGE * PAGE, MADV_HUGEPAGE);
    touch(huge, 2 * HUGE);
    say("huge", huge, 2 * HUGE);

    int file = open(arguments[1], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 40 * PAGE)) abort();
    char *mapped = mmap(NULL, 40 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) abort();
    touch(mapped, 40);
    say("file", mapped, 40);

    /* Pages that nobody may look at: no TLB holds them. */
    char *none = map(50, PROT_READ | PROT_WRITE);
    touch(none, 50);
    if (mprotect(none, 50 * PAGE, PROT_NONE)) abort();
    say("none", none, 50);

    /* Mapped and never touched. */
    say("untouched", map(1 << 20, PROT_READ | PROT_WRITE), 0);

    fflush(stdout);
    char byte;
    return read(0, &byte, 1) != 0;
}
