/* An array that no file holds, of SZ bytes and 6 GiB by default, as Fortran's common blocks and tables of simulators are
   (GCC's -mcmodel=large; NAS's class D). Built at any place; with BARE, without a C library and so without a loader.
   Writes and reads all along it, and says how large it is and whether it was all zeros. Ends with 3. */
#include <stdio.h>
#include <unistd.h>

#ifndef SZ
#define SZ (6L << 30)
#endif
#define STEP (64L << 20)

static char big[SZ];

/* In one page with the array's beginning. */
static long given = 7;

static int stale_and_kept(void)
{
    volatile char *at = big;
    int stale = given != 7;
    for (long i = 0; i < SZ; i += STEP) {
        stale += at[i] != 0;
        at[i] = 1;
    }
    stale += SZ % STEP != 1 && at[SZ - 1] != 0;
    at[SZ - 1] = 2;
    for (long i = 0; i < SZ; i += STEP)
        stale += at[i] != 1 && i != SZ - 1;
    return stale;
}

#ifdef BARE
void _start(void)
{
    int code = stale_and_kept() == 0 ? 3 : 4;
    __asm__ volatile("syscall" : : "a"(231), "D"(code) : "rcx", "r11", "memory");
}
#else
int main(void)
{
    int stale = stale_and_kept();
    char *end = sbrk(4096);
    end[4095] = 1;
    printf("%zu bytes, %d stale, break %s\n", sizeof big, stale, end >= big + SZ ? "behind" : "before");
    return 3;
}
#endif
