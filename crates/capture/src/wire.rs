//! The engine's stream: the constants of `engines/valgrind/WIRE.md`, and the decoder.
//!
//! Design constraints: the words come from another process, so nothing in them is trusted. A word that breaks the rules
//! yields a [`WireError`] with its chunk and position, never a panic; and no count in the stream makes the decoder take
//! more memory than the stream's own size and the limits below.
//!
//! The constants stand in `WIRE.md`, in `wire.h` and here; change all three together and raise [`WIRE_VERSION`].

mod decoder;
mod definition;
mod event;
mod table;
#[cfg(test)]
mod twin;

pub use decoder::{DecodeStep, Decoder};

/// First word of the ring and of the engine's first message: `PWLKGIR1`.
pub const MAGIC: u64 = 0x3152_4947_4b4c_5750;
/// Version of the stream.
pub const WIRE_VERSION: u64 = 4;
/// Words of the engine's first message.
pub const HELLO_WORDS: usize = 5;
/// Most chunks of a ring.
pub const MAX_CHUNKS: u64 = 256;
/// Largest accepted chunk, in bytes: one at a time is copied to private memory.
pub const MAX_CHUNK_BYTES: u64 = 1 << 24;

/// Byte offsets in the ring.
pub mod offset {
    /// [`MAGIC`](super::MAGIC).
    pub const MAGIC: usize = 0;
    /// [`WIRE_VERSION`](super::WIRE_VERSION).
    pub const VERSION: usize = 8;
    /// Bytes per chunk.
    pub const CHUNK_BYTES: usize = 16;
    /// Number of chunks.
    pub const CHUNKS: usize = 24;
    /// Chunks completed since the start.
    pub const HEAD: usize = 64;
    /// Bytes valid in the chunk being filled.
    pub const PARTIAL: usize = 72;
    /// 1 after a proper end of the image.
    pub const DONE: usize = 80;
    /// Chunks consumed since the start.
    pub const TAIL: usize = 128;
    /// Futex by which the engine wakes pagewalk.
    pub const HEAD_WAKE: usize = 192;
    /// While pagewalk sleeps on `HEAD_WAKE`: the number of complete chunks to wait for; else 0.
    pub const READER_SLEEPS: usize = 200;
    /// Futex by which pagewalk wakes the engine.
    pub const TAIL_WAKE: usize = 208;
    /// Set while the engine sleeps on `TAIL_WAKE`.
    pub const WRITER_SLEEPS: usize = 216;
    /// A second futex by which the engine wakes pagewalk.
    pub const HELP_WAKE: usize = 256;
    /// As `READER_SLEEPS`, for `HELP_WAKE`.
    pub const HELPER_SLEEPS: usize = 264;
    /// Bytes valid in each chunk slot, 32 bits each.
    pub const CHUNK_USED: usize = 1024;
    /// The chunks.
    pub const DATA: usize = 4096;
}

/// Event kinds.
pub mod kind {
    #![allow(missing_docs, reason = "each is the row of the same name in WIRE.md")]
    pub const BLOCK: u8 = 1;
    pub const MAP: u8 = 2;
    pub const UNMAP: u8 = 3;
    pub const REMAP: u8 = 4;
    pub const BREAK: u8 = 5;
    pub const PROTECT: u8 = 6;
    pub const ADVISE: u8 = 7;
    pub const THREAD_START: u8 = 8;
    pub const THREAD_END: u8 = 9;
    pub const SWITCH: u8 = 10;
    pub const FORK: u8 = 11;
    pub const EXEC: u8 = 12;
    pub const SYSCALL: u8 = 13;
    pub const MARKER: u8 = 14;
    pub const EXIT: u8 = 15;
    pub const IDENTITY: u8 = 16;
    pub const LOST: u8 = 17;
    pub const THP_DISABLE: u8 = 18;
    pub const IDLE: u8 = 19;
    pub const SPIN: u8 = 20;
}

/// Most slots of one block: slightly more than the engine ever makes.
pub const MAX_SLOTS: usize = 4096;
/// Most instructions of one block.
pub const MAX_INSTRUCTIONS: usize = 2048;
/// Most blocks of a stream, and most paths through them; block numbers lie below. Bounds the decoder's memory.
pub const MAX_BLOCKS: usize = 1 << 24;

/// Bits 63 to 31 of a block header, all ones, after a shift by 31.
const BLOCK_HEADER: u64 = (1 << 33) - 1;
/// Bits of a block number in its header.
const NUMBER_BITS: u32 = 24;
/// In a block header: this many slots or more.
const SLOTS_MANY: u64 = 127;

const _: () = assert!(MAX_BLOCKS == 1 << NUMBER_BITS);

/// The header that starts an execution of block `number`, which has `slots` slots.
pub const fn block_header(number: u32, slots: usize) -> u64 {
    let slots = if slots as u64 > SLOTS_MANY { SLOTS_MANY } else { slots as u64 };
    BLOCK_HEADER << 31 | slots << NUMBER_BITS | number as u64
}

/// The header of an event of kind `kind` with `payload_words` words after it.
pub const fn event_header(kind: u8, payload_words: u32) -> u64 {
    1 << 63 | (kind as u64) << 56 | payload_words as u64
}

/// Whether `word` starts an execution of a block.
#[inline(always)]
const fn is_block_header(word: u64) -> bool {
    word >> 31 == BLOCK_HEADER
}

/// The number of the block that a block header names.
#[inline(always)]
const fn block_number(header: u64) -> u32 {
    header as u32 & (MAX_BLOCKS as u32 - 1)
}

/// The slots of the whole block, from its header. [`SLOTS_MANY`] stands for all larger numbers.
#[inline(always)]
const fn slots_told(header: u64) -> usize {
    (header >> NUMBER_BITS & SLOTS_MANY) as usize
}

/// Kind and payload words, if `word` is an event header.
const fn event_parts(word: u64) -> Option<(u8, usize)> {
    if word >> 62 == 0b10 { Some(((word >> 56) as u8 & 63, word as u32 as usize)) } else { None }
}

/// Words of one chunk in private memory, with the reading position.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    /// Number of the chunk since the stream's start.
    pub number: u64,
    /// Words of the chunk read before these.
    pub skipped: usize,
    /// The words.
    pub words: Vec<u64>,
    /// Index in `words` of the next word to decode.
    pub at: usize,
}

/// Words that break the rules of the stream, with their position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the engine's stream is malformed at word {word} of chunk {chunk}: {fault}")]
pub struct WireError {
    /// Number of the chunk since the stream's start.
    pub chunk: u64,
    /// Number of the word in the chunk.
    pub word: usize,
    /// What is wrong.
    pub fault: BadWord,
}

/// Rules that words break.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadWord {
    /// Neither an execution nor an event where one must start.
    #[error("expected the header of a block or an event, found {0:#018x}")]
    NoHeader(u64),
    /// An execution of an undefined block.
    #[error("block {0} runs but was never defined")]
    UndefinedBlock(u32),
    /// A second definition.
    #[error("block {0} is defined twice")]
    RedefinedBlock(u32),
    /// An execution whose number of slots matches no exit.
    #[error("block {number} ran {slots} slots, but has no exit there")]
    NoExit {
        /// The block.
        number: u32,
        /// Its slots.
        slots: usize,
    },
    /// An address above user space.
    #[error("block {number} refers to address {address:#x}, above the 57 bits of a user address")]
    Address {
        /// The block.
        number: u32,
        /// The address.
        address: u64,
    },
    /// An address in a padding slot.
    #[error("block {number} has the address {address:#x} in slot {slot}, which is padding")]
    PaddingUsed {
        /// The block.
        number: u32,
        /// The slot.
        slot: usize,
        /// The word found.
        address: u64,
    },
    /// A block definition that contradicts itself.
    #[error("the definition of block {number} is wrong: {what}")]
    Definition {
        /// The block.
        number: u32,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A reference size that records cannot hold.
    #[error(
        "block {number} has a reference of {bytes} bytes in slot {slot}, a size that records do not know"
    )]
    ReferenceSize {
        /// The block.
        number: u32,
        /// The slot.
        slot: usize,
        /// The size.
        bytes: u32,
    },
    /// More blocks than the decoder accepts.
    #[error("the program has run more than {MAX_BLOCKS} blocks of code, or paths through blocks")]
    TooMuchCode,
    /// An event kind unknown to this version.
    #[error("unknown event kind {0}")]
    UnknownEvent(u8),
    /// An event longer than the rest of the chunk.
    #[error("an event of kind {kind} has {words} words, but only {left} are left in the chunk")]
    EventTooLong {
        /// The event's kind.
        kind: u8,
        /// Its payload words.
        words: usize,
        /// Words after the header.
        left: usize,
    },
    /// An event whose payload does not fit its kind.
    #[error("the payload of an event of kind {kind} is wrong: {what}")]
    Payload {
        /// The event's kind.
        kind: u8,
        /// What is wrong with it.
        what: &'static str,
    },
}
