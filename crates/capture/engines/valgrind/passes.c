/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Leaves out passes of VEX that the blocks of this tool do not need.

VEX checks the form of each block up to four times: this finds defects of VEX and of tools, never of programs. And after
instrumentation it propagates constants and copies, and removes dead code, once more. VEX has done so before, and
instrument.c adds nothing that is dead or constant. Only copies remain that the removal of common subexpressions left:
with them the code is 0.5 to 0.8 % longer, while translating takes a fifth less time.

The wrapped calls are those of LibVEX_Translate(). The optimiser calls its own passes as before. */

#include "engine.h"

#include "libvex.h"

void __real_sanityCheckIRSB(const IRSB* block, const HChar* caller, Bool must_be_flat, IRType guest_word);
void __wrap_sanityCheckIRSB(const IRSB* block, const HChar* caller, Bool must_be_flat, IRType guest_word);
IRSB* __wrap_cprop_BB(IRSB* block);
void __wrap_do_deadcode_BB(IRSB* block);

/* Comparisons with Valgrind's own tools keep the checks, so that the tests find malformed blocks. */
void __wrap_sanityCheckIRSB(const IRSB* block, const HChar* caller, Bool must_be_flat, IRType guest_word)
{
   if (image_is_of_valgrind())
      __real_sanityCheckIRSB(block, caller, must_be_flat, guest_word);
}

IRSB* __wrap_cprop_BB(IRSB* block)
{
   return block;
}

void __wrap_do_deadcode_BB(IRSB* block)
{
}
