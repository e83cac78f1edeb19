/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The client's mappings at the beginning of a stream.

   The kernel (/proc/self/maps) knows what is shared and what each file is called; only Valgrind's address space
   manager knows which of it belongs to the client, and only Valgrind's core knows the program break and the stack,
   which it manages itself. So each line of the kernel's list is cut at the manager's segments. */

#include "engine.h"
#include "sys.h"
#include "wire.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"

#define READ_STEP (64 * 1024)

typedef struct {
   Addr start;
   Addr end;
   UInt protection;
   Bool shared;
   ULong offset;
   const HChar* path;
   ULong page_bytes;   /* 0: base pages */
} Line;

/* The whole of /proc/self/maps or smaps as a string to be freed, or NULL. */
static HChar* read_kernel_maps(const HChar* name)
{
   Int fd = proc_open(name, VKI_O_RDONLY);
   if (fd < 0)
      return NULL;
   SizeT used = 0;
   SizeT room = READ_STEP;
   HChar* text = VG_(malloc)("pagewalk.maps", room + 1);
   Int got;
   while ((got = VG_(read)(fd, text + used, room - used)) > 0) {
      used += got;
      if (used == room) {
         room += READ_STEP;
         text = VG_(realloc)("pagewalk.maps", text, room + 1);
      }
   }
   VG_(close)(fd);
   text[used] = '\0';
   return text;
}

/* Parses one line: start-end rwxp offset device inode path. Ends it with a NUL in place; returns the next. */
static HChar* parse_line(HChar* text, Line* line)
{
   HChar* newline = VG_(strchr)(text, '\n');
   HChar* next = newline == NULL ? text + VG_(strlen)(text) : newline + 1;
   if (newline != NULL)
      *newline = '\0';
   HChar* at = text;
   line->start = VG_(strtoull16)(at, &at);
   line->end = VG_(strtoull16)(at + 1, &at);
   line->protection = (at[1] == 'r') | (at[2] == 'w') << 1 | (at[3] == 'x') << 2;
   line->shared = at[4] == 's';
   line->offset = VG_(strtoull16)(at + 6, &at);
   for (UInt field = 0; field < 2 && at != NULL; field++)
      at = VG_(strchr)(at + 1, ' ');
   line->path = at == NULL ? "" : at + VG_(strspn)(at, " ");
   return next;
}

/* ---- /proc/self/smaps: after each such line, lines of a key and its value ---- */

/* Keys begin with a capital letter, addresses with a digit or a lower-case letter. */
static Bool is_key(const HChar* line)
{
   return *line >= 'A' && *line <= 'Z';
}

static HChar* next_line(HChar* line)
{
   HChar* newline = VG_(strchr)(line, '\n');
   return newline == NULL ? line + VG_(strlen)(line) : newline + 1;
}

/* The page size in the following keys of one mapping, or 0 for base pages. */
static ULong page_bytes_told(HChar* at)
{
   static const HChar key[] = "KernelPageSize:";
   for (; is_key(at); at = next_line(at))
      if (VG_(strncmp)(at, key, sizeof key - 1) == 0) {
         const HChar* value = at + sizeof key - 1;
         ULong bytes = VG_(strtoll10)(value + VG_(strspn)(value, " "), NULL) * 1024;
         return bytes > VKI_PAGE_SIZE ? bytes : 0;
      }
   return 0;
}

/* Finds the mapping line that contains `start`; returns the text after it. NULL: none. */
static HChar* find_line(HChar* text, Addr start, Line* line)
{
   for (HChar* at = text; at != NULL && *at != '\0';) {
      if (is_key(at)) {
         at = next_line(at);
         continue;
      }
      at = parse_line(at, line);
      if (start >= line->start && start < line->end)
         return at;
   }
   return NULL;
}

ULong maps_page_bytes(Addr start)
{
   Line line;
   HChar* text = read_kernel_maps("/proc/self/smaps");
   HChar* keys = find_line(text, start, &line);
   ULong bytes = keys == NULL ? 0 : page_bytes_told(keys);
   VG_(free)(text);
   return bytes;
}

SizeT maps_kernel_bytes(void)
{
   static const HChar* const names[] = { "[vdso]", "[vvar]", "[vvar_vclock]" };
   HChar* text = read_kernel_maps("/proc/self/maps");
   SizeT bytes = 0;
   for (HChar* at = text; at != NULL && *at != '\0';) {
      Line line;
      at = parse_line(at, &line);
      for (UInt i = 0; i < sizeof names / sizeof names[0]; i++)
         if (VG_(strcmp)(line.path, names[i]) == 0)
            bytes += line.end - line.start;
   }
   VG_(free)(text);
   return bytes;
}

Bool maps_is_shared(Addr start)
{
   Line line;
   HChar* text = read_kernel_maps("/proc/self/maps");
   Bool shared = find_line(text, start, &line) != NULL && line.shared;
   VG_(free)(text);
   return shared;
}

static Addr stack_end(void)
{
   return VG_PGROUNDUP(VG_(clstk_end) + 1);
}

/* The client's first stack, including the part into which it may grow without a system call. Valgrind keeps that part
   reserved, right below the stack's segment. A client that runs on another stack may have unmapped it: then it is
   empty. */
static Addr stack_start(void)
{
   const NSegment* stack = VG_(am_find_nsegment)(VG_(clstk_end));
   if (stack == NULL || stack->kind != SkAnonC)
      return stack_end();
   const NSegment* below = VG_(am_find_nsegment)(stack->start - 1);
   return below != NULL && below->kind == SkResvn ? below->start : stack->start;
}

static void announce_piece(const Line* line, Addr start, Addr end, SegKind owner)
{
   Bool is_file = owner == SkFileC && line->path[0] == '/';
   UInt kind = is_file ? WIRE_FILE : WIRE_ANONYMOUS;
   if (line->shared)
      kind = is_file ? WIRE_SHARED_FILE : WIRE_SHARED_ANONYMOUS;
   if (line->path[0] == '[' && VG_(strncmp)(line->path, "[v", 2) == 0)
      kind = WIRE_KERNEL;
   event_map(&(MapEvent){ start, end - start, line->protection, kind, line->page_bytes,
                          is_file ? line->offset + (start - line->start) : 0 },
             kind == WIRE_KERNEL || is_file ? line->path : "");
}

/* Announces the client's memory in [start, end), without the break and the stack. */
static void announce_range(const Line* line, Addr start, Addr end)
{
   Addr heap_start = VG_PGROUNDUP(VG_(brk_base));
   while (start < end) {
      const NSegment* segment = VG_(am_find_nsegment)(start);
      Addr stop = segment == NULL || segment->end >= end - 1 ? end : segment->end + 1;
      Bool is_client = segment != NULL && (segment->kind & (SkAnonC | SkFileC | SkShmC));
      Bool is_heap = is_client && segment->kind == SkAnonC && segment->start == heap_start;
      Bool is_stack = start >= stack_start() && start < stack_end();
      if (is_client && !is_heap && !is_stack)
         announce_piece(line, start, stop, segment->kind);
      start = stop;
   }
}

void maps_announce(void)
{
   Addr heap_start = VG_PGROUNDUP(VG_(brk_base));
   Addr heap_end = VG_PGROUNDUP(VG_(brk_limit));
   if (heap_end > heap_start)
      event_map(&(MapEvent){ heap_start, heap_end - heap_start, VKI_PROT_READ | VKI_PROT_WRITE, WIRE_HEAP, 0, 0 },
                "");
   if (stack_end() > stack_start())
      event_map(&(MapEvent){ stack_start(), stack_end() - stack_start(), VKI_PROT_READ | VKI_PROT_WRITE, WIRE_STACK,
                             0, 0 },
                "");

   /* smaps costs the kernel a walk of all page tables, so use it only if it says more. */
   HChar* text = read_kernel_maps(syscall_has_hugetlb() ? "/proc/self/smaps" : "/proc/self/maps");
   if (text == NULL) {
      event_lost("the mappings in force at the start: /proc/self/maps cannot be read");
      return;
   }
   for (HChar* at = text; *at != '\0';) {
      Line line;
      if (is_key(at)) {
         at = next_line(at);
         continue;
      }
      at = parse_line(at, &line);
      line.page_bytes = page_bytes_told(at);
      announce_range(&line, line.start, line.end);
   }
   VG_(free)(text);
}

/* Whether a line of flags contains this two-letter flag. */
static Bool has_flag(const HChar* line, const HChar* flag)
{
   for (const HChar* at = VG_(strchr)(line, ' '); at != NULL; at = VG_(strchr)(at + 1, ' '))
      if (VG_(strncmp)(at + 1, flag, 2) == 0)
         return True;
   return False;
}

void maps_announce_advice(void)
{
   HChar* text = read_kernel_maps("/proc/self/smaps");
   if (text == NULL) {
      event_lost("advice on huge pages from before the fork: /proc/self/smaps cannot be read");
      return;
   }
   Line line = { .start = 0, .end = 0 };
   for (HChar* at = text; *at != '\0';) {
      HChar* this = at;
      HChar* newline = VG_(strchr)(at, '\n');
      if (!is_key(this)) {
         at = parse_line(at, &line);
         continue;
      }
      at = next_line(at);
      if (newline != NULL)
         *newline = '\0';
      if (VG_(strncmp)(this, "VmFlags:", 8) != 0)
         continue;
      UInt advice = has_flag(this, "hg") ? SYS_MADV_HUGEPAGE : has_flag(this, "nh") ? SYS_MADV_NOHUGEPAGE : 0;
      if (advice != 0)
         event_words(WIRE_ADVISE, 3, (ULong[]){ line.start, line.end - line.start, advice });
   }
   VG_(free)(text);
}
