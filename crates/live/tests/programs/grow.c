/* Grows by pieces, each touched before the next: 64 MiB of address space that are set aside and marked, and opened by
 * mprotect in steps of so many KiB, as glibc's arenas do (by 132); under THP `always` brk and mmap
 * in steps of 1 MiB are alike. Of steps of 1024 no block is huge, as each had small pages before it lay whole in a
 * mapping; of steps of 2048 all are. Says `ready`, and waits for its input to end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(int argc, char **argv)
{
    unsigned long huge = 2UL << 20, bytes = 64UL << 20, step = strtoul(argv[1], 0, 10) << 10, at;
    char *base = mmap(0, bytes + huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    (void)argc;
    base = (char *)(((unsigned long)base + huge - 1) & ~(huge - 1));
    madvise(base, bytes, MADV_HUGEPAGE);
    for (at = 0; at < bytes; at += step) {
        unsigned long piece = step < bytes - at ? step : bytes - at;
        if (mprotect(base + at, piece, PROT_READ | PROT_WRITE)) return 1;
        memset(base + at, 1, piece);
    }
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}
