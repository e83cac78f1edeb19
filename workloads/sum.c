/* Sums a matrix by columns, or with -DROWS by rows: two builds to compare. */
#include <stdio.h>
#include <stdlib.h>

#define SIDE 4096

int main(void)
{
    double *matrix = malloc(sizeof(double) * SIDE * SIDE);
    double sum = 0;
    if (matrix == NULL)
       return 1;
    for (size_t i = 0; i < (size_t)SIDE * SIDE; i++)
       matrix[i] = (double)i;
    for (size_t i = 0; i < SIDE; i++)
       for (size_t j = 0; j < SIDE; j++)
#ifdef ROWS
          sum += matrix[i * SIDE + j];
#else
          sum += matrix[j * SIDE + i];
#endif
    printf("%g\n", sum);
    return 0;
}
