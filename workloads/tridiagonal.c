/* Block tridiagonal systems with blocks of 5 by 5 doubles along one side of a grid, as nasa7's fourth kernel (BTRIX):
   neighbouring blocks of a system lie a plane of the grid apart. 3.2 MB. Stands for nasa7-4 of Romer 1998, table 3-1. */
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 28, PLANE = 196, B = 5, ROUNDS = 2 };

typedef double block[B][B];

static block (*lower)[PLANE], (*diagonal)[PLANE], (*upper)[PLANE];
static double (*right)[PLANE][B];

/* Solves d * x = y for the columns of y, which become x; d is lost. */
static void solve(block d, double *y, int columns, int stride) {
    for (int k = 0; k < B; k++)
        for (int i = k + 1; i < B; i++) {
            double factor = d[i][k] / d[k][k];
            for (int j = k; j < B; j++) d[i][j] -= factor * d[k][j];
            for (int c = 0; c < columns; c++) y[i * stride + c] -= factor * y[k * stride + c];
        }
    for (int k = B - 1; k >= 0; k--)
        for (int c = 0; c < columns; c++) {
            double sum = y[k * stride + c];
            for (int j = k + 1; j < B; j++) sum -= d[k][j] * y[j * stride + c];
            y[k * stride + c] = sum / d[k][k];
        }
}

static void system_at(int n) {
    block saved;
    for (int l = 0; l < LENGTH; l++) {
        for (int i = 0; l > 0 && i < B; i++)
            for (int k = 0; k < B; k++) {
                double factor = lower[l][n][i][k];
                for (int j = 0; j < B; j++) diagonal[l][n][i][j] -= factor * upper[l - 1][n][k][j];
                right[l][n][i] -= factor * right[l - 1][n][k];
            }
        for (int i = 0; i < B * B; i++) saved[i / B][i % B] = diagonal[l][n][i / B][i % B];
        solve(saved, right[l][n], 1, 1);
        for (int i = 0; i < B * B; i++) saved[i / B][i % B] = diagonal[l][n][i / B][i % B];
        solve(saved, upper[l][n][0], B, B);
    }
    for (int l = LENGTH - 2; l >= 0; l--)
        for (int i = 0; i < B; i++)
            for (int k = 0; k < B; k++) right[l][n][i] -= upper[l][n][i][k] * right[l + 1][n][k];
}

int main(void) {
    lower = malloc(sizeof *lower * LENGTH);
    diagonal = malloc(sizeof *diagonal * LENGTH);
    upper = malloc(sizeof *upper * LENGTH);
    right = malloc(sizeof *right * LENGTH);
    if (!lower || !diagonal || !upper || !right) return 1;
    for (int round = 0; round < ROUNDS; round++) {
        for (int l = 0; l < LENGTH; l++)
            for (int n = 0; n < PLANE; n++)
                for (int i = 0; i < B; i++) {
                    right[l][n][i] = i + 1;
                    for (int j = 0; j < B; j++) {
                        lower[l][n][i][j] = upper[l][n][i][j] = (i + j + l) % 7 / 7.0;
                        diagonal[l][n][i][j] = i == j ? 20 : 1.0 / (1 + j);
                    }
                }
        for (int n = 0; n < PLANE; n++) system_at(n);
    }
    printf("%.9f\n", right[0][0][0]);
    return 0;
}
