/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Completes what signal handlers see, where the core omits what the kernel provides.

A handler that its own signal may interrupt (SA_NODEFER) still blocks the signals of its mask, according to
sigaction(2). Runtimes that stop all threads by a signal, such as SBCL, crash otherwise. And faults of fetches,
divisions and invalid instructions have the processor's codes, addresses and trap numbers. */

#include "engine.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_vki.h"

struct vki_ucontext;

/* In the core library; no header for tools declares them. */
extern SysRes VG_(do_sys_sigaction)(Int signal, const vki_sigaction_toK_t* new, vki_sigaction_fromK_t* old);
extern SysRes VG_(do_sys_sigprocmask)(ThreadId thread, Int how, vki_sigset_t* set, vki_sigset_t* old);
extern void VG_(synth_fault_mapping)(ThreadId thread, Addr at);
extern void VG_(synth_fault_perms)(ThreadId thread, Addr at);
extern void VG_(synth_sigbus)(ThreadId thread);

typedef void CreateFrame(ThreadId thread, Bool is_alternate, Addr top, const vki_siginfo_t* info,
                         const struct vki_ucontext* context, void* handler, UInt flags, const vki_sigset_t* mask,
                         void* restorer);

CreateFrame __real_vgPlain_sigframe_create;
CreateFrame __wrap_vgPlain_sigframe_create;

/* As si_addr of sigaction(2). */
#define ADDRESS _sifields._sigfault._addr

/* Codes, of asm-generic/siginfo.h. */
#define CODE_OF_KERNEL 128
#define CODE_NOT_MAPPED 1
#define CODE_NOT_ALLOWED 2
#define CODE_NO_OPERAND 2
#define CODE_PAST_FILE 2
#define CODE_BREAKPOINT 1

/* Processor traps, and page fault error bits. */
#define TRAP_INSTRUCTION 6
#define TRAP_PROTECTION 13
#define TRAP_PAGE 14
#define FAULT_PRESENT 1
#define FAULT_OF_USER 4
#define FAULT_OF_FETCH 16

/* The first half of the user's addresses. */
#define CANONICAL_END 0x800000000000ULL
#define CANONICAL_AGAIN 0xffff800000000000ULL

/* The kernel's struct ucontext up to the registers: flags, link, stack, then these. */
typedef struct {
   ULong before[5];
   ULong registers[18];
   UShort segments[4];
   ULong error;
   ULong trap;
   ULong old_mask;
   ULong fault_address;
} Context;

/* ---- faults of fetches ---- */

static Bool is_mapped(Addr at)
{
   const NSegment* segment = VG_(am_find_nsegment)(at);
   return segment != NULL && (segment->kind & (SkAnonC | SkFileC | SkShmC));
}

static Addr past_file;   /* the fetch address of the SIGBUS being delivered; 0: another signal */

void signals_synthesise_fetch(ThreadId thread, Addr at, Bool is_past_file)
{
   if (is_past_file) {
      past_file = at;
      VG_(synth_sigbus)(thread);
      past_file = 0;
   } else if (is_mapped(at))
      VG_(synth_fault_perms)(thread, at);
   else
      VG_(synth_fault_mapping)(thread, at);
}

/* ---- frames ---- */

typedef struct {
   vki_siginfo_t info;
   Bool is_told;   /* set the two below */
   ULong trap;
   ULong error;
} Fault;

/* An instruction that cannot be fetched. The core takes its reservations for mapped memory. */
static void correct_fetch(Fault* fault, Addr at)
{
   fault->is_told = True;
   if (at >= CANONICAL_END && at < CANONICAL_AGAIN) {
      fault->info.si_code = CODE_OF_KERNEL;
      fault->info.ADDRESS = NULL;
      fault->trap = TRAP_PROTECTION;
      return;
   }
   const NSegment* segment = VG_(am_find_nsegment)(at);
   Bool is_allowed = is_mapped(at) && (segment->hasR || segment->hasW || segment->hasX);
   if (fault->info.si_signo == VKI_SIGSEGV)
      fault->info.si_code = is_mapped(at) ? CODE_NOT_ALLOWED : CODE_NOT_MAPPED;
   fault->trap = TRAP_PAGE;
   fault->error = FAULT_OF_USER | FAULT_OF_FETCH | (is_allowed && past_file == 0 ? FAULT_PRESENT : 0);
}

/* What the kernel would report for the program's own fault. */
static void correct(Fault* fault, ThreadId thread, Bool is_of_kernel)
{
   Addr ip = VG_(get_IP)(thread);
   vki_siginfo_t* info = &fault->info;
   if (past_file != 0 && info->si_signo == VKI_SIGBUS) {
      info->si_code = CODE_PAST_FILE;
      info->ADDRESS = (void*)past_file;
      correct_fetch(fault, past_file);
   } else if (info->si_code <= 0)
      return;
   else if (info->si_code == CODE_OF_KERNEL && !is_of_kernel && info->si_signo == VKI_SIGSEGV) {
      fault->is_told = True;
      fault->trap = TRAP_PROTECTION;
   } else if (info->si_signo == VKI_SIGSEGV && !is_of_kernel)
      correct_fetch(fault, (Addr)info->ADDRESS);
   else if (info->si_signo == VKI_SIGILL) {
      info->si_code = CODE_NO_OPERAND;
      fault->is_told = True;
      fault->trap = TRAP_INSTRUCTION;
   } else if (info->si_signo == VKI_SIGTRAP && info->si_code == CODE_BREAKPOINT)
      info->si_code = CODE_OF_KERNEL;   /* int3, which the core does itself */
   else if (info->si_signo == VKI_SIGFPE)
      info->ADDRESS = (void*)ip;
}

/* The frame keeps the previous mask; what is blocked from here on is blocked in the handler. */
void __wrap_vgPlain_sigframe_create(ThreadId thread, Bool is_alternate, Addr top, const vki_siginfo_t* info,
                                    const struct vki_ucontext* context, void* handler, UInt flags,
                                    const vki_sigset_t* mask, void* restorer)
{
   vki_sigaction_fromK_t action;
   Fault fault = { .info = *info };
   correct(&fault, thread, context != NULL);
   __real_vgPlain_sigframe_create(thread, is_alternate, top, &fault.info, context, handler, flags, mask, restorer);
   if (fault.is_told && VG_(get_SP)(thread) != top) {   /* else there was no room for a frame, and the program ends */
      VexGuestAMD64State guest;
      VG_(get_shadow_regs_area)(thread, (UChar*)&guest, 0, 0, sizeof guest);
      Context* made = (Context*)guest.guest_RDX;   /* the handler's third argument */
      made->trap = fault.trap;
      made->error = fault.error;
   }
   if ((flags & VKI_SA_NOMASK) && !sr_isError(VG_(do_sys_sigaction)(info->si_signo, NULL, &action)))
      VG_(do_sys_sigprocmask)(thread, VKI_SIG_BLOCK, &action.sa_mask, NULL);
}
