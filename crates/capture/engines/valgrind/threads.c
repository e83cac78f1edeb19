/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The core's table of threads, as large as the program needs it.

At the start, the core makes a table of --max-threads entries and writes to all of it, about 7 KiB per entry, and panics
if it is full. Here the table has its full size only in addresses: entries are initialised on demand, as copies of an
unused one. Nor do the core's own stacks, one per thread, take their whole memory at once. The linker (--wrap) redirects
the calls. At the limit the program leaves the engine. */

#include "engine.h"
#include "handlers.h"
#include "sys.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"

/* In the core library; no header for tools declares them. */
extern UInt VG_N_THREADS;
extern void* VG_(get_ThreadState)(ThreadId thread);
extern Bool VG_(is_valid_tid)(ThreadId thread);
extern Long VG_(clo_valgrind_stacksize);

void __real_vgPlain_init_Threads(void);
void __wrap_vgPlain_init_Threads(void);
void __real_vgPlain_client_syscall(ThreadId thread, UInt how);
void __wrap_vgPlain_client_syscall(ThreadId thread, UInt how);
ThreadId __real_vgPlain_alloc_ThreadState(void);
ThreadId __wrap_vgPlain_alloc_ThreadState(void);
void* __real_vgPlain_am_alloc_VgStack(Addr* stack_pointer);
void* __wrap_vgPlain_am_alloc_VgStack(Addr* stack_pointer);

Before __real_vgSysWrap_linux_sys_clone_before;
Before __wrap_vgSysWrap_linux_sys_clone_before;

#define CLONE_THREAD 0x10000
/* How the core classifies clones. */
#define THREAD_PARTS (VKI_CLONE_VM | VKI_CLONE_FS | VKI_CLONE_FILES)
#define SHARED_PARTS (THREAD_PARTS | VKI_CLONE_VFORK)
#define ENTRIES_AT_FIRST 64
#define ENTRIES_MORE 64
#define MADV_DONTNEED 4
/* The core checks the lowest words of a stack to see whether it was used up. */
#define STACK_KEPT_BYTES (4 * VKI_PAGE_SIZE)

static UInt most;               /* capacity of the table */
static UChar* unused;           /* a copy of an unused entry; NULL: not known */
static SizeT entry_bytes;
static SizeT number_at;         /* offset of its own number in an entry */

/* ---- the table ---- */

void __wrap_vgPlain_init_Threads(void)
{
   __real_vgPlain_init_Threads();
   most = VG_N_THREADS;
   if (most > ENTRIES_AT_FIRST)
      VG_N_THREADS = ENTRIES_AT_FIRST;
}

/* Unused entries differ only in their numbers; otherwise the table stays as it is. */
static void learn_entry(void)
{
   const UChar* last = VG_(get_ThreadState)(VG_N_THREADS - 1);
   const UChar* other = VG_(get_ThreadState)(VG_N_THREADS - 2);
   UInt found = 0;
   entry_bytes = last - other;
   for (SizeT at = 0; at < entry_bytes; at += sizeof(UInt)) {
      if (VG_(memcmp)(last + at, other + at, sizeof(UInt)) == 0)
         continue;
      number_at = at;
      found++;
   }
   if (found != 1 || *(const UInt*)(last + number_at) != VG_N_THREADS - 1)
      return;
   unused = VG_(malloc)("pagewalk.threads", entry_bytes);
   VG_(memcpy)(unused, last, entry_bytes);
}

/* The first call makes the core create its other, small table of threads at full size. */
void __wrap_vgPlain_client_syscall(ThreadId thread, UInt how)
{
   static Bool is_first = True;
   UInt entries = VG_N_THREADS;
   if (!is_first || most <= entries) {
      __real_vgPlain_client_syscall(thread, how);
      return;
   }
   is_first = False;
   learn_entry();
   VG_N_THREADS = most;
   __real_vgPlain_client_syscall(thread, how);
   VG_N_THREADS = entries;
}

static Bool has_free_entry(void)
{
   for (ThreadId thread = 1; thread < VG_N_THREADS; thread++)
      if (!VG_(is_valid_tid)(thread))
         return True;
   return False;
}

static Bool may_grow(void)
{
   return unused != NULL && VG_N_THREADS < most;
}

ThreadId __wrap_vgPlain_alloc_ThreadState(void)
{
   for (UInt more = ENTRIES_MORE; !has_free_entry() && may_grow() && more > 0; more--) {
      ThreadId thread = VG_N_THREADS++;
      UChar* entry = (UChar*)VG_(get_ThreadState)(1) + (thread - 1) * entry_bytes;
      VG_(memcpy)(entry, unused, entry_bytes);
      *(UInt*)(entry + number_at) = thread;
   }
   return __real_vgPlain_alloc_ThreadState();
}

void __wrap_vgSysWrap_linux_sys_clone_before(ThreadId thread, const void* layout, CallArguments* arguments,
                                             CallStatus* status, UWord* flags)
{
   HChar reason[160];
   Int* told = arguments->at[0] & (VKI_CLONE_PARENT_SETTID | SYS_CLONE_PIDFD) ? (Int*)arguments->at[2] : NULL;
   switch (arguments->at[0] & SHARED_PARTS) {
      case THREAD_PARTS:
         if (!(arguments->at[0] & CLONE_THREAD) || has_free_entry() || may_grow())
            break;
         VG_(snprintf)(reason, sizeof reason,
                       "it has %u threads, as many as the engine has room for (--max-threads N makes more)",
                       VG_N_THREADS - 1);
         call_leave(thread, status, flags, reason);
         return;
      case VKI_CLONE_VM | VKI_CLONE_VFORK:
         vfork_do(thread, layout, arguments, status, flags, __real_vgSysWrap_linux_sys_clone_before, told);
         return;
      case VKI_CLONE_VFORK:
      case 0: break;
      default:
         VG_(snprintf)(reason, sizeof reason,
                       "it begins a process that shares a part of it (clone with flags 0x%lx), neither a thread nor a "
                       "copy, which the engine cannot follow",
                       arguments->at[0]);
         call_leave(thread, status, flags, reason);
         return;
   }
   __real_vgSysWrap_linux_sys_clone_before(thread, layout, arguments, status, flags);
}

/* Fields of clone3 beyond the arguments of clone. */
typedef struct {
   ULong flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_bytes, thread_pointer, set_tid, set_tid_count,
      cgroup;
} CloneArguments;

#define CLONE_ARGUMENTS_LEAST (8 * sizeof(ULong))

/* Handled as clone where that is equivalent. For threads and children that borrow memory, the call does not exist, as
   on Linux before 5.3 and in many containers, and the C library falls back to clone. */
void clone3_before(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags)
{
   CloneArguments given;
   SizeT bytes = arguments->at[1] < sizeof given ? arguments->at[1] : sizeof given;
   Int error = arguments->at[1] < CLONE_ARGUMENTS_LEAST ? VKI_EINVAL
               : arguments->at[1] > VKI_PAGE_SIZE ? VKI_E2BIG
               : !VG_(am_is_valid_for_client)(arguments->at[0], bytes, VKI_PROT_READ) ? VKI_EFAULT : SYS_ENOSYS;
   call_fail(status, error);
   if (error != SYS_ENOSYS)
      return;
   VG_(memset)(&given, 0, sizeof given);
   VG_(memcpy)(&given, (const void*)arguments->at[0], bytes);
   if ((given.exit_signal & ~0xffULL) != 0 || (given.flags & 0xff) != 0) {
      call_fail(status, VKI_EINVAL);
      return;
   }
   Bool tells_twice = (given.flags & SYS_CLONE_PIDFD) && (given.flags & VKI_CLONE_PARENT_SETTID);
   if ((given.flags & (VKI_CLONE_VM | VKI_CLONE_FS | VKI_CLONE_FILES)) || given.flags > 0xffffffff || tells_twice
       || given.set_tid_count != 0 || given.stack != 0 || arguments->at[1] > sizeof given)
      return;
   CallArguments older = { .number = __NR_clone };
   older.at[0] = given.flags | given.exit_signal;
   older.at[2] = given.flags & SYS_CLONE_PIDFD ? given.pidfd : given.parent_tid;
   older.at[3] = given.child_tid;
   older.at[4] = given.thread_pointer;
   status->what = STATUS_FOR_KERNEL;
   __wrap_vgSysWrap_linux_sys_clone_before(thread, layout, &older, status, flags);
}

/* ---- stacks ---- */

/* The core has filled the stack with a pattern, to know later how much was used. */
void* __wrap_vgPlain_am_alloc_VgStack(Addr* stack_pointer)
{
   void* stack = __real_vgPlain_am_alloc_VgStack(stack_pointer);
   Addr end = VG_PGROUNDDN(*stack_pointer);
   Addr start = VG_PGROUNDUP(*stack_pointer) - VG_(clo_valgrind_stacksize) + STACK_KEPT_BYTES;
   if (stack != NULL && start < end)
      sys_call3(__NR_madvise, start, end - start, MADV_DONTNEED);
   return stack;
}
