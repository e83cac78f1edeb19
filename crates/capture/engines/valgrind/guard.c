/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls with wrong arguments.

The core reads what a call points to before the kernel checks it, and so crashes on bad pointers. Here such a fault
aborts the core's handler, and the kernel answers. The kernel also answers if the core rejects a number as a bad
descriptor, since errors have an order. */

#include "engine.h"
#include "handlers.h"

#include "pub_tool_libcproc.h"
#include "pub_tool_libcsetjmp.h"
#include "pub_tool_libcsignal.h"
#include "pub_tool_signals.h"
#include "pub_tool_vki.h"

static VG_MINIMAL_JMP_BUF(escape);
static vki_sigset_t mask;   /* of all threads while they run no client code */
static fault_catcher_t kept;

static void catch_fault(__attribute__((unused)) Int signal, __attribute__((unused)) Addr at)
{
   VG_MINIMAL_LONGJMP(escape);
}

static void begin(void)
{
   static Bool is_known;
   if (!is_known)
      VG_(sigprocmask)(VKI_SIG_SETMASK, NULL, &mask);
   is_known = True;
   kept = VG_(set_fault_catcher)(catch_fault);
}

static void end(void)
{
   VG_(set_fault_catcher)(kept);
}

/* ---- descriptors ---- */

static Bool is_negative(UWord argument)
{
   return (argument >= 0x80000000UL && argument <= 0xffffffffUL) || argument >= ~0x7fffffffUL;
}

/* The core has refused a negative number as a descriptor, and no argument is a descriptor of the engine's own. */
static Bool is_refused_by_core(const CallArguments* arguments, const CallStatus* status)
{
   Bool result = False;
   if (status->what != STATUS_COMPLETE || !sr_isError(status->result) || sr_Err(status->result) != VKI_EBADF)
      return False;
   for (UInt i = 0; i < CALL_ARGUMENTS; i++) {
      if ((Int)arguments->at[i] >= VG_(fd_hard_limit))
         return False;
      result |= is_negative(arguments->at[i]);
   }
   return result;
}

/* ---- calls ---- */

void guard_before(Before* before, ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status,
                  UWord* flags)
{
   CallArguments given = *arguments;
   begin();
   Bool is_faulty = VG_MINIMAL_SETJMP(escape) != 0;
   if (is_faulty)
      VG_(sigprocmask)(VKI_SIG_SETMASK, &mask, NULL);
   else
      before(thread, layout, arguments, status, flags);
   end();
   if (is_faulty || is_refused_by_core(arguments, status)) {
      *arguments = given;
      status->what = STATUS_FOR_KERNEL;
      *flags = CALL_MAY_BLOCK;
   } else if (status->what == STATUS_COMPLETE)
      *arguments = given;   /* what the core expects, whoever answers the call */
}

void guard_after(After* after, ThreadId thread, CallArguments* arguments, CallStatus* status)
{
   begin();
   if (VG_MINIMAL_SETJMP(escape) == 0)
      after(thread, arguments, status);
   else
      VG_(sigprocmask)(VKI_SIG_SETMASK, &mask, NULL);
   end();
}
