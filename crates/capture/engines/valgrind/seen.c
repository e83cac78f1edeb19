/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The process as /proc shows it to others and to itself: its command line and environment are the program's, not the
engine's, and its descriptors are those that the program has opened. Its name: image.c.

For others, `/proc/PID/exe` stays the engine's file: the kernel changes it only for a process that has unmapped its own
file. For the process itself it is the program, by any path: the path is replaced by a link to the program's descriptor.
*/

#include "engine.h"
#include "exec.h"
#include "handlers.h"
#include "sys.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_machine.h"
#include "pub_tool_vki.h"

/* The kernel's place for the program's strings, from the first byte to the one after the last. */
static struct {
   Addr stack;
   Addr arguments, arguments_end;
   Addr variables, variables_end;
} strings;

/* Whether the kernel knows them. */
static Bool is_told;

Bool seen_is_told(void)
{
   return is_told;
}

/* ---- the command line ---- */

static Addr end_of(const HChar* string)
{
   return (Addr)string + VG_(strlen)(string) + 1;
}

/* Finds the strings of a list that ends with NULL; returns what follows the list. */
static HChar** find_strings(HChar** list, Addr* start, Addr* end)
{
   *start = *end = list[0] == NULL ? strings.arguments_end : (Addr)list[0];
   for (; *list != NULL; list++)
      *end = end_of(*list);
   return list + 1;
}

void seen_start(ThreadId thread)
{
   if (strings.stack != 0)
      return;
   UWord* stack = (UWord*)VG_(get_SP)(thread);
   strings.stack = (Addr)stack;
   HChar** variables = find_strings((HChar**)(stack + 1), &strings.arguments, &strings.arguments_end);
   find_strings(variables, &strings.variables, &strings.variables_end);
   seen_tell_kernel();
}

/* Needs no privilege, but a kernel with CONFIG_CHECKPOINT_RESTORE. Without that, observers see the engine's command
   line, and a program that leaves the engine cannot move its break: the C library's allocator then takes other memory.
   */
void seen_tell_kernel(void)
{
   struct {
      ULong start_code, end_code, start_data, end_data, start_brk, brk, start_stack;
      ULong arg_start, arg_end, env_start, env_end;
      ULong* auxv;
      UInt auxv_bytes;
      Int exe_fd;
   } map;
   VG_(memset)(&map, 0, sizeof map);
   Addr page = VG_PGROUNDDN((Addr)seen_tell_kernel);
   map.start_code = map.start_data = page;
   map.end_code = map.end_data = page + 1;
   map.start_brk = VG_(brk_base);
   map.brk = VG_(brk_limit);
   map.start_stack = strings.stack;
   map.arg_start = strings.arguments;
   map.arg_end = strings.arguments_end;
   map.env_start = strings.variables;
   map.env_end = strings.variables_end;
   map.exe_fd = -1;
   is_told = !sys_failed(sys_call6(__NR_prctl, SYS_PR_SET_MM, SYS_PR_SET_MM_MAP, (UWord)&map, sizeof map, 0, 0));
}

/* ---- its own file ---- */

/* Whether a call takes a path whose final link it follows, and in which argument. If that is not the first, the first
   is the folder where the path begins. */
static Bool takes_path(const CallArguments* arguments, UInt* path)
{
   switch (arguments->number) {
      case __NR_stat:
      case __NR_statfs:
      case __NR_access:
      case __NR_readlink: *path = 0; return True;
      case __NR_newfstatat: *path = 1; return !(arguments->at[3] & VKI_AT_SYMLINK_NOFOLLOW);
      case SYS_STATX: *path = 1; return !(arguments->at[2] & VKI_AT_SYMLINK_NOFOLLOW);
      case __NR_faccessat:
      case SYS_FACCESSAT2:
      case SYS_OPENAT2:
      case __NR_readlinkat: *path = 1; return True;
   }
   return False;
}

void seen_path(CallArguments* arguments)
{
   static HChar link[FD_PATH_BYTES];
   UInt at;
   if (!takes_path(arguments, &at))
      return;
   Int folder = at == 0 ? SYS_AT_FDCWD : (Int)arguments->at[0];
   if (!program_names_own(folder, (const HChar*)arguments->at[at]))
      return;
   program_fd_path(link, program_own_fd());
   arguments->at[at] = (UWord)link;
}

/* ---- descriptors ---- */

/* Whether a descriptor is a folder that lists the descriptors of a process under the engine. */
static Bool lists_descriptors(Int fd)
{
   HChar link[FD_PATH_BYTES];
   HChar path[80];
   program_fd_path(link, fd);
   Word bytes = sys_call3(__NR_readlink, (UWord)link, (UWord)path, sizeof path - 1);
   if (bytes <= 0)
      return False;
   path[bytes] = '\0';
   HChar* last = VG_(strrchr)(path, '/');
   if (VG_(strncmp)(path, "/proc/", 6) != 0 || last == NULL
       || (VG_(strcmp)(last, "/fd") != 0 && VG_(strcmp)(last, "/fdinfo") != 0))
      return False;
   VG_(strcpy)(last, "/exe");
   return program_is_engine(path);
}

/* The engine's descriptors lie above all that a program may have. */
static Bool is_engines(const HChar* name)
{
   return name[0] >= '0' && name[0] <= '9' && VG_(strtoll10)(name, NULL) >= VG_(fd_hard_limit);
}

#define ENTRY_BYTES_AT 16                   /* after an inode and an offset of eight bytes each */
#define NAME_AT_64 19
#define NAME_AT 18

void seen_entries(const CallArguments* arguments, CallStatus* status)
{
   UInt name_at = arguments->number == __NR_getdents ? NAME_AT : NAME_AT_64;
   UChar* entries = (UChar*)arguments->at[1];
   UWord bytes = status->result._val;
   if (!lists_descriptors((Int)arguments->at[0]))
      return;
   UWord kept = 0;
   for (UWord at = 0; at < bytes;) {
      UShort length;
      VG_(memcpy)(&length, entries + at + ENTRY_BYTES_AT, sizeof length);
      if (!is_engines((const HChar*)entries + at + name_at)) {
         VG_(memmove)(entries + kept, entries + at, length);
         kept += length;
      }
      at += length;
   }
   status->result._val = kept;
}
