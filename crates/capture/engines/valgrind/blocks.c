/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The definitions of the blocks that have translations, as they were sent.

They serve two purposes. A forked child starts with its parent's translations but an empty ring, so it sends them again.
(Discarding all translations in the child would need no memory here, but the child would translate again, at about 30
microseconds a block; sending one again costs less than half a microsecond, and keeping it about 200 bytes.) And a fault
inside a block is described by a second, shorter definition derived from the first. */

#include "engine.h"
#include "wire.h"

#include "pub_tool_hashtable.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"

typedef struct _Block {
   VgHashNode hash;            /* its key is the guest address that discards name */
   struct _Block* cut;         /* the shorter definitions made of this one after faults */
   UInt words;
   ULong payload[];            /* of its BLOCK event */
} Block;

static VgHashTable* live;      /* blocks by key; those in a `cut` list are not here */
static Block** by_number;      /* NULL where the block has been discarded */
static UInt numbers_used;
static UInt numbers_room;

void blocks_init(void)
{
   live = VG_(HT_construct)("pagewalk.blocks");
}

UInt blocks_next_number(void)
{
   return numbers_used;
}

ULong blocks_header(UInt number, UInt slots)
{
   ULong told = slots < WIRE_BLOCK_SLOTS_MANY ? slots : WIRE_BLOCK_SLOTS_MANY;
   return WIRE_BLOCK_HEADER | told << WIRE_BLOCK_SLOTS_SHIFT | (number & WIRE_BLOCK_NUMBER_MASK);
}

/* ---- reading a definition ---- */

static UInt instruction_count(const Block* block) { return block->payload[2]; }
static UInt slot_count(const Block* block) { return block->payload[3]; }
static UInt exit_count(const Block* block) { return block->payload[4]; }

static Addr instruction_address(const Block* block, UInt i)
{
   return block->payload[WIRE_BLOCK_FIXED_WORDS + 2 * i];
}

static UInt instruction_bytes(const Block* block, UInt i)
{
   return block->payload[WIRE_BLOCK_FIXED_WORDS + 2 * i + 1];
}

static const ULong* slot_words(const Block* block)
{
   return block->payload + WIRE_BLOCK_FIXED_WORDS + 2 * instruction_count(block);
}

static const ULong* exit_words(const Block* block)
{
   return slot_words(block) + slot_count(block);
}

Bool blocks_only_load(UInt number, UInt slots)
{
   const Block* block = number < numbers_used ? by_number[number] : NULL;
   if (block == NULL || slots > slot_count(block))
      return False;
   for (UInt i = 0; i < slots; i++) {
      UInt kind = slot_words(block)[i] >> 16 & 0xff;
      if (kind != WIRE_LOAD && kind != WIRE_PADDING)
         return False;
   }
   return True;
}

/* ---- making a definition ---- */

/* A block with the next number and room for the payload, not yet sent. */
static Block* new_block(UInt words)
{
   if (numbers_used == numbers_room) {
      numbers_room = numbers_room == 0 ? 4096 : 2 * numbers_room;
      by_number = VG_(realloc)("pagewalk.numbers", by_number, numbers_room * sizeof *by_number);
   }
   Block* block = VG_(malloc)("pagewalk.block", sizeof *block + words * sizeof(ULong));
   block->cut = NULL;
   block->words = words;
   block->payload[0] = numbers_used;
   by_number[numbers_used++] = block;
   return block;
}

static void send_block(const Block* block)
{
   event_words(WIRE_BLOCK, block->words, block->payload);
}

static UInt draft_code_bytes(const BlockDraft* draft)
{
   UInt bytes = 0;
   for (UInt i = 0; i < draft->instruction_count; i++)
      bytes += draft->instructions[i].bytes;
   return bytes;
}

static ULong* put_code(ULong* to, const BlockDraft* draft)
{
   UChar* byte = (UChar*)to;
   for (UInt i = 0; i < draft->instruction_count; i++) {
      VG_(memcpy)(byte, (const UChar*)draft->instructions[i].address, draft->instructions[i].bytes);
      byte += draft->instructions[i].bytes;
   }
   while ((Addr)byte % sizeof(ULong) != 0)
      *byte++ = 0;
   return (ULong*)byte;
}

void blocks_define(Addr key, const BlockDraft* draft)
{
   UInt code_words = VG_ROUNDUP(draft_code_bytes(draft), sizeof(ULong)) / sizeof(ULong);
   Block* block = new_block(WIRE_BLOCK_FIXED_WORDS + 2 * draft->instruction_count + draft->slot_count
                            + draft->exit_count + code_words);
   block->hash.key = key;
   block->payload[1] = draft->end;
   block->payload[2] = draft->instruction_count;
   block->payload[3] = draft->slot_count;
   block->payload[4] = draft->exit_count;
   ULong* to = block->payload + WIRE_BLOCK_FIXED_WORDS;
   for (UInt i = 0; i < draft->instruction_count; i++) {
      *to++ = draft->instructions[i].address;
      *to++ = draft->instructions[i].bytes;
   }
   for (UInt i = 0; i < draft->slot_count; i++) {
      const Slot* slot = &draft->slots[i];
      *to++ = slot->instruction | slot->kind << 16 | (ULong)slot->bytes << 32;
   }
   for (UInt i = 0; i < draft->exit_count; i++)
      *to++ = draft->exits[i].slots | (ULong)draft->exits[i].instructions << 32;
   to = put_code(to, draft);
   tl_assert(to == block->payload + block->words);
   VG_(HT_add_node)(live, block);
   send_block(block);
}

/* ---- discarding and sending again ---- */

static void free_block(Block* block)
{
   while (block != NULL) {
      Block* cut = block->cut;
      by_number[block->payload[0]] = NULL;
      VG_(free)(block);
      block = cut;
   }
}

void blocks_discard(Addr key, VexGuestExtents extents)
{
   Block* block = VG_(HT_lookup)(live, key);
   /* Valgrind may hold two translations for one key, one of them not redirected: their code differs. */
   if (block != NULL && instruction_address(block, 0) == extents.base[0])
      free_block(VG_(HT_remove)(live, key));
}

void blocks_replay(void)
{
   for (UInt number = 0; number < numbers_used; number++)
      if (by_number[number] != NULL)
         send_block(by_number[number]);
}

/* ---- faults ---- */

/* A definition of only the first `instructions` of `whole`, made now or at an earlier fault. */
static const Block* cut_block(Block* whole, UInt instructions, UInt slots)
{
   for (Block* cut = whole->cut; cut != NULL; cut = cut->cut)
      if (instruction_count(cut) == instructions)
         return cut;
   UInt code_bytes = 0;
   for (UInt i = 0; i < instructions; i++)
      code_bytes += instruction_bytes(whole, i);
   UInt code_words = VG_ROUNDUP(code_bytes, sizeof(ULong)) / sizeof(ULong);
   Block* cut = new_block(WIRE_BLOCK_FIXED_WORDS + 2 * instructions + slots + 1 + code_words);
   cut->hash.key = whole->hash.key;
   cut->payload[1] = WIRE_END_OTHER;
   cut->payload[2] = instructions;
   cut->payload[3] = slots;
   cut->payload[4] = 1;
   ULong* to = cut->payload + WIRE_BLOCK_FIXED_WORDS;
   VG_(memcpy)(to, whole->payload + WIRE_BLOCK_FIXED_WORDS, 2 * instructions * sizeof(ULong));
   to += 2 * instructions;
   VG_(memcpy)(to, slot_words(whole), slots * sizeof(ULong));
   to += slots;
   *to++ = slots | (ULong)instructions << 32;
   to[code_words - 1] = 0;
   VG_(memcpy)(to, exit_words(whole) + exit_count(whole), code_bytes);
   cut->cut = whole->cut;
   whole->cut = cut;
   send_block(cut);
   return cut;
}

/* The block whose execution begins at `header`, if there is a live block's header. */
static Block* block_at(const ULong* header)
{
   if ((*header & WIRE_BLOCK_HEADER) != WIRE_BLOCK_HEADER)
      return NULL;
   UInt number = *header & WIRE_BLOCK_NUMBER_MASK;
   return number < numbers_used ? by_number[number] : NULL;
}

/* Index of the first instruction at `ip` after the first `done`; the count if there is none. */
static UInt find_instruction(const Block* block, Addr ip, UInt done)
{
   UInt i = done;
   while (i < instruction_count(block) && instruction_address(block, i) != ip)
      i++;
   return i;
}

static UInt slots_before(const Block* block, UInt instruction)
{
   UInt count = 0;
   while (count < slot_count(block) && (slot_words(block)[count] & 0xffff) < instruction)
      count++;
   return count;
}

/* The block that a fault interrupted: the place of its header, and the unfinished instruction. */
typedef struct {
   ULong* header;
   Block* block;
   UInt instruction;
} Interrupted;

/* Whether a block begun at `header` may be the one interrupted at `ip`, given that the last exit it passed (none if
   `exit` is 0) left the cursor where it is now. */
static Bool interrupted_after_exit(Interrupted* at, ULong* header, UInt exit, Addr ip)
{
   Block* block = block_at(header);
   if (block == NULL || exit >= exit_count(block))
      return False;
   /* The exit's own instruction may continue after it: string instructions do. */
   UInt done = exit == 0 ? 0 : (exit_words(block)[exit - 1] >> 32) - 1;
   UInt instruction = find_instruction(block, ip, done);
   *at = (Interrupted){ header, block, instruction };
   return instruction < exit_words(block)[exit] >> 32;
}

/* Either no exit was passed and the cursor is still at the header, or the cursor is after the slots counted at the last
   exit. */
static Bool find_interrupted(Interrupted* at, ULong* cursor, Addr ip)
{
   if (interrupted_after_exit(at, cursor, 0, ip))
      return True;
   ULong* header = cursor - 1;
   for (UInt n = 0; n < BLOCK_SLOTS_MAX && !(*header & WIRE_EVENT_HEADER); n++)
      header--;
   const Block* block = block_at(header);
   if (block == NULL)
      return False;
   for (UInt exit = 0; exit < exit_count(block); exit++)
      if ((UInt)exit_words(block)[exit] == cursor - header - 1)
         return interrupted_after_exit(at, header, exit + 1, ip);
   return False;
}

ULong* blocks_cut_at_fault(ULong* cursor, Addr ip)
{
   static ULong slots[BLOCK_SLOTS_MAX];
   Interrupted at;
   ring_cursor = cursor;
   if (!find_interrupted(&at, cursor, ip))
      return ring_cursor;
   UInt count = slots_before(at.block, at.instruction);
   VG_(memcpy)(slots, at.header + 1, count * sizeof *slots);
   ring_cursor = at.header;
   if (at.instruction == 0)
      return ring_cursor;
   const Block* cut = cut_block(at.block, at.instruction, count);
   if (ring_cursor + 1 + count > ring_limit)
      ring_next_chunk();
   *ring_cursor = blocks_header(cut->payload[0], count);
   VG_(memcpy)(ring_cursor + 1, slots, count * sizeof *slots);
   ring_cursor += 1 + count;
   return ring_cursor;
}
