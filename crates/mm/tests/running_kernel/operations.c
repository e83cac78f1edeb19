// Performs operations on memory that it reads from standard input, one a line, and prints what the running kernel made
// of them: for each mapping of the arena its first page, its pages and its bytes in huge pages.
//
//   arena ADDRESS PAGES          where the pages that follow are counted from
//   map FIRST PAGES              private anonymous memory
//   unmap FIRST PAGES
//   protect FIRST PAGES WRITE
//   advise FIRST PAGES ADVICE
//   touch PAGE
//   scans COUNT                  waits until khugepaged has gone through all memory so many times
//   print

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096UL

static unsigned long arena, arena_pages;

static char *at(unsigned long page) { return (char *)(arena + page * PAGE); }

static void fail(const char *line)
{
    perror(line);
    exit(1);
}

static unsigned long full_scans(void)
{
    static const char path[] = "/sys/kernel/mm/transparent_hugepage/khugepaged/full_scans";
    FILE *file = fopen(path, "r");
    unsigned long count;
    if (!file || fscanf(file, "%lu", &count) != 1)
        fail(path);
    fclose(file);
    return count;
}

static void print_mappings(void)
{
    FILE *smaps = fopen("/proc/self/smaps", "r");
    if (!smaps)
        fail("/proc/self/smaps");
    char line[4096];
    unsigned long start = 0, end = 0, kib;
    while (fgets(line, sizeof line, smaps)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            start = from;
            end = to;
        } else if (sscanf(line, "AnonHugePages: %lu kB", &kib) == 1) {
            if (arena <= start && end <= arena + arena_pages * PAGE)
                printf("%lu %lu %lu\n", (start - arena) / PAGE, (end - start) / PAGE, kib * 1024);
        }
    }
    fclose(smaps);
    printf("end\n");
    fflush(stdout);
}

int main(void)
{
    char line[256];
    while (fgets(line, sizeof line, stdin)) {
        unsigned long first = 0, pages = 0;
        int extra = 0;
        char name[16];
        if (sscanf(line, "%15s %lu %lu %d", name, &first, &pages, &extra) < 1)
            continue;
        if (!strcmp(name, "arena")) {
            arena = first;
            arena_pages = pages;
        } else if (!strcmp(name, "map")) {
            int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
            if (mmap(at(first), pages * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) != at(first))
                fail(line);
        } else if (!strcmp(name, "unmap")) {
            if (munmap(at(first), pages * PAGE))
                fail(line);
        } else if (!strcmp(name, "protect")) {
            if (mprotect(at(first), pages * PAGE, PROT_READ | (extra ? PROT_WRITE : 0)))
                fail(line);
        } else if (!strcmp(name, "advise")) {
            // Advice that the kernel could not follow everywhere has taken effect where it could.
            madvise(at(first), pages * PAGE, extra);
        } else if (!strcmp(name, "touch")) {
            *(volatile char *)at(first) = 1;
        } else if (!strcmp(name, "scans")) {
            unsigned long last = full_scans() + first;
            while (full_scans() < last)
                usleep(100000);
        } else if (!strcmp(name, "print")) {
            print_mappings();
        } else {
            fprintf(stderr, "unknown operation: %s", line);
            return 1;
        }
    }
    return 0;
}
