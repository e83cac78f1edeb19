/* A fast Fourier transform in place: radix 2, 2^20 complex numbers of two doubles, an array of 16 MiB. Every stage sweeps
   the array with another stride. Stands for fft of Romer 1998, table 3-1. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOG = 20, N = 1 << LOG };

typedef struct { double re, im; } complex_number;

static complex_number *x;

static void reverse_bits(void) {
    for (unsigned i = 1, j = 0; i < N; i++) {
        unsigned bit = N >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j ^= bit;
        if (i < j) {
            complex_number other = x[i];
            x[i] = x[j];
            x[j] = other;
        }
    }
}

int main(void) {
    x = malloc(N * sizeof *x);
    if (!x) return 1;
    for (int i = 0; i < N; i++) x[i] = (complex_number){ i % 1009 * 7919 % 1009 / 1009.0, 0 };
    reverse_bits();
    for (int half = 1; half < N; half *= 2) {
        double angle = -acos(-1) / half;
        complex_number step = { cos(angle), sin(angle) };
        for (int start = 0; start < N; start += 2 * half) {
            complex_number w = { 1, 0 };
            for (int k = start; k < start + half; k++) {
                complex_number a = x[k], b = x[k + half];
                complex_number t = { b.re * w.re - b.im * w.im, b.re * w.im + b.im * w.re };
                x[k] = (complex_number){ a.re + t.re, a.im + t.im };
                x[k + half] = (complex_number){ a.re - t.re, a.im - t.im };
                w = (complex_number){ w.re * step.re - w.im * step.im, w.re * step.im + w.im * step.re };
            }
        }
    }
    printf("%.6f %.6f\n", x[1].re, x[N / 2].im);
    return 0;
}
