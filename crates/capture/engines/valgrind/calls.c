/* SPDX-License-Identifier: GPL-2.0-or-later */
/* System calls that the core would not do as the kernel does.

   The core looks up what it does before and after a call in a table; the linker (--wrap) has it ask here first. */

#include "engine.h"
#include "handlers.h"
#include "sys.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_machine.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

/* ---- what the core has and no header for tools declares ---- */

typedef struct {
   Before* before;
   After* after;
} SyscallTableEntry;

extern Bool VG_(am_notify_client_mmap)(Addr start, SizeT bytes, UInt protection, UInt flags, Int fd, Off64T offset);
extern Addr VG_(am_get_advisory_client_simple)(Addr start, SizeT bytes, Bool* ok);
extern void VG_(discard_translations)(Addr start, ULong bytes, const HChar* who);
extern void VG_(set_IP)(ThreadId thread, Addr at);
extern Addr VG_(brk_base);
extern Addr VG_(brk_limit);

SyscallTableEntry* __real_vgModuleLocal_get_linux_syscall_entry(UInt number);
SyscallTableEntry* __wrap_vgModuleLocal_get_linux_syscall_entry(UInt number);

static void as_core_does(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags)
{
   __real_vgModuleLocal_get_linux_syscall_entry(arguments->number)->before(thread, layout, arguments, status, flags);
}

/* ---- calls that the core holds its lock over, so that no thread runs that they wait for ---- */

static void before_blocking(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags)
{
   as_core_does(thread, layout, arguments, status, flags);
   if (status->what == STATUS_FOR_KERNEL)
      *flags |= CALL_MAY_BLOCK;
}

/* ---- mmap at an address that must be free, which the core takes for a hint ---- */

static void before_mmap(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags)
{
   Bool must_be_free = (arguments->at[3] & SYS_MAP_FIXED_NOREPLACE) != 0;
   if (must_be_free && arguments->at[1] != 0 && !placement_is_free(arguments->at[0], arguments->at[1])) {
      call_fail(status, VKI_EEXIST);
      return;
   }
   as_core_does(thread, layout, arguments, status, flags);
}

/* ---- a break that shrinks: the core would clear the memory, touching all of it, instead of unmapping it ---- */

static void before_brk(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags)
{
   Addr end = arguments->at[0];
   if (end > VG_(brk_base))
      placement_begin_break();
   if (end < VG_(brk_base) || end >= VG_(brk_limit)) {
      as_core_does(thread, layout, arguments, status, flags);
      return;
   }
   VG_(discard_translations)(end, VG_(brk_limit) - end, "brk");
   placement_shrink_break(end);
   call_succeed(status, end);
}

/* ---- calls that the core is too old for, and that neither map memory nor change processes or signals ---- */

static void before_unknown(__attribute__((unused)) ThreadId thread, __attribute__((unused)) const void* layout,
                           __attribute__((unused)) CallArguments* arguments, __attribute__((unused)) CallStatus* status,
                           UWord* flags)
{
   *flags |= CALL_MAY_BLOCK;
}

/* Numbers are the same on all architectures from 424 on; these are of Linux 5.1 to 6.17. */
static Bool is_plain(UInt number)
{
   return number == SYS_PIDFD_SEND_SIGNAL || (number >= SYS_OPEN_TREE && number <= SYS_PIDFD_OPEN)
          || (number >= SYS_OPENAT2 && number <= SYS_PIDFD_GETFD)
          || (number >= SYS_PROCESS_MADVISE && number <= SYS_FCHMODAT2)
          || (number >= SYS_FUTEX_WAKE_2 && number <= SYS_FILE_SETATTR);
}

/* ---- mremap in the two forms that the core refuses: a second mapping, and MREMAP_DONTUNMAP ---- */

static void before_mremap(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags)
{
   Addr old = arguments->at[0];
   SizeT old_bytes = VG_PGROUNDUP(arguments->at[1]);
   SizeT bytes = VG_PGROUNDUP(arguments->at[2]);
   UWord how = arguments->at[3];
   const NSegment* segment = VG_(am_find_nsegment)(old);
   Bool leaves_old = old_bytes == 0 || (how & SYS_MREMAP_DONTUNMAP);
   if (!leaves_old || bytes == 0 || segment == NULL || !VG_(am_is_valid_for_client)(old, old_bytes + 1, 0)) {
      as_core_does(thread, layout, arguments, status, flags);
      return;
   }
   UInt protection = (segment->hasR ? VKI_PROT_READ : 0) | (segment->hasW ? VKI_PROT_WRITE : 0)
                     | (segment->hasX ? VKI_PROT_EXEC : 0);
   Bool ok;
   Addr start = how & VKI_MREMAP_FIXED ? VG_(am_get_advisory_client_simple)(arguments->at[4], bytes, &ok)
                                       : placement_find(arguments->at[4], bytes, &ok);
   Word result = -VKI_ENOMEM;
   if (ok)
      result = sys_call6(__NR_mremap, old, arguments->at[1], bytes, how | VKI_MREMAP_FIXED | VKI_MREMAP_MAYMOVE,
                         start, 0);
   if (sys_failed(result)) {
      call_fail(status, -result);
      return;
   }
   call_succeed(status, result);
   if (VG_(am_notify_client_mmap)(result, bytes, protection, VKI_MAP_ANONYMOUS | VKI_MAP_PRIVATE, -1, 0))
      VG_(discard_translations)(result, bytes, "mremap");
}

/* ---- calls after which the program cannot go on under the engine ---- */

/* Why the program cannot go on under the engine after this call, or NULL. */
static const HChar* reason_to_leave(const CallArguments* arguments)
{
   static const HChar filters[] =
      "it filters its own system calls (seccomp), and the filter could end it for what the engine calls";
   switch (arguments->number) {
      case SYS_USERFAULTFD:
         return "it serves its own page faults (userfaultfd), for which the engine would wait with all threads";
      case SYS_SECCOMP:
         return arguments->at[0] == SYS_SECCOMP_SET_MODE_FILTER ? filters : NULL;
      case __NR_prctl:
         return arguments->at[0] == VKI_PR_SET_SECCOMP ? filters : NULL;
   }
   return NULL;
}

void call_leave(ThreadId thread, CallStatus* status, UWord* flags, const HChar* reason)
{
   native_leave(reason);
   VG_(set_IP)(thread, VG_(get_IP)(thread) - SYS_INSTRUCTION_BYTES);
   call_succeed(status, 0);
   *flags |= CALL_WRITES_NO_RESULT;
}

static void before_leaving(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags)
{
   const HChar* reason = reason_to_leave(arguments);
   SyscallTableEntry* entry = __real_vgModuleLocal_get_linux_syscall_entry(arguments->number);
   if (reason != NULL)
      call_leave(thread, status, flags, reason);
   else if (entry != NULL)
      entry->before(thread, layout, arguments, status, flags);
   else
      call_fail(status, VKI_ENOSYS);
}

/* Not after a call that was left to the program. */
static void after_leaving(ThreadId thread, CallArguments* arguments, CallStatus* status)
{
   SyscallTableEntry* entry = __real_vgModuleLocal_get_linux_syscall_entry(arguments->number);
   if (!native_is_near() && entry != NULL && entry->after != NULL)
      entry->after(thread, arguments, status);
}

/* ---- vfork ---- */

static void before_vfork(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags)
{
   vfork_do(thread, layout, arguments, status, flags, as_core_does, NULL);
}

/* ---- the limit of open files ---- */

static void before_limit(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags)
{
   if (!limits_before(arguments, status))
      as_core_does(thread, layout, arguments, status, flags);
}

/* The core's own, but not after a call that is done already. */
static void after_limit(ThreadId thread, CallArguments* arguments, CallStatus* status)
{
   SyscallTableEntry* entry = __real_vgModuleLocal_get_linux_syscall_entry(arguments->number);
   UWord resource = arguments->at[arguments->number == SYS_PRLIMIT64 ? 1 : 0];
   if (entry->after != NULL && resource != SYS_RLIMIT_NOFILE)
      entry->after(thread, arguments, status);
}

/* ---- entries of folders ---- */

static void after_entries(ThreadId thread, CallArguments* arguments, CallStatus* status)
{
   __real_vgModuleLocal_get_linux_syscall_entry(arguments->number)->after(thread, arguments, status);
   seen_entries(arguments, status);
}

/* ---- the table ---- */

SyscallTableEntry* __wrap_vgModuleLocal_get_linux_syscall_entry(UInt number)
{
   static SyscallTableEntry plain = { before_unknown, NULL };
   static SyscallTableEntry limiting = { before_limit, after_limit };
   static SyscallTableEntry mapping = { before_mmap, NULL };
   static SyscallTableEntry shrinking = { before_brk, NULL };
   static SyscallTableEntry remapping = { before_mremap, NULL };
   static SyscallTableEntry leaving = { before_leaving, after_leaving };
   static SyscallTableEntry borrowing = { before_vfork, NULL };
   static SyscallTableEntry copying = { clone3_before, NULL };
   static SyscallTableEntry blocking = { before_blocking, NULL };
   static SyscallTableEntry listing = { as_core_does, after_entries };
   SyscallTableEntry* entry = __real_vgModuleLocal_get_linux_syscall_entry(number);
   switch (number) {
      case __NR_getrlimit:
      case __NR_setrlimit:
      case SYS_PRLIMIT64: return entry == NULL ? NULL : &limiting;
      case __NR_mmap: return &mapping;
      case __NR_getdents:
      case __NR_getdents64: return &listing;
      case __NR_mremap: return &remapping;
      case __NR_brk: return &shrinking;
      case __NR_vfork: return &borrowing;
      case SYS_CLONE3: return &copying;
      case __NR_shmget: return &plain;   /* the core leaves SHM_HUGETLB out */
      case SYS_USERFAULTFD:
      case SYS_SECCOMP:
      case __NR_prctl: return &leaving;
      case SYS_IO_URING_ENTER:
         if (entry == NULL)
            return NULL;
         blocking.after = entry->after;
         return &blocking;
   }
   return entry == NULL && is_plain(number) ? &plain : entry;
}
