/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The limits of open files, of file lengths and of the stack, as the program has them natively.

The core reserves the last twelve descriptors below the limit, and shows the program the reduced soft limit as both
limits. Programs that raise their limit to the maximum, or rely on it, then end or do less. So the program sees and may
set what the kernel allows; only descriptors from the core's own on are refused.

Exceeding the limit on file length raises a signal, deadly by default. So the limit is raised while the engine writes;
if that is not permitted, the engine writes less. */

#include "engine.h"
#include "handlers.h"
#include "sys.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_vki.h"

/* In the core library; no header for tools declares them. */
extern Int VG_(fd_soft_limit);
extern struct vki_rlimit VG_(client_rlimit_stack);

typedef struct {
   ULong now;
   ULong most;
} Limit;

static Limit stack_of_engine;   /* the kernel's, before limits_native() */

static Limit of_engine;   /* the kernel's present limit; most 0: not known yet */
static Limit shown;
static ULong too_low;   /* the program's soft limit, if it has been raised to load an image; else 0 */

/* The core's twelve, and what a program needs to start. */
#define FILES_LEAST 32

void limits_before_load(void)
{
   Limit limit;
   if (sys_failed(sys_call6(SYS_PRLIMIT64, 0, SYS_RLIMIT_NOFILE, 0, (UWord)&limit, 0, 0)))
      return;
   Limit raised = { FILES_LEAST, limit.most };
   if (limit.now < FILES_LEAST && limit.most >= FILES_LEAST
       && !sys_failed(sys_call6(SYS_PRLIMIT64, 0, SYS_RLIMIT_NOFILE, (UWord)&raised, 0, 0, 0)))
      too_low = limit.now;
}

void limits_after_load(void)
{
   if (too_low != 0)
      VG_(fd_soft_limit) = too_low;
}

static const Limit* shown_limit(void)
{
   if (of_engine.most != 0)
      return &shown;
   if (sys_failed(sys_call6(SYS_PRLIMIT64, 0, SYS_RLIMIT_NOFILE, 0, (UWord)&of_engine, 0, 0)))
      of_engine = (Limit){ VG_(fd_hard_limit), VG_(fd_hard_limit) };
   /* The core adds its own to the soft limit, up to the hard one. */
   Bool is_most = too_low == 0 && of_engine.now == of_engine.most;
   ULong now = is_most ? of_engine.most : (ULong)VG_(fd_soft_limit);
   shown = (Limit){ now, of_engine.most };
   return &shown;
}

static Int set_limit(const Limit* new)
{
   const Limit* old = shown_limit();
   if (new->now > new->most)
      return VKI_EINVAL;
   if (new->most > old->most)
      return VKI_EPERM;
   shown = *new;
   VG_(fd_soft_limit) = new->now < (ULong)VG_(fd_hard_limit) ? (Int)new->now : VG_(fd_hard_limit);
   return 0;
}

static Bool may_use(Addr at, UInt protection)
{
   return VG_(am_is_valid_for_client)(at, sizeof(Limit), protection);
}

/* Reads the limit into `old` and sets it to `new`, if these are not 0. */
static void exchange(CallStatus* status, Addr new, Addr old)
{
   Limit before = *shown_limit();
   Int error = 0;
   if ((new != 0 && !may_use(new, VKI_PROT_READ)) || (old != 0 && !may_use(old, VKI_PROT_WRITE)))
      error = VKI_EFAULT;
   else if (new != 0)
      error = set_limit((const Limit*)new);
   if (error != 0) {
      call_fail(status, error);
      return;
   }
   if (old != 0)
      *(Limit*)old = before;
   call_succeed(status, 0);
}

Bool limits_before(const CallArguments* arguments, CallStatus* status)
{
   const UWord* at = arguments->at;
   Bool is_own = arguments->number != SYS_PRLIMIT64 || at[0] == 0 || at[0] == (UWord)VG_(getpid)();
   UWord resource = arguments->number == SYS_PRLIMIT64 ? at[1] : at[0];
   if (!is_own || resource != SYS_RLIMIT_NOFILE)
      return False;
   switch (arguments->number) {
      case __NR_getrlimit: exchange(status, 0, at[1]); break;
      case __NR_setrlimit: exchange(status, at[1], 0); break;
      default: exchange(status, at[2], at[3]);
   }
   return True;
}

/* As `STACK_MOST` in engine.rs: if the stack may be larger, the kernel maps the vdso among the client's memory. */
#define STACK_MOST (1ULL << 30)

ULong limits_stack_bytes(void)
{
   ULong limit = VG_(client_rlimit_stack).rlim_cur;
   return limit < STACK_MOST ? limit : STACK_MOST;
}

/* The core only remembers the stack's limit that the program sets. */
void limits_native(Bool is_followed)
{
   Limit stack = { VG_(client_rlimit_stack).rlim_cur, VG_(client_rlimit_stack).rlim_max };
   if (is_followed)
      stack.now = limits_stack_bytes();
   sys_call6(SYS_PRLIMIT64, 0, SYS_RLIMIT_NOFILE, (UWord)shown_limit(), 0, 0, 0);
   sys_call6(SYS_PRLIMIT64, 0, SYS_RLIMIT_STACK, (UWord)&stack, (UWord)&stack_of_engine, 0, 0);
}

void limits_engine(void)
{
   Limit limit = { of_engine.now, shown.most };
   Limit stack = { stack_of_engine.now, VG_(client_rlimit_stack).rlim_max };
   if (stack.now > stack.most)
      stack.now = stack.most;
   sys_call6(SYS_PRLIMIT64, 0, SYS_RLIMIT_NOFILE, (UWord)&limit, 0, 0, 0);
   sys_call6(SYS_PRLIMIT64, 0, SYS_RLIMIT_STACK, (UWord)&stack, 0, 0, 0);
}

Bool limits_are_too_low(void)
{
   return shown_limit()->most < FILES_LEAST;
}

/* ---- the length of files ---- */

static Limit length;
static Bool is_raised;

Bool limits_begin_file(ULong bytes)
{
   if (sys_failed(sys_call6(SYS_PRLIMIT64, 0, SYS_RLIMIT_FSIZE, 0, (UWord)&length, 0, 0)) || bytes <= length.now)
      return True;
   ULong most = length.most < bytes ? bytes : length.most;
   Limit raised = { most, most };
   is_raised = !sys_failed(sys_call6(SYS_PRLIMIT64, 0, SYS_RLIMIT_FSIZE, (UWord)&raised, 0, 0, 0));
   return is_raised;
}

void limits_end_file(void)
{
   if (is_raised)
      sys_call6(SYS_PRLIMIT64, 0, SYS_RLIMIT_FSIZE, (UWord)&length, 0, 0, 0);
   is_raised = False;
}

Int __real_vgPlain_write(Int fd, const void* bytes, Int count);
Int __wrap_vgPlain_write(Int fd, const void* bytes, Int count);

/* What the core writes: its messages, and files that describe the program to itself. */
Int __wrap_vgPlain_write(Int fd, const void* bytes, Int count)
{
   struct vg_stat about;
   if (VG_(fstat)(fd, &about) != 0 || !VKI_S_ISREG(about.mode))
      return __real_vgPlain_write(fd, bytes, count);
   Int result = limits_begin_file(about.size + count) ? __real_vgPlain_write(fd, bytes, count) : count;
   limits_end_file();
   return result;
}
