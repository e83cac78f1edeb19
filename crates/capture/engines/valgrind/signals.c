/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A handler that its own signal may interrupt (SA_NODEFER) still has the signals of its mask blocked, as sigaction(2) has
   it. The core leaves the mask out. Runtimes that stop all threads by a signal, such as SBCL, end themselves over it. */

#include "engine.h"

#include "pub_tool_vki.h"

struct vki_ucontext;

/* In the core library; no header for tools declares them. */
extern SysRes VG_(do_sys_sigaction)(Int signal, const vki_sigaction_toK_t* new, vki_sigaction_fromK_t* old);
extern SysRes VG_(do_sys_sigprocmask)(ThreadId thread, Int how, vki_sigset_t* set, vki_sigset_t* old);

typedef void CreateFrame(ThreadId thread, Bool is_alternate, Addr top, const vki_siginfo_t* info,
                         const struct vki_ucontext* context, void* handler, UInt flags, const vki_sigset_t* mask,
                         void* restorer);

CreateFrame __real_vgPlain_sigframe_create;
CreateFrame __wrap_vgPlain_sigframe_create;

/* The frame keeps the mask from before; what is blocked from here on is blocked in the handler. */
void __wrap_vgPlain_sigframe_create(ThreadId thread, Bool is_alternate, Addr top, const vki_siginfo_t* info,
                                    const struct vki_ucontext* context, void* handler, UInt flags,
                                    const vki_sigset_t* mask, void* restorer)
{
   vki_sigaction_fromK_t action;
   __real_vgPlain_sigframe_create(thread, is_alternate, top, info, context, handler, flags, mask, restorer);
   if ((flags & VKI_SA_NOMASK) && !sr_isError(VG_(do_sys_sigaction)(info->si_signo, NULL, &action)))
      VG_(do_sys_sigprocmask)(thread, VKI_SIG_BLOCK, &action.sa_mask, NULL);
}
