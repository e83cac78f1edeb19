/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Adds to a block the inline code that appends its header and the address of each of its data references.

      p = GET(cursor)
      if (limit < p) next_chunk()         once per block
      p = GET(cursor)
      ST(p) = header
      ST(p + 8) = address                 before each reference
      PUT(cursor) = p + 16                before an exit, and at the end, if references were added

   What counts as a reference, and that a load and a store of the same bytes by one instruction are one modify,
   follows Cachegrind, so that the counts can be compared; but loads whose values nobody uses count (loads.c). */

#include "engine.h"
#include "wire.h"

#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_vkiscnums.h"

#define NO_SLOT (-1)

static BlockDraft draft;
static IRSB* out;
static IRTemp cursor;          /* p: where this execution's header is */
static Int last_load;          /* slot that a store may turn into a modify, or NO_SLOT */
static const IRExpr* last_load_address;

static void add(IRStmt* statement)
{
   addStmtToIRSB(out, statement);
}

static IRExpr* constant(ULong value)
{
   return IRExpr_Const(IRConst_U64(value));
}

static IRTemp assign(IRType type, IRExpr* value)
{
   IRTemp temporary = newIRTemp(out->tyenv, type);
   add(IRStmt_WrTmp(temporary, value));
   return temporary;
}

static IRExpr* compute(IRType type, IRExpr* value)
{
   return IRExpr_RdTmp(assign(type, value));
}

/* Address of the word this many words after this execution's header. */
static IRExpr* word_at(UInt words)
{
   IRExpr* p = IRExpr_RdTmp(cursor);
   return words == 0 ? p : compute(Ity_I64, IRExpr_Binop(Iop_Add64, p, constant(words * sizeof(ULong))));
}

/* ---- the check for room ---- */

/* Called from generated code if the next block may not fit the chunk. It takes no argument, because an argument would
   be loaded into its register even if the call is not made. */
static void next_chunk(void)
{
   ThreadId thread = VG_(get_running_tid)();
   client_cursor_load(thread);
   Spin spin = waiting_find_spin(ring_chunk_start(), ring_cursor);
   ring_next_chunk();
   waiting_tell_spin(thread, &spin);
   client_cursor_store(thread);
}

static Int shadow_offset(UInt at)
{
   return sizeof(VexGuestAMD64State) + at;
}

/* An upper bound of the words that one execution of the block appends. */
static UInt words_at_most(const IRSB* in, UInt from)
{
   UInt words = 2;   /* the header, and padding before the end */
   for (Int i = from; i < in->stmts_used; i++) {
      switch (in->stmts[i]->tag) {
         case Ist_AbiHint:
         case Ist_Store:
         case Ist_StoreG:
         case Ist_LoadG:
         case Ist_Dirty:
         case Ist_CAS:
         case Ist_LLSC:
         case Ist_Exit: words++; break;
         default: break;
      }
   }
   return words;
}

static void add_room_check(UInt words)
{
   IRExpr* p = compute(Ity_I64, IRExpr_Get(shadow_offset(SHADOW_CURSOR_AT), Ity_I64));
   if (words > RING_HEADROOM_WORDS)
      p = compute(Ity_I64,
                  IRExpr_Binop(Iop_Add64, p, constant((words - RING_HEADROOM_WORDS) * sizeof(ULong))));
   IRExpr* limit = compute(Ity_I64, IRExpr_Get(shadow_offset(SHADOW_LIMIT_AT), Ity_I64));
   IRDirty* call = unsafeIRDirty_0_N(0, "next_chunk", VG_(fnptr_to_fnentry)(next_chunk), mkIRExprVec_0());
   call->guard = compute(Ity_I1, IRExpr_Binop(Iop_CmpLT64U, limit, p));
   call->nFxState = 1;
   call->fxState[0].fx = Ifx_Modify;
   call->fxState[0].offset = shadow_offset(SHADOW_CURSOR_AT);
   call->fxState[0].size = 2 * sizeof(ULong);
   call->fxState[0].nRepeats = 0;
   call->fxState[0].repeatLen = 0;
   add(IRStmt_Dirty(call));
   cursor = assign(Ity_I64, IRExpr_Get(shadow_offset(SHADOW_CURSOR_AT), Ity_I64));
}

/* ---- references ---- */

static void add_slot(UInt kind, UInt bytes, IRExpr* address)
{
   tl_assert(draft.slot_count < BLOCK_SLOTS_MAX);
   draft.slots[draft.slot_count++] = (Slot){ draft.instruction_count - 1, kind, bytes };
   add(IRStmt_Store(Iend_LE, word_at(draft.slot_count), address));
   last_load = NO_SLOT;
}

static void add_load(UInt bytes, IRExpr* address)
{
   add_slot(WIRE_LOAD, bytes, address);
   last_load = draft.slot_count - 1;
   last_load_address = address;
}

static void add_store(UInt bytes, IRExpr* address)
{
   if (last_load != NO_SLOT && draft.slots[last_load].bytes == bytes && eqIRAtom(last_load_address, address)) {
      draft.slots[last_load].kind = WIRE_MODIFY;
      last_load = NO_SLOT;
   } else {
      add_slot(WIRE_STORE, bytes, address);
   }
}

/* A reference that happens only if `guard` holds. It is never merged with another. */
static void add_guarded(UInt kind, UInt bytes, IRExpr* address, IRExpr* guard)
{
   add_slot(kind, bytes, compute(Ity_I64, IRExpr_ITE(guard, address, constant(0))));
}

static Bool is_always(const IRExpr* guard)
{
   return guard->tag == Iex_Const && guard->Iex.Const.con->Ico.U1;
}

static void add_helper_effect(const IRDirty* call)
{
   if (call->mFx == Ifx_None)
      return;
   Bool reads = call->mFx != Ifx_Write;
   Bool writes = call->mFx != Ifx_Read;
   if (!is_always(call->guard)) {
      add_guarded(reads && writes ? WIRE_MODIFY : reads ? WIRE_LOAD : WIRE_STORE, call->mSize, call->mAddr,
                  call->guard);
      return;
   }
   if (reads)
      add_load(call->mSize, call->mAddr);
   if (writes)
      add_store(call->mSize, call->mAddr);
}

static UInt bytes_of(const IRExpr* value)
{
   return sizeofIRType(typeOfIRExpr(out->tyenv, value));
}

/* VEX has dropped the load, and would again if its value were unused: so the value is stored in the slot, which the
   address then overwrites. */
static void add_dropped_load(UInt bytes, IRExpr* address)
{
   IRExpr* place = word_at(draft.slot_count + 1);
   IRExpr* last = compute(Ity_I64, IRExpr_Binop(Iop_Add64, address, constant(bytes - 1)));
   add(IRStmt_Store(Iend_LE, place, compute(Ity_I8, IRExpr_Load(Iend_LE, Ity_I8, address))));
   if (bytes > 1)
      add(IRStmt_Store(Iend_LE, place, compute(Ity_I8, IRExpr_Load(Iend_LE, Ity_I8, last))));
}

static void add_marked_load(const IRSB* in, Int mark)
{
   UInt bytes = in->stmts[mark]->Ist.AbiHint.len;
   IRExpr* address = in->stmts[mark]->Ist.AbiHint.base;
   if (!loads_is_done(in, mark))
      add_dropped_load(bytes, address);
   add_load(bytes, address);
}

static void add_guarded_load(const IRLoadG* load)
{
   IRType widened = Ity_INVALID;
   IRType loaded = Ity_INVALID;
   typeOfIRLoadGOp(load->cvt, &widened, &loaded);
   add_guarded(WIRE_LOAD, sizeofIRType(loaded), load->addr, load->guard);
}

static void add_load_linked(const IRStmt* statement)
{
   if (statement->Ist.LLSC.storedata == NULL)
      add_load(sizeofIRType(typeOfIRTemp(out->tyenv, statement->Ist.LLSC.result)), statement->Ist.LLSC.addr);
   else
      add_store(bytes_of(statement->Ist.LLSC.storedata), statement->Ist.LLSC.addr);
}

static void add_compare_and_swap(const IRCAS* swap)
{
   UInt bytes = bytes_of(swap->dataLo) * (swap->dataHi == NULL ? 1 : 2);
   add_load(bytes, swap->addr);
   add_store(bytes, swap->addr);
}

/* ---- instructions and exits ---- */

static void add_instruction(const IRStmt* mark)
{
   tl_assert(draft.instruction_count < BLOCK_INSTRUCTIONS_MAX);
   /* VEX gives undecodable instructions the length 0. */
   UInt bytes = mark->Ist.IMark.len == 0 ? 1 : mark->Ist.IMark.len;
   draft.instructions[draft.instruction_count++] = (Instruction){ mark->Ist.IMark.addr, bytes };
   last_load = NO_SLOT;
}

/* Completes the stream for leaving the block here. The reader identifies an exit by its number of slots, so a padding
   slot separates two exits with the same number but different instructions. */
static void add_exit(void)
{
   if (draft.exit_count > 0) {
      const Exit* before = &draft.exits[draft.exit_count - 1];
      if (before->slots == draft.slot_count && before->instructions == draft.instruction_count)
         return;
      if (before->slots == draft.slot_count)
         add_slot(WIRE_PADDING, 0, constant(0));
   }
   tl_assert(draft.exit_count < BLOCK_EXITS_MAX);
   draft.exits[draft.exit_count++] = (Exit){ draft.slot_count, draft.instruction_count };
   last_load = NO_SLOT;
   add(IRStmt_Put(shadow_offset(SHADOW_CURSOR_AT), word_at(1 + draft.slot_count)));
}

static UInt block_end(IRJumpKind jump)
{
   switch (jump) {
      case Ijk_Boring: return WIRE_END_JUMP;
      case Ijk_Call: return WIRE_END_CALL;
      case Ijk_Ret: return WIRE_END_RETURN;
      case Ijk_Sys_syscall:
      case Ijk_Sys_int128: return WIRE_END_SYSCALL;
      default: return WIRE_END_OTHER;
   }
}

/* ---- the whole block ---- */

static void add_references(const IRStmt* statement)
{
   switch (statement->tag) {
      case Ist_IMark: add_instruction(statement); break;
      case Ist_Store: add_store(bytes_of(statement->Ist.Store.data), statement->Ist.Store.addr); break;
      case Ist_StoreG: {
         const IRStoreG* store = statement->Ist.StoreG.details;
         add_guarded(WIRE_STORE, bytes_of(store->data), store->addr, store->guard);
         break;
      }
      case Ist_LoadG: add_guarded_load(statement->Ist.LoadG.details); break;
      case Ist_Dirty: add_helper_effect(statement->Ist.Dirty.details); break;
      case Ist_CAS: add_compare_and_swap(statement->Ist.CAS.details); break;
      case Ist_LLSC: add_load_linked(statement); break;
      case Ist_Exit: add_exit(); break;
      default: break;
   }
}

IRSB* instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                 const VexGuestExtents* extents, const VexArchInfo* host, IRType guest_word, IRType host_word)
{
   out = deepCopyIRSBExceptStmts(in);
   Int i = 0;
   /* Statements before the first instruction are Valgrind's own, and may leave the block before it begins. */
   for (; i < in->stmts_used && in->stmts[i]->tag != Ist_IMark; i++)
      add(in->stmts[i]);
   if (i == in->stmts_used)
      return in;

   draft.end = block_end(in->jumpkind);
   draft.instruction_count = draft.slot_count = draft.exit_count = 0;
   last_load = NO_SLOT;
   add_room_check(words_at_most(in, i));
   /* Its value is known at the end. */
   IRConst* header = IRConst_U64(0);
   add(IRStmt_Store(Iend_LE, word_at(0), IRExpr_Const(header)));
   for (; i < in->stmts_used; i++) {
      if (loads_is_mark(in->stmts[i])) {
         add_marked_load(in, i);
      } else {
         add_references(in->stmts[i]);
         add(in->stmts[i]);
      }
   }
   add_exit();
   header->Ico.U64 = blocks_header(blocks_next_number(), draft.slot_count);
   blocks_define(closure->nraddr, &draft);
   return out;
}
