/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Symbols and debug information of the program's files stay unread.

   Valgrind's core reads them whenever a file is mapped: a tenth of a second for every process where the C library's
   debug information is installed, and more for larger files. This tool never asks for a name, as pagewalk looks functions up itself, and
   redirects no function. So the linker (--wrap) hands the core's notices of mapped files to the function below.

   What is lost are names in what the core says of a fatal signal or of an instruction that it does not know: there
   it prints addresses and files. Reading late is no way: the core knows a file by the protections that the loader
   first maps it with. */

#include "pub_tool_basics.h"

ULong __wrap_vgPlain_di_notify_mmap(Addr start, Bool allow_valgrinds, Int fd);

/* A file was mapped. The result is for the tool, the number of what was read; 0 is nothing. */
ULong __wrap_vgPlain_di_notify_mmap(__attribute__((unused)) Addr start,
                                    __attribute__((unused)) Bool allow_valgrinds,
                                    __attribute__((unused)) Int fd)
{
   return 0;
}
