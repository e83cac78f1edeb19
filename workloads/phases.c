/* A program in phases, one after the other: each updates a table at random in so many regions of 4 MiB, which is what
   one page of a linear page table of 4-byte entries maps, and calls the kernel so often.

   phases PAGES REGIONS:UPDATES[:EACH]...: each region of the table has PAGES pages of 4 KiB, at its start. Each phase makes UPDATES
   updates in the first REGIONS regions, and a call after every EACH of them; without EACH it makes none.

   The call asks where the program's memory ends (brk), which is the kernel's own business. Link it with -static. */
#define _DEFAULT_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, REGION = 1024 * PAGE, REGIONS = 256 };

struct phase {
    uint64_t regions, updates, each;
};

static uint64_t *table;
static uint64_t pages, drawn = 1;

/* Reads a number that ends at `end` or at the text's end, and moves there. */
static uint64_t number(const char **text, char end, const char *name, uint64_t most) {
    char *behind;
    uint64_t value = strtoul(*text, &behind, 10);
    if (**text < '0' || **text > '9' || (*behind != 0 && *behind != end) || value < 1 || value > most) {
        fprintf(stderr, "phases: %s = %s: give a number from 1 to %llu\n", name, *text, (unsigned long long)most);
        exit(2);
    }
    *text = behind;
    return value;
}

static struct phase phase(const char *text) {
    struct phase phase = {0, 0, 0};
    phase.regions = number(&text, ':', "REGIONS", REGIONS);
    if (*text != 0) text++;
    phase.updates = number(&text, ':', "UPDATES", 1000000000);
    if (*text != 0) {
        text++;
        phase.each = number(&text, 0, "EACH", 1000000000);
    }
    return phase;
}

/* A number below `limit`. */
static uint64_t draw(uint64_t limit) {
    drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned __int128)drawn * limit >> 64;
}

static void run(struct phase phase) {
    uint64_t used = pages * (PAGE / 8), left = phase.each;
    for (uint64_t n = 0; n < phase.updates; n++) {
        uint64_t word = draw(phase.regions * used);
        table[word / used * (REGION / 8) + word % used] ^= drawn;
        if (phase.each != 0 && --left == 0) {
            syscall(SYS_brk, 0);
            left = phase.each;
        }
    }
}

int main(int count, char **arguments) {
    if (count < 3) {
        fprintf(stderr, "usage: phases PAGES REGIONS:UPDATES[:EACH]...\n");
        return 2;
    }
    const char *text = arguments[1];
    pages = number(&text, 0, "PAGES", REGION / PAGE);
    uint64_t regions = 0;
    for (int i = 2; i < count; i++) {
        uint64_t these = phase(arguments[i]).regions;
        if (these > regions) regions = these;
    }
    table = aligned_alloc(REGION, regions * REGION);
    if (table == NULL) {
        perror("phases: aligned_alloc");
        return 1;
    }
    for (uint64_t page = 0; page < regions * pages; page++) {
        table[(page / pages * REGION + page % pages * PAGE) / 8] = page;
    }
    for (int i = 2; i < count; i++) run(phase(arguments[i]));
    printf("%llx\n", (unsigned long long)table[0]);
    return 0;
}
