/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A new image: which program Valgrind's core loads, and its initial stack.

The core would load by a path, use the path as the first argument and for a script its interpreter's, and leave its own
variables in the environment, with a preloaded library. Here the program is what the kernel would load, and finds on its
stack what it would find without the engine. */

#include "engine.h"
#include "exec.h"
#include "sys.h"

#include "pub_tool_clientstate.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"

/* In the core library; no header for tools declares it. */
extern UWord* VG_(client_auxv);

const HChar* __real_vgPlain_find_executable(const HChar* name);
const HChar* __wrap_vgPlain_find_executable(const HChar* name);
Int __real_vgPlain_mkstemp(const HChar* part_of_name, HChar* full_name);
Int __wrap_vgPlain_mkstemp(const HChar* part_of_name, HChar* full_name);
void __real_vgPlain_init_log_xml_sinks(UInt log, UInt xml, Int log_fd, Int xml_fd);
void __wrap_vgPlain_init_log_xml_sinks(UInt log, UInt xml, Int log_fd, Int xml_fd);
SysRes __real_vgPlain_open(const HChar* path, Int flags, Int mode);
SysRes __wrap_vgPlain_open(const HChar* path, Int flags, Int mode);

/* Auxiliary vector entries that point to bytes. */
#define AUX_PLATFORM 15
#define AUX_RANDOM 25
#define AUX_RANDOM_BYTES 16
#define AUX_EXECFN 31
#define AUX_LEAST_SIGNAL_STACK 51
#define AUX_IGNORED 1
#define TASK_NAME_BYTES 16

static const HChar* path;    /* the kernel's name for the program */
static const HChar* first;   /* its first argument */
static Int loaded_fd = -1;   /* the file that it is loaded from, to be closed */

Bool image_is_of_valgrind(void)
{
   static Int known = -1;
   if (known < 0)
      known = VG_(getenv)("PAGEWALK_IMAGE_OF_VALGRIND") != NULL;
   return known;
}

/* ---- the loaded file ---- */

/* The value of this internal option, which is then removed so that nobody else sees it. NULL: not given. */
static const HChar* take_option(const HChar* option)
{
   SizeT bytes = VG_(strlen)(option);
   for (Word i = VG_(sizeXA)(VG_(args_for_valgrind)) - 1; i >= 0; i--) {
      const HChar* given = *(const HChar**)VG_(indexXA)(VG_(args_for_valgrind), i);
      if (VG_(strncmp)(given, option, bytes) == 0) {
         VG_(removeIndexXA)(VG_(args_for_valgrind), i);
         return given + bytes;
      }
   }
   return NULL;
}

/* The core reserves stack for this name twice: for the first argument, and for the program's name. */
static void make_room(void)
{
   VG_(args_the_exename) = VG_(strlen)(path) > VG_(strlen)(first) ? path : first;
}

static const HChar* link_to(Int fd)
{
   HChar* link = VG_(malloc)("pagewalk.image", FD_PATH_BYTES);
   program_fd_path(link, fd);
   loaded_fd = fd;
   return link;
}

/* The very first image is started by name. */
static const HChar* find_first_image(const HChar* name)
{
   Program program;
   const HChar* found = __real_vgPlain_find_executable(name);
   Int fd = found == NULL ? -1 : program_open(SYS_AT_FDCWD, found, 0);
   /* The core reports better why something cannot run. */
   if (fd < 0 || program_find(&program, fd, found, name) != 0)
      return found;
   if (program.why_not != NULL) {
      program_forget(&program);
      return found;
   }
   path = VG_(strdup)("pagewalk.image", found);
   first = *(const HChar**)VG_(indexXA)(program.front, 0);
   for (Word i = VG_(sizeXA)(program.front) - 1; i > 0; i--)
      VG_(insertIndexXA)(VG_(args_for_client), 0, VG_(indexXA)(program.front, i));
   make_room();
   return link_to(program.fd);
}

/* The core asks for the program's file. */
const HChar* __wrap_vgPlain_find_executable(const HChar* name)
{
   limits_before_load();
   const HChar* given = take_option(IMAGE_FD_OPTION);
   if (given == NULL)
      return image_is_of_valgrind() ? __real_vgPlain_find_executable(name) : find_first_image(name);
   path = take_option(IMAGE_NAME_OPTION);
   first = take_option(IMAGE_FIRST_OPTION);
   make_room();
   return link_to(VG_(strtoll10)(given, NULL));
}

/* ---- the initial stack ---- */

const HChar* image_own_variable(const HChar* variable)
{
   HChar preload[VKI_PATH_MAX];
   if (VG_(strncmp)(variable, "VALGRIND_LIB=", 13) == 0 || VG_(strncmp)(variable, "VALGRIND_LAUNCHER=", 18) == 0)
      return NULL;
   UInt bytes = VG_(snprintf)(preload, sizeof preload, "LD_PRELOAD=%s/vgpreload_core-amd64-linux.so", VG_(libdir));
   if (VG_(strncmp)(variable, preload, bytes) != 0)
      return variable;
   if (variable[bytes] != ':')
      return variable[bytes] == '\0' ? NULL : variable;
   HChar* kept = VG_(malloc)("pagewalk.image", VG_(strlen)(variable + bytes) + 12);
   VG_(sprintf)(kept, "LD_PRELOAD=%s", variable + bytes + 1);
   return kept;
}

/* Copies of the texts and bytes that the stack points to, until they are rewritten. */
typedef struct {
   UWord** slots;
   const HChar** texts;
   SizeT* bytes;
   UInt count;
   SizeT all;
} Texts;

static void keep(Texts* texts, UWord* slot, const HChar* text, SizeT bytes)
{
   HChar* copy = VG_(malloc)("pagewalk.image", bytes);
   VG_(memcpy)(copy, text, bytes);
   texts->slots[texts->count] = slot;
   texts->texts[texts->count] = copy;
   texts->bytes[texts->count] = bytes;
   texts->count++;
   texts->all += bytes;
}

static void keep_text(Texts* texts, UWord* slot, const HChar* text)
{
   keep(texts, slot, text, VG_(strlen)(text) + 1);
}

/* Writes all texts below the end of the stack, consecutively as the kernel does: programs that set their own title
   overwrite them. */
static void write_texts(Texts* texts)
{
   HChar* to = (HChar*)((VG_(clstk_end) + 1 - sizeof(UWord) - texts->all) & ~(Addr)15);
   for (UInt i = 0; i < texts->count; i++) {
      VG_(memcpy)(to, texts->texts[i], texts->bytes[i]);
      *texts->slots[i] = (UWord)to;
      to += texts->bytes[i];
      VG_(free)((void*)texts->texts[i]);
   }
   VG_(memset)(to, 0, VG_(clstk_end) + 1 - (Addr)to);
}

static UInt count_words(const UWord* at)
{
   UInt count = 0;
   while (at[count] != 0)
      count++;
   return count;
}

/* The least size of an alternate signal stack on this processor, from the kernel; 0: unknown. The core omits it, and
   the C library's own estimate lacks what CPUID hides here: too little for sigaltstack. */
static UWord least_signal_stack(void)
{
   UWord words[2] = { 0, 0 };
   Int fd = (Int)sys_call6(__NR_openat, (UWord)SYS_AT_FDCWD, (UWord)"/proc/self/auxv", VKI_O_RDONLY, 0, 0, 0);
   while (fd >= 0 && VG_(read)(fd, words, sizeof words) == sizeof words && words[0] != 0)
      if (words[0] == AUX_LEAST_SIGNAL_STACK)
         break;
   if (fd >= 0)
      VG_(close)(fd);
   return words[0] == AUX_LEAST_SIGNAL_STACK ? words[1] : 0;
}

/* Moves the auxiliary vector to the end of the environment, which is shorter now, and keeps its texts. */
static void move_auxiliary(Texts* texts, UWord* to)
{
   const UWord* from = VG_(client_auxv);
   UWord signal_stack = least_signal_stack();
   VG_(client_auxv) = to;
   for (Bool is_last = False; !is_last; from += 2, to += 2) {
      UWord kind = to[0] = from[0];
      to[1] = from[1];
      if (kind == AUX_RANDOM)
         keep(texts, &to[1], (const HChar*)to[1], AUX_RANDOM_BYTES);
      else if (kind == AUX_PLATFORM)
         keep_text(texts, &to[1], (const HChar*)to[1]);
      else if (kind == AUX_EXECFN)
         keep_text(texts, &to[1], path);
      else if (kind == AUX_IGNORED && signal_stack != 0) {
         to[0] = AUX_LEAST_SIGNAL_STACK;
         to[1] = signal_stack;
         signal_stack = 0;
      }
      is_last = kind == 0;
   }
}

static void set_stack(void)
{
   UWord* environment = (UWord*)VG_(client_envp);
   UWord* arguments = environment - VG_(sizeXA)(VG_(args_for_client)) - 2;
   UInt most = VG_(sizeXA)(VG_(args_for_client)) + count_words(environment) + 8;
   Texts texts = {
      .slots = VG_(malloc)("pagewalk.image", most * sizeof(UWord*)),
      .texts = VG_(malloc)("pagewalk.image", most * sizeof(HChar*)),
      .bytes = VG_(malloc)("pagewalk.image", most * sizeof(SizeT)),
   };
   keep_text(&texts, &arguments[0], first);
   for (UWord* at = &arguments[1]; *at != 0; at++)
      keep_text(&texts, at, (const HChar*)*at);
   UWord* to = environment;
   for (const UWord* at = environment; *at != 0; at++) {
      const HChar* own = image_own_variable((const HChar*)*at);
      if (own != NULL)
         keep_text(&texts, to++, own);
   }
   *to++ = 0;
   move_auxiliary(&texts, to);
   write_texts(&texts);
   VG_(free)(texts.slots);
   VG_(free)(texts.texts);
   VG_(free)(texts.bytes);
}

/* As the kernel does: by the last component of its path, or of its file's path if executed by a descriptor (Linux 6.14;
   the descriptor's number before). `ps` shows the name; pkill and killall search for it. */
static void name_process(void)
{
   static const HChar deleted[] = " (deleted)";
   const HChar* whole = path;
   HChar name[TASK_NAME_BYTES];
   if (VG_(strncmp)(path, "/dev/fd/", 8) == 0 && !VG_(resolve_filename)(VG_(cl_exec_fd), &whole))
      whole = path;
   /* The core's own search skips the first character, which is the slash in a memfd's name. */
   const HChar* slash = VG_(strrchr)(whole, '/');
   const HChar* last = slash != NULL ? slash + 1 : whole + (whole[0] == '/');
   const HChar* end = whole == path ? NULL : VG_(strstr)(last, deleted);
   SizeT bytes = end == NULL ? VG_(strlen)(last) : (SizeT)(end - last);
   bytes = bytes < sizeof name ? bytes : sizeof name - 1;
   VG_(memcpy)(name, last, bytes);
   name[bytes] = '\0';
   sys_call6(__NR_prctl, SYS_PR_SET_NAME, (UWord)name, 0, 0, 0, 0);
}

/* Right after the image, the core makes two files that the client sees in /proc. */
Int __wrap_vgPlain_mkstemp(const HChar* part_of_name, HChar* full_name)
{
   if (loaded_fd >= 0) {
      VG_(close)(loaded_fd);
      loaded_fd = -1;
      set_stack();
      name_process();
      VG_(args_the_exename) = first;
   }
   return __real_vgPlain_mkstemp(part_of_name, full_name);
}

/* ---- its descriptors ---- */

static Bool opens_log;

/* All images write to one log. The core would truncate it in each image, losing earlier messages. */
SysRes __wrap_vgPlain_open(const HChar* path, Int flags, Int mode)
{
   if (opens_log && (flags & VKI_O_TRUNC))
      flags = (flags & ~VKI_O_TRUNC) | VKI_O_APPEND;
   return __real_vgPlain_open(path, flags, mode);
}

/* The core opens its log, moves it away from the client's descriptors, and leaves the first one open: one more in every
   image. */
void __wrap_vgPlain_init_log_xml_sinks(UInt log, UInt xml, Int log_fd, Int xml_fd)
{
   opens_log = True;
   Int lowest = (Int)sys_call6(__NR_openat, (UWord)SYS_AT_FDCWD, (UWord)"/", VKI_O_RDONLY, 0, 0, 0);
   VG_(close)(lowest);
   __real_vgPlain_init_log_xml_sinks(log, xml, log_fd, xml_fd);
   VG_(close)(lowest);
   opens_log = False;
}
