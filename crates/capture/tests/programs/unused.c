/* Loads whose values nobody uses, in the ways that programs have them: pages that are touched before they are needed,
   unrolled (a scan of Valgrind's own tools counts one page in eight), comparisons whose flags the next instruction
   overwrites (the safepoint polls of HotSpot), vectors, and a load that faults. The mark tells the first page. */

#include "pagewalk.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 2000 };

static sigjmp_buf left;

static void leave(int signal)
{
   siglongjmp(left, 1);
}

static void touch(const char *page)
{
   __asm__ volatile("movzbl (%0), %%eax; movzbl 4096(%0), %%eax; movl 8192(%0), %%eax; movq 12288(%0), %%rax\n"
                    "xorl %%eax, %%eax; testl %%eax, 16384(%0); cmpb $0, 20480(%0); xorl %%eax, %%eax\n"
                    "movups 24576(%0), %%xmm0; movups 28672(%0), %%xmm0; pxor %%xmm0, %%xmm0"
                    :
                    : "r"(page)
                    : "rax", "xmm0", "cc");
}

static int faults(const char *page)
{
   if (sigsetjmp(left, 1)) return 1;
   __asm__ volatile("movl (%0), %%eax; xorl %%eax, %%eax" : : "r"(page) : "rax", "cc");
   return 0;
}

int main(void)
{
   char *pages = mmap(0, (PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   signal(SIGSEGV, leave);
   mprotect(pages + PAGES * PAGE, PAGE, PROT_NONE);
   PAGEWALK_MARK((unsigned long)pages);
   for (int i = 0; i < PAGES; i += 8) touch(pages + i * PAGE);
   return faults(pages + PAGES * PAGE) ? 0 : 1;
}
