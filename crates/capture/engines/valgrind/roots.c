/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files that the engine needs after the program has changed its root (chroot, pivot_root, unshare): /proc, and the
folder of pagewalk's socket. Both are kept open from the start. */

#include "engine.h"
#include "sys.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_vki.h"

/* In the core library; no header for tools declares it. */
extern Int VG_(safe_fd)(Int oldfd);

#define PROC "/proc/"

typedef struct {
   UShort family;
   HChar path[108];
} SocketAddress;

static Int proc = -1;
static Int socket_folder = -1;

/* Among the descriptors that the core hides from the program. */
static Int hold(const HChar* path)
{
   Word fd = sys_call6(__NR_openat, (UWord)SYS_AT_FDCWD, (UWord)path, SYS_O_PATH | SYS_O_CLOEXEC, 0, 0, 0);
   return sys_failed(fd) ? -1 : VG_(safe_fd)(fd);
}

void roots_hold(void)
{
   HChar folder[sizeof(SocketAddress)];
   proc = hold(PROC);
   if (ring_socket_path == NULL || VG_(strlen)(ring_socket_path) >= sizeof folder)
      return;
   VG_(strcpy)(folder, ring_socket_path);
   HChar* name = VG_(strrchr)(folder, '/');
   if (name == NULL)
      return;
   name[1] = '\0';
   socket_folder = hold(folder);
}

Int proc_open(const HChar* path, UInt flags)
{
   if (proc < 0)
      return (Int)sys_call6(__NR_openat, (UWord)SYS_AT_FDCWD, (UWord)path, flags, 0, 0, 0);
   return (Int)sys_call6(__NR_openat, proc, (UWord)(path + sizeof PROC - 1), flags, 0, 0, 0);
}

static Int connect_by(Int socket, const HChar* path)
{
   SocketAddress address = { .family = VKI_AF_UNIX };
   if (VG_(strlen)(path) >= sizeof address.path)
      return -VKI_EINVAL;
   VG_(strcpy)(address.path, path);
   return (Int)sys_call3(__NR_connect, socket, (UWord)&address, sizeof address);
}

/* A socket has no name other than a path. So its folder becomes the current one meanwhile; no other thread runs. Not if
   the way back is barred: some folders may be opened but not entered. */
Int roots_connect(Int socket, const HChar* path)
{
   Int result = connect_by(socket, path);
   const HChar* name = VG_(strrchr)(path, '/');
   if (result >= 0 || socket_folder < 0 || name == NULL)
      return result;
   Word here = sys_call6(__NR_openat, (UWord)SYS_AT_FDCWD, (UWord)".", SYS_O_PATH | SYS_O_CLOEXEC, 0, 0, 0);
   if (sys_failed(here))
      return result;
   Bool leads_back = !sys_failed(sys_call3(__NR_fchdir, here, 0, 0));
   if (leads_back && !sys_failed(sys_call3(__NR_fchdir, socket_folder, 0, 0))) {
      result = connect_by(socket, name + 1);
      sys_call3(__NR_fchdir, here, 0, 0);
   }
   VG_(close)(here);
   return result;
}
