/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared objects at planned addresses.

The loader first maps an object as a whole, anywhere: that call gets the planned address. The object's unplanned place
stays empty, so that everything else keeps its address. Only the loader's own system calls are changed: the program's
own mappings stay where they are. */

#include "engine.h"
#include "sys.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"

/* In the core library; no header for tools declares them. */
extern SysRes VG_(am_mmap_anon_fixed_client)(Addr start, SizeT bytes, UInt protection);

typedef struct {
   ULong device;
   ULong inode;
   ULong bytes;
   Addr base;
} Place;

const HChar* places_path;

static Place* places;
static UInt place_count;

/* ---- reading the file ---- */

/* The whole file as a string; ends the run if it is unreadable, as the plan would silently be ignored. */
static HChar* read_file(void)
{
   struct vg_stat about;
   Int fd = VG_(fd_open)(places_path, VKI_O_RDONLY, 0);
   HChar* text = NULL;
   if (fd >= 0 && VG_(fstat)(fd, &about) == 0) {
      text = VG_(malloc)("pagewalk.places", about.size + 1);
      SizeT used = 0;
      Int got;
      while (used < about.size && (got = VG_(read)(fd, text + used, about.size - used)) > 0)
         used += got;
      text[used] = '\0';
   }
   if (text == NULL) {
      VG_(umsg)("pagewalk: the planned places in %s cannot be read\n", places_path);
      VG_(exit)(1);
   }
   VG_(close)(fd);
   return text;
}

/* Lines of four hexadecimal numbers: device, inode, bytes, address. */
void places_read(void)
{
   if (places_path == NULL)
      return;
   HChar* text = read_file();
   UInt lines = 0;
   for (const HChar* c = text; *c != '\0'; c++)
      lines += *c == '\n';
   places = VG_(malloc)("pagewalk.places", (lines + 1) * sizeof *places);
   HChar* at = text;
   for (place_count = 0; place_count < lines; place_count++) {
      ULong words[4];
      for (UInt i = 0; i < 4; i++)
         words[i] = VG_(strtoull16)(at, &at);
      places[place_count] = (Place){ words[0], words[1], words[2], words[3] };
   }
   VG_(free)(text);
}

/* ---- the loader's calls ---- */

Bool places_is_loader(const NSegment* segment)
{
   const HChar* path = segment == NULL ? NULL : VG_(am_get_filename)(segment);
   const HChar* name = path == NULL ? "" : VG_(basename)(path);
   return VG_(strncmp)(name, "ld-", 3) == 0 || VG_(strncmp)(name, "ld.so", 5) == 0;
}

static const Place* place_of(Int fd, SizeT bytes)
{
   struct vg_stat about;
   if (VG_(fstat)(fd, &about) != 0)
      return NULL;
   for (UInt i = 0; i < place_count; i++) {
      const Place* place = &places[i];
      if (place->device == about.dev && place->inode == about.ino && place->bytes == bytes)
         return place;
   }
   return NULL;
}

/* Leaves empty what the kernel, here Valgrind, would have used for this many bytes. */
static void leave_hole(SizeT bytes)
{
   Bool ok;
   Addr start = placement_find(0, bytes, &ok);
   if (ok)
      VG_(am_mmap_anon_fixed_client)(start, bytes, VKI_PROT_NONE);
}

Addr places_address(Addr code, Int fd, SizeT bytes, const PlacementCall* call)
{
   if (place_count == 0 || (call->flags & (VKI_MAP_FIXED | VKI_MAP_ANONYMOUS)) != 0 || call->offset != 0
       || !places_is_loader(VG_(am_find_nsegment)(code)))
      return 0;
   const Place* place = place_of(fd, VG_PGROUNDUP(bytes));
   if (place == NULL)
      return 0;
   placement_expect(call);
   leave_hole(place->bytes);
   return place->base;
}
