/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether a program that is about to be executed can be followed.

   The new image begins with Valgrind itself, which ends it where it cannot reach what it needs (as another user, under
   another root, or when pagewalk has gone), and which refuses programs that gain privileges. Both would change what the
   traced program does. So what cannot be followed runs as it is. */

#include "engine.h"
#include "sys.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_vki.h"

/* In the core library; no header for tools declares them. */
extern Bool VG_(clo_trace_children);
extern const HChar* VG_(libdir);
extern const HChar* VG_(name_of_launcher);

#define MAY_EXECUTE 1
#define MAY_WRITE 2
#define MAY_READ 4

static Bool may(const HChar* path, UInt how)
{
   Word result = sys_call6(SYS_FACCESSAT2, (UWord)SYS_AT_FDCWD, (UWord)path, how, SYS_AT_EACCESS, 0, 0);
   /* Before Linux 5.8, and where a container's filter does not know the call: by the real user. */
   if (result == -SYS_ENOSYS || result == -SYS_EPERM)
      result = sys_call3(__NR_faccessat, (UWord)SYS_AT_FDCWD, (UWord)path, how);
   return !sys_failed(result);
}

/* Valgrind's messages go to a new file in the folder of the socket. */
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
   return may(folder, MAY_WRITE | MAY_EXECUTE);
}

static Bool may_reach_all(void)
{
   HChar tool[VKI_PATH_MAX];
   VG_(snprintf)(tool, sizeof tool, "%s/pagewalk-amd64-linux", VG_(libdir));
   return VG_(name_of_launcher) != NULL && may(VG_(name_of_launcher), MAY_EXECUTE)
          && may(tool, MAY_READ | MAY_EXECUTE) && (places_path == NULL || may(places_path, MAY_READ))
          && may_write_log();
}

typedef struct {
   UInt effective;
   UInt permitted;
   UInt inheritable;
} Capabilities;

/* Who is not root loses its capabilities by exec, so it is asked without them. Ambient ones would stay: then a program
   that could be followed is not. */
static Bool may_begin(void)
{
   struct { UInt version; Int pid; } header = { SYS_CAPABILITY_VERSION_3, 0 };
   Capabilities own[2];
   if (sys_call3(__NR_geteuid, 0, 0, 0) == 0 || sys_failed(sys_call3(__NR_capget, (UWord)&header, (UWord)own, 0)))
      return may_reach_all();
   Capabilities none[2] = { own[0], own[1] };
   none[0].effective = none[1].effective = 0;
   sys_call3(__NR_capset, (UWord)&header, (UWord)none, 0);
   Bool result = may_reach_all();
   sys_call3(__NR_capset, (UWord)&header, (UWord)own, 0);
   return result;
}

static Bool gains_privileges(const HChar* path, const struct vg_stat* stat)
{
   return (stat->mode & (VKI_S_ISUID | VKI_S_ISGID))
          || !sys_failed(sys_call6(__NR_getxattr, (UWord)path, (UWord)"security.capability", 0, 0, 0, 0));
}

void exec_choose(const HChar* path)
{
   struct vg_stat stat;
   HChar lost[VKI_PATH_MAX + 80];
   const HChar* why = NULL;
   VG_(clo_trace_children) = True;
   if (sr_isError(VG_(stat)(path, &stat)) || !may(path, MAY_EXECUTE))
      return;   /* nor will it be executed */
   if (gains_privileges(path, &stat))
      why = "it gains privileges";
   else if (!may_begin())
      why = "Valgrind cannot be reached from where it runs";
   if (why == NULL)
      return;
   VG_(clo_trace_children) = False;
   VG_(snprintf)(lost, sizeof lost, "what %s does, which runs untraced: %s", path, why);
   event_lost(lost);
}
