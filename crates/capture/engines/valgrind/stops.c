/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Processes stopped by signals: job control.

The core catches SIGTSTP, SIGTTIN and SIGTTOU of programs that do not handle them, and does nothing. So a background
process that reads its terminal would not stop, but read forever. Here the kernel handles those signals, as long as the
program leaves their actions unchanged. */

#include "engine.h"
#include "sys.h"

#include "pub_tool_libcproc.h"
#include "pub_tool_libcsignal.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

/* In the core library; no header for tools declares it. */
extern SysRes VG_(do_sys_sigaction)(Int signal, const vki_sigaction_toK_t* new, vki_sigaction_fromK_t* old);

Int __real_vgPlain_sigaction(Int signal, const vki_sigaction_toK_t* new, vki_sigaction_fromK_t* old);
Int __wrap_vgPlain_sigaction(Int signal, const vki_sigaction_toK_t* new, vki_sigaction_fromK_t* old);
Int __real_vgPlain_sigtimedwait_zero(const vki_sigset_t* set, vki_siginfo_t* info);
Int __wrap_vgPlain_sigtimedwait_zero(const vki_sigset_t* set, vki_siginfo_t* info);

static Bool stops(Int signal)
{
   vki_sigaction_fromK_t of_client;
   Bool may_stop = signal == VKI_SIGTSTP || signal == VKI_SIGTTIN || signal == VKI_SIGTTOU;
   return may_stop && !sr_isError(VG_(do_sys_sigaction)(signal, NULL, &of_client))
          && of_client.ksa_handler == VKI_SIG_DFL;
}

/* The core compares what it set with what it gets back. */
Int __wrap_vgPlain_sigaction(Int signal, const vki_sigaction_toK_t* new, vki_sigaction_fromK_t* old)
{
   static vki_sigaction_toK_t set[VKI_SIGTTOU + 1];
   static Bool is_set[VKI_SIGTTOU + 1];
   if (new == NULL || signal < VKI_SIGTSTP || signal > VKI_SIGTTOU)
      return __real_vgPlain_sigaction(signal, new, old);
   vki_sigaction_toK_t given = *new;
   if (stops(signal))
      given.ksa_handler = VKI_SIG_DFL;
   Int result = __real_vgPlain_sigaction(signal, &given, old);
   if (is_set[signal] && old != NULL)
      *old = set[signal];
   set[signal] = *new;
   is_set[signal] = True;
   return result;
}

/* A signal that arrives while code runs is taken by the core, which blocks it: it is raised again here, and stops the
   process. */
Int __wrap_vgPlain_sigtimedwait_zero(const vki_sigset_t* set, vki_siginfo_t* info)
{
   Int signal = __real_vgPlain_sigtimedwait_zero(set, info);
   if (signal <= 0 || !stops(signal))
      return signal;
   vki_sigset_t one = { { 1UL << (signal - 1) } };
   sys_call3(__NR_tgkill, VG_(getpid)(), VG_(gettid)(), signal);
   VG_(sigprocmask)(VKI_SIG_UNBLOCK, &one, NULL);
   VG_(sigprocmask)(VKI_SIG_BLOCK, &one, NULL);
   return 0;
}
