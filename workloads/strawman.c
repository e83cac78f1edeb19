// Alternates between two pages that a direct-mapped cache of 512 KiB cannot hold together: the strawman of Romer 1998,
// section 4.3.1.
#include <stdio.h>
#include <stdlib.h>

enum { CACHE = 512 * 1024, TIMES = 4 * 1000 * 1000 };

int main(void) {
    volatile long *memory = aligned_alloc(CACHE, 2 * CACHE);
    if (!memory) return 1;
    memory[0] = 1;
    memory[CACHE / sizeof *memory] = 2;
    long sum = 0;
    for (long i = 0; i < TIMES; i++) sum += memory[i % 2 * (CACHE / sizeof *memory)];
    printf("%ld\n", sum);
}
