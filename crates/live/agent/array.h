/* The simulated array: sets, ways, FIFO or random replacement, exactly as in crates/setassoc, its slow twin: pagewalk
 * replays the agent's log there and compares every victim (src/trap/check.rs).
 *
 * A search compares every way of a set. For 64 that takes about 30 ns, for a thousand half a microsecond, compared with
 * microseconds for the fault. */
#ifndef PAGEWALK_ARRAY_H
#define PAGEWALK_ARRAY_H

#include "shared.h"

struct slot {
    u64 page;    /* NO_PAGE where empty */
    u64 arrival; /* counts up: the order of FIFO */
};

struct array {
    u64 sets, ways;
    u64 replacement, random_state;
    u64 index, index_bits;
    u64 arrivals;
    struct slot *slots;
};

/* A page's place, or its new place with the victim. */
struct choice {
    struct slot *slot;
    int held;
    u64 victim;
    u64 random_state; /* after the draw, if there was one */
};

static void array_begin(struct array *array, const struct start *start) {
    array->sets = start->sets;
    array->ways = start->ways;
    array->replacement = start->replacement;
    array->random_state = start->seed;
    array->index = start->index;
    array->index_bits = start->index_bits;
    array->arrivals = 0;
    array->slots = (struct slot *)ARRAY_BASE;
    for (u64 slot = 0; slot < array->sets * array->ways; slot++)
        array->slots[slot].page = NO_PAGE;
}

static struct slot *array_set(const struct array *array, u64 page) {
    u64 number = page, bits = 63 - (u64)__builtin_clzl(array->sets);
    if (array->index == INDEX_XOR) {
        number ^= page >> array->index_bits & ((1ul << array->index_bits) - 1);
    } else if (array->index == INDEX_XOR_FOLD && bits > 0) {
        for (u64 rest = page >> bits; rest > 0; rest >>= bits)
            number ^= rest;
    }
    return array->slots + (number & (array->sets - 1)) * array->ways;
}

/* SplitMix64; the way is the upper half of the product of the draw and the number of ways. */
static u64 array_draw(const struct array *array, u64 *state) {
    *state += 0x9e3779b97f4a7c15ul;
    u64 z = (*state ^ *state >> 30) * 0xbf58476d1ce4e5b9ul;
    z = (z ^ z >> 27) * 0x94d049bb133111ebul;
    z ^= z >> 31;
    return (u64)((unsigned __int128)z * array->ways >> 64);
}

/* The page's way, else the lowest empty one, else the policy's victim. Changes nothing yet. */
static struct choice array_choose(const struct array *array, u64 page) {
    struct slot *set = array_set(array, page), *empty = 0, *oldest = set;
    struct choice choice = {set, 0, NO_PAGE, array->random_state};
    for (u64 way = array->ways; way-- > 0;) {
        struct slot *slot = &set[way];
        if (slot->page == page) {
            choice.slot = slot;
            choice.held = 1;
            return choice;
        }
        if (slot->page == NO_PAGE)
            empty = slot;
        else if (slot->arrival < oldest->arrival)
            oldest = slot;
    }
    if (empty) {
        choice.slot = empty;
        return choice;
    }
    choice.slot = array->replacement == REPLACE_RANDOM ? &set[array_draw(array, &choice.random_state)] : oldest;
    choice.victim = choice.slot->page;
    return choice;
}

static void array_put(struct array *array, u64 page, struct choice choice) {
    choice.slot->page = page;
    choice.slot->arrival = array->arrivals++;
    array->random_state = choice.random_state;
}

#endif
