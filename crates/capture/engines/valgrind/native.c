/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Leaving: the program continues without the engine, in the same process, from its present instruction.

The client's memory is already where it is natively, so only each thread's registers, its signal mask and the signal
handlers are restored: by one return from a fabricated signal frame. This happens where the engine would otherwise end
or change the program: at an unknown instruction, an unsupported call, a full table. What was captured stays; a LOST
event says why and where.

Threads leave one by one, each when it would run client code next. Valgrind's own memory stays mapped. */

#include "engine.h"
#include "sys.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"

/* ---- parts of the core that no header for tools declares ---- */

extern void VG_(release_BigLock)(ThreadId thread, UInt status, const HChar* who);
extern SysRes VG_(do_sys_sigaction)(Int signal, const vki_sigaction_toK_t* new, vki_sigaction_fromK_t* old);
extern SysRes VG_(do_sys_sigprocmask)(ThreadId thread, Int how, vki_sigset_t* set, vki_sigset_t* old);
extern SysRes VG_(do_sys_sigaltstack)(ThreadId thread, vki_stack_t* new, vki_stack_t* old);
extern void VG_(synth_fault)(ThreadId thread);
extern Int VG_(max_signal);

#define THREAD_WAITS_FOR_CALL 3   /* VgTs_WaitSys */

void __real_vgPlain_synth_sigill(ThreadId thread, Addr at);
void __wrap_vgPlain_synth_sigill(ThreadId thread, Addr at);

/* ---- the decision ---- */

static Bool is_near;    /* the next client code runs natively */
static Bool is_done;    /* some thread has left */

Bool native_is_near(void)
{
   return is_near;
}

void native_leave(const HChar* reason)
{
   HChar lost[VKI_PATH_MAX + 256];
   if (is_near)
      return;
   is_near = True;
   VG_(snprintf)(lost, sizeof lost, "the rest of the program, which runs untraced from here: %s", reason);
   event_lost(lost);
}

/* ---- instructions ---- */

#define PREFIX_EVEX 0x62
#define PREFIX_REX2 0xd5
#define PREFIX_VEX3 0xc4
#define PREFIX_VEX2 0xc5

static const HChar* name_of_instruction(const UChar* code)
{
   while (*code == 0x66 || *code == 0xf2 || *code == 0xf3 || (*code & 0xf0) == 0x40)
      code++;
   switch (*code) {
      case PREFIX_EVEX: return "AVX-512 (or AVX10 or APX)";
      case PREFIX_REX2: return "APX";
      case PREFIX_VEX3:
      case PREFIX_VEX2: return "an extension with VEX prefixes, such as AMX or AVX-VNNI";
      default: return "an extension";
   }
}

/* Instructions that no processor has stay the program's own error: ud0, ud1 and ud2. */
static Bool is_undefined(const UChar* code)
{
   return code[0] == 0x0f && (code[1] == 0x0b || code[1] == 0xb9 || code[1] == 0xff);
}

/* Privileged instructions: hlt, cli, sti, in, out and their string forms, wrmsr, rdmsr and moves of control registers.
   Some programs use them to detect virtual machines. */
static Bool is_privileged(const UChar* code)
{
   if (*code == 0x66 || (*code & 0xf0) == 0x40)
      code++;
   return *code == 0xf4 || *code == 0xfa || *code == 0xfb || (*code & 0xf4) == 0xe4 || (*code & 0xfc) == 0x6c
          || (code[0] == 0x0f && (code[1] == 0x30 || code[1] == 0x32 || (code[1] & 0xfc) == 0x20));
}

void __wrap_vgPlain_synth_sigill(ThreadId thread, Addr at)
{
   const UChar* code = (const UChar*)at;
   HChar reason[VKI_PATH_MAX + 200];
   if (VG_(am_is_valid_for_client)(at, 3, VKI_PROT_READ) && is_privileged(code)) {
      VG_(synth_fault)(thread);
      return;
   }
   if (!VG_(am_is_valid_for_client)(at, 16, VKI_PROT_READ) || is_undefined(code)) {
      __real_vgPlain_synth_sigill(thread, at);
      return;
   }
   const NSegment* segment = VG_(am_find_nsegment)(at);
   const HChar* file = segment == NULL ? NULL : VG_(am_get_filename)(segment);
   VG_(snprintf)(reason, sizeof reason,
                 "the instruction %02x %02x %02x %02x %02x %02x at 0x%lx of %s needs %s, which the engine lacks", code[0],
                 code[1], code[2], code[3], code[4], code[5],
                 file == NULL ? at : at - segment->start + (Addr)segment->offset, file == NULL ? "memory" : file,
                 name_of_instruction(code));
   native_leave(reason);
}

/* ---- a signal frame as the kernel lays it out (arch/x86/include/uapi/asm/sigcontext.h) ---- */

#define XFEATURES 7ULL                      /* x87, SSE, AVX */
#define XSAVE_BYTES (512 + 64 + 256)
#define XSAVE_SOFTWARE_AT 464               /* bytes that the processor leaves to the kernel */
#define XSAVE_HEADER_AT 512
#define XSAVE_AVX_AT 576
#define XSTATE_MAGIC1 0x46505853U
#define XSTATE_MAGIC2 0x46505845U

typedef struct {
   UInt magic;
   UInt extended_bytes;
   ULong features;
   UInt bytes;
} XsaveSoftware;

typedef struct {
   UChar xsave[XSAVE_BYTES + sizeof(UInt)] __attribute__((aligned(64)));
   struct {
      ULong flags;
      ULong link;
      vki_stack_t stack;
      ULong registers[18];   /* r8 … r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags */
      UShort segments[4];    /* cs, gs, fs, ss */
      ULong error;
      ULong trap;
      ULong old_mask;
      ULong fault_address;
      void* xsave;
      ULong reserved[8];
      vki_sigset_t mask;
   } context;
} Frame;

#define CONTEXT_FLAGS 7ULL                  /* UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS */
#define CODE_SEGMENT 0x33
#define STACK_SEGMENT 0x2b

static void fill_vectors(Frame* frame, VexGuestAMD64State* guest)
{
   VG_(memset)(frame->xsave, 0, sizeof frame->xsave);
   LibVEX_GuestAMD64_fxsave(guest, (HWord)frame->xsave);
   XsaveSoftware about = { XSTATE_MAGIC1, XSAVE_BYTES + sizeof(UInt), XFEATURES, XSAVE_BYTES };
   VG_(memcpy)(frame->xsave + XSAVE_SOFTWARE_AT, &about, sizeof about);
   ULong features = XFEATURES;
   VG_(memcpy)(frame->xsave + XSAVE_HEADER_AT, &features, sizeof features);
   const U256* vectors = &guest->guest_YMM0;
   for (UInt i = 0; i < 16; i++)
      VG_(memcpy)(frame->xsave + XSAVE_AVX_AT + 16 * i, (const UChar*)(vectors + i) + 16, 16);
   UInt end = XSTATE_MAGIC2;
   VG_(memcpy)(frame->xsave + XSAVE_BYTES, &end, sizeof end);
}

static void fill_registers(Frame* frame, const VexGuestAMD64State* guest)
{
   const ULong registers[18] = {
      guest->guest_R8, guest->guest_R9, guest->guest_R10, guest->guest_R11, guest->guest_R12, guest->guest_R13,
      guest->guest_R14, guest->guest_R15, guest->guest_RDI, guest->guest_RSI, guest->guest_RBP, guest->guest_RBX,
      guest->guest_RDX, guest->guest_RAX, guest->guest_RCX, guest->guest_RSP, guest->guest_RIP,
      LibVEX_GuestAMD64_get_rflags(guest),
   };
   VG_(memcpy)(frame->context.registers, registers, sizeof registers);
   frame->context.flags = CONTEXT_FLAGS;
   frame->context.segments[0] = CODE_SEGMENT;
   frame->context.segments[3] = STACK_SEGMENT;
   frame->context.xsave = frame->xsave;
}

/* ---- the process ---- */

/* The kernel would not let the break grow into the core's mappings after it. */
static void trim_break(void)
{
   Addr end = VG_PGROUNDUP(VG_(brk_limit));
   const NSegment* segment = VG_(am_find_nsegment)(end);
   if (segment != NULL && segment->kind == SkAnonC && segment->start >= VG_(brk_base) && segment->start <= end)
      sys_call3(__NR_munmap, end, segment->end + 1 - end, 0);
}

static void hand_over_signals(void)
{
   for (Int signal = 1; signal <= VG_(max_signal); signal++) {
      vki_sigaction_fromK_t action;
      if (signal == VKI_SIGKILL || signal == VKI_SIGSTOP)
         continue;
      if (!sr_isError(VG_(do_sys_sigaction)(signal, NULL, &action)))
         sys_call6(__NR_rt_sigaction, signal, (UWord)&action, 0, sizeof(vki_sigset_t), 0, 0);
   }
}

/* ---- the loader: where it saves vector registers ---- */

/* `and $-64,%rsp; sub bytes(%rip),%rsp`: glibc's lazy-binding resolver reserves room for the registers that CPUID
   reports, which under Valgrind are fewer than the processor has. */
static const UChar make_room[] = { 0x48, 0x83, 0xe4, 0xc0, 0x48, 0x2b, 0x25 };

/* Bytes for everything that this processor saves, with what the resolver keeps before it. */
static ULong save_bytes(void)
{
   UInt eax = 0xd, ebx, ecx = 0, edx;
   __asm__ volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
   return VG_ROUNDUP(ebx + 64, 64);
}

static void set_save_bytes(Addr at)
{
   const NSegment* segment = VG_(am_find_nsegment)(at);
   if (segment == NULL || !VG_(am_is_valid_for_client)(at, sizeof(ULong), VKI_PROT_READ))
      return;
   Addr page = VG_PGROUNDDN(at);
   UInt protection = VKI_PROT_READ | (segment->hasW ? VKI_PROT_WRITE : 0);
   if (*(ULong*)at >= save_bytes() || sys_failed(sys_call3(__NR_mprotect, page, VKI_PAGE_SIZE, VKI_PROT_READ | VKI_PROT_WRITE)))
      return;
   *(ULong*)at = save_bytes();
   sys_call3(__NR_mprotect, page, VKI_PAGE_SIZE, protection);
}

static void hand_over_loader(void)
{
   Addr starts[64];
   Int count = VG_(am_get_segment_starts)(SkFileC, starts, 64);
   Addr* all = starts;
   if (count < 0) {
      all = VG_(malloc)("pagewalk.segments", -count * sizeof(Addr));
      count = VG_(am_get_segment_starts)(SkFileC, all, -count);
   }
   for (Int i = 0; i < count; i++) {
      const NSegment* segment = VG_(am_find_nsegment)(all[i]);
      if (!segment->hasX || !places_is_loader(segment))
         continue;
      for (Addr at = segment->start; at + sizeof make_room + 4 <= segment->end; at++)
         if (VG_(memcmp)((const void*)at, make_room, sizeof make_room) == 0)
            set_save_bytes(at + sizeof make_room + 4 + *(const Int*)(at + sizeof make_room));
   }
}

static void hand_over_process(void)
{
   ring_finish();
   trim_break();
   seen_tell_kernel();   /* the break, which the core keeps for the client */
   hand_over_loader();
   hand_over_signals();
   limits_native(False);
}

/* ---- a thread ---- */

void native_go(ThreadId thread)
{
   Frame own;
   Frame* frame = &own;
   VexGuestAMD64State guest;
   VG_(get_shadow_regs_area)(thread, (UChar*)&guest, 0, 0, sizeof guest);
   VG_(memset)(frame, 0, sizeof *frame);
   fill_vectors(frame, &guest);
   fill_registers(frame, &guest);
   VG_(do_sys_sigprocmask)(thread, VKI_SIG_SETMASK, NULL, &frame->context.mask);
   VG_(do_sys_sigaltstack)(thread, NULL, &frame->context.stack);
   if (!is_done) {
      is_done = True;
      hand_over_process();
   }
   sys_call3(__NR_arch_prctl, SYS_ARCH_SET_FS, guest.guest_FS_CONST, 0);
   sys_call3(__NR_arch_prctl, SYS_ARCH_SET_GS, guest.guest_GS_CONST, 0);
   VG_(release_BigLock)(thread, THREAD_WAITS_FOR_CALL, "native_go");
   __asm__ volatile("mov %0, %%rsp\n\t"
                    "mov %1, %%eax\n\t"
                    "syscall"
                    :
                    : "r"(&frame->context), "i"(__NR_rt_sigreturn)
                    : "rax", "memory");
   __builtin_unreachable();
}
