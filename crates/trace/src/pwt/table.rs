//! The predictors: the state shared by encoder and decoder at each point of a chunk.
//!
//! Blocks: each block remembers the two blocks that followed it last, most recent first.
//!
//! Addresses: data references are handled in *groups* of up to four adjacent slots of one block, with a cache line of
//! state per group, so that one pass of vector arithmetic predicts a whole group without a branch. A slot predicts
//! `base + offset`. Its base is its own last address (constant addresses and strides), or one of the two references
//! just before the group (moving stack frames, pointers just loaded).
//!
//! All arithmetic is on whole [`Ref`](crate::Ref) words, address in bits 63…7, modulo 2^64; the low seven bits of an
//! offset hold the slot's constant low bits, so that a prediction is a complete record.
//!
//! Alternatives that were tried (speeds in M records/s, on two shared Xeon cores with AVX2):
//!
//! - A branch per correction has the fewest raw bytes, but gzip reads 170–190. Without branches, single sites read 185
//!   (CPython 230), groups 300 (435), half without AVX2.
//! - Bases: with last alone, 47/17/29 % of references miss (cc1/CPython/gzip), with the nearer too 28/14/25, with the
//!   farther too 24/13/23. More bases gain 1–5 points on cc1.
//! - Bases by region: raw bytes −17 to −44 %, reading 10–18 % slower.
//! - Blocks by a hash of the last three: gzip misses 14, not 18 %.
//! - Chunks of 2^18/2^20/2^22: cc1 0.523/0.302/0.216 bytes, gzip 0.363/0.347/0.330; the reader takes 23 MB.
//! - zstd -1, -3, -7: 10–40 % more bytes.

use super::blocks::Room;
use super::layout::{
    MAX_BLOCKS, MAX_INSTRUCTIONS, MAX_SITES, MAX_TOTAL_CODE_BYTES, MAX_TOTAL_INSTRUCTIONS, MAX_TOTAL_SITES,
};
pub(super) use super::vector::{LANES, Lanes, Simd};
use crate::{Batch, Block, Ref, Span};
use pagewalk_units::BlockId;
use rustc_hash::FxHashSet;

/// References before a group that can be bases.
pub(super) const HISTORY: usize = 2;
/// The bits of a word below the address.
pub(super) const META: u64 = (1 << Ref::META_BITS) - 1;

/// In the low bits of [`Line::last`]: the slot's base. Bit 0: one of the references before the group instead of its own
/// last address; bit 1: the last of those (else the one before).
pub(super) const BASE: u64 = 3;
/// The bits for each base: own last address, reference before the group, the one before that.
pub(super) const BASES: [u64; 1 + HISTORY] = [0, 3, 1];
/// Encoder only: a slot that turns to another base does so in [`Line::last`] at once, and the next correction must
/// record it. Its offset is reduced by this bit and the base bits to flip, so that they appear in the error
/// automatically; [`Line::last`] keeps them too, shifted.
pub(super) const TURNED_BIT: i32 = 3;
pub(super) const TURNED: u64 = 1 << TURNED_BIT;
pub(super) const UNTOLD: u64 = TURNED | BASE;
pub(super) const UNTOLD_SHIFT: u32 = 3;
/// A slot's base when its block is first met in a chunk.
const FIRST_BASE: u64 = BASES[1];

/// A correction is a word: the address difference in bits 63…7, and these flags. Bits 1…0 flip the slot's base bits,
/// from this reference on.
pub(super) const FLIP: u64 = BASE;
/// Bit 2: the slot's offset absorbs the difference for later predictions.
pub(super) const SET: u64 = 1 << SET_BIT;
pub(super) const SET_BIT: i32 = 2;

/// Forms of a correction in the control column (high nibble): 0 to 4 are differences of these many bytes, 5 to 9 the
/// same with [`SET`].
pub(super) const WIDTHS: [u8; 5] = [1, 2, 3, 4, 6];
/// The first form with [`SET`].
pub(super) const FORM_SET: u8 = 5;
/// The same correction word as the last one.
pub(super) const FORM_REPEAT: u8 = 10;
/// A whole correction word of 8 bytes.
pub(super) const FORM_WORD: u8 = 11;
/// Bytes in the difference column, per form.
pub(super) const FORM_BYTES: [u8; 16] = [1, 2, 3, 4, 6, 1, 2, 3, 4, 6, 0, 8, 0, 0, 0, 0];

/// In a control byte of the reference column: a run of at least this length, continued elsewhere.
pub(super) const LONG_REF_RUN: u64 = 15;
/// The same for the block column.
pub(super) const LONG_BLOCK_RUN: u64 = 127;

/// The `N` items from `at` on.
#[inline(always)]
pub(super) fn around<T, const N: usize>(items: &[T], at: usize) -> &[T; N] {
    items[at..at + N].try_into().expect("the range is N long")
}

#[inline(always)]
pub(super) fn around_mut<T, const N: usize>(items: &mut [T], at: usize) -> &mut [T; N] {
    (&mut items[at..at + N]).try_into().expect("the range is N long")
}

/// The base of each lane, without low bits: `own`, or a reference before the group, by bits 1…0 of `choice`.
#[inline(always)]
pub(super) fn bases<S: Simd>(s: S, choice: S::V, own: S::V, before: &[u64; HISTORY]) -> S::V {
    s.and_not(s.select::<0>(choice, s.pick(choice, before), own), s.splat(META))
}

/// The table's entry for one block.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub(super) struct Entry {
    /// The blocks that followed, most recent first.
    pub next: [u32; 2],
    /// Its first line.
    pub line: u32,
    /// Bits 15…0 sites, bits 31…16 instructions. Hot loops sum these words, see [`Counts`].
    counts: u32,
}

impl Entry {
    #[inline(always)]
    pub fn sites(&self) -> usize {
        (self.counts & 0xffff) as usize
    }

    /// Lines of the block: at least one, so that the hot loops need not test for none.
    fn lines(&self) -> usize {
        self.sites().div_ceil(LANES).max(1)
    }
}

/// Sites and instructions of many executions, summed in one word.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts(u64);

impl Counts {
    #[inline(always)]
    pub fn add(&mut self, entry: &Entry) {
        self.0 += u64::from(entry.counts);
    }

    /// The instructions, given the number of sites.
    pub fn instructions(self, sites: usize) -> u64 {
        (self.0 - sites as u64) >> 16
    }
}

/// The state of one group: a cache line. Lanes after the block's last slot hold unused garbage.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Line {
    /// The last referenced address, and in bits 1…0 the base in use.
    pub last: Lanes,
    /// The addend to the base; low bits as in the complete record.
    pub offset: Lanes,
}

impl Line {
    /// The constant low bits of the slot's references.
    pub fn meta(&self, lane: usize) -> u64 {
        self.offset[lane].wrapping_add(self.last[lane] >> UNTOLD_SHIFT & UNTOLD) & META
    }
}

/// The error for a block that a dictionary lacks.
pub(super) fn unknown(block: BlockId, known: usize) -> String {
    format!("block {} is not in the dictionary of {known}", block.0)
}

/// Predictor state for all blocks of a dictionary.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub entries: Vec<Entry>,
    pub lines: Vec<Line>,
    /// Room for further blocks.
    pub room: Room,
    /// By block: the chunk in which its state was last reset.
    epochs: Vec<u32>,
    epoch: u32,
    /// Most sites of a block.
    pub max_sites: usize,
    /// Blocks with a reference that makes a batch wide.
    wide: FxHashSet<u32>,
}

impl Table {
    /// Appends a block. Returns why not if it exceeds the format's limits.
    pub fn add(&mut self, block: &Block) -> Result<(), String> {
        let (sites, instructions) = (block.sites.len(), block.instructions.len());
        let number = self.entries.len();
        if sites > MAX_SITES || instructions > MAX_INSTRUCTIONS {
            return Err(format!(
                "block {number} has {instructions} instructions and {sites} data references; the trace format \
                 allows {MAX_INSTRUCTIONS} and {MAX_SITES}"
            ));
        }
        // Records hold no higher address. The kernel's code page above (`vsyscall`) never occurs, since Valgrind
        // replaces it.
        let mut addresses = block.instructions.iter().map(|instruction| instruction.address);
        if let Some(address) = addresses.find(|address| address.0 >= Ref::ADDRESS_END) {
            return Err(format!(
                "block {number} has an instruction at {address}, above the 57 bits of an address in the trace format: \
                 addresses lie below {:#x}",
                Ref::ADDRESS_END
            ));
        }
        let room = self.room.beside(block);
        let (true, Some(room)) = (number < MAX_BLOCKS, room) else {
            return Err(format!(
                "the program runs more than {MAX_BLOCKS} blocks, or in all of them {MAX_TOTAL_INSTRUCTIONS} \
                 instructions of {MAX_TOTAL_CODE_BYTES} bytes with {MAX_TOTAL_SITES} data references; the trace \
                 format allows no more"
            ));
        };
        self.room = room;
        let line = self.lines.len() as u32;
        let counts = sites as u32 | (instructions as u32) << 16;
        let entry = Entry { next: [number as u32; 2], line, counts };
        let metas: Vec<u8> = block.metas().collect();
        for group in 0..entry.lines() {
            let meta = |lane| u64::from(metas.get(group * LANES + lane).copied().unwrap_or(0));
            self.lines.push(Line { last: [FIRST_BASE; LANES], offset: std::array::from_fn(meta) });
        }
        if block.sites.iter().any(|site| site.access.size.bytes() > Batch::WIDE_BYTES) {
            self.wide.insert(number as u32);
        }
        self.entries.push(entry);
        self.epochs.push(0);
        self.max_sites = self.max_sites.max(sites);
        Ok(())
    }

    /// Instructions that block executions ran. Returns why not if a block is unknown.
    pub fn instructions(&self, spans: &[Span]) -> Result<u64, String> {
        let entry = |block: BlockId| {
            self.entries.get(block.index()).ok_or_else(|| unknown(block, self.entries.len()))
        };
        spans.iter().map(|span| Ok(u64::from(entry(span.block)?.counts >> 16))).sum()
    }

    /// Whether some span makes its batch wide.
    pub fn wide(&self, spans: &[Span]) -> bool {
        !self.wide.is_empty() && spans.iter().any(|span| self.wide.contains(&span.block.0))
    }

    /// Starts a chunk: resets all blocks.
    pub fn start_chunk(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        if self.epoch == 0 {
            self.epochs.fill(0);
            self.epoch = 1;
        }
    }

    /// Meets `block` by number: resets its state at the first time in the chunk. Only met blocks can be predicted, so
    /// nothing else needs resetting. Returns the reset lines.
    pub fn meet(&mut self, block: u32) -> std::ops::Range<usize> {
        let index = block as usize;
        let entry = &mut self.entries[index];
        let first = entry.line as usize;
        if std::mem::replace(&mut self.epochs[index], self.epoch) == self.epoch {
            return first..first;
        }
        entry.next = [block; 2];
        let range = first..first + entry.lines();
        for line in &mut self.lines[range.clone()] {
            line.offset = std::array::from_fn(|lane| line.meta(lane));
            line.last = [FIRST_BASE; LANES];
        }
        range
    }

    /// Makes `next` the most recent follower of `block`.
    #[inline(always)]
    pub fn follow(&mut self, block: u32, next: u32) {
        let followers = &mut self.entries[block as usize].next;
        *followers = [next, followers[0]];
    }
}
