/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Programs that repair their own page faults.

Such a program makes its memory read-only, and its handler of SIGSEGV makes it writable again and resumes at the
instruction (SBCL's collector does, and Boehm's in incremental mode). It relies on all registers at the fault; for
speed, Valgrind's code keeps few of them up to date there. So from the first such call on, code is retranslated with all
registers up to date at each memory access.

At a division by zero none is up to date, not even the instruction pointer. From the first SIGFPE handler that receives
registers (Java's and .NET's) on, blocks that divide are translated with all registers up to date everywhere. */

#include "engine.h"
#include "sys.h"

#include "libvex.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_machine.h"
#include "pub_tool_vki.h"

/* In the core's libraries; no header for tools declares them. */
extern VexControl vex_control;

#define FIRST_ADDRESS 0x1000ULL
#define ALL_ADDRESSES 0x7fffffff0000ULL

static Bool has_handler;   /* of SIGSEGV, and it receives the registers */
static Bool is_exact;
static Bool divides_exactly;

/* Whether the handler set by a call receives the registers. */
static Bool is_told(const vki_sigaction_toK_t* action)
{
   return action->ksa_handler != VKI_SIG_DFL && action->ksa_handler != VKI_SIG_IGN
          && (action->sa_flags & VKI_SA_SIGINFO) != 0;
}

void faults_after_sigaction(Int signal, Addr at)
{
   if ((signal != VKI_SIGSEGV && signal != VKI_SIGFPE)
       || !VG_(am_is_valid_for_client)(at, sizeof(vki_sigaction_toK_t), VKI_PROT_READ))
      return;
   const vki_sigaction_toK_t* action = (const vki_sigaction_toK_t*)at;
   if (signal == VKI_SIGSEGV)
      has_handler = is_told(action);
   else if (is_told(action) && !divides_exactly) {
      divides_exactly = True;
      VG_(discard_translations)(FIRST_ADDRESS, ALL_ADDRESSES, "faults");
   }
}

/* div and idiv: f6 or f7, and 6 or 7 in the second field of the next byte. May have false positives. */
Bool faults_may_be_in(Addr code, SizeT bytes)
{
   for (SizeT i = 0; divides_exactly && i + 1 < bytes; i++) {
      const UChar* at = (const UChar*)code + i;
      if ((at[0] & 0xfe) == 0xf6 && (at[1] & 0x30) == 0x30)
         return True;
   }
   return False;
}

/* Before a range loses rights, which the loader also does to its own data. */
void faults_before_mprotect(ThreadId thread, Addr start, UInt protection)
{
   const NSegment* segment = VG_(am_find_nsegment)(start);
   if (is_exact || !has_handler || protection != VKI_PROT_READ || segment == NULL || !segment->hasW
       || places_is_loader(VG_(am_find_nsegment)(VG_(get_IP)(thread))))
      return;
   is_exact = True;
   vex_control.iropt_register_updates_default = VexRegUpdAllregsAtMemAccess;
   VG_(discard_translations)(FIRST_ADDRESS, ALL_ADDRESSES, "faults");
}
