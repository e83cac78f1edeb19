/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The program's environment, as the user gave it.

   Valgrind finds itself by VALGRIND_LIB, and has the loader load a library of its own by LD_PRELOAD, which this tool does
   not need. Both are on the program's first stack when the core has made it. They are taken away before the program
   runs: it loads what it loads natively, and so do children that run untraced. The core sets VALGRIND_LIB itself for
   programs that it follows. */

#include "engine.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"

/* ---- what the core has and no header for tools declares ---- */

typedef struct {
   SizeT stack_bytes_max;
   Addr stack_pointer;
   Addr instruction_pointer;
   Addr table_of_contents;
   UInt* auxiliary;
} FinalImage;   /* its last field has no bytes on this architecture */

extern HChar** VG_(client_envp);
extern UWord* VG_(client_auxv);

void __real_vgPlain_ii_finalise_image(FinalImage image);
void __wrap_vgPlain_ii_finalise_image(FinalImage image);

#define PRELOAD "LD_PRELOAD="
#define LIBRARY "VALGRIND_LIB="
#define OWN_LIBRARY "/vgpreload_"

static Bool begins_with(const HChar* text, const HChar* start)
{
   return VG_(strncmp)(text, start, VG_(strlen)(start)) == 0;
}

/* Whether the variable is Valgrind's alone. Takes what is Valgrind's out of the user's LD_PRELOAD. */
static Bool is_foreign(HChar* variable)
{
   if (begins_with(variable, LIBRARY))
      return True;
   if (!begins_with(variable, PRELOAD))
      return False;
   HChar* list = variable + VG_(strlen)(PRELOAD);
   HChar* end = VG_(strchr)(list, ':');
   HChar* own = VG_(strstr)(list, OWN_LIBRARY);
   if (own == NULL || (end != NULL && own > end))
      return False;
   if (end == NULL)
      return True;
   VG_(memmove)(list, end + 1, VG_(strlen)(end + 1) + 1);
   return False;
}

/* Words from `from` on, up to a zero and with it. */
static UWord words_to_zero(const UWord* from)
{
   UWord count = 0;
   while (from[count++] != 0) {}
   return count;
}

/* The stack holds, from its pointer up: the number of arguments, the arguments, 0, the environment, 0, pairs of words of
   which the last begins with 0. Writes it anew without some of the environment, to end where it ended. */
static Addr without_foreign(Addr stack_pointer)
{
   UWord* old = (UWord*)stack_pointer;
   UWord* environment = old + 1 + old[0] + 1;
   UWord* auxiliary = environment + words_to_zero(environment);
   UWord pairs = 0;
   while (auxiliary[2 * pairs++] != 0) {}
   UWord* end = auxiliary + 2 * pairs;
   UWord* copy = VG_(malloc)("pagewalk.stack", (end - old) * sizeof *copy);
   UWord used = environment - old;
   VG_(memcpy)(copy, old, used * sizeof *copy);
   UWord kept_from = used;
   for (UWord* variable = environment; *variable != 0; variable++)
      if (!is_foreign((HChar*)*variable))
         copy[used++] = *variable;
   copy[used++] = 0;
   UWord auxiliary_at = used;
   VG_(memcpy)(copy + used, auxiliary, (end - auxiliary) * sizeof *copy);
   used += end - auxiliary;
   UWord* new = (UWord*)VG_ROUNDDN((Addr)(end - used), 16);
   VG_(memcpy)(new, copy, used * sizeof *copy);
   VG_(free)(copy);
   VG_(client_envp) = (HChar**)(new + kept_from);
   VG_(client_auxv) = new + auxiliary_at;
   return (Addr)new;
}

void __wrap_vgPlain_ii_finalise_image(FinalImage image)
{
   image.stack_pointer = without_foreign(image.stack_pointer);
   image.auxiliary = (UInt*)VG_(client_auxv);
   __real_vgPlain_ii_finalise_image(image);
}
