/* Random updates of a table of 32 MiB, as the HPC Challenge benchmark RandomAccess makes them: no locality at all. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOG = 22, UPDATES = 4000000 };

int main(void) {
    uint64_t size = UINT64_C(1) << LOG, *table = malloc(size * sizeof *table), random = 1;
    if (!table) return 1;
    for (uint64_t i = 0; i < size; i++) table[i] = i;
    for (int n = 0; n < UPDATES; n++) {
        random = random << 1 ^ ((int64_t)random < 0 ? 7 : 0);
        table[(random * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - LOG)] ^= random;
    }
    printf("%llx\n", (unsigned long long)table[12345]);
    return 0;
}
