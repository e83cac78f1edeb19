/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Code in files that is written while it runs.

Wherever code runs from memory without a file, the core compares it with its translation. Code of a file it assumes
unchanged. But just-in-time compilers that never make a mapping both writable and executable map one file (mostly of
memfd_create) twice and write through one mapping (.NET, libffi); and code that patches a library in place makes it
writable meanwhile (LLVM's XRay, hooks). So code is also compared in a writable mapping, and in all mappings of a file
that can be written in another way: through a shared mapping, or through a writable descriptor. Other programs have no
such code, and pay nothing. */

#include "engine.h"
#include "sys.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_hashtable.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"

/* ---- files ---- */

typedef struct File {
   struct File* next;
   UWord key;
   Bool is_written;   /* it may be written while its code runs; otherwise it has translations that are not compared */
} File;

static VgHashTable* files;

/* If two files share a key, both are compared if one is. */
static UWord key_of(const NSegment* segment)
{
   return segment->dev * 0x9e3779b97f4a7c15ULL ^ segment->ino;
}

/* The file of this segment; an unknown file gets `is_written`. */
static File* find_file(const NSegment* segment, Bool is_written)
{
   UWord key = key_of(segment);
   if (files == NULL)
      files = VG_(HT_construct)("pagewalk.aliases");
   File* file = VG_(HT_lookup)(files, key);
   if (file == NULL) {
      file = VG_(malloc)("pagewalk.aliases", sizeof *file);
      file->key = key;
      file->is_written = is_written;
      VG_(HT_add_node)(files, file);
   }
   return file;
}

/* ---- mappings ---- */

/* Discards a file's translations that were made without comparisons. */
static void discard_file(UWord key)
{
   Addr first;
   Int count = VG_(am_get_segment_starts)(SkFileC, &first, 1);
   count = count < 0 ? -count : count;
   Addr* starts = VG_(malloc)("pagewalk.aliases", (count + 1) * sizeof *starts);
   count = VG_(am_get_segment_starts)(SkFileC, starts, count + 1);
   for (Int i = 0; i < count; i++) {
      const NSegment* segment = VG_(am_find_nsegment)(starts[i]);
      if (segment->hasT && key_of(segment) == key)
         VG_(discard_translations)(segment->start, segment->end + 1 - segment->start, "aliases");
   }
   VG_(free)(starts);
}

static Bool may_write(Int fd)
{
   Word flags = sys_call3(__NR_fcntl, fd, VKI_F_GETFL, 0);
   return !sys_failed(flags) && (flags & VKI_O_ACCMODE) != VKI_O_RDONLY;
}

void aliases_after_mmap(Addr start, Bool is_shared, Int fd)
{
   const NSegment* segment = VG_(am_find_nsegment)(start);
   if (segment == NULL || segment->kind != SkFileC || !(is_shared || may_write(fd)))
      return;
   File* file = find_file(segment, True);
   if (file->is_written)
      return;
   file->is_written = True;
   discard_file(file->key);
}

/* The core discards only what may no longer be executed. */
void aliases_after_mprotect(Addr start, SizeT bytes, UInt protection)
{
   UInt both = VKI_PROT_WRITE | VKI_PROT_EXEC;
   Addr end = VG_PGROUNDUP(start + bytes);
   while ((protection & both) == both && start < end) {
      const NSegment* segment = VG_(am_find_nsegment)(start);
      if (segment == NULL)
         return;
      Addr stop = segment->end < end - 1 ? segment->end + 1 : end;
      if (segment->kind == SkFileC && segment->hasT)
         VG_(discard_translations)(start, stop - start, "aliases");
      start = stop;
   }
}

/* ---- translations ---- */

Bool aliases_may_change(Addr code)
{
   const NSegment* segment = VG_(am_find_nsegment)(code);
   if (segment == NULL || segment->kind != SkFileC)
      return False;
   return segment->hasW || find_file(segment, False)->is_written;
}
