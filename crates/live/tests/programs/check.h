/* What the programs share that check Linux's promises: `CHECK` ends the program where one does not hold, and says in
 * which line. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define RW (PROT_READ | PROT_WRITE)
#define PLAIN (MAP_PRIVATE | MAP_ANONYMOUS)
#define CHECK(what) do { if (!(what)) does_not_hold(#what, strrchr("/" __FILE__, '/') + 1, __LINE__); } while (0)

static void does_not_hold(const char *what, const char *file, int line) {
    fprintf(stderr, "%s:%d: %s (%m)\n", file, line, what);
    _exit(1);
}

static char *map_with(size_t pages, int flags) {
    char *at = mmap(0, pages * PAGE, RW, PLAIN | flags, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static char *map(size_t pages) {
    return map_with(pages, 0);
}
