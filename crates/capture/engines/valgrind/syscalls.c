/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the program's system calls do to its address space and its processes.

   Read from the arguments and the result of calls that succeeded, so the stream says what the kernel did, not what
   Valgrind planned. The effect comes first, then the SYSCALL event itself. */

#include "engine.h"
#include "sys.h"
#include "wire.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

/* In the core library; no header for tools declares it. */
extern Addr VG_(brk_base);

static Int exit_status = -1;
static Bool has_advised;       /* on huge pages */
static Addr break_end;         /* rounded up to a page; 0: not asked yet */
static SizeT detached_bytes;   /* size of the segment that shmdt, just begun, will unmap */

Int syscall_exit_status(void)
{
   return exit_status;
}

Bool syscall_has_advised(void)
{
   return has_advised;
}

void syscall_forget_exits(void)
{
   exit_status = -1;
}

/* ---- before ---- */

static SizeT shared_segment_bytes(Addr start)
{
   const NSegment* segment = VG_(am_find_nsegment)(start);
   return segment != NULL && segment->kind == SkShmC ? segment->end + 1 - segment->start : 0;
}

void syscall_before(ThreadId thread, UInt number, UWord* args, UInt count)
{
   event_switch_to(thread);
   switch (number) {
      case __NR_exit:   /* of one thread */
         if (threads_alive() > 1)
            break;
         /* fall through */
      case __NR_exit_group: exit_status = args[0] & 0xff; break;
      case __NR_shmdt: detached_bytes = shared_segment_bytes(args[0]); break;
   }
   /* The program may sleep now: let the reader have everything up to here. */
   ring_publish();
}

/* ---- after ---- */

/* Whether this kernel, by its release, is Linux 6.7 or later: mm.h there makes VM_NOHUGEPAGE of MAP_STACK. */
static Bool stacks_are_advised(void)
{
   static Int known = -1;
   HChar names[6][65];   /* the kernel's struct new_utsname, the third of which is its release */
   if (known < 0 && sys_failed(sys_call3(__NR_uname, (UWord)names, 0, 0)))
      known = 0;
   if (known < 0) {
      HChar* at;
      Long major = VG_(strtoll10)(names[2], &at);
      Long minor = *at == '.' ? VG_(strtoll10)(at + 1, NULL) : 0;
      known = major > 6 || (major == 6 && minor >= 7);
   }
   return known;
}

static void after_mmap(Addr start, const UWord* args)
{
   UInt flags = args[3];
   Bool shared = (flags & (VKI_MAP_SHARED | VKI_MAP_PRIVATE)) != VKI_MAP_PRIVATE;
   SizeT bytes = VG_PGROUNDUP(args[1]);
   UInt protection = args[2] & (VKI_PROT_READ | VKI_PROT_WRITE | VKI_PROT_EXEC);
   if (flags & VKI_MAP_ANONYMOUS) {
      event_map(start, bytes, protection, shared ? WIRE_SHARED_ANONYMOUS : WIRE_ANONYMOUS, 0, "");
      /* What is mapped as a stack gets no huge pages: the flag is advice. */
      if ((flags & SYS_MAP_STACK) && stacks_are_advised()) {
         event_words(WIRE_ADVISE, 3, (ULong[]){ start, bytes, SYS_MADV_NOHUGEPAGE });
         has_advised = True;
      }
      return;
   }
   const NSegment* segment = VG_(am_find_nsegment)(start);
   const HChar* path = segment == NULL ? NULL : VG_(am_get_filename)(segment);
   event_map(start, bytes, protection, shared ? WIRE_SHARED_FILE : WIRE_FILE, args[5], path == NULL ? "" : path);
}

static void after_mremap(Addr start, const UWord* args)
{
   SizeT old_bytes = VG_PGROUNDUP(args[1]);
   SizeT new_bytes = VG_PGROUNDUP(args[2]);
   if (old_bytes == 0)   /* a second mapping of shared memory */
      event_map(start, new_bytes, VKI_PROT_READ | VKI_PROT_WRITE, WIRE_SHARED_ANONYMOUS, 0, "");
   else
      event_words(WIRE_REMAP, 4, (ULong[]){ args[0], old_bytes, start, new_bytes });
}

static void after_brk(Addr result)
{
   Addr end = VG_PGROUNDUP(result);
   if (break_end == 0)
      break_end = VG_PGROUNDUP(VG_(brk_base));
   if (end != break_end)
      event_words(WIRE_BREAK, 2, (ULong[]){ break_end, end });
   break_end = end;
}

static void after_shmat(Addr start, UInt flags)
{
   UInt protection = flags & SYS_SHM_RDONLY ? VKI_PROT_READ : VKI_PROT_READ | VKI_PROT_WRITE;
   event_map(start, shared_segment_bytes(start), protection, WIRE_SHARED_ANONYMOUS, 0, "");
}

/* The effect of a call that succeeded with `result`. */
static void after_success(UInt number, const UWord* args, UWord result)
{
   switch (number) {
      case __NR_mmap: after_mmap(result, args); break;
      case __NR_mremap: after_mremap(result, args); break;
      case __NR_brk: after_brk(result); break;
      case __NR_shmat: after_shmat(result, args[2]); break;
      case __NR_shmdt: event_words(WIRE_UNMAP, 2, (ULong[]){ args[0], detached_bytes }); break;
      case __NR_munmap: event_words(WIRE_UNMAP, 2, (ULong[]){ args[0], VG_PGROUNDUP(args[1]) }); break;
      case __NR_madvise:
         has_advised |= args[2] == SYS_MADV_HUGEPAGE || args[2] == SYS_MADV_NOHUGEPAGE;
         event_words(WIRE_ADVISE, 3, (ULong[]){ args[0], VG_PGROUNDUP(args[1]), args[2] });
         break;
      case __NR_mprotect:
      case SYS_PKEY_MPROTECT:
         event_words(WIRE_PROTECT, 3, (ULong[]){ args[0], VG_PGROUNDUP(args[1]), args[2] & 7 });
         break;
      case __NR_clone:
         if (!(args[0] & VKI_CLONE_THREAD) && result != 0)
            event_words(WIRE_FORK, 1, (ULong[]){ result });
         break;
      case __NR_fork:
      case __NR_vfork:
         if (result != 0)
            event_words(WIRE_FORK, 1, (ULong[]){ result });
         break;
   }
}

void syscall_after(ThreadId thread, UInt number, UWord* args, UInt count, SysRes result)
{
   event_switch_to(thread);
   /* Advice holds for what is mapped of a range, also where that is not all and an error says so. */
   if (!sr_isError(result) || (number == __NR_madvise && sr_Err(result) == VKI_ENOMEM))
      after_success(number, args, sr_Res(result));
   Long value = sr_isError(result) ? -(Long)sr_Err(result) : (Long)sr_Res(result);
   event_words(WIRE_SYSCALL, 2, (ULong[]){ number, value });
}
