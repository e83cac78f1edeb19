/* gcc -O1 moved.c -o moved; moved in_place|shared|memfd|mremap|other    prints the same number in all ways
   Moves its own code into other memory at the same addresses, and walks there. `node --use-largepages=on` maps
   anonymous memory over its code and copies it back, and so does hugify of Meta's BOLT; Intel's iodlr moves a copy
   over it by mremap (intel/iodlr, issue 9); libhugetlbfs maps files of hugetlbfs over it. `other` leaves other code
   there than was there. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES 2
static char away[PAGES * 4096] __attribute__((aligned(4096)));

/* steps times: i = at[i]. Alone on whole pages, so that what moves is this and no more. */
long chase(long *at, long steps);
__asm__(".pushsection moved, \"ax\"\n .p2align 12\n .globl chase\n .type chase, @function\n"
        "chase: mov $1, %eax\n"
        "1: mov (%rdi,%rax,8), %rax\n dec %rsi\n jne 1b\n ret\n"
        ".size chase, . - chase\n .fill 4096, 1, 0xcc\n .p2align 12, 0xcc\n .popsection");
/* The same from 2 on, with sub $1, %rsi. */
#define OTHER "\xb8\x02\0\0\0\x48\x8b\x04\xc7\x48\x83\xee\x01\x75\xf6\xc3"

static void move(const char *how)
{
    char *code = (char *)chase;
    size_t bytes = sizeof away;
    if (!strcmp(how, "mremap")) {
        char *copy = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(copy, code, bytes);
        mprotect(copy, bytes, PROT_READ | PROT_EXEC);
        if (mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, code) != code) exit(1);
        return;
    }
    int file = strcmp(how, "memfd") ? -1 : memfd_create("code", 0);
    int kind = strcmp(how, "shared") && file < 0 ? MAP_PRIVATE : MAP_SHARED;
    if (file < 0) kind |= MAP_ANONYMOUS;
    else if (ftruncate(file, bytes)) exit(1);
    memcpy(away, code, bytes);
    if (mmap(code, bytes, PROT_READ | PROT_WRITE, kind | MAP_FIXED, file, 0) != code) exit(1);
    memcpy(code, away, bytes);
    if (!strcmp(how, "other")) memcpy(code, OTHER, sizeof OTHER - 1);
    mprotect(code, bytes, PROT_READ | PROT_EXEC);
}

int main(int argc, char **argv)
{
    long n = 4L << 20, i;
    long *at = malloc(n * sizeof *at);
    for (i = 0; i < n; i++) at[i] = (i * 514229L + 12345) % n;
    if (argc > 1) move(argv[1]);
    printf("%ld\n", chase(at, 200000));
    return 0;
}
