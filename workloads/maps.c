/* Maps memory and gives it back, over and over, as programs do that have no allocator of their own.

   maps [TIMES [PAGES [STRIDE]]]: 10,000 times 16 pages, every STRIDEth of which is touched (1: all of them; more than
   PAGES: none). */
#include <sys/mman.h>

#include "number.h"

enum { PAGE = 4096 };

int main(int count, char **arguments) {
    uint64_t times = number(count, arguments, 1, "TIMES", 10000), pages = number(count, arguments, 2, "PAGES", 16);
    uint64_t stride = number(count, arguments, 3, "STRIDE", 1), sum = 0;
    for (uint64_t n = 0; n < times; n++) {
        volatile uint8_t *area = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (area == MAP_FAILED) {
            perror("mmap");
            return 1;
        }
        for (uint64_t page = stride - 1; page < pages; page += stride) sum += ++area[page * PAGE];
        munmap((void *)area, pages * PAGE);
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
