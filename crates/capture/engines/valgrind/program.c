/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the kernel executes a file: it loads a program, or a script's interpreter, or returns an error. See execve(2) and
fs/exec.c, fs/binfmt_script.c and fs/binfmt_elf.c of Linux.

Valgrind's core knows only the given path, so a program executed by a descriptor, by /proc/self/exe or with a first
argument of its own would not be the same as without Valgrind. */

#include "engine.h"
#include "exec.h"
#include "segments.h"
#include "sys.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vkiscnums.h"

/* Bytes of a script's first line that the kernel reads, and the most scripts that it follows. */
#define LINE_BYTES 256
#define SCRIPTS_MAX 5

void program_fd_path(HChar path[FD_PATH_BYTES], Int fd)
{
   VG_(snprintf)(path, FD_PATH_BYTES, "/proc/self/fd/%d", fd);
}

/* ---- rights ---- */

/* Only trying shows what Landlock and other kernel modules refuse. */
static Bool opens(const HChar* path)
{
   Word fd = sys_call6(__NR_openat, (UWord)SYS_AT_FDCWD, (UWord)path, VKI_O_RDONLY | SYS_O_CLOEXEC, 0, 0, 0);
   if (!sys_failed(fd))
      VG_(close)(fd);
   return !sys_failed(fd);
}

/* The same for execution, if the kernel can tell without executing. */
static Bool is_refused(Int folder, const HChar* path, UInt flags)
{
   return sys_call6(__NR_execveat, folder, (UWord)path, 0, 0, flags | EXECVE_CHECK_ONLY, 0) == -VKI_EACCES;
}

Bool program_may(const HChar* path, UInt how)
{
   Word result = sys_call6(SYS_FACCESSAT2, (UWord)SYS_AT_FDCWD, (UWord)path, how, SYS_AT_EACCESS, 0, 0);
   /* Before Linux 5.8, and where a container's filter lacks the call: by the real user. */
   if (result == -SYS_ENOSYS || result == -SYS_EPERM)
      result = sys_call3(__NR_faccessat, (UWord)SYS_AT_FDCWD, (UWord)path, how);
   if (sys_failed(result))
      return False;
   if ((how & MAY_READ) && !opens(path))
      return False;
   return !(how & MAY_EXECUTE) || !is_refused(SYS_AT_FDCWD, path, 0);
}

/* Whether the descriptor may be executed. */
static Bool may_execute(Int fd)
{
   HChar link[FD_PATH_BYTES];
   if (!sys_failed(sys_call6(SYS_FACCESSAT2, fd, (UWord)"", MAY_EXECUTE, SYS_AT_EACCESS | SYS_AT_EMPTY_PATH, 0, 0)))
      return !is_refused(fd, "", SYS_AT_EMPTY_PATH);
   program_fd_path(link, fd);
   return program_may(link, MAY_EXECUTE);
}

/* ---- opening ---- */

/* Whether this is the engine's own file, which is /proc/self/exe for the kernel. */
static Bool is_engine(const struct vg_stat* about)
{
   static struct vg_stat own;
   if (own.ino == 0) {
      Int fd = proc_open("/proc/self/exe", SYS_O_PATH | SYS_O_CLOEXEC);
      if (fd < 0)
         return False;
      VG_(fstat)(fd, &own);
      VG_(close)(fd);
   }
   return about->dev == own.dev && about->ino == own.ino;
}

Bool program_is_engine(const HChar* path)
{
   struct vg_stat about;
   return !sr_isError(VG_(stat)(path, &about)) && is_engine(&about);
}

Int program_own_fd(void)
{
   return VG_(cl_exec_fd);
}

Int program_open_own(UInt flags)
{
   HChar link[FD_PATH_BYTES];
   program_fd_path(link, VG_(cl_exec_fd));
   return proc_open(link, flags);
}

Int program_open(Int folder, const HChar* path, UInt flags)
{
   HChar link[FD_PATH_BYTES];
   struct vg_stat about;
   Int fd;
   if (path[0] == '\0' && (flags & SYS_AT_EMPTY_PATH)) {
      program_fd_path(link, folder);
      fd = proc_open(link, SYS_O_PATH | SYS_O_CLOEXEC);
      if (fd == -VKI_ENOENT)
         fd = -VKI_EBADF;
   } else {
      UInt follow = flags & VKI_AT_SYMLINK_NOFOLLOW ? SYS_O_NOFOLLOW : 0;
      fd = (Int)sys_call6(__NR_openat, folder, (UWord)path, SYS_O_PATH | SYS_O_CLOEXEC | follow, 0, 0, 0);
   }
   if (fd < 0 || VG_(cl_exec_fd) < 0 || VG_(fstat)(fd, &about) != 0 || !is_engine(&about))
      return fd;
   VG_(close)(fd);
   return program_open_own(SYS_O_PATH | SYS_O_CLOEXEC);
}

/* ---- scripts ---- */

static Bool is_blank(HChar c)
{
   return c == ' ' || c == '\t';
}

/* Splits a script's first line, after `#!`, in place. False: the interpreter's name is missing or truncated. */
static Bool split_line(HChar* line, HChar** interpreter, HChar** argument)
{
   HChar* newline = VG_(strchr)(line, '\n');
   HChar* end = newline == NULL ? line + VG_(strlen)(line) : newline;
   while (end > line && is_blank(end[-1]))
      end--;
   *end = '\0';
   while (is_blank(*line))
      line++;
   *interpreter = line;
   while (*line != '\0' && !is_blank(*line))
      line++;
   Bool is_whole = newline != NULL || *line != '\0' || line - *interpreter < LINE_BYTES - 3;
   *argument = NULL;
   if (*line != '\0') {
      *line++ = '\0';
      while (is_blank(*line))
         line++;
      *argument = line;
   }
   return **interpreter != '\0' && is_whole;
}

static void add(Program* program, Word at, const HChar* text)
{
   const HChar* copy = VG_(strdup)("pagewalk.exec", text);
   VG_(insertIndexXA)(program->front, at, &copy);
}

/* Continues from a script to its interpreter; `*name` is the script's name, then the interpreter's. */
static Int go_to_interpreter(Program* program, HChar* line, const HChar** name)
{
   HChar* interpreter;
   HChar* argument;
   if (*name == NULL)
      return VKI_ENOENT;   /* it could not open the script */
   if (!split_line(line, &interpreter, &argument))
      return VKI_ENOEXEC;
   VG_(removeIndexXA)(program->front, 0);
   add(program, 0, interpreter);
   if (argument != NULL)
      add(program, 1, argument);
   add(program, argument == NULL ? 1 : 2, *name);
   program->is_script = True;
   VG_(close)(program->fd);
   program->fd = program_open(SYS_AT_FDCWD, interpreter, 0);
   *name = *(const HChar**)VG_(indexXA)(program->front, 0);
   return program->fd < 0 ? -program->fd : 0;
}

/* ---- the loaded file ---- */

/* The loader named by a program must exist. */
static Int check_loader(Program* program, Int file, const Elf64_Ehdr* header)
{
   Elf64_Phdr segment;
   HChar path[VKI_PATH_MAX];
   for (UInt i = 0; read_segment(file, header, i, &segment); i++) {
      if (segment.p_type != PT_INTERP || segment.p_filesz >= sizeof path
          || !read_at(file, path, segment.p_filesz, segment.p_offset))
         continue;
      path[segment.p_filesz] = '\0';
      if (!program_may(path, MAY_EXECUTE))
         return program_may(path, 0) ? VKI_EACCES : VKI_ENOENT;
      if (!opens(path))
         program->why_not = "its loader may not be read, which the engine has to do";
      return 0;
   }
   return 0;
}

/* The first byte of the engine's own image, and the one after its last: from the linker. */
extern const HChar __executable_start[];
extern const HChar _end[];

/* A program with fixed addresses must leave the engine's place free. */
static void check_place(Program* program, Int file, const Elf64_Ehdr* header)
{
   static HChar reason[256];
   Elf64_Phdr segment;
   for (UInt i = 0; header->e_type == ET_EXEC && read_segment(file, header, i, &segment); i++) {
      Addr end = segment.p_vaddr + segment.p_memsz;
      if (segment.p_type != PT_LOAD || segment.p_memsz == 0 || VG_PGROUNDDN(segment.p_vaddr) >= (Addr)_end
          || VG_PGROUNDUP(end) <= (Addr)__executable_start)
         continue;
      VG_(snprintf)(reason, sizeof reason,
                    "it is not position independent and its image reaches up to 0x%lx, but the engine lies at 0x%lx (a "
                    "build with -pie lies elsewhere)", end, (Addr)__executable_start);
      program->why_not = reason;
   }
}

/* The kernel never executes text that is no script. It may execute anything else, if registered. */
static Bool is_text(const HChar* bytes, UInt count)
{
   for (UInt i = 0; i < count; i++)
      if (bytes[i] == '\0' || (UChar)bytes[i] >= 128)
         return False;
   return True;
}

static Int check_loaded(Program* program, Int file, const HChar* start, UInt bytes)
{
   Elf64_Ehdr header = { .e_machine = EM_NONE };   /* whose first half is that of 32 bits, too */
   if (bytes >= sizeof header && VG_(memcmp)(start, ELFMAG, SELFMAG) == 0)
      VG_(memcpy)(&header, start, sizeof header);
   if (header.e_machine == EM_X86_64 && header.e_ident[EI_CLASS] == ELFCLASS64) {
      check_place(program, file, &header);
      return check_loader(program, file, &header);
   }
   program->why_not = "it is no 64-bit x86-64 program";
   if (header.e_machine == EM_386 || header.e_machine == EM_X86_64)
      return 0;
   return !is_text(start, bytes) && program_may("/proc/sys/fs/binfmt_misc/status", MAY_READ) ? 0 : VKI_ENOEXEC;
}

/* An executed file must be regular and executable. */
static Int check_rights(const Program* program)
{
   struct vg_stat about;
   Bool is_known = VG_(fstat)(program->fd, &about) == 0;
   if (is_known && VKI_S_ISLNK(about.mode))
      return VKI_ELOOP;   /* one that is not to be followed */
   if (!is_known || !VKI_S_ISREG(about.mode) || !may_execute(program->fd))
      return VKI_EACCES;
   return 0;
}

static void check_privileges(Program* program, Int file)
{
   struct vg_stat about;
   if (VG_(fstat)(file, &about) == 0 && (about.mode & (VKI_S_ISUID | VKI_S_ISGID)))
      program->why_not = "it gains privileges";
   else if (!sys_failed(sys_call6(__NR_fgetxattr, file, (UWord)"security.capability", 0, 0, 0, 0)))
      program->why_not = "it gains privileges";
}

/* Examines the present file of `program`; `goes_on` if a script leads to another. */
static Int look(Program* program, const HChar** name, Bool* goes_on)
{
   HChar start[LINE_BYTES + 1];
   HChar link[FD_PATH_BYTES];
   *goes_on = False;
   Int error = check_rights(program);
   if (error != 0)
      return error;
   program_fd_path(link, program->fd);
   Int file = proc_open(link, VKI_O_RDONLY | SYS_O_CLOEXEC);
   if (file < 0) {
      program->why_not = "it may not be read, which the engine has to do";
      return 0;
   }
   Int bytes = VG_(read)(file, start, LINE_BYTES);
   start[bytes > 0 ? bytes : 0] = '\0';
   if (bytes > 2 && start[0] == '#' && start[1] == '!') {
      *goes_on = True;
      error = go_to_interpreter(program, start + 2, name);
   } else {
      error = check_loaded(program, file, start, bytes > 0 ? bytes : 0);
      if (program->why_not == NULL)
         check_privileges(program, file);
   }
   VG_(close)(file);
   return error;
}

Int program_find(Program* program, Int fd, const HChar* name, const HChar* first)
{
   *program = (Program){ .fd = fd, .is_script = False, .why_not = NULL };
   program->front = VG_(newXA)(VG_(malloc), "pagewalk.exec", VG_(free), sizeof(HChar*));
   add(program, 0, first);
   Bool goes_on = True;
   for (UInt scripts = 0; goes_on; scripts++) {
      Int error = scripts > SCRIPTS_MAX ? VKI_ELOOP : look(program, &name, &goes_on);
      if (error != 0) {
         program_forget(program);
         return error;
      }
   }
   return 0;
}

void program_forget(Program* program)
{
   if (program->fd >= 0)
      VG_(close)(program->fd);
   program->fd = -1;
   VG_(deleteXA)(program->front);
   program->front = NULL;
}
