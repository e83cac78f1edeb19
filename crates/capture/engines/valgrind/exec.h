/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Interfaces between the files that execute programs. */

#ifndef PAGEWALK_EXEC_H
#define PAGEWALK_EXEC_H

#include "pub_tool_basics.h"
#include "pub_tool_vki.h"
#include "pub_tool_xarray.h"

/* A flag of execveat, since Linux 6.14: only check. */
#define EXECVE_CHECK_ONLY 0x10000

/* ---- program.c: how the kernel executes a file ---- */

/* "/proc/self/fd/" and a number. */
#define FD_PATH_BYTES 32

typedef struct {
   /* The file to load, used only through its FD_PATH; -1: none. */
   Int fd;
   /* What its arguments begin with instead of the caller's first one: just that one, or what a script's first line
      adds. */
   XArray* /* of HChar* */ front;
   Bool is_script;
   /* Why the engine cannot run it although the kernel may; NULL: it can. */
   const HChar* why_not;
} Program;

/* Takes `fd`, and finds out what the kernel would run. `name` is the name that a script gets, NULL if unreachable;
   `first` its first argument. Returns 0, or the kernel's error. */
Int program_find(Program* program, Int fd, const HChar* name, const HChar* first);

void program_forget(Program* program);

/* Opens `path`, a program or a link to it, without needing to read it. Never the engine's own file: if the path leads
   to the running file, that is the client's program. Negative: an error. */
Int program_open(Int folder, const HChar* path, UInt flags);

/* Opens the client's program as /proc/self/exe. Negative: an error. */
Int program_open_own(UInt flags);

/* exec.c: whether a path leads through /proc to the client's program, where the kernel has the engine's file. */
Bool program_names_own(Int folder, const HChar* path);

/* The client's program, to be opened by its FD_PATH. */
Int program_own_fd(void);

void program_fd_path(HChar path[FD_PATH_BYTES], Int fd);

/* Whether this process may; `how` combines these. With MAY_EXECUTE it must be a file. */
#define MAY_EXECUTE 1
#define MAY_READ 4
Bool program_may(const HChar* path, UInt how);

/* ---- image.c: a new image ---- */

/* Internal options between images: what to load, as a descriptor; its name for the kernel; the first argument. */
#define IMAGE_FD_OPTION "--image-fd="
#define IMAGE_NAME_OPTION "--image-name="
#define IMAGE_FIRST_OPTION "--image-first="
/* An environment variable without Valgrind's additions; NULL: nothing is left. */
const HChar* image_own_variable(const HChar* variable);

/* Whether a path leads to the engine's own file. */
Bool program_is_engine(const HChar* path);

#endif
