/* Placement of a netlist by simulated annealing, as PARSEC's canneal does it: two elements anywhere are taken, and change
   places if that shortens their wires, or by chance.

   anneal [ELEMENTS [SWAPS]]: 2,000,000 elements and 3,000,000 swaps unless others are given. */
#include "number.h"

enum { WIRES = 5 };

struct element {
    struct element *wires[WIRES];
    int32_t *place; /* column and row */
};

/* The wires' length, were the element there. */
static int64_t length(const struct element *element, const int32_t *place) {
    int64_t sum = 0;
    for (int n = 0; n < WIRES; n++) {
        const int32_t *end = element->wires[n]->place;
        sum += llabs((long long)end[0] - place[0]) + llabs((long long)end[1] - place[1]);
    }
    return sum;
}

int main(int count, char **arguments) {
    uint64_t elements = number(count, arguments, 1, "ELEMENTS", 2000000);
    uint64_t swaps = number(count, arguments, 2, "SWAPS", 3000000), taken = 0;
    struct element *netlist = room(elements, sizeof *netlist);
    int32_t *places = room(2 * elements, sizeof *places);
    for (uint64_t at = 0; at < elements; at++) {
        places[2 * at] = (int32_t)(at % 1500);
        places[2 * at + 1] = (int32_t)(at / 1500);
        netlist[at].place = &places[2 * at];
        for (int n = 0; n < WIRES; n++) netlist[at].wires[n] = &netlist[draw_below(elements)];
    }
    /* What may be lost by a swap that is taken by chance: less and less. */
    int64_t worst = 4000;
    for (uint64_t n = 0; n < swaps; n++) {
        struct element *one = &netlist[draw_below(elements)], *other = &netlist[draw_below(elements)];
        int64_t before = length(one, one->place) + length(other, other->place);
        int64_t after = length(one, other->place) + length(other, one->place);
        if (after - before < (int64_t)draw_below((uint64_t)worst)) {
            int32_t *place = one->place;
            one->place = other->place;
            other->place = place;
            taken++;
        }
        if (n % 1000 == 999 && worst > 1) worst -= (worst + 499) / 500;
    }
    printf("%llu\n", (unsigned long long)taken);
    return 0;
}
