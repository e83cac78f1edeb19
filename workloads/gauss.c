/* Gaussian elimination by columns on a matrix of doubles that is kept by rows, 3.8 MB as nasa7's fifth kernel: each
   step of the inner loop is on another page. The first pivots only. Stands for nasa7-5 of Romer 1998, table 3-1. */
#include <stdio.h>
#include <stdlib.h>

enum { N = 690, PIVOTS = 24 };

int main(void) {
    double *a = malloc(sizeof(double) * N * N);
    if (!a) return 1;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) a[i * N + j] = i == j ? N : (i * 31 + j * 17) % 101 / 101.0;
    for (int pivot = 0; pivot < PIVOTS; pivot++)
        for (int j = N - 1; j >= pivot; j--) {
            double scaled = a[pivot * N + j] / a[pivot * N + pivot];
            for (int i = pivot + 1; i < N; i++) a[i * N + j] -= a[i * N + pivot] * scaled;
        }
    printf("%.9f\n", a[N * N - 1]);
    return 0;
}
