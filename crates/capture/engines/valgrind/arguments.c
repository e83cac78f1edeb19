/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The arguments of calls in the program's registers, which no call changes.

   Where a call may block, the core writes the arguments into the registers as its handlers and ours have changed them,
   and leaves them there. Here those that the program gave are put back: before the signals that a call has brought are
   looked for, as their handlers have arguments in the same registers; and before the handler of a signal that
   interrupts the call, which may then be begun again. */

#include "engine.h"
#include "handlers.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_threadstate.h"

struct vki_ucontext;

typedef void Interrupt(ThreadId thread, Addr ip, SysRes result, Bool is_begun_again, struct vki_ucontext* context);

Interrupt __real_vgPlain_fixup_guest_state_after_syscall_interrupted;
Interrupt __wrap_vgPlain_fixup_guest_state_after_syscall_interrupted;

/* What a thread gave for the call that it is in. */
typedef struct {
   ThreadId thread;   /* VG_INVALID_THREADID: the entry is free */
   UWord at[CALL_ARGUMENTS];
} Given;

static Given* all;
static UInt count;

static Given* find(ThreadId thread)
{
   for (UInt i = 0; i < count; i++)
      if (all[i].thread == thread)
         return &all[i];
   return NULL;
}

static Given* make(void)
{
   Given* unused = find(VG_INVALID_THREADID);
   if (unused != NULL)
      return unused;
   all = VG_(realloc)("pagewalk.arguments", all, (count + 1) * sizeof *all);
   return &all[count++];
}

void arguments_keep(ThreadId thread, const CallArguments* given, const CallArguments* changed)
{
   if (VG_(memcmp)(given->at, changed->at, CALL_ARGUMENTS * sizeof(UWord)) == 0)
      return;
   Given* own = make();
   own->thread = thread;
   VG_(memcpy)(own->at, given->at, sizeof own->at);
}

void arguments_forget(ThreadId thread)
{
   Given* own = find(thread);
   if (own != NULL)
      own->thread = VG_INVALID_THREADID;
}

void arguments_put_back(ThreadId thread)
{
   static const PtrdiffT registers[CALL_ARGUMENTS] = {
      offsetof(VexGuestAMD64State, guest_RDI), offsetof(VexGuestAMD64State, guest_RSI),
      offsetof(VexGuestAMD64State, guest_RDX), offsetof(VexGuestAMD64State, guest_R10),
      offsetof(VexGuestAMD64State, guest_R8),  offsetof(VexGuestAMD64State, guest_R9),
   };
   const Given* own = find(thread);
   if (own == NULL)
      return;
   for (UInt i = 0; i < CALL_ARGUMENTS; i++)
      VG_(set_shadow_regs_area)(thread, 0, registers[i], sizeof(UWord), (const UChar*)&own->at[i]);
   arguments_forget(thread);
}

void __wrap_vgPlain_fixup_guest_state_after_syscall_interrupted(ThreadId thread, Addr ip, SysRes result,
                                                                Bool is_begun_again, struct vki_ucontext* context)
{
   __real_vgPlain_fixup_guest_state_after_syscall_interrupted(thread, ip, result, is_begun_again, context);
   arguments_put_back(thread);
}
