/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the tool's files tell each other. */

#ifndef PAGEWALK_ENGINE_H
#define PAGEWALK_ENGINE_H

#include "pub_tool_basics.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_tooliface.h"
#include "libvex_guest_amd64.h"

/* In Valgrind's core the "no such thread" of a ThreadId; its headers for tools do not name it. */
#define NO_THREAD ((ThreadId)0)

/* ---- ring.c: the ring in shared memory, and the socket that announces it ---- */

/* A block of at most this many words (its header and its slots) is sure to fit behind `limit`. */
#define RING_HEADROOM_WORDS 128

/* The place for the next word, while no client code runs. While client code runs the place is in the
   thread's shadow guest state. */
extern ULong* ring_cursor;

/* A cursor beyond this means that the chunk may not hold the next block. */
extern ULong* ring_limit;

/* Options. The sizes are powers of two. */
extern const HChar* ring_socket_path;
extern Long ring_chunk_bytes;
extern Long ring_chunks;

/* Makes a ring and announces it, or makes a private one when there is nobody to announce it to. */
void ring_open(UInt origin);

/* Leaves the parent's ring alone and forgets it. */
void ring_leave(void);

/* The first word of the chunk. */
const ULong* ring_chunk_start(void);

/* Hands the chunk to the reader and waits until the next one is free. */
void ring_next_chunk(void);

/* Lets the reader see what has been written so far. */
void ring_publish(void);

/* Says that nothing follows. */
void ring_finish(void);

/* ---- events.c: one function for each event ---- */

/* Begins an event of so many payload words and returns the place for them. */
ULong* event_begin(UInt kind, UInt words);

void event_identity(void);
/* A mapping, without its path. */
typedef struct {
   Addr start;
   SizeT bytes;
   UInt protection;
   UInt kind;
   ULong page_bytes;   /* of the pages that back it; 0: base pages */
   ULong offset;
} MapEvent;

void event_map(const MapEvent* map, const HChar* path);
void event_thread_start(ThreadId thread, ThreadId parent);
void event_thread_end(ThreadId thread);
void event_exec(const HChar* path);
void event_lost(const HChar* text);

/* An event whose payload is plain numbers. */
void event_words(UInt kind, UInt count, const ULong* words);

/* Says which thread the words that follow belong to, if that changed. */
void event_switch_to(ThreadId thread);

/* Makes the next event_switch_to speak in any case: the ring is new. */
void event_forget_thread(void);

/* ---- roots.c: what the engine needs of the file system, under another root too ---- */

/* Keeps open what is needed later. */
void roots_hold(void);

/* Opens what `path` is, in /proc. Negative: an error. */
Int proc_open(const HChar* path, UInt flags);

/* Connects to the socket of this path, and gives 0 or a negative error. */
Int roots_connect(Int socket, const HChar* path);

/* ---- maps.c: the client's mappings when a stream begins ---- */

void maps_announce(void);

/* What the kernel has kept of advice on huge pages over a fork. */
void maps_announce_advice(void);

/* The size of the pages that back what lies there, asked of the kernel. */
ULong maps_page_bytes(Addr start);

/* Bytes of the pages that the kernel adds to a process: vdso and what belongs to it. */
SizeT maps_kernel_bytes(void);

/* Whether what is mapped there is shared, asked of the kernel. */
Bool maps_is_shared(Addr start);

/* ---- loads.c: loads whose values nobody uses ---- */

/* Whether a load is to be counted here; it reads `len` bytes at `base`. */
Bool loads_is_mark(const IRStmt* statement);

/* Whether the optimiser has left the load that is marked. */
Bool loads_is_done(const IRSB* block, Int mark);

/* ---- image.c: a new image ---- */

/* For comparisons with Valgrind's own tools (PAGEWALK_IMAGE_OF_VALGRIND in the environment): programs begin, and lie in
   memory, as under them. */
Bool image_is_of_valgrind(void);

/* ---- placement.c: where the client's memory lies ---- */

/* What the kernel's choice of an address depends on. */
typedef struct {
   UInt flags;         /* of mmap */
   ULong device;       /* of the file */
   ULong offset;
   ULong page_bytes;   /* of hugetlb; 0: base pages */
   Addr planned;       /* where a plan has it; 0: nowhere */
} PlacementCall;

/* Notes the file of a call, and how its file system has files mapped. */
void placement_learn_file(Int fd, PlacementCall* call);

/* The core asks next for an address for this. */
void placement_expect(const PlacementCall* call);
void placement_forget(void);

/* An address for so many bytes, at `hint` if that is free. */
Addr placement_find(Addr hint, SizeT bytes, Bool* ok);

/* Whether nothing is mapped there. */
Bool placement_is_free(Addr start, SizeT bytes);

/* Whether the address space manager has no room for more mappings. */
Bool placement_is_full(void);

/* Maps the first page of the break, when it grows first. */
void placement_begin_break(void);

/* Lets the break shrink to `end`. */
void placement_shrink_break(Addr end);

/* What is to be done once the program is loaded. */
void placement_start(void);
void placement_open_stack(ThreadId thread);

/* ---- aliases.c: code in files that is written while it runs ---- */

/* A file was mapped there, or rights of a range were set. */
void aliases_after_mmap(Addr start, Bool is_shared, Int fd);
void aliases_after_mprotect(Addr start, SizeT bytes, UInt protection);

/* Whether code may be written without the core's knowing; if not now, it will be discarded when it may. */
Bool aliases_may_change(Addr code);

/* ---- signals.c ---- */

/* The thread's next instruction lies, in whole or in part, at `at`, where it cannot be fetched: the signal of that. */
void signals_synthesise_fetch(ThreadId thread, Addr at, Bool is_past_file);

/* ---- waiting.c: idle time, and threads that spin ---- */

/* From here on time counts. */
void waiting_start(void);

/* Client code has stopped; what passes until waiting_tell_idle() is idle time, unless waiting_forget() says that the
   engine itself waited. */
void waiting_stopped(void);
void waiting_forget(void);
void waiting_tell_idle(void);

#define SPIN_BLOCKS_MAX 32

/* A thread waited by spinning: each of these blocks ran so many times. */
typedef struct {
   ULong rounds;   /* 0: it did not */
   UInt blocks;
   UInt numbers[SPIN_BLOCKS_MAX];
} Spin;

/* What the last words of a chunk, [start, end), say of that. */
Spin waiting_find_spin(const ULong* start, const ULong* end);

/* Tells it, and has the thread give its slice away. */
void waiting_tell_spin(ThreadId thread, const Spin* spin);

/* ---- limits.c: the limits of open files and of their length ---- */

/* Gives the kernel the program's own, for what runs without the engine or begins anew, and takes it back. */
void limits_native(void);
void limits_engine(void);

/* Whether a program with the limit of open files that this one has set could not begin under the engine. */
Bool limits_are_too_low(void);

/* Whether a file of the engine's own may become so long; until limits_end_file() it may, if this process may raise the limit
   on the length of files for as long. */
Bool limits_begin_file(ULong bytes);
void limits_end_file(void);

/* ---- seen.c ---- */

/* Before client code runs: at the first instruction, has the kernel know the program's command line and environment. */
void seen_start(ThreadId thread);

/* Has the kernel know them, and the break as the client has it. */
void seen_tell_kernel(void);
Bool seen_is_told(void);

/* ---- vfork.c: children that borrow their parent's memory ---- */

/* In such a child: its parent gets what it has written. */
void vfork_send(void);

/* This process is no such child, whatever its parent is. */
void vfork_forget(void);

/* ---- faults.c: programs that repair their own page faults ---- */

void faults_after_sigaction(Int signal, Addr at);
void faults_before_mprotect(ThreadId thread, Addr start, UInt protection);

/* Whether the program may want to know all registers at an instruction of this code that is no reference to memory. */
Bool faults_may_be_in(Addr code, SizeT bytes);

/* ---- native.c: going on without the engine ---- */

/* The program leaves the engine before its next instruction, for this reason. */
void native_leave(const HChar* reason);
Bool native_is_near(void);

/* The thread leaves now, for good. */
void native_go(ThreadId thread);

/* ---- main.c ---- */

/* Threads of the program that have not ended. */
UInt threads_alive(void);

/* ---- arguments.c ---- */

/* The thread begins a call: none of an earlier one are kept. */
void arguments_forget(ThreadId thread);

/* Puts what the thread gave for its call back into its registers, if it was changed. */
void arguments_put_back(ThreadId thread);

/* ---- syscalls.c ---- */

void syscall_before(ThreadId thread, UInt number, UWord* args, UInt count);
void syscall_after(ThreadId thread, UInt number, UWord* args, UInt count, SysRes result);

/* The status that the program has given for its end, or -1: a signal ended it. */
Int syscall_exit_status(void);

/* Whether the program has advised on huge pages, and whether it has mapped memory of hugetlb. */
Bool syscall_has_advised(void);
Bool syscall_has_hugetlb(void);

/* Says whether the process forbids huge pages, if it does. */
void syscall_announce_thp(void);

/* A new process has not called for its end. */
void syscall_forget_exits(void);

/* ---- blocks.c: the definitions of the blocks that have translations ---- */

typedef struct {
   Addr address;
   UInt bytes;
} Instruction;

typedef struct {
   UInt instruction;
   UInt kind;
   UInt bytes;
} Slot;

typedef struct {
   UInt slots;
   UInt instructions;
} Exit;

/* VEX puts at most 60 instructions into a block and unrolls short loops up to eight times; the instruction with
   most references, XSAVE, makes fewer than 40. A definition of this size fits the smallest chunk. */
#define BLOCK_INSTRUCTIONS_MAX 512
#define BLOCK_SLOTS_MAX 3000
#define BLOCK_EXITS_MAX 1024

typedef struct {
   UInt end;
   UInt instruction_count;
   UInt slot_count;
   UInt exit_count;
   Instruction instructions[BLOCK_INSTRUCTIONS_MAX];
   Slot slots[BLOCK_SLOTS_MAX];
   Exit exits[BLOCK_EXITS_MAX];
} BlockDraft;

void blocks_init(void);

/* The number the next block gets. */
UInt blocks_next_number(void);
/* The word that starts an execution of a block. */
ULong blocks_header(UInt number, UInt slots);

/* Gives the block the next number, and sends and keeps its definition. `key` is the guest address that Valgrind
   will name when it discards the translation. */
void blocks_define(Addr key, const BlockDraft* draft);

/* Whether the first slots of a block are loads. */
Bool blocks_only_load(UInt number, UInt slots);

void blocks_discard(Addr key, VexGuestExtents extents);

/* Sends the definitions of all live blocks: the ring is new, the translations are not. */
void blocks_replay(void);

/* The client faulted at guest address `ip` amid a block. Makes the stream say exactly which instructions ran, and
   returns the new cursor. */
ULong* blocks_cut_at_fault(ULong* cursor, Addr ip);

/* ---- places.c: shared objects at planned addresses ---- */

/* Option: the file that says what lies where. */
extern const HChar* places_path;

void places_read(void);

/* Whether this is the loader's. */
Bool places_is_loader(const NSegment* segment);

/* Where the loader's mapping, made by the code there, is to lie; 0: where it comes. */
Addr places_address(Addr code, Int fd, SizeT bytes, const PlacementCall* call);

/* ---- instrument.c ---- */

IRSB* instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                 const VexGuestExtents* extents, const VexArchInfo* host, IRType guest_word, IRType host_word);

/* Where the running thread keeps the cursor and the limit: offsets in shadow guest state 1. */
#define SHADOW_CURSOR_AT 16
#define SHADOW_LIMIT_AT 24

/* ---- main.c ---- */

/* Move the cursor and the limit to and from the thread's shadow guest state. */
void client_cursor_store(ThreadId thread);
void client_cursor_load(ThreadId thread);

#endif
