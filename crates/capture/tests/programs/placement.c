/* Maps, unmaps, moves and grows 600 pieces of memory of many sizes and kinds by a fixed sequence, and prints where each
   lies, relative to a border of 2 MiB. What lies above that border differs from run to run: its holes are filled first. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#define PAGE 4096UL
#define REGION (2UL << 20)
#define PIECES 64
static unsigned long state = 88172645463325252UL;
static unsigned long next(unsigned long below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % below;
}
static const unsigned long sizes[] = { 1, 1, 2, 16, 255, 256, 511, 512, 513, 1024, 1023, 1536, 2049, 4096, 8192, 16384 };
static char *border;
static char *at[PIECES];
static unsigned long bytes[PIECES];
static void fill(void)
{
    char *low = mmap(0, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 4096; i++) {       /* holes above */
        char *page = mmap(0, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page < low) low = page;
    }
    border = (char *)((unsigned long)low & ~(REGION - 1));
    if (border < low) border = mmap(0, low - border, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static char *map(int file, unsigned long length)
{
    int kind = next(10);
    int rights = next(4) ? PROT_READ | PROT_WRITE : PROT_NONE;
    int flags = kind < 6 ? MAP_PRIVATE | MAP_ANONYMOUS : kind < 7 ? MAP_SHARED | MAP_ANONYMOUS : kind < 9 ? MAP_PRIVATE : MAP_SHARED;
    if (kind == 5) flags |= MAP_STACK | MAP_NORESERVE;
    char *hint = next(8) ? 0 : border - (1UL << 36) - next(1 << 20) * PAGE;
    return mmap(hint, length, rights, flags, flags & MAP_ANONYMOUS ? -1 : file, flags & MAP_ANONYMOUS ? 0 : next(1024) * PAGE);
}
int main(void)
{
    char name[] = "./placed-XXXXXX";
    int file = mkstemp(name);
    unlink(name);
    if (file < 0 || ftruncate(file, 128UL << 20)) return 2;
    fill();
    for (int step = 0; step < 600; step++) {
        int i = next(PIECES);
        if (at[i] && next(3) == 0) {
            unsigned long length = sizes[next(16)] * PAGE;
            char *moved = mremap(at[i], bytes[i], length, MREMAP_MAYMOVE);
            if (moved != MAP_FAILED) at[i] = moved, bytes[i] = length;
            printf("%d moved %ld pages\n", step, moved == MAP_FAILED ? -1 : (border - moved) / (long)PAGE);
            continue;
        }
        if (at[i]) munmap(at[i], bytes[i]);
        bytes[i] = sizes[next(16)] * PAGE;
        at[i] = map(file, bytes[i]);
        printf("%d mapped %ld pages\n", step, at[i] == MAP_FAILED ? -1 : (border - at[i]) / (long)PAGE);
        if (at[i] == MAP_FAILED) at[i] = 0;
    }
    return 0;
}
