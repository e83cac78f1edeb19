/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Places the client's memory where the running kernel would put it without randomisation.

Valgrind gives the client the lowest free addresses of 64 GiB. Linux gives the highest below the stack, aligns
potentially huge mappings, puts the program at two thirds of the address space and lets its break grow. Which pages
share a set, what can become huge and what merges depends on that, and some programs need more than 64 GiB. So here
- the address space manager gets the whole user half (its limits are static variables, which the build makes visible),
- every address that the core requests for the client comes from the kernel's rules (linker, --wrap),
- the program, its break and its stack begin where the kernel would begin them.

Everything lies SHIFT below where `setarch --addr-no-randomize` shows it, since the kernel puts Valgrind's own stack at
the top. Sources: mm/mmap.c, mm/huge_memory.c, arch/x86/mm/mmap.c and fs/binfmt_elf.c of Linux. Where versions differ,
the running kernel is asked by a mapping that is removed at once. */

#include "engine.h"
#include "segments.h"
#include "sys.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"

#define SHIFT 0x20000000000ULL                       /* 2 TiB */
#define TASK_SIZE 0x7ffffffff000ULL
#define CLIENT_END (TASK_SIZE - SHIFT)
#define STACK_GUARD (256 * VKI_PAGE_SIZE)
#define STACK_GAP_MIN 0x8000000ULL                   /* 128 MiB */
#define PROGRAM_BASE 0x555555554000ULL               /* ELF_ET_DYN_BASE, rounded down to a page */
#define BREAK_ROOM (1ULL << 40)                      /* what the break may grow by at most */
#define FIXED_RESERVATION 1                          /* SmFixed */
#define LOWEST 0x10000ULL                            /* vm.mmap_min_addr */
#define LOW_START 0x40000000ULL                      /* where MAP_32BIT lies */
#define LOW_END 0x80000000ULL
#define REGION (2ULL << 20)                          /* what a huge page covers */
#define CORE_BYTES_MOST 0xffffe000ULL                /* of a segment, with the rest of its pages: the core maps it modulo 4 GiB */

/* ---- parts of the core that no header for tools declares ---- */

typedef struct {
   enum { MFixed, MHint, MAny, MAlign } rkind;
   Addr start;
   Addr len;
} MapRequest;

struct vki_arch_elf_state;

typedef struct {
   const HChar** argv;
   Addr exe_base;
   Addr exe_end;
   Addr phdr;
   Int phnum;
   UInt stack_prot;
   PtrdiffT interp_offset;
   struct vki_arch_elf_state* arch_elf_state;
   Addr entry;
   Addr init_ip;
   Addr brkbase;
} ExeInfo;   /* its first fields */

extern NSegment nsegments[];
extern Int nsegments_used;
extern Addr aspacem_minAddr;
extern Addr aspacem_maxAddr;
extern Addr aspacem_vStart;
extern struct vki_rlimit VG_(client_rlimit_data);
extern struct vki_rlimit VG_(client_rlimit_stack);
extern SizeT VG_(clstk_max_size);
extern SysRes VG_(am_mmap_file_fixed_client)(Addr start, SizeT bytes, UInt rights, Int fd, Off64T offset);
extern SysRes VG_(am_mmap_anon_fixed_client)(Addr start, SizeT bytes, UInt rights);
extern Bool VG_(am_create_reservation)(Addr start, SizeT bytes, UInt mode, SSizeT extra);
extern Bool VG_(extend_stack)(ThreadId thread, Addr address);

Addr __real_vgPlain_am_startup(Addr sp_at_startup);
Addr __wrap_vgPlain_am_startup(Addr sp_at_startup);
Int __real_vgPlain_load_ELF(Int fd, const HChar* name, ExeInfo* info);
Int __wrap_vgPlain_load_ELF(Int fd, const HChar* name, ExeInfo* info);
Addr __real_vgPlain_am_get_advisory(const MapRequest* request, Bool for_client, Bool* ok);
Addr __wrap_vgPlain_am_get_advisory(const MapRequest* request, Bool for_client, Bool* ok);
Addr __wrap_vgPlain_am_get_advisory_client_simple(Addr start, SizeT bytes, Bool* ok);

/* ---- the address space manager's limits ---- */

static Addr segment_end(const NSegment* segment)
{
   return segment->end + 1;
}

/* The index of the segment that contains an address. */
static Int find_segment(Addr at)
{
   Int low = 0;
   Int high = nsegments_used - 1;
   while (low < high) {
      Int middle = (low + high) / 2;
      if (nsegments[middle].end < at)
         low = middle + 1;
      else
         high = middle;
   }
   return low;
}

/* At the start the manager's list is: reserved, free, …, free, the page where Valgrind's own half begins, free,
   reserved to the end. Moves the first end down, the page and the last end up. */
static Bool raise_limits(void)
{
   NSegment* boundary = &nsegments[find_segment(aspacem_vStart)];
   NSegment* end = boundary + 2;
   if (boundary->start != aspacem_vStart || boundary->kind != SkResvn || boundary[-1].kind != SkFree
       || boundary[1].kind != SkFree || end->kind != SkResvn || end->start != aspacem_maxAddr + 1
       || end->end < CLIENT_END)
      return False;
   if (nsegments[0].kind == SkResvn && nsegments[1].kind == SkFree) {
      aspacem_minAddr = LOWEST;
      nsegments[0].end = LOWEST - 1;
      nsegments[1].start = LOWEST;
   }
   aspacem_maxAddr = CLIENT_END - 1;
   aspacem_vStart = VG_PGROUNDDN(CLIENT_END / 2);
   boundary[-1].end = aspacem_vStart - 1;
   boundary->start = aspacem_vStart;
   boundary->end = aspacem_vStart + VKI_PAGE_SIZE - 1;
   boundary[1].start = boundary->end + 1;
   boundary[1].end = aspacem_maxAddr;
   end->start = aspacem_maxAddr + 1;
   return True;
}

/* This determines the end of the client's stack. */
Addr __wrap_vgPlain_am_startup(Addr sp_at_startup)
{
   Addr stack_end = __real_vgPlain_am_startup(sp_at_startup);
   return !image_is_of_valgrind() && raise_limits() ? CLIENT_END - 1 : stack_end;
}

Bool placement_is_full(void)
{
   /* One mapping inside another adds two segments, and the engine needs some itself. */
   return nsegments_used > SEGMENTS_MAX - 64;
}

/* ---- gaps ---- */

/* The kernel places mappings below it, from the top down. */
static Addr mmap_base(void)
{
   ULong gap = VG_(client_rlimit_stack).rlim_cur;
   if (gap + STACK_GUARD > gap)
      gap += STACK_GUARD;
   if (gap < STACK_GAP_MIN)
      gap = STACK_GAP_MIN;
   if (gap > TASK_SIZE / 6 * 5)
      gap = TASK_SIZE / 6 * 5;
   return VG_PGROUNDUP(TASK_SIZE - gap) - SHIFT;
}

Bool placement_is_free(Addr start, SizeT bytes)
{
   for (Int i = find_segment(start); i < nsegments_used && nsegments[i].start <= start + bytes - 1; i++)
      if (nsegments[i].kind != SkFree && nsegments[i].kind != SkResvn)
         return False;
   return True;
}

/* The highest free gap below `end` of at least this many bytes; `top` is its end. */
static Bool find_high_gap(Addr end, SizeT bytes, Addr* top)
{
   for (Int i = find_segment(end - 1); i > 0; i--) {
      const NSegment* gap = &nsegments[i];
      if (gap->kind != SkFree)
         continue;
      *top = segment_end(gap) < end ? segment_end(gap) : end;
      if (*top - gap->start >= bytes)
         return True;
   }
   return False;
}

/* The lowest free gap in [start, end) of at least this many bytes. */
static Bool find_low_gap(Addr start, Addr end, SizeT bytes, Addr* bottom)
{
   for (Int i = find_segment(start); i < nsegments_used && nsegments[i].start < end; i++) {
      const NSegment* gap = &nsegments[i];
      if (gap->kind != SkFree)
         continue;
      *bottom = gap->start > start ? gap->start : start;
      Addr stop = segment_end(gap) < end ? segment_end(gap) : end;
      if (stop > *bottom && stop - *bottom >= bytes)
         return True;
   }
   return False;
}

/* ---- what the kernel aligns ---- */

/* The call that requests an address, with the inputs of the kernel's choice. */
static PlacementCall asked;

void placement_expect(const PlacementCall* call)
{
   asked = *call;
}

void placement_forget(void)
{
   asked = (PlacementCall){ 0 };
}

/* Where the kernel would map this many bytes, from the start of a file if there is one; 0: nowhere. */
static Addr ask_kernel(UInt flags, Int fd, SizeT bytes)
{
   Word at = sys_call6(__NR_mmap, 0, bytes, VKI_PROT_NONE, flags | VKI_MAP_NORESERVE, fd, 0);
   if (sys_failed(at))
      return 0;
   sys_call3(__NR_munmap, at, bytes, 0);
   return at;
}

static Bool is_on_border(Addr at)
{
   return at != 0 && at % REGION == 0;
}

/* Where the kernel would map it if this free page were taken. */
static Addr ask_without(Addr page, UInt flags, Int fd, SizeT bytes)
{
   Word taken = sys_call6(__NR_mmap, page, VKI_PAGE_SIZE, VKI_PROT_NONE,
                          VKI_MAP_PRIVATE | VKI_MAP_ANONYMOUS | VKI_MAP_NORESERVE, -1, 0);
   if (sys_failed(taken))
      return 0;
   Addr at = (Addr)taken == page ? ask_kernel(flags, fd, bytes) : 0;
   sys_call3(__NR_munmap, taken, VKI_PAGE_SIZE, 0);
   return at;
}

/* Whether the kernel aligns this mapping. Its first answer may be aligned by chance. Then, if its last page is taken,
   the next answer is one page lower; or one page higher, if the kernel goes upwards and its first page is taken. */
static Bool kernel_aligns(UInt flags, Int fd, SizeT bytes)
{
   Addr at = ask_kernel(flags, fd, bytes);
   return is_on_border(at) && is_on_border(ask_without(at + bytes - VKI_PAGE_SIZE, flags, fd, bytes)) &&
          is_on_border(ask_without(at, flags, fd, bytes));
}

/* Anonymous memory, in each case that some kernel version distinguishes. Asked at the start, since the program may
   later limit its locked memory and lock everything. */
typedef enum { PRIVATE_WHOLE, PRIVATE_ODD, SHARED_WHOLE, SHARED_ODD, ANONYMOUS_CASES } AnonymousCase;
static Bool aligns_anonymous[ANONYMOUS_CASES];

static AnonymousCase anonymous_case(Bool shared, SizeT bytes)
{
   Bool whole = bytes % REGION == 0;
   return shared ? (whole ? SHARED_WHOLE : SHARED_ODD) : (whole ? PRIVATE_WHOLE : PRIVATE_ODD);
}

static void learn_anonymous(Bool shared, SizeT bytes)
{
   UInt flags = VKI_MAP_ANONYMOUS | (shared ? VKI_MAP_SHARED : VKI_MAP_PRIVATE);
   aligns_anonymous[anonymous_case(shared, bytes)] = kernel_aligns(flags, -1, bytes);
}

static void learn_alignment(void)
{
   for (UInt shared = 0; shared < 2; shared++) {
      learn_anonymous(shared, 2 * REGION);
      learn_anonymous(shared, 2 * REGION + VKI_PAGE_SIZE);
   }
}

/* Files: their file system decides. */
#define DEVICES_MAX 64

typedef struct {
   ULong device;
   Bool aligns;
} Device;

static Device devices[DEVICES_MAX];
static UInt device_count;

static Bool device_aligns(ULong device)
{
   for (UInt i = 0; i < device_count; i++)
      if (devices[i].device == device)
         return devices[i].aligns;
   return False;
}

void placement_learn_file(Int fd, PlacementCall* call)
{
   struct vg_stat about;
   /* Mapping a device may have side effects. */
   if (fd < 0 || VG_(fstat)(fd, &about) != 0 || !VKI_S_ISREG(about.mode))
      return;
   call->device = about.dev;
   for (UInt i = 0; i < device_count; i++)
      if (devices[i].device == about.dev)
         return;
   if (device_count < DEVICES_MAX)
      devices[device_count++] = (Device){ about.dev, kernel_aligns(VKI_MAP_PRIVATE, fd, 2 * REGION) };
}

static Bool is_aligned(SizeT bytes)
{
   /* It must contain a whole region. */
   if (asked.offset + bytes < VG_ROUNDUP(asked.offset, REGION) + REGION)
      return False;
   if (asked.flags & VKI_MAP_ANONYMOUS)
      return aligns_anonymous[anonymous_case((asked.flags & VKI_MAP_SHARED) != 0, bytes)];
   return device_aligns(asked.device);
}

/* ---- the kernel's choice ---- */

/* The highest place in the highest gap, congruent to the offset modulo `border`. The kernel looks for a gap that is
   larger by `spare`. */
static Addr place_high(SizeT bytes, ULong border, ULong spare)
{
   Addr top;
   if (bytes + spare < bytes || !find_high_gap(mmap_base(), bytes + spare, &top))
      return 0;
   Addr at = top - bytes;
   return at - (at - asked.offset) % border;
}

static Addr place(SizeT bytes)
{
   Addr at = 0;
   if (asked.flags & SYS_MAP_32BIT)
      return find_low_gap(LOW_START, LOW_END, bytes, &at) ? at : 0;
   if (asked.page_bytes > VKI_PAGE_SIZE)
      return place_high(VG_ROUNDUP(bytes, asked.page_bytes), asked.page_bytes, asked.page_bytes - VKI_PAGE_SIZE);
   if (is_aligned(bytes))
      at = place_high(bytes, REGION, REGION);
   if (at == 0)
      at = place_high(bytes, VKI_PAGE_SIZE, 0);
   if (at == 0 && !find_low_gap(VG_PGROUNDUP(TASK_SIZE / 3), CLIENT_END, bytes, &at))
      at = 0;
   return at;
}

/* The answer to the core if nothing is free: an address for which the kernel returns ENOMEM. */
#define NOWHERE TASK_SIZE

Addr __wrap_vgPlain_am_get_advisory(const MapRequest* request, Bool for_client, Bool* ok)
{
   Addr advised = __real_vgPlain_am_get_advisory(request, for_client, ok);
   if (!for_client || image_is_of_valgrind() || request->rkind == MFixed || request->len == 0)
      return advised;
   if (request->rkind == MHint && *ok && advised == request->start)
      return advised;
   Addr planned = asked.planned;
   if (planned != 0) {
      MapRequest there = { MHint, planned, request->len };
      advised = __real_vgPlain_am_get_advisory(&there, True, ok);
      if (*ok && advised == planned)
         return planned;
   }
   advised = place(VG_PGROUNDUP(request->len));
   *ok = True;
   return advised == 0 ? NOWHERE : advised;
}

Addr __wrap_vgPlain_am_get_advisory_client_simple(Addr start, SizeT bytes, Bool* ok)
{
   MapRequest request = { start == 0 ? MAny : MFixed, start, bytes };
   Addr advised = __wrap_vgPlain_am_get_advisory(&request, True, ok);
   *ok = *ok && advised != NOWHERE;
   return advised;
}

Addr placement_find(Addr hint, SizeT bytes, Bool* ok)
{
   MapRequest request = { hint == 0 ? MAny : MHint, hint, bytes };
   Addr advised = __wrap_vgPlain_am_get_advisory(&request, True, ok);
   *ok = *ok && advised != NOWHERE;
   return advised;
}

/* ---- the program ---- */

/* What decides where the kernel loads a program. */
typedef struct {
   Bool is_movable;
   Bool has_interpreter;
   ULong alignment;
   Addr lowest;   /* the start of its first segment */
   SizeT bytes;
} Program;

static Program read_program(Int fd)
{
   Program program = { .alignment = VKI_PAGE_SIZE, .lowest = ~0ULL };
   Elf64_Ehdr header;
   Elf64_Phdr segment;
   if (!read_at(fd, &header, sizeof header, 0))
      return program;
   program.is_movable = header.e_type == ET_DYN;
   for (UInt i = 0; read_segment(fd, &header, i, &segment); i++) {
      program.has_interpreter |= segment.p_type == PT_INTERP;
      if (segment.p_type != PT_LOAD)
         continue;
      if (segment.p_align > program.alignment && (segment.p_align & (segment.p_align - 1)) == 0)
         program.alignment = segment.p_align;
      if (segment.p_vaddr < program.lowest)
         program.lowest = segment.p_vaddr;
      program.bytes = VG_PGROUNDUP(segment.p_vaddr + segment.p_memsz);
   }
   return program;
}

static Int error_of(SysRes result)
{
   return sr_isError(result) ? (Int)sr_Err(result) : 0;
}

/* As the core does, but the core keeps sizes in 32 bits. 0, or an error. */
static Int map_segment(Int fd, const Elf64_Phdr* segment, Addr shift)
{
   Addr start = VG_PGROUNDDN(segment->p_vaddr + shift);
   Addr zeros = segment->p_vaddr + segment->p_filesz + shift;
   Addr middle = VG_PGROUNDUP(zeros);
   Addr end = VG_PGROUNDUP(segment->p_vaddr + segment->p_memsz + shift);
   UInt rights = (segment->p_flags & PF_R ? VKI_PROT_READ : 0) | (segment->p_flags & PF_W ? VKI_PROT_WRITE : 0)
                 | (segment->p_flags & PF_X ? VKI_PROT_EXEC : 0);
   Int error = 0;
   if (middle > start)
      error = error_of(
         VG_(am_mmap_file_fixed_client)(start, middle - start, rights, fd, VG_PGROUNDDN(segment->p_offset)));
   if (error == 0 && end > middle)
      error = error_of(VG_(am_mmap_anon_fixed_client)(middle, end - middle, rights));
   if (error == 0 && (rights & VKI_PROT_WRITE) && end > middle)
      VG_(memset)((void*)zeros, 0, middle - zeros);
   return error;
}

/* Remaps what the core has truncated, and moves the break after it. */
static Int map_large_segments(Int fd, Addr shift, ExeInfo* info)
{
   Elf64_Ehdr header;
   Elf64_Phdr segment;
   Int error = 0;
   if (!read_at(fd, &header, sizeof header, 0))
      return 0;
   for (UInt i = 0; error == 0 && read_segment(fd, &header, i, &segment); i++) {
      if (segment.p_type != PT_LOAD || segment.p_memsz <= CORE_BYTES_MOST)
         continue;
      error = map_segment(fd, &segment, shift);
      if (info->brkbase < segment.p_vaddr + segment.p_memsz + shift)
         info->brkbase = segment.p_vaddr + segment.p_memsz + shift;
   }
   return error;
}

/* Without randomisation the kernel's own pages come next, which the client does not have. */
static void leave_room_for_kernel(void)
{
   SizeT bytes = maps_kernel_bytes();
   Bool ok = bytes > 0;
   Addr start = ok ? placement_find(0, bytes, &ok) : 0;
   if (ok)
      VG_(am_create_reservation)(start, bytes, FIXED_RESERVATION, 0);
}

/* The core loads a position-independent program at two thirds of the range that it is given, from 0 up. One without an
   interpreter (a loader itself, or linked statically) lies among the mappings, with its break where programs lie. */
Int __wrap_vgPlain_load_ELF(Int fd, const HChar* name, ExeInfo* info)
{
   Program program = read_program(fd);
   Addr base = PROGRAM_BASE & ~(program.alignment - 1);
   if (!program.has_interpreter) {
      Addr among = place_high(program.bytes, program.alignment, program.alignment - VKI_PAGE_SIZE);
      base = among == 0 ? base : among;
   }
   if (program.is_movable && !image_is_of_valgrind()) {
      info->exe_base = 0;
      info->exe_end = base / 2 * 3;
   }
   Int failed = __real_vgPlain_load_ELF(fd, name, info);
   if (failed == 0)
      failed = map_large_segments(fd, info->exe_base - program.lowest, info);
   if (failed == 0 && !image_is_of_valgrind())
      leave_room_for_kernel();
   if (failed == 0 && program.is_movable && !image_is_of_valgrind() && !program.has_interpreter)
      info->brkbase = PROGRAM_BASE;
   return failed;
}

/* ---- the break and the stack ---- */

/* The core lets the break grow by 8 MiB, and be executed. The room after it is reserved only in the manager's list. */
static void make_room_for_break(void)
{
   Int at = find_segment(VG_PGROUNDUP(VG_(brk_base)));
   NSegment* heap = &nsegments[at];
   NSegment* room = &nsegments[at + 1];
   if (heap->kind != SkAnonC || heap->start != VG_PGROUNDUP(VG_(brk_base)))
      return;
   heap->hasX = False;
   /* A mark that keeps the manager from joining it to the program's data right before. */
   heap->isCH = True;
   /* Natively there is no page before the first call. */
   sys_call3(__NR_munmap, heap->start, segment_end(heap) - heap->start, 0);
   if (at + 2 >= nsegments_used || room->kind != SkResvn || room[1].kind != SkFree)
      return;
   ULong limit = VG_(client_rlimit_data).rlim_cur < BREAK_ROOM ? VG_(client_rlimit_data).rlim_cur : BREAK_ROOM;
   Addr end = VG_PGROUNDDN(VG_(brk_base) + limit);
   if (end >= segment_end(room + 1))
      end = VG_PGROUNDDN(room[1].end);
   if (end <= segment_end(room))
      return;
   room->end = end - 1;
   room[1].start = end;
}

void placement_begin_break(void)
{
   static Bool has_begun;
   const NSegment* heap = VG_(am_find_nsegment)(VG_PGROUNDUP(VG_(brk_base)));
   if (has_begun || image_is_of_valgrind() || heap == NULL || heap->kind != SkAnonC)
      return;
   has_begun = True;
   sys_call6(__NR_mmap, heap->start, segment_end(heap) - heap->start, VKI_PROT_READ | VKI_PROT_WRITE,
             VKI_MAP_PRIVATE | VKI_MAP_ANONYMOUS | VKI_MAP_FIXED, -1, 0);
}

void placement_shrink_break(Addr end)
{
   Addr kept = VG_PGROUNDUP(end);
   NSegment* heap = &nsegments[find_segment(VG_PGROUNDUP(VG_(brk_base)))];
   NSegment* room = heap + 1;
   /* The core keeps at least one page. */
   if (kept < heap->start + VKI_PAGE_SIZE)
      kept = heap->start + VKI_PAGE_SIZE;
   if (heap->kind == SkAnonC && room->kind == SkResvn && kept <= heap->end) {
      sys_call3(__NR_munmap, kept, segment_end(heap) - kept, 0);
      heap->end = kept - 1;
      room->start = kept;
   }
   VG_(memset)((void*)end, 0, kept - end);
   VG_(brk_limit) = end;
}

void placement_start(void)
{
   if (image_is_of_valgrind())
      return;
   learn_alignment();
   make_room_for_break();
}

/* The kernel lets the stack be touched anywhere within its limit, however far below the stack pointer; the core only
   near it. So all of it is mapped, and backed on touch. */
void placement_open_stack(ThreadId thread)
{
   const NSegment* stack = VG_(am_find_nsegment)(VG_(clstk_end));
   const NSegment* room = stack == NULL ? NULL : VG_(am_find_nsegment)(stack->start - 1);
   /* The manager keeps one page reserved. */
   if (!image_is_of_valgrind() && room != NULL && room->kind == SkResvn && room->end - room->start >= 2 * VKI_PAGE_SIZE)
      VG_(extend_stack)(thread, room->start + VKI_PAGE_SIZE);
}
