/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits translation to what the processor would execute.

VEX translates up to sixty instructions ahead and reads freely. So it would run code of non-executable pages, and crash
where the next page is missing or lies past the end of a file. Here a block ends before what cannot be fetched, and only
the instruction that needs it faults. And a block is compared at each run if its code may have changed (aliases.c). */

#include "engine.h"

#include "libvex.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_libcsetjmp.h"
#include "pub_tool_libcsignal.h"
#include "pub_tool_signals.h"
#include "pub_tool_vki.h"

/* In VEX; no header for tools declares it. */
extern VexControl vex_control;

VexTranslateResult __real_LibVEX_Translate(VexTranslateArgs* arguments);
VexTranslateResult __wrap_LibVEX_Translate(VexTranslateArgs* arguments);
Bool __real_vgPlain_translate(ThreadId thread, Addr at, Bool is_debugging, Int verbosity, ULong blocks, Bool redirects);
Bool __wrap_vgPlain_translate(ThreadId thread, Addr at, Bool is_debugging, Int verbosity, ULong blocks, Bool redirects);

#define INSTRUCTION_BYTES_MAX 15
#define BLOCK_BYTES_MAX (61 * INSTRUCTION_BYTES_MAX)
#define NOWHERE (~(Addr)0)

static VG_MINIMAL_JMP_BUF(escape);
static struct {
   vki_sigset_t mask;
   Addr end;                 /* the end of what can be fetched from the block's start; NOWHERE: far */
   Addr unreadable;          /* an unreadable page; NOWHERE: none */
   Bool is_past_file;        /* applies to the one above */
   Addr fault;               /* the first instruction needs what is there; NOWHERE: it does not */
} block;

/* ---- the extent of code ---- */

static Bool is_code(const NSegment* segment)
{
   return segment != NULL && (segment->kind & (SkAnonC | SkFileC | SkShmC)) && segment->hasX;
}

/* The end of the code from `at` on, or NOWHERE if no block that begins there reaches it. */
static Addr end_of_code(Addr at)
{
   Addr end = at;
   while (end - at < BLOCK_BYTES_MAX) {
      const NSegment* segment = VG_(am_find_nsegment)(end);
      if (!is_code(segment))
         return end;
      end = segment->end + 1;
   }
   return NOWHERE;
}

/* ---- VEX's callbacks ---- */

static UInt (*core_needs_check)(void* closure, VexRegisterUpdates* updates, const VexGuestExtents* extents);
static Bool (*core_may_chase)(void* closure, Addr at);

/* A bit for each part of the block to compare at each run. */
static UInt needs_check(void* closure, VexRegisterUpdates* updates, const VexGuestExtents* extents)
{
   if (block.end != NOWHERE && extents->base[0] + extents->len[0] > block.end) {
      block.fault = block.end;
      VG_MINIMAL_LONGJMP(escape);
   }
   UInt parts = core_needs_check(closure, updates, extents);
   for (UInt i = 0; i < extents->n_used; i++) {
      if (aliases_may_change(extents->base[i]))
         parts |= 1U << i;
      if (faults_may_be_in(extents->base[i], extents->len[i]))
         *updates = VexRegUpdAllregsAtEachInsn;
   }
   return parts;
}

static Bool may_chase(void* closure, Addr at)
{
   return end_of_code(at) == NOWHERE && core_may_chase(closure, at);
}

/* ---- blocks near an end ---- */

/* Shows VEX only what can be fetched, and limits it to as many instructions as surely fit; but at least one. */
static void limit(VexTranslateArgs* arguments)
{
   static UChar bytes[BLOCK_BYTES_MAX + INSTRUCTION_BYTES_MAX];
   SizeT used = block.end - arguments->guest_bytes_addr;
   if (used > BLOCK_BYTES_MAX)
      used = BLOCK_BYTES_MAX;
   VG_(memset)(bytes, 0, sizeof bytes);
   VG_(memcpy)(bytes, arguments->guest_bytes, used);
   arguments->guest_bytes = bytes;
   Int most = used / INSTRUCTION_BYTES_MAX;
   most = most < 1 ? 1 : most;
   if (most < vex_control.guest_max_insns)
      vex_control.guest_max_insns = most;
   vex_control.guest_chase = False;
}

/* VEX's own limits, unless limit() has changed them. */
static void set_limits(void)
{
   static VexControl own;
   if (own.guest_max_insns == 0)
      own = vex_control;
   vex_control.guest_max_insns = own.guest_max_insns;
   vex_control.guest_chase = own.guest_chase;
}

VexTranslateResult __wrap_LibVEX_Translate(VexTranslateArgs* arguments)
{
   Addr start = arguments->guest_bytes_addr;
   core_needs_check = arguments->needs_self_check;
   core_may_chase = arguments->chase_into_ok;
   arguments->needs_self_check = needs_check;
   arguments->chase_into_ok = may_chase;
   set_limits();
   block.end = end_of_code(start);
   if (block.unreadable >= VG_PGROUNDDN(start) && block.unreadable < block.end)
      block.end = block.unreadable;
   if (block.unreadable != NOWHERE)
      vex_control.guest_chase = False;
   if (block.end <= start) {
      block.fault = start;
      VG_MINIMAL_LONGJMP(escape);
   }
   if (block.end != NOWHERE)
      limit(arguments);
   return __real_LibVEX_Translate(arguments);
}

/* ---- a translation ---- */

/* The program's code could not be read: its file has been truncated, or it is executable but not readable. */
static void catch_fault(Int signal, Addr at)
{
   if (!is_code(VG_(am_find_nsegment)(at)))
      return;
   block.unreadable = VG_PGROUNDDN(at);
   block.is_past_file = signal == VKI_SIGBUS;
   VG_MINIMAL_LONGJMP(escape);
}

/* The block cannot be translated this way; returns whether it can be otherwise. */
static Bool recover(ThreadId thread)
{
   VG_(sigprocmask)(VKI_SIG_SETMASK, &block.mask, NULL);
   if (block.unreadable != NOWHERE && !block.is_past_file) {
      native_leave("it has code that may be executed and not read");
      return False;
   }
   if (block.fault == NOWHERE)
      return True;
   signals_synthesise_fetch(thread, block.fault, block.fault >= block.unreadable);
   return False;
}

Bool __wrap_vgPlain_translate(ThreadId thread, Addr at, Bool is_debugging, Int verbosity, ULong blocks, Bool redirects)
{
   block.unreadable = block.fault = NOWHERE;
   VG_(sigprocmask)(VKI_SIG_SETMASK, NULL, &block.mask);
   fault_catcher_t kept = VG_(set_fault_catcher)(catch_fault);
   Bool result = False;
   if (VG_MINIMAL_SETJMP(escape) == 0 || recover(thread))
      result = __real_vgPlain_translate(thread, at, is_debugging, verbosity, blocks, redirects);
   VG_(set_fault_catcher)(kept);
   return result;
}
