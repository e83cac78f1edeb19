/* Where the kernel puts new memory: mappings of whole 2 MiB, odd ones, stacks, below 2 GiB, at hints. Prints how far each lies
   into its 2 MiB, and from the one before. Since Linux 6.7 the first kind lies on borders. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

#define HUGE (2UL << 20)

int main(void)
{
   static const unsigned long sizes[] = { HUGE, 4096, 2 * HUGE, HUGE + 4096, 3 * 4096, 8 * HUGE, 4096, HUGE };
   static const int kinds[] = { 0, MAP_NORESERVE, MAP_STACK, MAP_32BIT };
   char* before = 0;
   for (int round = 0; round < 64; round++) {
      unsigned long bytes = sizes[round % 8];
      int kind = kinds[round / 8 % 4];
      void* hint = round % 5 == 4 ? before + (1UL << 30) : 0;
      char* at = mmap(hint, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | kind, -1, 0);
      at[0] = at[bytes - 1] = 1;
      printf("%#lx %#lx\n", (unsigned long)at % HUGE, (unsigned long)(at - before));
      if (round % 7 == 6)
         munmap(at, bytes);
      before = at;
   }
   return 0;
}
