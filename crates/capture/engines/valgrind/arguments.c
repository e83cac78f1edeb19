/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Restores a call's arguments in the program's registers, which no call may change.

For a call that may block, the core writes the arguments, as changed by its handlers and ours, into the registers and
leaves them there. Here the program's own arguments are restored: before the signals of a call are delivered, as their
handlers get arguments in the same registers; and before the handler of a signal that interrupts the call, which may
then restart. */

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

/* A thread's arguments for its present call. */
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
