/* Breadth-first search of a graph whose degrees are skewed: 2^18 vertices, 2^19 edges drawn as R-MAT does (Chakrabarti,
   Zhan, Faloutsos 2004; probabilities of Graph500), kept as lists of neighbours; three searches. */
#include <stdio.h>
#include <stdlib.h>

enum { LOG = 18, VERTICES = 1 << LOG, EDGES = 1 << 19, SEARCHES = 3 };

static unsigned long long random_state = 88172645463325252ULL;

static unsigned draw(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state >> 32);
}

int main(void) {
    int(*edges)[2] = malloc(sizeof *edges * EDGES), *first = calloc(VERTICES + 2, sizeof *first);
    int *neighbour = malloc(sizeof *neighbour * 2 * EDGES), *parent = malloc(sizeof *parent * VERTICES);
    int *queue = malloc(sizeof *queue * VERTICES);
    if (!edges || !first || !neighbour || !parent || !queue) return 1;
    for (int e = 0; e < EDGES; e++) {
        int from = 0, to = 0;
        for (int bit = 0; bit < LOG; bit++) {
            unsigned part = draw() % 100;
            from = 2 * from + (part >= 76);
            to = 2 * to + ((part >= 57 && part < 76) || part >= 95);
        }
        edges[e][0] = from;
        edges[e][1] = to;
        first[from + 2]++;
        first[to + 2]++;
    }
    for (int v = 2; v < VERTICES + 2; v++) first[v] += first[v - 1];
    for (int e = 0; e < EDGES; e++) {
        neighbour[first[edges[e][0] + 1]++] = edges[e][1];
        neighbour[first[edges[e][1] + 1]++] = edges[e][0];
    }
    free(edges);
    long reached = 0;
    for (int search = 0; search < SEARCHES; search++) {
        for (int v = 0; v < VERTICES; v++) parent[v] = -1;
        int head = 0, tail = 0;
        queue[tail++] = search;
        parent[search] = search;
        while (head < tail) {
            int v = queue[head++];
            for (int k = first[v]; k < first[v + 1]; k++)
                if (parent[neighbour[k]] < 0) {
                    parent[neighbour[k]] = v;
                    queue[tail++] = neighbour[k];
                }
        }
        reached += tail;
    }
    printf("%ld\n", reached);
    return 0;
}
