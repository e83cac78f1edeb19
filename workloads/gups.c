/* Random updates of a table, as the HPC Challenge benchmark RandomAccess makes them: no locality at all.

   gups [MIB [UPDATES]]: of a table of 32 MiB, 4,000,000 updates, unless others are given. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t number(const char *text, const char *name) {
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*text == 0 || *end != 0 || value < 1 || value > 1000000000) {
        fprintf(stderr, "gups: %s = %s: give a number from 1 to 1000000000\n", name, text);
        exit(2);
    }
    return value;
}

int main(int count, char **arguments) {
    uint64_t size = (count > 1 ? number(arguments[1], "MIB") : 32) << 17, random = 1;
    uint64_t updates = count > 2 ? number(arguments[2], "UPDATES") : 4000000;
    uint64_t *table = malloc(size * sizeof *table);
    if (!table) return 1;
    for (uint64_t i = 0; i < size; i++) table[i] = i;
    for (uint64_t n = 0; n < updates; n++) {
        random = random << 1 ^ ((int64_t)random < 0 ? 7 : 0);
        /* The upper half of a product is a number below `size`: for powers of two the uppermost bits. */
        table[(unsigned __int128)(random * UINT64_C(0x9e3779b97f4a7c15)) * size >> 64] ^= random;
    }
    printf("%llx\n", (unsigned long long)table[12345]);
    return 0;
}
