// Looks names up in a symbol table with a hash routine that lies one direct-mapped cache of 512 KiB away from the loop
// that calls it, as that of a shared library can: the stab of Romer 1998, section 4.5.2.
#include <stdio.h>
#include <string.h>

enum { NAMES = 64, TIMES = 300 * 1000 };

static char names[NAMES][16];
static unsigned counts[256];

__attribute__((noinline, section(".text.hash"), aligned(524288))) unsigned hash(const char *name) {
    unsigned h = 5381;
    for (; *name; name++) h = h * 33 ^ (unsigned char)*name;
    return h % 256;
}

__attribute__((noinline, section(".text.look"), aligned(524288))) void look_up(void) {
    for (int i = 0; i < TIMES; i++) counts[hash(names[i % NAMES])]++;
}

int main(void) {
    for (int i = 0; i < NAMES; i++) snprintf(names[i], sizeof names[i], "name%d", i * 977);
    look_up();
    unsigned most = 0;
    for (int i = 0; i < 256; i++) most = counts[i] > most ? counts[i] : most;
    printf("%u\n", most);
}
