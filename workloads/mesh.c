// Relaxes a mesh in seven arrays of 257 × 257 numbers, each little larger than a direct-mapped cache of 512 KiB: as the
// tomcatv of SPEC92, whose arrays meet in such a cache.
#include <stdio.h>

enum { N = 257, TIMES = 6 };

static double x[N][N], y[N][N], rx[N][N], ry[N][N], aa[N][N], dd[N][N], d[N][N];

int main(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            x[i][j] = i + 0.01 * (i * j % 17);
            y[i][j] = j + 0.01 * (i + j % 13);
        }
    for (int t = 0; t < TIMES; t++) {
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++) {
                double xx = x[i + 1][j] - x[i - 1][j], yx = y[i + 1][j] - y[i - 1][j];
                double xy = x[i][j + 1] - x[i][j - 1], yy = y[i][j + 1] - y[i][j - 1];
                double a = 0.25 * (xy * xy + yy * yy), b = 0.25 * (xx * xx + yx * yx), c = 0.125 * (xx * xy + yx * yy);
                aa[i][j] = -b;
                dd[i][j] = b + b + a;
                rx[i][j] = a * (x[i + 1][j] + x[i - 1][j]) + b * (x[i][j + 1] + x[i][j - 1]) - c * xx;
                ry[i][j] = a * (y[i + 1][j] + y[i - 1][j]) + b * (y[i][j + 1] + y[i][j - 1]) - c * yx;
            }
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++) {
                double r = aa[i][j] * d[i][j - 1];
                d[i][j] = 1 / (dd[i][j] - aa[i][j - 1] * r + 1);
                rx[i][j] = (rx[i][j] - rx[i][j - 1] * r) * d[i][j];
                ry[i][j] = (ry[i][j] - ry[i][j - 1] * r) * d[i][j];
            }
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++) {
                x[i][j] += 0.001 * rx[i][j];
                y[i][j] += 0.001 * ry[i][j];
            }
    }
    printf("%.6f\n", x[N / 2][N / 2] + y[N / 2][N / 2]);
}
