/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls that execute a program, replacing those of Valgrind's core (through the linker's --wrap).

A followed new image begins with Valgrind itself, which is told what to load as a descriptor, and the first argument
separately (image.c). Valgrind would end an image that it cannot start: if it cannot reach what it needs (as another
user, under another root, or after pagewalk's end), if a program gains privileges, if it cannot read the file. What
cannot be followed runs natively. A failing call leaves everything unchanged, where the core would end the program. */

#include "engine.h"
#include "exec.h"
#include "handlers.h"
#include "sys.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_clientstate.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_libcsignal.h"
#include "pub_tool_mallocfree.h"

/* In the core library; no header for tools declares them. */
extern const HChar* VG_(name_of_launcher);
extern Int VG_(sigtimedwait_zero)(const vki_sigset_t* set, vki_siginfo_t* info);
extern SysRes VG_(do_sys_sigaction)(Int signal, const vki_sigaction_toK_t* new, vki_sigaction_fromK_t* old);
extern SysRes VG_(do_sys_sigprocmask)(ThreadId thread, Int how, vki_sigset_t* set, vki_sigset_t* old);

#define STACK_OPTION "--main-stacksize="
#define STACK_UNASKED (16ULL << 20)   /* what Valgrind gives the first stack unasked; as in engine.rs */
#define SIGNALS 64
#define TEXT_MAX (128 * 1024)   /* the kernel's limit for one argument */
#define SYS_ENAMETOOLONG 36

/* A call that executes a program, as it was made. */
typedef struct {
   ThreadId thread;
   Bool is_at;   /* execveat: by the two below too */
   Int folder;
   UInt flags;
   const HChar* path;
   const HChar** arguments;     /* NULL: none */
   const HChar** environment;   /* NULL: empty */
} Call;

/* ---- whether Valgrind can begin there ---- */

/* Only trying shows it. */
static Bool may_create(const HChar* folder)
{
   HChar path[VKI_PATH_MAX + 64];
   VG_(snprintf)(path, sizeof path, "%s/pagewalk-%d-%d", folder, VG_(getpid)(), VG_(gettid)());
   Word fd = sys_call6(__NR_openat, (UWord)SYS_AT_FDCWD, (UWord)path,
                       VKI_O_WRONLY | VKI_O_CREAT | VKI_O_EXCL | SYS_O_CLOEXEC, 0600, 0, 0);
   if (sys_failed(fd))
      return False;
   VG_(close)(fd);
   return !sys_failed(sys_call3(__NR_unlink, (UWord)path, 0, 0));
}

/* Valgrind's messages go to a new file in the socket's folder. */
static Bool may_write_log(void)
{
   HChar folder[VKI_PATH_MAX];
   if (ring_socket_path == NULL)
      return True;
   VG_(strncpy)(folder, ring_socket_path, sizeof folder - 1);
   folder[sizeof folder - 1] = '\0';
   HChar* name = VG_(strrchr)(folder, '/');
   if (name != NULL)
      *name = '\0';
   return may_create(folder);
}

/* The core writes files there that the program sees in /proc. */
static const HChar* temporary_folder(const HChar** environment)
{
   for (; environment != NULL && *environment != NULL; environment++)
      if (VG_(strncmp)(*environment, "TMPDIR=", 7) == 0 && (*environment)[7] != '\0')
         return *environment + 7;
   return "/tmp";
}

static Bool may_reach_all(const Call* call)
{
   HChar tool[VKI_PATH_MAX];
   VG_(snprintf)(tool, sizeof tool, "%s/pagewalk-amd64-linux", VG_(libdir));
   return VG_(name_of_launcher) != NULL && VG_(name_of_launcher)[0] == '/'
          && program_may(VG_(name_of_launcher), MAY_EXECUTE) && program_may(tool, MAY_READ | MAY_EXECUTE)
          && (places_path == NULL || program_may(places_path, MAY_READ)) && program_may("/proc/self/maps", MAY_READ)
          && may_write_log() && may_create(temporary_folder(call->environment));
}

typedef struct {
   UInt effective;
   UInt permitted;
   UInt inheritable;
} Capabilities;

/* A user other than root loses capabilities by exec, so this is tested without them. Ambient ones would stay: then a
   program that could be followed is not. */
static Bool may_begin(const Call* call)
{
   struct { UInt version; Int pid; } header = { SYS_CAPABILITY_VERSION_3, 0 };
   Capabilities own[2];
   if (sys_call3(__NR_geteuid, 0, 0, 0) == 0 || sys_failed(sys_call3(__NR_capget, (UWord)&header, (UWord)own, 0)))
      return may_reach_all(call);
   Capabilities none[2] = { own[0], own[1] };
   none[0].effective = none[1].effective = 0;
   sys_call3(__NR_capset, (UWord)&header, (UWord)none, 0);
   Bool result = may_reach_all(call);
   sys_call3(__NR_capset, (UWord)&header, (UWord)own, 0);
   return result;
}

/* ---- the client's arguments ---- */

static Bool is_readable(const void* at, SizeT bytes)
{
   return VG_(am_is_valid_for_client)((Addr)at, bytes, VKI_PROT_READ);
}

/* Bytes of a text in the client's memory, including the NUL; 0: unreadable, or longer than `most`. */
static SizeT text_bytes(const HChar* text, SizeT most)
{
   SizeT bytes = 0;
   while (bytes < most) {
      SizeT left = VKI_PAGE_SIZE - (((Addr)text + bytes) & (VKI_PAGE_SIZE - 1));
      if (!is_readable(text + bytes, left))
         return 0;
      for (SizeT end = bytes + left; bytes < end && bytes < most; bytes++)
         if (text[bytes] == '\0')
            return bytes + 1;
   }
   return 0;
}

/* The error of a list of texts. */
static Int check_list(const HChar** list)
{
   for (const HChar** at = list; list != NULL; at++) {
      if (!is_readable(at, sizeof *at))
         return VKI_EFAULT;
      if (*at == NULL)
         return 0;
      if (!is_readable(*at, 1))
         return VKI_EFAULT;
      if (text_bytes(*at, TEXT_MAX) == 0)
         return VKI_E2BIG;
   }
   return 0;
}

static Int check_call(const Call* call)
{
   if (!is_readable(call->path, 1))
      return VKI_EFAULT;
   if (text_bytes(call->path, VKI_PATH_MAX) == 0)
      return SYS_ENAMETOOLONG;
   if (call->path[0] == '\0' && !(call->flags & SYS_AT_EMPTY_PATH))
      return VKI_ENOENT;
   Int error = check_list(call->arguments);
   return error != 0 ? error : check_list(call->environment);
}

static UInt count_of(const HChar** list)
{
   UInt count = 0;
   while (list != NULL && list[count] != NULL)
      count++;
   return count;
}

/* The kernel's name for the program: for itself, in AT_EXECFN, and for a script's interpreter. */
static void name_of(const Call* call, HChar* name, SizeT room)
{
   if (call->path[0] == '/' || !call->is_at || call->folder == SYS_AT_FDCWD)
      VG_(snprintf)(name, room, "%s", call->path);
   else
      VG_(snprintf)(name, room, "/dev/fd/%d%s%s", call->folder, call->path[0] == '\0' ? "" : "/", call->path);
}

/* A script in a descriptor closed at exec would not be found. */
static Bool is_reachable(const Call* call)
{
   if (call->path[0] == '/' || !call->is_at || call->folder == SYS_AT_FDCWD)
      return True;
   return !(sys_call3(__NR_fcntl, call->folder, VKI_F_GETFD, 0) & VKI_FD_CLOEXEC);
}

/* ---- the state passed to the next image ---- */

typedef struct {
   UWord handler;
   UWord flags;
   UWord restorer;
   UWord mask;
} Action;

typedef struct {
   Action actions[SIGNALS + 1];
   vki_sigset_t mask;
} Signals;

static void set_action(Int signal, const Action* new, Action* old)
{
   sys_call6(__NR_rt_sigaction, signal, (UWord)new, (UWord)old, sizeof(vki_sigset_t), 0, 0);
}

/* Tells the kernel what the client ignores and blocks, as that is inherited. Pending signals that the client does not
   block would end it now: they are dropped. */
static void show_signals(ThreadId thread, Bool is_followed, Signals* kept)
{
   vki_sigset_t blocked;
   vki_sigset_t open;
   vki_siginfo_t info;
   for (Int signal = 1; signal <= SIGNALS; signal++) {
      vki_sigaction_fromK_t of_client;
      Action action = { .handler = (UWord)VKI_SIG_DFL };
      if (!sr_isError(VG_(do_sys_sigaction)(signal, NULL, &of_client)) && of_client.ksa_handler == VKI_SIG_IGN)
         action.handler = (UWord)VKI_SIG_IGN;
      set_action(signal, &action, &kept->actions[signal]);
   }
   VG_(do_sys_sigprocmask)(thread, VKI_SIG_BLOCK, NULL, &blocked);
   for (UInt word = 0; word < sizeof open.sig / sizeof open.sig[0]; word++)
      open.sig[word] = ~blocked.sig[word];
   while (VG_(sigtimedwait_zero)(&open, &info) > 0)
      ;
   limits_native(is_followed);
   sys_call6(__NR_rt_sigprocmask, VKI_SIG_SETMASK, (UWord)&blocked, (UWord)&kept->mask, sizeof blocked, 0, 0);
}

static void hide_signals(const Signals* kept)
{
   limits_engine();
   sys_call6(__NR_rt_sigprocmask, VKI_SIG_SETMASK, (UWord)&kept->mask, 0, sizeof kept->mask, 0, 0);
   for (Int signal = 1; signal <= SIGNALS; signal++)
      set_action(signal, &kept->actions[signal], NULL);
}

/* The client's environment without Valgrind's additions, and with the engine's place if the image is followed. */
static const HChar** make_environment(const Call* call, Bool is_followed)
{
   UInt count = count_of(call->environment);
   const HChar** made = VG_(malloc)("pagewalk.exec", (count + 2) * sizeof *made);
   UInt used = 0;
   for (UInt i = 0; i < count; i++) {
      const HChar* own = image_own_variable(call->environment[i]);
      if (own != NULL)
         made[used++] = own;
   }
   if (is_followed) {
      HChar* place = VG_(malloc)("pagewalk.exec", VG_(strlen)(VG_(libdir)) + 16);
      VG_(sprintf)(place, "VALGRIND_LIB=%s", VG_(libdir));
      made[used++] = place;
   }
   made[used] = NULL;
   return made;
}

/* ---- the calls ---- */

static const HChar* joined(const HChar* option, const HChar* value)
{
   HChar* text = VG_(malloc)("pagewalk.exec", VG_(strlen)(option) + VG_(strlen)(value) + 1);
   VG_(sprintf)(text, "%s%s", option, value);
   return text;
}

/* The launcher's command for the engine's next image. */
static const HChar** make_command(const Call* call, const Program* program, Int fd, const HChar* name)
{
   Word options = VG_(sizeXA)(VG_(args_for_valgrind));
   Word front = VG_(sizeXA)(program->front);
   UInt given = count_of(call->arguments);
   const HChar** made = VG_(malloc)("pagewalk.exec", (options + front + given + 10) * sizeof *made);
   HChar number[16];
   UInt used = 0;
   made[used++] = "valgrind";
   for (Word i = VG_(args_for_valgrind_noexecpass); i < options; i++) {
      const HChar* option = *(const HChar**)VG_(indexXA)(VG_(args_for_valgrind), i);
      if (VG_(strncmp)(option, STACK_OPTION, VG_(strlen)(STACK_OPTION)) != 0)
         made[used++] = option;
   }
   if (limits_stack_bytes() > STACK_UNASKED) {
      VG_(snprintf)(number, sizeof number, "%llu", limits_stack_bytes());
      made[used++] = joined(STACK_OPTION, number);
   }
   VG_(snprintf)(number, sizeof number, "%d", fd);
   made[used++] = joined(IMAGE_FD_OPTION, number);
   made[used++] = joined(IMAGE_NAME_OPTION, name);
   made[used++] = joined(IMAGE_FIRST_OPTION, *(const HChar**)VG_(indexXA)(program->front, 0));
   made[used++] = "--";
   /* The launcher searches PATH for names without a slash. */
   made[used++] = VG_(strchr)(name, '/') != NULL ? name : joined("./", name);
   for (Word i = 1; i < front; i++)
      made[used++] = *(const HChar**)VG_(indexXA)(program->front, i);
   for (UInt i = 1; i < given; i++)
      made[used++] = call->arguments[i];
   made[used] = NULL;
   return made;
}

static Int follow(const Call* call, const Program* program, const HChar* name)
{
   Signals kept;
   /* Among the core's own, so that it takes none of the program's. */
   Word fd = sys_call3(__NR_fcntl, program->fd, VKI_F_DUPFD, VG_(fd_hard_limit));
   if (sys_failed(fd))
      return (Int)-fd;
   const HChar** command = make_command(call, program, (Int)fd, name);
   const HChar** environment = make_environment(call, True);
   show_signals(call->thread, True, &kept);
   Word result = sys_call3(__NR_execve, (UWord)VG_(name_of_launcher), (UWord)command, (UWord)environment);
   VG_(close)((Int)fd);
   hide_signals(&kept);
   return (Int)-result;
}

static Int leave(const Call* call)
{
   Signals kept;
   HChar link[FD_PATH_BYTES];
   const HChar** environment = make_environment(call, False);
   Int own = program_open(call->folder, call->path, call->flags);
   Word result = -VKI_ENOENT;
   show_signals(call->thread, False, &kept);
   if (call->is_at)
      result = sys_call6(__NR_execveat, call->folder, (UWord)call->path, (UWord)call->arguments, (UWord)environment,
                         call->flags, 0);
   else if (VG_(strncmp)(call->path, "/proc/", 6) != 0)
      result = sys_call3(__NR_execve, (UWord)call->path, (UWord)call->arguments, (UWord)environment);
   else {
      /* It may be the client's program, which for the kernel is the engine. */
      program_fd_path(link, own);
      result = sys_call3(__NR_execve, (UWord)link, (UWord)call->arguments, (UWord)environment);
   }
   hide_signals(&kept);
   if (own >= 0)
      VG_(close)(own);
   return (Int)-result;
}

/* The program's name in reports. */
static void describe(const Call* call, Int fd, HChar* text, SizeT room)
{
   HChar link[FD_PATH_BYTES];
   Bool is_plain = call->path[0] != '\0' && VG_(strncmp)(call->path, "/proc/", 6) != 0
                   && VG_(strncmp)(call->path, "/dev/", 5) != 0;
   program_fd_path(link, fd);
   SSizeT bytes = is_plain || fd < 0 ? -1 : VG_(readlink)(link, text, room - 1);
   if (bytes > 0)
      text[bytes] = '\0';
   else
      VG_(snprintf)(text, room, "%s", call->path);
}

/* If the kernel can tell without executing: whether somebody writes the file. */
static Bool is_being_written(Int fd)
{
   return sys_call6(__NR_execveat, fd, (UWord)"", 0, 0, SYS_AT_EMPTY_PATH | EXECVE_CHECK_ONLY, 0) == -VKI_ETXTBSY;
}

/* Does not return if the program is executed; otherwise returns the error. */
static Int execute(const Call* call)
{
   HChar name[VKI_PATH_MAX + 32];
   HChar shown[VKI_PATH_MAX];
   HChar lost[VKI_PATH_MAX + 128];
   Program program;
   Int error = check_call(call);
   if (error != 0) {
      event_exec("");
      return error;
   }
   name_of(call, name, sizeof name);
   Int fd = program_open(call->folder, call->path, call->flags);
   describe(call, fd, shown, sizeof shown);
   Bool has_first = call->arguments != NULL && call->arguments[0] != NULL;
   if (fd < 0)
      error = -fd;
   else if (is_being_written(fd)) {
      error = VKI_ETXTBSY;
      VG_(close)(fd);
   } else
      error = program_find(&program, fd, is_reachable(call) ? name : NULL, has_first ? call->arguments[0] : "");
   if (error != 0) {
      event_exec(shown);
      return error;
   }
   if (program.why_not == NULL && limits_are_too_low())
      program.why_not = "it may have too few files open (ulimit -Hn), of which the engine needs some";
   if (program.why_not == NULL && !may_begin(call))
      program.why_not = "Valgrind cannot be reached from where it runs";
   if (program.why_not != NULL) {
      VG_(snprintf)(lost, sizeof lost, "what %s does, which runs untraced: %s", shown, program.why_not);
      event_lost(lost);
   }
   /* Nothing may come between this and the end of a stream that another program's follows. */
   event_exec(shown);
   ring_publish();
   vfork_send();
   error = program.why_not == NULL ? follow(call, &program, name) : leave(call);
   program_forget(&program);
   return error;
}

Before __wrap_vgSysWrap_generic_sys_execve_before;
Before __wrap_vgSysWrap_linux_sys_execveat_before;

void __wrap_vgSysWrap_generic_sys_execve_before(ThreadId thread, __attribute__((unused)) const void* layout,
                                                CallArguments* arguments, CallStatus* status,
                                                __attribute__((unused)) UWord* flags)
{
   Call call = {
      .thread = thread,
      .is_at = False,
      .folder = SYS_AT_FDCWD,
      .flags = 0,
      .path = (const HChar*)arguments->at[0],
      .arguments = (const HChar**)arguments->at[1],
      .environment = (const HChar**)arguments->at[2],
   };
   call_fail(status, execute(&call));
}

void __wrap_vgSysWrap_linux_sys_execveat_before(ThreadId thread, __attribute__((unused)) const void* layout,
                                                CallArguments* arguments, CallStatus* status,
                                                __attribute__((unused)) UWord* flags)
{
   Call call = {
      .thread = thread,
      .is_at = True,
      .folder = (Int)arguments->at[0],
      .flags = (UInt)arguments->at[4],
      .path = (const HChar*)arguments->at[1],
      .arguments = (const HChar**)arguments->at[2],
      .environment = (const HChar**)arguments->at[3],
   };
   call_fail(status, execute(&call));
}

/* ---- a program that opens its own file ---- */

Before __real_vgSysWrap_generic_sys_open_before;
Before __wrap_vgSysWrap_generic_sys_open_before;
Before __real_vgSysWrap_linux_sys_openat_before;
Before __wrap_vgSysWrap_linux_sys_openat_before;

#define PROC_MAGIC 0x9fa0

/* Cuts the last component off a path and returns it; NULL: there is none. */
static HChar* cut_last(HChar* path)
{
   HChar* slash = VG_(strrchr)(path, '/');
   if (slash == NULL)
      return NULL;
   *slash = '\0';
   return slash + 1;
}

/* Whether the descriptor is `exe` in the /proc folder of this process or one of its threads. */
static Bool is_own_link(Int fd)
{
   HChar link[FD_PATH_BYTES];
   HChar path[VKI_PATH_MAX];
   Long about[15];   /* struct statfs */
   program_fd_path(link, fd);
   SSizeT bytes = VG_(readlink)(link, path, sizeof path - 1);
   if (bytes <= 0 || sys_failed(sys_call3(__NR_fstatfs, fd, (UWord)about, 0)) || about[0] != PROC_MAGIC)
      return False;
   path[bytes] = '\0';
   cut_last(path);
   const HChar* process = cut_last(path);
   HChar* above = VG_(strrchr)(path, '/');
   if (above != NULL && VG_(strcmp)(above, "/task") == 0) {
      cut_last(path);
      process = cut_last(path);
   }
   return process != NULL && VG_(strtoll10)(process, NULL) == VG_(getpid)();
}

Bool program_names_own(Int folder, const HChar* path)
{
   SizeT bytes = text_bytes(path, VKI_PATH_MAX);
   if (bytes < 4 || VG_(strcmp)(path + bytes - 4, "exe") != 0 || (bytes > 4 && path[bytes - 5] != '/'))
      return False;
   Word fd = sys_call6(__NR_openat, folder, (UWord)path, SYS_O_PATH | SYS_O_NOFOLLOW | SYS_O_CLOEXEC, 0, 0, 0);
   if (sys_failed(fd))
      return False;
   Bool result = is_own_link(fd);
   VG_(close)(fd);
   return result;
}

/* Whether this is a file in the process's own /proc folder. */
static Bool is_of_process(const HChar* path, const HChar* file)
{
   HChar by_number[FD_PATH_BYTES];
   HChar by_name[FD_PATH_BYTES];
   VG_(snprintf)(by_number, sizeof by_number, "/proc/%d/%s", VG_(getpid)(), file);
   VG_(snprintf)(by_name, sizeof by_name, "/proc/self/%s", file);
   return is_readable(path, 1) && (VG_(strcmp)(path, by_number) == 0 || VG_(strcmp)(path, by_name) == 0);
}

/* The core would pass a close-on-exec descriptor to the next image, and make all share one position. */
static void open_own(CallStatus* status, UInt flags)
{
   /* Natively nobody may write a running program. */
   Int fd = (flags & 3) != 0 ? -VKI_ETXTBSY : program_open_own(flags);
   if (fd >= 0)
      call_succeed(status, fd);
   else
      call_fail(status, -fd);
}

/* Opens a file that natively differs from the core's; false: leave it to the core. */
static Bool opens(Int folder, const HChar* path, UInt how, CallStatus* status, UWord* flags)
{
   if (program_names_own(folder, path)) {
      open_own(status, how);
      return True;
   }
   /* The core has a copy of the command line, but programs change their own to show a title. */
   if (!seen_is_told() || !is_of_process(path, "cmdline"))
      return False;
   *flags |= CALL_MAY_BLOCK;
   return True;
}

void __wrap_vgSysWrap_generic_sys_open_before(ThreadId thread, const void* layout, CallArguments* arguments,
                                              CallStatus* status, UWord* flags)
{
   if (!opens(SYS_AT_FDCWD, (const HChar*)arguments->at[0], arguments->at[1], status, flags))
      __real_vgSysWrap_generic_sys_open_before(thread, layout, arguments, status, flags);
}

void __wrap_vgSysWrap_linux_sys_openat_before(ThreadId thread, const void* layout, CallArguments* arguments,
                                              CallStatus* status, UWord* flags)
{
   if (!opens((Int)arguments->at[0], (const HChar*)arguments->at[1], arguments->at[2], status, flags))
      __real_vgSysWrap_linux_sys_openat_before(thread, layout, arguments, status, flags);
}
