/* Breadth-first searches of a graph in compressed rows, as Graph500 makes them. Targets are drawn as the lesser of two
   numbers, so vertices with low numbers have most edges; the graph is cheap to draw, so that a short recording reaches
   the searches.

   bfs [VERTICES [DEGREE [SEARCHES]]]: 2,000,000 vertices with 16 edges each, one search, unless others are given. */
#include "number.h"

int main(int count, char **arguments) {
    uint64_t vertices = number(count, arguments, 1, "VERTICES", 2000000);
    uint64_t degree = number(count, arguments, 2, "DEGREE", 16);
    uint64_t searches = number(count, arguments, 3, "SEARCHES", 1);
    uint64_t *first = room(vertices + 1, sizeof *first);
    uint32_t *neighbour = room(vertices * degree, sizeof *neighbour);
    uint32_t *parent = room(vertices, sizeof *parent), *queue = room(vertices, sizeof *queue);
    for (uint64_t v = 0; v <= vertices; v++) first[v] = v * degree;
    for (uint64_t e = 0; e < vertices * degree; e++) {
        /* Two halves of one draw, scaled to the number of vertices. */
        uint64_t both = draw(), one = (both >> 32) * vertices >> 32, other = (uint32_t)both * vertices >> 32;
        neighbour[e] = (uint32_t)(one < other ? one : other);
    }
    uint64_t reached = 0;
    for (uint64_t search = 0; search < searches; search++) {
        for (uint64_t v = 0; v < vertices; v++) parent[v] = UINT32_MAX;
        uint64_t head = 0, tail = 0;
        uint32_t root = (uint32_t)draw_below(vertices);
        parent[root] = root;
        queue[tail++] = root;
        while (head < tail) {
            uint32_t v = queue[head++];
            for (uint64_t k = first[v]; k < first[v + 1]; k++)
                if (parent[neighbour[k]] == UINT32_MAX) {
                    parent[neighbour[k]] = v;
                    queue[tail++] = neighbour[k];
                }
        }
        reached += tail;
    }
    printf("%llu\n", (unsigned long long)reached);
    return 0;
}
