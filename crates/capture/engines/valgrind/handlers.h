/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The handlers of system calls of Valgrind's core, which its headers for tools do not declare. The linker (--wrap) has
   the core call ours in their place. */

#ifndef PAGEWALK_HANDLERS_H
#define PAGEWALK_HANDLERS_H

#include "pub_tool_basics.h"

typedef struct {
   UWord number;
   UWord at[8];
} CallArguments;

typedef struct {
   enum { STATUS_COMPLETE = 1, STATUS_FOR_KERNEL } what;
   SysRes result;
} CallStatus;

/* Arguments that a call has. */
#define CALL_ARGUMENTS 6

/* Flags of a call. */
#define CALL_MAY_BLOCK (1 << 1)         /* other threads run meanwhile */
#define CALL_WRITES_NO_RESULT (1 << 5)

/* What the core does before a call is made, or in its place, and after one that succeeded. */
typedef void Before(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags);
typedef void After(ThreadId thread, CallArguments* arguments, CallStatus* status);

/* The call is over with this result. */
static inline void call_succeed(CallStatus* status, UWord result)
{
   status->what = STATUS_COMPLETE;
   status->result = (SysRes){ ._val = result, ._isError = False };
}

static inline void call_fail(CallStatus* status, Int error)
{
   status->what = STATUS_COMPLETE;
   status->result = (SysRes){ ._val = error, ._isError = True };
}

/* limits.c: whether the call was one on the limit of open files, and is done. */
Bool limits_before(const CallArguments* arguments, CallStatus* status);

/* seen.c: has a path that leads to the program's own file by /proc lead there. */
void seen_path(CallArguments* arguments);

/* seen.c: takes the engine's descriptors out of the entries that a call has read. */
void seen_entries(const CallArguments* arguments, CallStatus* status);

/* arguments.c: what the program gave for a call that may block, if that has been changed. */
void arguments_keep(ThreadId thread, const CallArguments* given, const CallArguments* changed);

/* guard.c: the core's work before and after a call, which may meet arguments that point nowhere. */
void guard_before(Before* before, ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status,
                  UWord* flags);
void guard_after(After* after, ThreadId thread, CallArguments* arguments, CallStatus* status);

/* threads.c */
Before clone3_before;

/* vfork.c: forks by the core's handler, as vfork does. `told`: where the kernel tells the parent of the child, or NULL. */
void vfork_do(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags,
              Before* fork, Int* told);

/* calls.c: the program leaves the engine for this reason, and makes the call by itself. */
void call_leave(ThreadId thread, CallStatus* status, UWord* flags, const HChar* reason);

#endif
