/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Children that borrow their parent's memory until exec or exit: vfork, and posix_spawn based on it.

The core forks instead and runs both. So the parent would continue too early, and miss what the child wrote: for example
that the program does not exist, which posix_spawn returns. Here the parent waits, and the child sends the pages that it
has written, at exec and at its end.

A page counts as written by the child if it has it exclusively. That can also happen if the kernel wrote to the parent's
page, for a call in which another thread of the parent waits; so if there are other threads, only pages around the
caller's stack are sent. The parent's other threads are paused meanwhile, unlike natively. */

#include "engine.h"
#include "handlers.h"
#include "sys.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"

#define STACK_REACH (1UL << 20)    /* on both sides of the caller's stack pointer */
#define WAIT_MILLISECONDS 10000

/* /proc/self/pagemap: a word for each page. */
#define PAGE_PRESENT (1ULL << 63)
#define PAGE_OF_FILE (1ULL << 61)  /* or of shared memory */
#define PAGE_EXCLUSIVE (1ULL << 56)
#define ENTRIES 512

typedef struct {
   Addr at;
   UChar bytes[VKI_PAGE_SIZE];
} Page;

typedef struct {
   Addr start;
   Addr end;
} Range;

static Page page;
static Int ends[2] = { -1, -1 };   /* of the present call */
static Int to_parent = -1;         /* in such a child */
static Range sent;                 /* where the pages lie that it sends */

/* ---- the child ---- */

static void send_range(Int pagemap, Addr start, Addr end)
{
   static ULong entries[ENTRIES];
   start = start > sent.start ? start : sent.start;
   end = end < sent.end ? end : sent.end;
   for (; start < end; start += ENTRIES * VKI_PAGE_SIZE) {
      SizeT pages = (end - start) / VKI_PAGE_SIZE;
      pages = pages < ENTRIES ? pages : ENTRIES;
      Word got = sys_call6(__NR_pread64, pagemap, (UWord)entries, pages * sizeof(ULong),
                           start / VKI_PAGE_SIZE * sizeof(ULong), 0, 0);
      for (Word i = 0; i < got / (Word)sizeof(ULong); i++) {
         if ((entries[i] & (PAGE_PRESENT | PAGE_OF_FILE | PAGE_EXCLUSIVE)) != (PAGE_PRESENT | PAGE_EXCLUSIVE))
            continue;
         page.at = start + i * VKI_PAGE_SIZE;
         VG_(memcpy)(page.bytes, (const void*)page.at, VKI_PAGE_SIZE);
         sys_call6(__NR_sendto, to_parent, (UWord)&page, sizeof page, SYS_MSG_NOSIGNAL, 0, 0);
      }
   }
}

void vfork_send(void)
{
   Addr starts[256];
   Addr* all = starts;
   if (to_parent < 0)
      return;
   Int pagemap = proc_open("/proc/self/pagemap", VKI_O_RDONLY | SYS_O_CLOEXEC);
   if (pagemap < 0)
      return;
   Int count = VG_(am_get_segment_starts)(SkAnonC | SkFileC, starts, 256);
   if (count < 0) {
      all = VG_(malloc)("pagewalk.vfork", -count * sizeof(Addr));
      count = VG_(am_get_segment_starts)(SkAnonC | SkFileC, all, -count);
   }
   for (Int i = 0; i < count; i++) {
      const NSegment* segment = VG_(am_find_nsegment)(all[i]);
      if (segment->hasR && segment->hasW)
         send_range(pagemap, segment->start, segment->end + 1);
   }
   if (all != starts)
      VG_(free)(all);
   VG_(close)(pagemap);
}

/* A child of the child: nobody waits for it. */
void vfork_forget(void)
{
   if (to_parent >= 0)
      VG_(close)(to_parent);
   to_parent = -1;
}

/* ---- the parent ---- */

/* Moves it where the client cannot reach it. */
static void move_away(Int* fd)
{
   Word moved = sys_call3(__NR_fcntl, *fd, VKI_F_DUPFD_CLOEXEC, VG_(fd_hard_limit));
   VG_(close)(*fd);
   *fd = sys_failed(moved) ? -1 : (Int)moved;
}

static void close_ends(void)
{
   for (UInt i = 0; i < 2; i++) {
      if (ends[i] >= 0)
         VG_(close)(ends[i]);
      ends[i] = -1;
   }
}

/* Without descriptors the child is forked all the same. */
static void make_ends(void)
{
   if (sys_failed(sys_call6(__NR_socketpair, VKI_AF_UNIX, SYS_SOCK_SEQPACKET | SYS_SOCK_CLOEXEC, 0, (UWord)ends, 0, 0)))
      return;
   move_away(&ends[0]);
   move_away(&ends[1]);
   if (ends[0] < 0 || ends[1] < 0)
      close_ends();
}

/* Whether the child has executed a program, or ended. */
static Bool take_pages(Int from)
{
   for (;;) {
      struct vki_pollfd ready = { .fd = from, .events = VKI_POLLIN };
      SysRes result = VG_(poll)(&ready, 1, WAIT_MILLISECONDS);
      if (sr_isError(result) ? sr_Err(result) != VKI_EINTR : sr_Res(result) == 0)
         return False;
      if (sr_isError(result))
         continue;
      if (sys_call6(__NR_recvfrom, from, (UWord)&page, sizeof page, 0, 0, 0) != (Word)sizeof page)
         return True;
      if (VG_(am_is_valid_for_client)(page.at, VKI_PAGE_SIZE, VKI_PROT_WRITE))
         VG_(memcpy)((void*)page.at, page.bytes, VKI_PAGE_SIZE);
   }
}

/* `told`: where the kernel has reported the child to the parent, in memory that the child copied before that; or NULL.
   */
static void wait_for_child(Word child, Int* told)
{
   HChar lost[160];
   Int kept = told == NULL ? 0 : *told;
   Bool is_over = take_pages(ends[0]);
   if (told != NULL)
      *told = kept;
   waiting_forget();
   if (is_over)
      return;
   VG_(snprintf)(lost, sizeof lost, "what process %ld, begun by vfork, writes to its parent's memory: it has neither "
                 "executed a program nor ended for %d seconds", child, WAIT_MILLISECONDS / 1000);
   event_lost(lost);
}

/* What the child may write if its parent has other threads: memory near the caller's stack pointer, in the same
   mapping, as the next one may be another thread's stack. */
static Range around(Addr stack)
{
   const NSegment* own = VG_(am_find_nsegment)(stack);
   Addr start = VG_PGROUNDDN(stack - STACK_REACH);
   Addr end = VG_PGROUNDUP(stack + STACK_REACH);
   if (own != NULL && own->start > start)
      start = own->start;
   if (own != NULL && own->end < end - 1)
      end = own->end + 1;
   return (Range){ start, end };
}

void vfork_do(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags,
              Before* fork, Int* told)
{
   Addr stack = VG_(get_SP)(thread);
   Bool is_alone = threads_alive() <= 1;
   make_ends();
   fork(thread, layout, arguments, status, flags);
   Bool is_done = status->what == STATUS_COMPLETE && !sr_isError(status->result);
   if (is_done && sr_Res(status->result) == 0 && ends[1] >= 0) {
      to_parent = ends[1];
      ends[1] = -1;
      sent = is_alone ? (Range){ 0, ~(Addr)0 } : around(stack);
   } else if (is_done && sr_Res(status->result) != 0 && ends[1] >= 0) {
      VG_(close)(ends[1]);
      ends[1] = -1;
      wait_for_child(sr_Res(status->result), told);
   }
   close_ends();
}
