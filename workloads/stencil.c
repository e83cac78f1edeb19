/* Differences in a field of three dimensions, swept along each of them in turn, as hydrodynamics by split steps (zeusmp) and
   finite differences in time (GemsFDTD) do: along the last one every step is a plane further.

   stencil [EDGE [STEPS]]: 192 cells on each edge, 4 steps unless others are given. Four fields of doubles. */
#include "number.h"

enum { FIELDS = 4 };

/* One sweep: lines of `edge` cells with `stride` between them; what flows between neighbours is exchanged. */
static void line(double *const field[FIELDS], uint64_t first, uint64_t stride, uint64_t edge) {
    double flow = 0;
    for (uint64_t n = 1; n + 1 < edge; n++) {
        uint64_t at = first + n * stride;
        double slope = field[0][at + stride] - field[0][at - stride];
        double next = 0.25 * (field[1][at] + field[1][at + stride]) * slope;
        field[2][at] += flow - next;
        field[3][at] = 0.5 * (field[3][at] + slope * field[1][at]);
        flow = next;
    }
}

int main(int count, char **arguments) {
    uint64_t edge = number(count, arguments, 1, "EDGE", 192);
    uint64_t steps = number(count, arguments, 2, "STEPS", 4);
    if (edge > 2000) {
        fprintf(stderr, "%s: EDGE = %s: give one up to 2000\n", arguments[0], arguments[1]);
        return 2;
    }
    double *field[FIELDS], sum = 0;
    for (int f = 0; f < FIELDS; f++) {
        field[f] = room(edge * edge * edge, sizeof *field[f]);
        for (uint64_t at = 0; at < edge * edge * edge; at++) field[f][at] = (double)(at % 1009) / 1009;
    }
    const uint64_t strides[3] = {1, edge, edge * edge};
    for (uint64_t step = 0; step < steps; step++) {
        for (int along = 0; along < 3; along++) {
            uint64_t other = strides[along == 0 ? 1 : 0], third = strides[along == 2 ? 1 : 2];
            for (uint64_t a = 0; a < edge; a++)
                for (uint64_t b = 0; b < edge; b++) line(field, a * third + b * other, strides[along], edge);
        }
        double *before = field[0];
        field[0] = field[2];
        field[2] = before;
    }
    for (uint64_t at = 0; at < edge * edge * edge; at += 97) sum += field[0][at] + field[3][at];
    printf("%g\n", sum);
    return 0;
}
