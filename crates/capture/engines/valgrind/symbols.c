/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Keeps symbols and debug information of the program's files unread.

Valgrind's core reads them whenever a file is mapped: a tenth of a second for every process if the C library's debug
information is installed, and more for larger files. This tool needs no names, as pagewalk looks up functions itself,
and redirects no function. So the linker (--wrap) passes the core's notices of mapped files to the function below.

Lost are only names in the core's messages on a fatal signal or an unknown instruction: it prints addresses and files
instead. Reading late is impossible: the core identifies a file by the protections of its first mappings. */

#include "pub_tool_basics.h"

ULong __wrap_vgPlain_di_notify_mmap(Addr start, Bool allow_valgrinds, Int fd);

/* A file was mapped. The result, for the tool, numbers what was read; 0 is nothing. */
ULong __wrap_vgPlain_di_notify_mmap(__attribute__((unused)) Addr start,
                                    __attribute__((unused)) Bool allow_valgrinds,
                                    __attribute__((unused)) Int fd)
{
   return 0;
}
