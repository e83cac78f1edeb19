/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The constants of the stream from this tool to pagewalk. WIRE.md explains them; crates/capture/src/wire.rs has the
same. */

#ifndef PAGEWALK_WIRE_H
#define PAGEWALK_WIRE_H

#define WIRE_MAGIC 0x315249474b4c5750ULL
#define WIRE_VERSION 4

#define WIRE_ORIGIN_START 0
#define WIRE_ORIGIN_FORK 1

/* Byte offsets in the ring's header. */
#define WIRE_MAGIC_AT 0
#define WIRE_VERSION_AT 8
#define WIRE_CHUNK_BYTES_AT 16
#define WIRE_CHUNKS_AT 24
#define WIRE_HEAD_AT 64
#define WIRE_PARTIAL_AT 72
#define WIRE_DONE_AT 80
#define WIRE_TAIL_AT 128
#define WIRE_HEAD_WAKE_AT 192
#define WIRE_READER_SLEEPS_AT 200
#define WIRE_TAIL_WAKE_AT 208
#define WIRE_WRITER_SLEEPS_AT 216
#define WIRE_HELP_WAKE_AT 256
#define WIRE_HELPER_SLEEPS_AT 264
#define WIRE_CHUNK_SIZES_AT 1024
#define WIRE_HEADER_BYTES 4096
#define WIRE_CHUNKS_MAX 256

/* A block header: a negative 32-bit number, sign-extended. Its low bits are the block's number; the seven bits above
   are the number of slots of the whole block, or the largest that fits. */
#define WIRE_BLOCK_HEADER 0xffffffff80000000ULL
#define WIRE_BLOCK_NUMBER_MASK 0xffffffULL
#define WIRE_BLOCK_SLOTS_SHIFT 24
#define WIRE_BLOCK_SLOTS_MANY 127

/* An event header: the kind from bit 56, the number of payload words in the low half. */
#define WIRE_EVENT_HEADER 0x8000000000000000ULL
#define WIRE_EVENT_KIND_SHIFT 56

enum WireEvent {
   WIRE_BLOCK = 1,
   WIRE_MAP = 2,
   WIRE_UNMAP = 3,
   WIRE_REMAP = 4,
   WIRE_BREAK = 5,
   WIRE_PROTECT = 6,
   WIRE_ADVISE = 7,
   WIRE_THREAD_START = 8,
   WIRE_THREAD_END = 9,
   WIRE_SWITCH = 10,
   WIRE_FORK = 11,
   WIRE_EXEC = 12,
   WIRE_SYSCALL = 13,
   WIRE_MARKER = 14,
   WIRE_EXIT = 15,
   WIRE_IDENTITY = 16,
   WIRE_LOST = 17,
   WIRE_THP_DISABLE = 18,
   WIRE_IDLE = 19,
   WIRE_SPIN = 20,
};

enum WireBlockEnd {
   WIRE_END_JUMP = 0,
   WIRE_END_CALL = 1,
   WIRE_END_RETURN = 2,
   WIRE_END_SYSCALL = 3,
   WIRE_END_OTHER = 4,
};

enum WireAccess {
   WIRE_PADDING = 0,
   WIRE_LOAD = 1,
   WIRE_STORE = 2,
   WIRE_MODIFY = 3,
};

enum WireMapping {
   WIRE_ANONYMOUS = 0,
   WIRE_SHARED_ANONYMOUS = 1,
   WIRE_HEAP = 2,
   WIRE_STACK = 3,
   WIRE_FILE = 4,
   WIRE_SHARED_FILE = 5,
   WIRE_KERNEL = 6,
};

/* Words of a BLOCK event before its lists. */
#define WIRE_BLOCK_FIXED_WORDS 5

#endif
