/* SPDX-License-Identifier: GPL-2.0-or-later */
/* System calls that the core handles differently from the kernel.

The core looks up its handlers in a table; the linker (--wrap) makes it ask here first. */

#include "engine.h"
#include "handlers.h"
#include "sys.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_machine.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

/* ---- parts of the core that no header for tools declares ---- */

typedef struct {
   Before* before;
   After* after;
} SyscallTableEntry;

extern Addr VG_(am_get_advisory_client_simple)(Addr start, SizeT bytes, Bool* ok);
extern void VG_(set_IP)(ThreadId thread, Addr at);

SyscallTableEntry* __real_vgModuleLocal_get_linux_syscall_entry(UInt number);
SyscallTableEntry* __wrap_vgModuleLocal_get_linux_syscall_entry(UInt number);

static void as_core_does(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags)
{
   __real_vgModuleLocal_get_linux_syscall_entry(arguments->number)->before(thread, layout, arguments, status, flags);
}

/* ---- calls during which the core holds its lock, so that threads that they wait for cannot run ---- */

static void before_blocking(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags)
{
   as_core_does(thread, layout, arguments, status, flags);
   if (status->what == STATUS_FOR_KERNEL)
      *flags |= CALL_MAY_BLOCK;
}

/* ---- mmap at an address that must be free, which the core treats as a hint ---- */

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

/* ---- calls too new for the core that neither map memory nor affect processes or signals ---- */

static void before_unknown(__attribute__((unused)) ThreadId thread, __attribute__((unused)) const void* layout,
                           __attribute__((unused)) CallArguments* arguments, __attribute__((unused)) CallStatus* status,
                           UWord* flags)
{
   *flags |= CALL_MAY_BLOCK;
}

/* Older ones that the core leaves out. Numbers are the same on all architectures from 424 on; these are of Linux 5.1 to 6.17. */
static Bool is_plain(UInt number)
{
   switch (number) {
      case __NR_ustat:
      case __NR_sysfs:
      case __NR_setdomainname:
      case __NR_remap_file_pages:
      case __NR_migrate_pages:
      case SYS_MLOCK2:
      case SYS_UPROBE:
      case SYS_IO_PGETEVENTS: return True;
   }
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
   Bool is_mapped = segment != NULL && VG_(am_is_valid_for_client)(old, 1, 0);
   if (old_bytes == 0 && bytes != 0 && !is_mapped && old % VKI_PAGE_SIZE == 0 && (how & ~VKI_MREMAP_MAYMOVE) == 0) {
      call_fail(status, VKI_EFAULT);
      return;
   }
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

#define FILTER_BYTES 16   /* of what describes a filter */
#define LDT_ENTRY_BYTES 16

/* Programs pass an invalid filter address to test for seccomp. */
static Bool is_filter(Bool is_given, Bool is_strict, Addr filter)
{
   return is_strict || (is_given && VG_(am_is_valid_for_client)(filter, FILTER_BYTES, VKI_PROT_READ));
}

/* Why the program cannot continue under the engine after this call, or NULL. */
static const HChar* reason_to_leave(const CallArguments* arguments)
{
   static const HChar filters[] =
      "it filters its own system calls (seccomp), and the filter could end it for what the engine calls";
   switch (arguments->number) {
      case SYS_USERFAULTFD:
         return "it serves its own page faults (userfaultfd), for which the engine would wait with all threads";
      case SYS_SECCOMP:
         return is_filter(arguments->at[0] == SYS_SECCOMP_SET_MODE_FILTER, arguments->at[0] == 0, arguments->at[2])
                   ? filters : NULL;
      case __NR_prctl:
         if (arguments->at[0] == SYS_PR_SET_TSC && arguments->at[1] == SYS_PR_TSC_SIGSEGV)
            return "it forbids itself the processor's clock (PR_SET_TSC), which the engine reads";
         return arguments->at[0] == VKI_PR_SET_SECCOMP
                   && is_filter(arguments->at[1] == SYS_SECCOMP_MODE_FILTER, arguments->at[1] == 1, arguments->at[2])
                   ? filters : NULL;
      case __NR_modify_ldt:
         return (arguments->at[0] == 1 || arguments->at[0] == 0x11) && arguments->at[2] == LDT_ENTRY_BYTES
                   ? "it defines segments of its own (modify_ldt), of which the engine knows nothing" : NULL;
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
      before_unknown(thread, layout, arguments, status, flags);
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

/* The core's own handler, but not after a call that is already done. */
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

/* ---- calls whose arrays the core reads at whatever length is claimed ---- */

/* More than a process may have open. */
#define POLLED_MAX (1UL << 20)
/* The kernel's UIO_MAXIOV. */
#define MESSAGES_MAX 1024

static void before_poll(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags)
{
   if ((UInt)arguments->at[1] > POLLED_MAX)
      before_unknown(thread, layout, arguments, status, flags);
   else
      as_core_does(thread, layout, arguments, status, flags);
}

static void before_batch(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags)
{
   if ((UInt)arguments->at[2] > MESSAGES_MAX)
      arguments->at[2] = MESSAGES_MAX;
   as_core_does(thread, layout, arguments, status, flags);
}

/* ---- calls with a number that the kernel checks before the core does ---- */

static void before_fcntl(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags)
{
   if ((Int)arguments->at[0] < 0)
      before_unknown(thread, layout, arguments, status, flags);
   else
      as_core_does(thread, layout, arguments, status, flags);
}

static void before_sigaction(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status,
                             UWord* flags)
{
   if (arguments->at[3] != sizeof(vki_sigset_t))
      call_fail(status, VKI_EINVAL);
   else
      as_core_does(thread, layout, arguments, status, flags);
}

/* ---- rights of memory, and the processor's features ---- */

/* Whether the kernel has protection keys, of which the core has none. */
static Bool has_keys(void)
{
   UInt eax = 7, ebx, ecx = 0, edx;
   __asm__ volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
   return (ecx & 1 << 4) != 0;
}

/* Whether the program has freed key 0, the only one it has. Memory keeps it. Natively it could be had again. */
static Bool is_key_free;

static void before_pkey_free(__attribute__((unused)) ThreadId thread, __attribute__((unused)) const void* layout,
                             CallArguments* arguments, CallStatus* status, __attribute__((unused)) UWord* flags)
{
   if ((Int)arguments->at[0] != 0 || is_key_free) {
      call_fail(status, VKI_EINVAL);
      return;
   }
   is_key_free = True;
   call_succeed(status, 0);
}

/* All memory has key 0. The core does not check for impossible addresses and rights. */
static void before_mprotect(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags)
{
   UInt grows = VKI_PROT_GROWSDOWN | VKI_PROT_GROWSUP;
   Bool has_key = arguments->number == SYS_PKEY_MPROTECT && (Int)arguments->at[3] != -1;
   if (has_key && !has_keys()) {   /* nothing is changed */
      before_unknown(thread, layout, arguments, status, flags);
      return;
   }
   if (has_key && (Int)arguments->at[3] == 0 && !is_key_free)
      arguments->at[3] = ~0UL;
   if ((arguments->at[2] & grows) == grows || arguments->at[0] % VKI_PAGE_SIZE != 0)
      call_fail(status, VKI_EINVAL);
   else
      as_core_does(thread, layout, arguments, status, flags);
}

#define RSEQ_BYTES 32

/* The kernel could not restart the program's sequences, since it does not know where the program is; so there are none,
   as without CONFIG_RSEQ. Unregistering without registering is still an error. */
static void before_rseq(__attribute__((unused)) ThreadId thread, __attribute__((unused)) const void* layout,
                        CallArguments* arguments, CallStatus* status, __attribute__((unused)) UWord* flags)
{
   Bool registers = arguments->at[0] != 0 && arguments->at[0] % RSEQ_BYTES == 0 && (UInt)arguments->at[1] >= RSEQ_BYTES
                    && (UInt)arguments->at[2] == 0;
   call_fail(status, registers ? SYS_ENOSYS : VKI_EINVAL);
}

/* Uses of arch_prctl that change nothing for the engine: enabling CPUID, and extended state. */
static Bool is_harmless(UWord what)
{
   return what == SYS_ARCH_GET_CPUID || what == SYS_ARCH_SET_CPUID
          || (what >= SYS_ARCH_GET_XCOMP_SUPP && what <= SYS_ARCH_REQ_XCOMP_GUEST_PERM);
}

static void before_arch_prctl(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status,
                              UWord* flags)
{
   if (arguments->at[0] == SYS_ARCH_SET_CPUID && arguments->at[1] == 0)
      call_leave(thread, status, flags, "it forbids itself CPUID, which the engine does in its stead");
   else if (is_harmless(arguments->at[0]))
      before_unknown(thread, layout, arguments, status, flags);
   else
      as_core_does(thread, layout, arguments, status, flags);
}

/* ---- the table ---- */

/* An entry of ours, with the core's work afterwards; NULL if it has none. */
static SyscallTableEntry* with_after(SyscallTableEntry* own, const SyscallTableEntry* of_core)
{
   if (of_core == NULL)
      return NULL;
   own->after = of_core->after;
   return own;
}

static SyscallTableEntry* find_entry(UInt number)
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
   static SyscallTableEntry polling = { before_poll, NULL };
   static SyscallTableEntry batching = { before_batch, NULL };
   static SyscallTableEntry controlling = { before_fcntl, NULL };
   static SyscallTableEntry handling = { before_sigaction, NULL };
   static SyscallTableEntry protecting = { before_mprotect, NULL };
   static SyscallTableEntry freeing = { before_pkey_free, NULL };
   static SyscallTableEntry registering = { before_rseq, NULL };
   static SyscallTableEntry processor = { before_arch_prctl, NULL };
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
      case __NR__sysctl:                 /* which the kernel has no more */
      case __NR_shmget: return &plain;   /* the core leaves SHM_HUGETLB out */
      case SYS_USERFAULTFD:
      case SYS_SECCOMP:
      case __NR_modify_ldt:
      case __NR_prctl: return &leaving;
      case __NR_arch_prctl: return with_after(&processor, entry);
      case __NR_fcntl: return with_after(&controlling, entry);
      case __NR_rt_sigaction: return with_after(&handling, entry);
      case SYS_RSEQ: return &registering;
      case SYS_PKEY_ALLOC: return has_keys() ? entry : &plain;
      case SYS_PKEY_FREE: return has_keys() ? &freeing : entry;
      case __NR_mprotect:
      case SYS_PKEY_MPROTECT: return with_after(&protecting, entry);
      case __NR_poll:
      case __NR_ppoll: return with_after(&polling, entry);
      case SYS_RECVMMSG:
      case SYS_SENDMMSG: return with_after(&batching, entry);
      case SYS_IO_URING_ENTER: return with_after(&blocking, entry);
   }
   return entry == NULL && is_plain(number) ? &plain : entry;
}

static void before_chosen(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags)
{
   seen_path(arguments);
   find_entry(arguments->number)->before(thread, layout, arguments, status, flags);
}

static void before_any(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags)
{
   CallArguments given = *arguments;
   guard_before(before_chosen, thread, layout, arguments, status, flags);
   if (status->what == STATUS_FOR_KERNEL && (*flags & CALL_MAY_BLOCK))
      arguments_keep(thread, &given, arguments);
}

static void after_any(ThreadId thread, CallArguments* arguments, CallStatus* status)
{
   After* after = find_entry(arguments->number)->after;
   if (after != NULL)
      guard_after(after, thread, arguments, status);
}

SyscallTableEntry* __wrap_vgModuleLocal_get_linux_syscall_entry(UInt number)
{
   static SyscallTableEntry any = { before_any, after_any };
   return find_entry(number) == NULL ? NULL : &any;
}
