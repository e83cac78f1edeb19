/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files that have to do with the execution of programs tell each other. */

#ifndef PAGEWALK_EXEC_H
#define PAGEWALK_EXEC_H

#include "pub_tool_basics.h"
#include "pub_tool_vki.h"
#include "pub_tool_xarray.h"

/* A flag of execveat, since Linux 6.14: whether it could be. */
#define EXECVE_CHECK_ONLY 0x10000

/* ---- program.c: what the kernel makes of a file that is executed ---- */

/* "/proc/self/fd/" and a number. */
#define FD_PATH_BYTES 32

typedef struct {
   /* The file that is to be loaded, for no use but by its FD_PATH; -1: there is none. */
   Int fd;
   /* What its arguments begin with instead of the caller's first one: that one alone, or what a script's first line
      adds. */
   XArray* /* of HChar* */ front;
   Bool is_script;
   /* Why the engine cannot run it although the kernel may; NULL: it can. */
   const HChar* why_not;
} Program;

/* Takes over `fd`, and finds out what the kernel would run of it. `name` is what a script is told to be called, NULL
   where it could not be reached; `first` its first argument. Gives 0, or the error that the kernel would give. */
Int program_find(Program* program, Int fd, const HChar* name, const HChar* first);

void program_forget(Program* program);

/* Opens what `path` is, a program or a way to it, without a right to read it. Never the engine's own file: where the
   path leads to what runs here, that is the client's program. Negative: an error. */
Int program_open(Int folder, const HChar* path, UInt flags);

/* Opens the client's program, as /proc/self/exe is opened. Negative: an error. */
Int program_open_own(UInt flags);

/* exec.c: whether a path leads to the client's program by /proc, where for the kernel the engine's file is. */
Bool program_names_own(Int folder, const HChar* path);

/* The client's program, to be opened by its FD_PATH. */
Int program_own_fd(void);

void program_fd_path(HChar path[FD_PATH_BYTES], Int fd);

/* Whether this process may; `how` is of the following. With MAY_EXECUTE it is a file. */
#define MAY_EXECUTE 1
#define MAY_READ 4
Bool program_may(const HChar* path, UInt how);

/* ---- image.c: a new image ---- */

/* Options between two images, which no user gives: what to load, as a descriptor; what the kernel would call it; the
   first argument. */
#define IMAGE_FD_OPTION "--image-fd="
#define IMAGE_NAME_OPTION "--image-name="
#define IMAGE_FIRST_OPTION "--image-first="
/* A variable of the environment without what Valgrind has added; NULL: nothing is left. */
const HChar* image_own_variable(const HChar* variable);

/* Whether a path leads to the engine's own file. */
Bool program_is_engine(const HChar* path);

#endif
