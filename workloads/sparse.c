/* Conjugate gradients on a sparse symmetric matrix whose columns lie anywhere: gathers from a vector of 1.2 MB and
   streams through 18 MB of matrix, or as ROWS says to the compiler. Stands for the source's programs with scattered data, and for
   sparse solvers. */
#include <stdio.h>
#include <stdlib.h>

#ifndef ROWS
#define ROWS 150000
#endif

enum { N = ROWS, PER_ROW = 9, ITERATIONS = 4 };

static unsigned random_state = 1;

static unsigned draw(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    return random_state ^= random_state << 5;
}

static int *column;
static double *value;

static void multiply(const double *x, double *y) {
    for (int i = 0; i < N; i++) {
        double sum = 4.0 * PER_ROW * x[i];
        for (int k = i * PER_ROW; k < (i + 1) * PER_ROW; k++) sum += value[k] * x[column[k]];
        y[i] = sum;
    }
}

static double dot(const double *x, const double *y) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += x[i] * y[i];
    return sum;
}

int main(void) {
    column = malloc(sizeof *column * N * PER_ROW);
    value = malloc(sizeof *value * N * PER_ROW);
    double *x = calloc(N, sizeof *x), *r = malloc(sizeof *r * N), *p = malloc(sizeof *p * N);
    double *q = malloc(sizeof *q * N);
    if (!column || !value || !x || !r || !p || !q) return 1;
    for (int k = 0; k < N * PER_ROW; k++) {
        column[k] = draw() % N;
        value[k] = draw() % 1000 / 1000.0;
    }
    for (int i = 0; i < N; i++) r[i] = p[i] = 1.0 / (i + 1);
    double rr = dot(r, r);
    for (int n = 0; n < ITERATIONS; n++) {
        multiply(p, q);
        double alpha = rr / dot(p, q);
        for (int i = 0; i < N; i++) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
        double next = dot(r, r), beta = next / rr;
        rr = next;
        for (int i = 0; i < N; i++) p[i] = r[i] + beta * p[i];
    }
    printf("%.12g\n", rr);
    return 0;
}
