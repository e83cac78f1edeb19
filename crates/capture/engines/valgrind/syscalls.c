/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reports what the program's system calls do to its address space and its processes.

This is derived from the arguments and results of successful calls, so the stream says what the kernel did, not what
Valgrind planned. The effect comes first, then the SYSCALL event. */

#include "engine.h"
#include "sys.h"
#include "wire.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_machine.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

#define HUGE_BYTES (2ULL << 20)   /* the smallest huge page */

static Int exit_status = -1;
static Bool has_advised;       /* on huge pages */
static Bool has_hugetlb;
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

Bool syscall_has_hugetlb(void)
{
   return has_hugetlb;
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

/* ---- pages of hugetlb ---- */

/* The host's default size, once known. */
static ULong default_huge_bytes(void)
{
   static ULong bytes;
   HChar text[4096];
   Int fd = bytes == 0 ? VG_(fd_open)("/proc/meminfo", VKI_O_RDONLY, 0) : -1;
   if (fd < 0)
      return bytes == 0 ? 2ULL << 20 : bytes;
   Int used = VG_(read)(fd, text, sizeof text - 1);
   VG_(close)(fd);
   text[used > 0 ? used : 0] = '\0';
   const HChar* line = VG_(strstr)(text, "Hugepagesize:");
   line = line == NULL ? NULL : line + VG_(strlen)("Hugepagesize:");
   bytes = line == NULL ? 2ULL << 20 : VG_(strtoll10)(line + VG_(strspn)(line, " "), NULL) * 1024;
   return bytes;
}

/* The page size of a file, 0 unless it is on hugetlbfs. */
static ULong file_page_bytes(Int fd)
{
   Long about[15];   /* struct statfs: the kind of file system, the size of its blocks, … */
   if (sys_failed(sys_call3(__NR_fstatfs, fd, (UWord)about, 0)) || about[0] != SYS_HUGETLBFS_MAGIC)
      return 0;
   return about[1];
}

static ULong mmap_page_bytes(UInt flags, Int fd)
{
   if (!(flags & VKI_MAP_ANONYMOUS))
      return file_page_bytes(fd);
   if (!(flags & SYS_MAP_HUGETLB))
      return 0;
   UInt log2 = flags >> SYS_MAP_HUGE_SHIFT & SYS_MAP_HUGE_MASK;
   return log2 == 0 ? default_huge_bytes() : 1ULL << log2;
}

/* The page size of a shared segment. The kernel reports it only for mappings. */
static ULong segment_page_bytes(Int id)
{
   Word at = sys_call3(__NR_shmat, id, 0, SYS_SHM_RDONLY);
   if (sys_failed(at))
      return 0;
   ULong bytes = maps_page_bytes(at);
   sys_call3(__NR_shmdt, at, 0, 0);
   return bytes;
}

/* ---- where the core should put what a call maps ---- */

static void expect_mmap(ThreadId thread, const UWord* args)
{
   UInt flags = args[3];
   Int fd = flags & VKI_MAP_ANONYMOUS ? -1 : (Int)args[4];
   PlacementCall call = { .flags = flags, .offset = fd < 0 ? 0 : args[5], .page_bytes = mmap_page_bytes(flags, fd) };
   placement_learn_file(fd, &call);
   if (args[0] == 0)
      call.planned = places_address(VG_(get_IP)(thread), fd, args[1], &call);
   placement_expect(&call);
}

static void expect_mremap(const UWord* args)
{
   const NSegment* segment = VG_(am_find_nsegment)(args[0]);
   PlacementCall call = { .flags = VKI_MAP_PRIVATE };
   if (segment != NULL && segment->kind == SkFileC) {
      call.device = segment->dev;
      call.offset = segment->offset + (args[0] - segment->start);
   } else {
      /* Asking is slow, so only where it matters. */
      Bool shared = args[2] >= HUGE_BYTES && args[2] > args[1] && maps_is_shared(args[0]);
      call.flags = VKI_MAP_ANONYMOUS | (shared ? VKI_MAP_SHARED : VKI_MAP_PRIVATE);
   }
   placement_expect(&call);
}

static void expect_shmat(const UWord* args)
{
   placement_expect(&(PlacementCall){
      .flags = VKI_MAP_SHARED | VKI_MAP_ANONYMOUS, .page_bytes = segment_page_bytes(args[0]) });
}

void syscall_before(ThreadId thread, UInt number, UWord* args, UInt count)
{
   arguments_forget(thread);
   event_switch_to(thread);
   switch (number) {
      case __NR_mmap: expect_mmap(thread, args); break;
      case __NR_mremap: expect_mremap(args); break;
      case __NR_mprotect: faults_before_mprotect(thread, args[0], args[2]); break;
      case __NR_shmat: expect_shmat(args); break;
      case __NR_exit:   /* of one thread */
         if (threads_alive() > 1)
            break;
         /* fall through */
      case __NR_exit_group:
         exit_status = args[0] & 0xff;
         vfork_send();
         break;
      case __NR_shmdt: detached_bytes = shared_segment_bytes(args[0]); break;
   }
   /* The program may sleep now: show the reader everything up to here. */
   ring_publish();
}

/* ---- after ---- */

/* Whether this kernel, by its release, is Linux 6.7 or later, where mm.h makes MAP_STACK imply VM_NOHUGEPAGE. */
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

/* The kernel rounds a hugetlb mapping up to its pages, unknown to the core. */
static void own_rest(const UWord* args, Addr start, Addr end)
{
   if (end > start)
      VG_(am_notify_client_mmap)(start, end - start, args[2], args[3], args[4], args[5] + (end - start));
}

static void after_mmap(Addr start, const UWord* args)
{
   UInt flags = args[3];
   Bool shared = (flags & (VKI_MAP_SHARED | VKI_MAP_PRIVATE)) != VKI_MAP_PRIVATE;
   ULong page_bytes = mmap_page_bytes(flags, args[4]);
   SizeT bytes = VG_ROUNDUP(args[1], page_bytes == 0 ? VKI_PAGE_SIZE : page_bytes);
   UInt protection = args[2] & (VKI_PROT_READ | VKI_PROT_WRITE | VKI_PROT_EXEC);
   MapEvent map = { start, bytes, protection, shared ? WIRE_SHARED_ANONYMOUS : WIRE_ANONYMOUS, page_bytes, 0 };
   if (page_bytes != 0) {
      has_hugetlb = True;
      own_rest(args, start + VG_PGROUNDUP(args[1]), start + bytes);
   }
   if (flags & VKI_MAP_ANONYMOUS) {
      event_map(&map, "");
      /* Stack mappings get no huge pages: the flag acts as advice. */
      if ((flags & SYS_MAP_STACK) && stacks_are_advised()) {
         event_words(WIRE_ADVISE, 3, (ULong[]){ start, bytes, SYS_MADV_NOHUGEPAGE });
         has_advised = True;
      }
      return;
   }
   aliases_after_mmap(start, shared, args[4]);
   const NSegment* segment = VG_(am_find_nsegment)(start);
   const HChar* path = segment == NULL ? NULL : VG_(am_get_filename)(segment);
   map.kind = shared ? WIRE_SHARED_FILE : WIRE_FILE;
   map.offset = args[5];
   event_map(&map, path == NULL ? "" : path);
}

static void after_mremap(Addr start, const UWord* args)
{
   SizeT old_bytes = VG_PGROUNDUP(args[1]);
   SizeT new_bytes = VG_PGROUNDUP(args[2]);
   MapEvent map = { start, new_bytes, VKI_PROT_READ | VKI_PROT_WRITE, WIRE_SHARED_ANONYMOUS, 0, 0 };
   if (old_bytes == 0) {   /* a second mapping of shared memory */
      event_map(&map, "");
      return;
   }
   event_words(WIRE_REMAP, 4, (ULong[]){ args[0], old_bytes, start, new_bytes });
   if (args[3] & SYS_MREMAP_DONTUNMAP) {   /* what is left is empty */
      map = (MapEvent){ args[0], old_bytes, map.protection, WIRE_ANONYMOUS, 0, 0 };
      event_map(&map, "");
   }
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
   MapEvent map = { start, shared_segment_bytes(start), protection, WIRE_SHARED_ANONYMOUS, maps_page_bytes(start), 0 };
   has_hugetlb |= map.page_bytes != 0;
   event_map(&map, "");
}

/* Whether this process forbids huge pages: 0 no, 1 yes, 2 except where advised. */
static UInt thp_disable_mode(Bool disabled, UWord flags)
{
   return !disabled ? 0 : flags & SYS_PR_THP_EXCEPT_ADVISED ? 2 : 1;
}

void syscall_announce_thp(void)
{
   Word answer = sys_call6(__NR_prctl, SYS_PR_GET_THP_DISABLE, 0, 0, 0, 0, 0);
   if (answer > 0)
      event_words(WIRE_THP_DISABLE, 1, (ULong[]){ thp_disable_mode(True, answer) });
}

static void after_prctl(const UWord* args)
{
   if (args[0] == SYS_PR_SET_THP_DISABLE)
      event_words(WIRE_THP_DISABLE, 1, (ULong[]){ thp_disable_mode(args[1] != 0, args[2]) });
}

/* The effect of a call that succeeded with `result`. */
static void after_success(UInt number, const UWord* args, UWord result)
{
   switch (number) {
      case __NR_mmap: after_mmap(result, args); break;
      case __NR_mremap: after_mremap(result, args); break;
      case __NR_brk: after_brk(result); break;
      case __NR_prctl: after_prctl(args); break;
      case __NR_rt_sigaction: faults_after_sigaction(args[0], args[1]); break;
      case __NR_shmat: after_shmat(result, args[2]); break;
      case __NR_shmdt: event_words(WIRE_UNMAP, 2, (ULong[]){ args[0], detached_bytes }); break;
      case __NR_munmap: event_words(WIRE_UNMAP, 2, (ULong[]){ args[0], VG_PGROUNDUP(args[1]) }); break;
      case __NR_madvise:
         has_advised |= args[2] == SYS_MADV_HUGEPAGE || args[2] == SYS_MADV_NOHUGEPAGE;
         event_words(WIRE_ADVISE, 3, (ULong[]){ args[0], VG_PGROUNDUP(args[1]), args[2] });
         break;
      case __NR_mprotect:
      case SYS_PKEY_MPROTECT:
         aliases_after_mprotect(args[0], args[1], args[2]);
         event_words(WIRE_PROTECT, 3, (ULong[]){ args[0], VG_PGROUNDUP(args[1]), args[2] & 7 });
         break;
      case __NR_clone:
         if (!(args[0] & VKI_CLONE_THREAD) && result != 0)
            event_words(WIRE_FORK, 1, (ULong[]){ result });
         break;
      case __NR_fork:
      case __NR_vfork:
      case SYS_CLONE3:
         if (result != 0)
            event_words(WIRE_FORK, 1, (ULong[]){ result });
         break;
   }
}

void syscall_after(ThreadId thread, UInt number, UWord* args, UInt count, SysRes result)
{
   arguments_put_back(thread);
   placement_forget();
   if (native_is_near())
      return;
   event_switch_to(thread);
   /* Advice applies to the mapped parts of a range, even if the rest causes an error. */
   if (!sr_isError(result) || (number == __NR_madvise && sr_Err(result) == VKI_ENOMEM))
      after_success(number, args, sr_Res(result));
   Long value = sr_isError(result) ? -(Long)sr_Err(result) : (Long)sr_Res(result);
   event_words(WIRE_SYSCALL, 2, (ULong[]){ number, value });
   if (placement_is_full())
      native_leave("it has more mappings than the engine has room for");
}
