/* The product of two square matrices of doubles, in blocks.

   matmul [SIZE [BLOCK]]: of 500 by 500, in blocks of 48 by 48, unless others are given; a block as large as the matrix
   goes through the second one column by column. */
#include "number.h"

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

int main(int count, char **arguments) {
    uint64_t size = number(count, arguments, 1, "SIZE", 500), block = number(count, arguments, 2, "BLOCK", 48);
    double *a = room(size * size, sizeof *a), *b = room(size * size, sizeof *b), *c = room(size * size, sizeof *c);
    for (uint64_t i = 0; i < size * size; i++) {
        a[i] = i % 7;
        b[i] = i % 11;
        c[i] = 0;
    }
    for (uint64_t jj = 0; jj < size; jj += block)
        for (uint64_t kk = 0; kk < size; kk += block)
            for (uint64_t i = 0; i < size; i++)
                for (uint64_t j = jj; j < least(jj + block, size); j++) {
                    double sum = 0;
                    for (uint64_t k = kk; k < least(kk + block, size); k++) sum += a[i * size + k] * b[k * size + j];
                    c[i * size + j] += sum;
                }
    printf("%.0f\n", c[1]);
    return 0;
}
