/* Touches 64 MiB, says so, then visits all of it at random (`random`, or `refusing` huge pages), or 16 pages of it
 * (`hot`); for a given number of million visits, or forever. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(int count, char **words) {
    unsigned long bytes = 64ul << 20, state = 1, visits = ~0ul;
    if (count > 2) visits = strtoul(words[2], 0, 10) * 1000000;
    char *all = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (words[1][1] == 'e') madvise(all, bytes, MADV_NOHUGEPAGE);
    memset(all, 1, bytes);
    puts("ready");
    fflush(stdout);
    for (unsigned long i = 0; i < visits; i++) {
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        if (words[1][0] == 'h') ((volatile char *)all)[(i & 15) * (bytes / 16) + (i & 15) * 64]++;
        else ((volatile char *)all)[(state >> 20) % bytes]++;
    }
    return 0;
}
