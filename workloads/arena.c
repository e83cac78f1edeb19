// arena: memory that grows by 16 KiB at a time, as the arenas of allocators do, so that no fault finds room for a
// larger page. 60 % of its pieces of 64 KiB are used, and then read at random.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

enum { PIECES = 1024, PIECE = 65536, STEP = 16384, PAGE = 4096, HUGE = 2 << 20, READS = 20000000 };

static uint32_t used[PIECES];

int main(void)
{
    char *room = mmap(0, (size_t)PIECES * PIECE + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) {
        perror("arena: mmap");
        return 1;
    }
    char *arena = (char *)(((uintptr_t)room + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
    uint32_t count = 0;
    for (uint32_t piece = 0; piece < PIECES; piece++) {
        int is_used = piece * 7 % 10 < 6;
        for (size_t at = (size_t)piece * PIECE; at < (size_t)(piece + 1) * PIECE; at += STEP) {
            if (mprotect(arena + at, STEP, PROT_READ | PROT_WRITE)) {
                perror("arena: mprotect");
                return 1;
            }
            for (size_t page = at; is_used && page < at + STEP; page += PAGE)
                arena[page] = 1;
        }
        if (is_used)
            used[count++] = piece;
    }
    uint64_t state = 88172645463325252u, sum = 0;
    for (int n = 0; n < READS; n++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        sum += arena[(size_t)used[state % count] * PIECE + (state >> 40) % PIECE];
    }
    printf("%u pieces, %lu\n", count, (unsigned long)sum);
    return 0;
}
