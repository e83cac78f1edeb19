/* A hash join: builds a table of one relation by open addressing, and looks up each row of another.

   join [ROWS [LOOKUPS]]: 1,000,000 rows and 4,000,000 lookups unless others are given. */
#include "number.h"

struct row { uint64_t key, value; };

int main(int count, char **arguments) {
    uint64_t rows = number(count, arguments, 1, "ROWS", 1000000);
    uint64_t lookups = number(count, arguments, 2, "LOOKUPS", 4000000);
    int bits = 1;
    while (UINT64_C(1) << bits < 2 * rows) bits++;
    uint64_t mask = (UINT64_C(1) << bits) - 1, sum = 0;
    struct row *table = room(mask + 1, sizeof *table);
    for (uint64_t i = 0; i <= mask; i++) table[i].key = 0;
    /* The uppermost bits of a product (Knuth, volume 3, section 6.4). */
    const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
    for (uint64_t key = 1; key <= rows; key++) {
        uint64_t at = key * factor >> (64 - bits);
        while (table[at].key) at = (at + 1) & mask;
        table[at] = (struct row){ key, key ^ 42 };
    }
    for (uint64_t i = 0; i < lookups; i++) {
        uint64_t key = 1 + draw_below(2 * rows), at = key * factor >> (64 - bits);
        while (table[at].key && table[at].key != key) at = (at + 1) & mask;
        sum += table[at].key ? table[at].value : 0;
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
