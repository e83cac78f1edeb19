/* A thousand page faults that the program handles, half of them by leaving, half by giving access and going on. The
   first three marks tell the addresses that one run of code stores to, faults on, and stores to afterwards. */

#include "pagewalk.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

enum { PAGE = 4096, TIMES = 500 };

static sigjmp_buf left;
static volatile int giving_access;
static int *guarded;
static int before[16], after[16];

static void handle(int signal)
{
   if (!giving_access)
      siglongjmp(left, 1);
   mprotect(guarded, PAGE, PROT_READ | PROT_WRITE);
}

__attribute__((noinline)) static void touch(void)
{
   int value;
   __asm__ volatile("movl $1, (%1); movl (%2), %0; movl %0, (%3)"
                    : "=&r"(value)
                    : "r"(before), "r"(guarded), "r"(after)
                    : "memory");
}

int main(void)
{
   guarded = mmap(0, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   signal(SIGSEGV, handle);
   PAGEWALK_MARK((unsigned long)before);
   PAGEWALK_MARK((unsigned long)guarded);
   PAGEWALK_MARK((unsigned long)after);
   for (int i = 0; i < TIMES; i++)
      if (sigsetjmp(left, 1) == 0)
         touch();
   giving_access = 1;
   for (int i = 0; i < TIMES; i++) {
      mprotect(guarded, PAGE, PROT_NONE);
      touch();
   }
   return 0;
}
