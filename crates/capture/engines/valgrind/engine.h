/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Interfaces between the tool's files. */

#ifndef PAGEWALK_ENGINE_H
#define PAGEWALK_ENGINE_H

#include "pub_tool_basics.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_tooliface.h"
#include "libvex_guest_amd64.h"

/* The "no such thread" value of ThreadId in Valgrind's core; its headers for tools do not define it. */
#define NO_THREAD ((ThreadId)0)

/* ---- in the core library; no header for tools declares them ---- */

extern Addr VG_(brk_base);
extern Addr VG_(brk_limit);
extern Addr VG_(clstk_end);
extern Int VG_(fd_hard_limit);
extern Int VG_(cl_exec_fd);
extern const HChar* VG_(libdir);
extern void VG_(discard_translations)(Addr start, ULong bytes, const HChar* who);
extern Bool VG_(resolve_filename)(Int fd, const HChar** name);
extern Bool VG_(am_notify_client_mmap)(Addr start, SizeT bytes, UInt protection, UInt flags, Int fd, Off64T offset);

/* ---- ring.c: the ring in shared memory, and the socket that announces it ---- */

/* A block of at most this many words (header and slots) always fits after `limit`. */
#define RING_HEADROOM_WORDS 128

/* The place for the next word while no client code runs. While client code runs, it is in the thread's shadow guest
   state. */
extern ULong* ring_cursor;

/* Beyond this, the chunk may not hold the next block. */
extern ULong* ring_limit;

/* Options. The sizes are powers of two. */
extern const HChar* ring_socket_path;
extern Long ring_chunk_bytes;
extern Long ring_chunks;

/* Creates a ring and announces it, or a private one if nobody listens. */
void ring_open(UInt origin);

/* Leaves the parent's ring unchanged and forgets it. */
void ring_leave(void);

/* The first word of the chunk. */
const ULong* ring_chunk_start(void);

/* Passes the chunk to the reader and waits for the next free one. */
void ring_next_chunk(void);

/* Shows the reader what has been written so far. */
void ring_publish(void);

/* Ends the stream. */
void ring_finish(void);

/* ---- events.c: one function for each event ---- */

/* Begins an event with this many payload words and returns their place. */
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

/* Tells which thread the following words belong to, if that changed. */
void event_switch_to(ThreadId thread);

/* Makes the next event_switch_to write in any case: the ring is new. */
void event_forget_thread(void);

/* ---- roots.c: files that the engine needs, even after a change of root ---- */

/* Opens and keeps what is needed later. */
void roots_hold(void);

/* Opens `path` in /proc. Negative: an error. */
Int proc_open(const HChar* path, UInt flags);

/* Connects to the socket at this path; returns 0 or a negative error. */
Int roots_connect(Int socket, const HChar* path);

/* ---- maps.c: the client's mappings when a stream begins ---- */

void maps_announce(void);

/* Advice on huge pages that the kernel kept over a fork. */
void maps_announce_advice(void);

/* The page size of the mapping there, according to the kernel. */
ULong maps_page_bytes(Addr start);

/* Bytes of the pages that the kernel adds to a process: vdso and what belongs to it. */
SizeT maps_kernel_bytes(void);

/* Whether the mapping there is shared, according to the kernel. */
Bool maps_is_shared(Addr start);

/* ---- loads.c: loads whose values nobody uses ---- */

/* Whether this marks a load to be counted, of `len` bytes at `base`. */
Bool loads_is_mark(const IRStmt* statement);

/* Whether the optimiser has kept the marked load. */
Bool loads_is_done(const IRSB* block, Int mark);

/* ---- image.c: a new image ---- */

/* For comparisons with Valgrind's own tools (PAGEWALK_IMAGE_OF_VALGRIND in the environment): programs start, and lie in
   memory, as under them. */
Bool image_is_of_valgrind(void);

/* ---- placement.c: the addresses of the client's memory ---- */

/* The inputs of the kernel's choice of an address. */
typedef struct {
   UInt flags;         /* of mmap */
   ULong device;       /* of the file */
   ULong offset;
   ULong page_bytes;   /* of hugetlb; 0: base pages */
   Addr planned;       /* the planned address; 0: none */
} PlacementCall;

/* Learns the file of a call, and how its file system maps files. */
void placement_learn_file(Int fd, PlacementCall* call);

/* The next request of the core for an address is for this. */
void placement_expect(const PlacementCall* call);
void placement_forget(void);

/* An address for `bytes`, at `hint` if that is free. */
Addr placement_find(Addr hint, SizeT bytes, Bool* ok);

/* Whether nothing is mapped there. */
Bool placement_is_free(Addr start, SizeT bytes);

/* Whether the address space manager has no room for more mappings. */
Bool placement_is_full(void);

/* Maps the first page of the break when it first grows. */
void placement_begin_break(void);

/* Shrinks the break to `end`. */
void placement_shrink_break(Addr end);

/* Work after the program is loaded. */
void placement_start(void);
void placement_open_stack(ThreadId thread);

/* ---- aliases.c: code in files that is written while it runs ---- */

/* A file was mapped there, or rights of a range were set. */
void aliases_after_mmap(Addr start, Bool is_shared, Int fd);
void aliases_after_mprotect(Addr start, SizeT bytes, UInt protection);

/* Whether code may be written without the core's knowledge; if not now, it will be discarded once it may. */
Bool aliases_may_change(Addr code);

/* ---- signals.c ---- */

/* The thread's next instruction overlaps `at`, where it cannot be fetched: raises that signal. */
void signals_synthesise_fetch(ThreadId thread, Addr at, Bool is_past_file);

/* ---- waiting.c: idle time, and threads that spin ---- */

/* Time counts from here on. */
void waiting_start(void);

/* Client code has stopped; the time until waiting_tell_idle() is idle time, unless waiting_forget() says that the
   engine itself waited. */
void waiting_stopped(void);
void waiting_forget(void);
void waiting_tell_idle(void);

#define SPIN_BLOCKS_MAX 32

/* A thread waited by spinning: each of these blocks ran this many times. */
typedef struct {
   ULong rounds;   /* 0: no spinning */
   UInt blocks;
   UInt numbers[SPIN_BLOCKS_MAX];
} Spin;

/* Finds spinning in the last words of a chunk, [start, end). */
Spin waiting_find_spin(const ULong* start, const ULong* end);

/* Reports it, and ends the thread's slice. */
void waiting_tell_spin(ThreadId thread, const Spin* spin);

/* ---- limits.c: the limits of open files, of their length and of the stack ---- */

/* Gives the kernel the program's own limits, for code without the engine or for a new image; and takes them back.
   `is_followed`: the engine runs that image too. */
void limits_native(Bool is_followed);
void limits_engine(void);

/* A program may have fewer files open than loading an image needs: the soft limit is higher meanwhile. */
void limits_before_load(void);
void limits_after_load(void);

/* The bytes of the next image's first stack. */
ULong limits_stack_bytes(void);

/* Whether a program with the limit of open files set here could not start under the engine. */
Bool limits_are_too_low(void);

/* Whether an engine's file may become this long. Until limits_end_file() it may, if this process may raise the limit on
   file lengths meanwhile. */
Bool limits_begin_file(ULong bytes);
void limits_end_file(void);

/* ---- seen.c ---- */

/* Before client code runs: at the first instruction, tells the kernel the program's command line and environment. */
void seen_start(ThreadId thread);

/* Tells the kernel these, and the client's break. */
void seen_tell_kernel(void);
Bool seen_is_told(void);

/* ---- vfork.c: children that borrow their parent's memory ---- */

/* In such a child: sends its parent what it has written. */
void vfork_send(void);

/* This process is no such child, even if its parent is. */
void vfork_forget(void);

/* ---- faults.c: programs that repair their own page faults ---- */

void faults_after_sigaction(Int signal, Addr at);
void faults_before_mprotect(ThreadId thread, Addr start, UInt protection);

/* Whether the program may need all registers at an instruction of this code other than a memory access. */
Bool faults_may_be_in(Addr code, SizeT bytes);

/* ---- native.c: continuing without the engine ---- */

/* The program leaves the engine before its next instruction, for this reason. */
void native_leave(const HChar* reason);
Bool native_is_near(void);

/* The thread leaves now, for good. */
void native_go(ThreadId thread);

/* ---- main.c ---- */

/* Threads of the program that have not ended. */
UInt threads_alive(void);

/* ---- arguments.c ---- */

/* The thread begins a call: forgets those of earlier ones. */
void arguments_forget(ThreadId thread);

/* Restores the thread's own arguments in its registers if they were changed. */
void arguments_put_back(ThreadId thread);

/* ---- syscalls.c ---- */

void syscall_before(ThreadId thread, UInt number, UWord* args, UInt count);
void syscall_after(ThreadId thread, UInt number, UWord* args, UInt count, SysRes result);

/* The exit status given by the program, or -1: a signal ended it. */
Int syscall_exit_status(void);

/* Whether the program has advised on huge pages, and whether it has mapped hugetlb memory. */
Bool syscall_has_advised(void);
Bool syscall_has_hugetlb(void);

/* Reports whether the process forbids huge pages, if it does. */
void syscall_announce_thp(void);

/* A new process has not called exit. */
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

/* VEX puts at most 60 instructions into a block and unrolls short loops up to eight times; the instruction with most
   references, XSAVE, makes fewer than 40. A definition of this size fits the smallest chunk. */
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

/* Assigns the block the next number, and sends and keeps its definition. `key` is the guest address by which Valgrind
   discards the translation. */
void blocks_define(Addr key, const BlockDraft* draft);

/* Whether the first slots of a block are loads. */
Bool blocks_only_load(UInt number, UInt slots);

void blocks_discard(Addr key, VexGuestExtents extents);

/* Sends the definitions of all live blocks: the ring is new, the translations are not. */
void blocks_replay(void);

/* The client faulted at guest address `ip` inside a block. Corrects the stream to the instructions that ran, and
   returns the new cursor. */
ULong* blocks_cut_at_fault(ULong* cursor, Addr ip);

/* ---- places.c: shared objects at planned addresses ---- */

/* Option: the file of planned addresses. */
extern const HChar* places_path;

void places_read(void);

/* Whether this segment is the loader's. */
Bool places_is_loader(const NSegment* segment);

/* The planned address of a mapping made by the loader's code; 0: none. */
Addr places_address(Addr code, Int fd, SizeT bytes, const PlacementCall* call);

/* ---- instrument.c ---- */

IRSB* instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                 const VexGuestExtents* extents, const VexArchInfo* host, IRType guest_word, IRType host_word);

/* Offsets in shadow guest state 1 of the running thread's cursor and limit. */
#define SHADOW_CURSOR_AT 16
#define SHADOW_LIMIT_AT 24

/* ---- main.c ---- */

/* Move the cursor and the limit to and from the thread's shadow guest state. */
void client_cursor_store(ThreadId thread);
void client_cursor_load(ThreadId thread);

#endif
