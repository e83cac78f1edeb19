/* Sizes from the command line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The argument as a number, or what it is if there is none; leaves the program if it is no number from 1 to a thousand
   million. */
static inline uint64_t number(int count, char **arguments, int which, const char *name, uint64_t otherwise) {
    if (which >= count) return otherwise;
    char *end;
    unsigned long value = strtoul(arguments[which], &end, 10);
    if (arguments[which][0] == 0 || *end != 0 || value < 1 || value > 1000000000) {
        fprintf(stderr, "%s: %s = %s: give a number from 1 to 1000000000\n", arguments[0], name, arguments[which]);
        exit(2);
    }
    return value;
}

/* Memory for so many elements; leaves the program if there is none. */
static inline void *room(uint64_t count, size_t bytes) {
    void *memory = malloc(count * bytes);
    if (!memory) {
        fprintf(stderr, "no memory for %llu elements of %zu bytes\n", (unsigned long long)count, bytes);
        exit(1);
    }
    return memory;
}

static uint64_t random_state = 88172645463325252ULL;

/* Xorshift (Marsaglia 2003). */
static inline uint64_t draw(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

/* A number below `count`. */
static inline uint64_t draw_below(uint64_t count) {
    return (uint64_t)((unsigned __int128)draw() * count >> 64);
}
