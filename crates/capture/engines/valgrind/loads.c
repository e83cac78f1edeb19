/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Marks loads before VEX optimises them away.

VEX drops a load whose value is unused. A processor does not: such a load takes a TLB entry, and may fault. Page probes
and safepoint polls are of this kind. A mark is a statement that survives its load and generates no code. */

#include "engine.h"

#include "libvex.h"

/* No code lies there, so VEX's own hints, which hold call targets, differ. */
#define MARK 0xdead10ad00000000ULL

typedef IRExpr* (*SpecHelper)(const HChar*, IRExpr**, IRStmt**, Int);
typedef Bool (*PreciseFn)(Int, Int, VexRegisterUpdates);

IRSB* __real_do_iropt_BB(IRSB* in, SpecHelper helper, PreciseFn precise, VexRegisterUpdates updates, Addr address,
                         VexArch architecture);
IRSB* __wrap_do_iropt_BB(IRSB* in, SpecHelper helper, PreciseFn precise, VexRegisterUpdates updates, Addr address,
                         VexArch architecture);

static Bool is_load(const IRStmt* statement)
{
   return statement->tag == Ist_WrTmp && statement->Ist.WrTmp.data->tag == Iex_Load;
}

Bool loads_is_mark(const IRStmt* statement)
{
   if (statement->tag != Ist_AbiHint || statement->Ist.AbiHint.nia->tag != Iex_Const)
      return False;
   const IRConst* told = statement->Ist.AbiHint.nia->Iex.Const.con;
   return told->tag == Ico_U64 && told->Ico.U64 == MARK;
}

Bool loads_is_done(const IRSB* block, Int mark)
{
   const IRExpr* address = block->stmts[mark]->Ist.AbiHint.base;
   Int bytes = block->stmts[mark]->Ist.AbiHint.len;
   for (Int i = mark + 1; i < block->stmts_used && block->stmts[i]->tag != Ist_IMark; i++) {
      const IRStmt* statement = block->stmts[i];
      if (is_load(statement) && sizeofIRType(statement->Ist.WrTmp.data->Iex.Load.ty) == bytes
          && eqIRAtom(statement->Ist.WrTmp.data->Iex.Load.addr, address))
         return True;
   }
   return False;
}

/* Statements before the first instruction are Valgrind's own. */
static IRSB* with_marks(const IRSB* in)
{
   IRSB* out = deepCopyIRSBExceptStmts(in);
   Bool begun = False;
   for (Int i = 0; i < in->stmts_used; i++) {
      IRStmt* statement = in->stmts[i];
      begun = begun || statement->tag == Ist_IMark;
      if (begun && is_load(statement)) {
         const IRExpr* load = statement->Ist.WrTmp.data;
         addStmtToIRSB(out, IRStmt_AbiHint(load->Iex.Load.addr, sizeofIRType(load->Iex.Load.ty),
                                           IRExpr_Const(IRConst_U64(MARK))));
      }
      addStmtToIRSB(out, statement);
   }
   return out;
}

/* Valgrind's own tools see what is left. */
IRSB* __wrap_do_iropt_BB(IRSB* in, SpecHelper helper, PreciseFn precise, VexRegisterUpdates updates, Addr address,
                         VexArch architecture)
{
   if (image_is_of_valgrind())
      return with_marks(__real_do_iropt_BB(in, helper, precise, updates, address, architecture));
   return __real_do_iropt_BB(with_marks(in), helper, precise, updates, address, architecture);
}
