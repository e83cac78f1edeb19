/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Programs that repair their own page faults.

   Such a program takes the right to write away from its memory, and its handler of SIGSEGV gives it back and goes on at
   the instruction (SBCL's collector does, and Boehm's where it is incremental). It relies on all registers at the fault;
   Valgrind's code keeps few of them up to date there, as that takes less time. So from the first such call on code is
   translated anew, with all registers up to date at each memory access. */

#include "engine.h"
#include "sys.h"

#include "libvex.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_machine.h"
#include "pub_tool_vki.h"

/* In the core's libraries; no header for tools declares them. */
extern VexControl vex_control;
extern void VG_(discard_translations)(Addr start, ULong bytes, const HChar* who);

#define FIRST_ADDRESS 0x1000ULL
#define ALL_ADDRESSES 0x7fffffff0000ULL

static Bool has_handler;   /* of SIGSEGV, that is told of the registers */
static Bool is_exact;

void faults_after_sigaction(Int signal, Addr at)
{
   const vki_sigaction_toK_t* action = (const vki_sigaction_toK_t*)at;
   if (signal != VKI_SIGSEGV || !VG_(am_is_valid_for_client)(at, sizeof *action, VKI_PROT_READ))
      return;
   has_handler = action->ksa_handler != VKI_SIG_DFL && action->ksa_handler != VKI_SIG_IGN
                 && (action->sa_flags & VKI_SA_SIGINFO) != 0;
}

/* Before a range loses its rights: which the loader does to its own data, too. */
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
