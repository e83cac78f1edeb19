/* A network simulated event by event, as omnetpp does: the earliest event leaves a heap, is handled by a node of the network,
   which looks through its table and queue, and sends what it has to a neighbour.

   events [NODES [EVENTS]]: 60,000 nodes of about 2 KB, 500,000 events unless others are given. */
#include "number.h"
#include <string.h>

enum { NEIGHBOURS = 6, QUEUE = 32, TABLE = 96 };

struct message {
    uint64_t time, length;
    struct node *at;
};

struct node {
    struct node *neighbours[NEIGHBOURS];
    uint64_t table[TABLE];
    struct message *queue[QUEUE];
    uint64_t waiting, handled, statistics[16];
};

static struct message **heap;
static uint64_t pending;

static void put(struct message *message) {
    uint64_t at = pending++;
    while (at > 0 && heap[(at - 1) / 2]->time > message->time) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = message;
}

static struct message *earliest(void) {
    struct message *first = heap[0], *last = heap[--pending];
    uint64_t at = 0;
    for (uint64_t child; (child = 2 * at + 1) < pending; at = child) {
        if (child + 1 < pending && heap[child + 1]->time < heap[child]->time) child++;
        if (heap[child]->time >= last->time) break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return first;
}

/* Where the node sends a message: by the entry of its table that is nearest. */
static struct node *route(struct node *node, const struct message *message) {
    uint64_t best = 0, distance = UINT64_MAX, wanted = message->time * 2654435761u ^ message->length;
    for (uint64_t n = 0; n < TABLE; n++) {
        uint64_t here = node->table[n] ^ wanted;
        if (here < distance) distance = here, best = n;
    }
    return node->neighbours[best % NEIGHBOURS];
}

int main(int count, char **arguments) {
    uint64_t nodes = number(count, arguments, 1, "NODES", 60000);
    uint64_t events = number(count, arguments, 2, "EVENTS", 500000), messages = nodes / 4 + 1, sum = 0;
    struct node *network = room(nodes, sizeof *network);
    heap = room(messages, sizeof *heap);
    memset(network, 0, nodes * sizeof *network);
    for (uint64_t at = 0; at < nodes; at++) {
        for (int n = 0; n < NEIGHBOURS; n++) network[at].neighbours[n] = &network[(at + draw_below(64) * draw_below(64)) % nodes];
        for (int n = 0; n < TABLE; n++) network[at].table[n] = draw();
    }
    for (uint64_t at = 0; at < messages; at++) {
        struct message *message = room(1, sizeof *message);
        *message = (struct message){draw_below(1000), 64 + draw_below(1400), &network[draw_below(nodes)]};
        put(message);
    }
    for (uint64_t n = 0; n < events; n++) {
        struct message *message = earliest();
        struct node *node = message->at;
        node->queue[node->waiting++ % QUEUE] = message;
        node->statistics[message->length % 16] += message->length;
        uint64_t late = 0;
        for (uint64_t q = 0; q < QUEUE; q++) late += node->queue[q] != 0;
        message->at = route(node, message);
        message->time += message->length / 8 + late;
        node->handled++;
        put(message);
    }
    for (uint64_t at = 0; at < nodes; at++) sum += network[at].handled * at + network[at].statistics[3];
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
