/* SPDX-License-Identifier: GPL-2.0-or-later */
/* System call handlers of Valgrind's core that its headers for tools do not declare. The linker (--wrap) makes the core
call ours instead. */

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

/* Number of arguments of a call. */
#define CALL_ARGUMENTS 6

/* Flags of a call. */
#define CALL_MAY_BLOCK (1 << 1)         /* other threads run meanwhile */
#define CALL_WRITES_NO_RESULT (1 << 5)

/* The core's work before a call is made, or instead of it, and after one that succeeded. */
typedef void Before(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags);
typedef void After(ThreadId thread, CallArguments* arguments, CallStatus* status);

/* Ends the call with this result. */
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

/* limits.c: handles a call on the limit of open files; whether it did. */
Bool limits_before(const CallArguments* arguments, CallStatus* status);

/* seen.c: redirects a path through /proc to the program's own file. */
void seen_path(CallArguments* arguments);

/* seen.c: removes the engine's descriptors from the directory entries that a call has read. */
void seen_entries(const CallArguments* arguments, CallStatus* status);

/* arguments.c: keeps the program's arguments of a call that may block, if they were changed. */
void arguments_keep(ThreadId thread, const CallArguments* given, const CallArguments* changed);

/* guard.c: the core's work before and after a call, protected against bad pointers. */
void guard_before(Before* before, ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status,
                  UWord* flags);
void guard_after(After* after, ThreadId thread, CallArguments* arguments, CallStatus* status);

/* threads.c */
Before clone3_before;

/* vfork.c: forks by the core's handler, like vfork. `told`: where the kernel reports the child to the parent, or NULL.
   */
void vfork_do(ThreadId thread, const void* layout, CallArguments* arguments, CallStatus* status, UWord* flags,
              Before* fork, Int* told);

/* calls.c: the program leaves the engine for this reason, and makes the call itself. */
void call_leave(ThreadId thread, CallStatus* status, UWord* flags, const HChar* reason);

#endif
