/* Random updates of tables that lie apart in memory: as many ranges as there are tables.

   areas [AREAS [PAGES [UPDATES]]]: 62 tables of 1,024 pages and 5,000,000 updates unless others are given. */
#include <sys/mman.h>

#include "number.h"

enum { PAGE = 4096 };

int main(int count, char **arguments) {
    uint64_t areas = number(count, arguments, 1, "AREAS", 62), pages = number(count, arguments, 2, "PAGES", 1024);
    uint64_t updates = number(count, arguments, 3, "UPDATES", 5000000), words = pages * PAGE / sizeof(uint64_t);
    /* One page that cannot be used lies behind each. */
    uint64_t stride = (pages + 1) * PAGE, sum = 0;
    char *all = mmap(NULL, areas * stride, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    for (uint64_t n = 0; n < areas; n++)
        if (mprotect(all + n * stride, pages * PAGE, PROT_READ | PROT_WRITE) != 0) {
            perror("mprotect");
            return 1;
        }
    for (uint64_t n = 0; n < updates; n++) {
        uint64_t *table = (uint64_t *)(all + draw_below(areas) * stride);
        sum += table[draw_below(words)] ^= n;
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
