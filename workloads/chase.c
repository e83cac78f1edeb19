/* Pointers through nodes and arcs, as SPEC's mcf follows them in its network simplex: every so-many-th arc is priced by
   the potentials of its two nodes; from the ends of the cheapest of a group the tree is climbed to its root, and
   potentials change on the way.

   chase [NODES [ROUNDS]]: 1,000,000 nodes with three arcs each, 30,000 rounds, unless others are given. */
#include "number.h"

enum { ARCS = 3, GROUP = 300 };

struct node {
    struct node *parent; /* of the root none */
    int64_t potential;
    int64_t flow;
    int64_t others[5]; /* what else mcf's nodes have: 64 bytes in all here */
};

struct arc {
    struct node *tail, *head;
    int64_t cost;
    int64_t flow;
};

static int64_t price(const struct arc *arc) { return arc->cost - arc->tail->potential + arc->head->potential; }

static int64_t climb(struct node *node, int64_t change) {
    int64_t least = INT64_MAX;
    for (; node; node = node->parent) {
        node->potential += change;
        if (node->flow < least) least = node->flow;
    }
    return least;
}

int main(int count, char **arguments) {
    uint64_t nodes = number(count, arguments, 1, "NODES", 1000000), arcs = nodes * ARCS;
    uint64_t rounds = number(count, arguments, 2, "ROUNDS", 30000), at = 0;
    struct node *network = room(nodes, sizeof *network);
    struct arc *arc = room(arcs, sizeof *arc);
    for (uint64_t n = 0; n < nodes; n++)
        network[n] = (struct node){ n ? &network[draw_below(n)] : NULL, 0, (int64_t)(1 + n % 97), { 0 } };
    for (uint64_t n = 0; n < arcs; n++)
        arc[n] = (struct arc){ &network[draw_below(nodes)], &network[draw_below(nodes)], (int64_t)(draw() % 1000), 0 };
    int64_t sum = 0;
    /* Arcs lie as far apart as there are groups, so that a round goes through all of memory. */
    uint64_t stride = arcs / GROUP + 1;
    for (uint64_t round = 0; round < rounds; round++) {
        struct arc *cheapest = &arc[at];
        for (int n = 0; n < GROUP; n++) {
            at += stride;
            if (at >= arcs) at -= arcs;
            if (price(&arc[at]) < price(cheapest)) cheapest = &arc[at];
        }
        at = at + 1 < arcs ? at + 1 : 0;
        int64_t change = price(cheapest) / 2;
        cheapest->flow += 1;
        sum += climb(cheapest->tail, change) + climb(cheapest->head, -change);
    }
    printf("%lld\n", (long long)sum);
    return 0;
}
