//! Decodes columns into block executions and references.
//!
//! Nothing here branches on whether a reference was predicted correctly: corrections are first spread over a window of
//! words, one per reference and mostly zero, and then added to the predictions in vector arithmetic. A mispredicted
//! branch per corrected reference would cost more than all of that.
//!
//! Columns may contain anything. Errors are detected where they would leave a slice, or at the chunk's end, where
//! everything must have been used up.

use super::bytes::{Bytes, unzigzag};
use super::encoder::Columns;
use super::table::*;
#[cfg(target_arch = "x86_64")]
use super::vector::Avx2;
use super::vector::Portable;
use crate::{Batch, BatchRoom, Ref, Span};
use pagewalk_units::BlockId;
use std::ops::Range;

/// References per window of spread corrections, plus or minus one block.
const WINDOW: usize = 1024;
/// Bytes after the difference column, so that eight can always be read.
const PADDING: usize = 8;
/// A run longer than any chunk, for a column that has ended.
const NO_MORE: u64 = u64::MAX / 2;
/// At least this is left of such a run at the end of a chunk.
const ENDED: u64 = NO_MORE / 2;

/// In place of a reference where there is none.
const NO_REF: Ref = Ref::from_bits(0);

/// A fault in a chunk's columns.
pub(super) type Fault = &'static str;

/// Counts of one call, besides the decoded spans and references.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DecodedCounts {
    pub spans: usize,
    pub refs: usize,
    pub instructions: u64,
    pub wide: bool,
}

/// Decodes one chunk after the other.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    pub table: Table,
    pub columns: Columns,
    block_control: usize,
    block_numbers: usize,
    /// Blocks that the chunk may name.
    blocks: u32,
    current: u32,
    /// Correctly predicted blocks before the miss that `block_is_explicit` describes.
    block_run: u64,
    block_is_explicit: bool,
    corrections: Corrections,
    /// The references before the batch, those of the batch, and padding for a last vector access; its executions.
    room: BatchRoom,
    /// References of the last yielded batch.
    refs: usize,
}

/// Spreads the corrections of the reference columns over a window.
#[derive(Debug, Default)]
struct Corrections {
    /// One word per reference, plus [`LANES`] for a last vector access.
    window: Vec<u64>,
    /// The part of the window that is spread but unused.
    ready: Range<usize>,
    at: CorrectionCursor,
}

/// A place in the reference columns. The hot loop works on a copy, which stays in registers.
#[derive(Clone, Copy, Debug, Default)]
struct CorrectionCursor {
    control: usize,
    runs: usize,
    differences: usize,
    /// Correct predictions before the correction that `form` describes.
    run: u64,
    form: u8,
    last: u64,
    unknown_form: bool,
}

impl Decoder {
    /// Starts a chunk; its columns are in `self.columns`.
    pub fn start_chunk(&mut self, blocks: u32) -> Result<(), Fault> {
        if blocks as usize > self.table.entries.len() {
            return Err("it needs blocks that no frame before it holds");
        }
        self.columns.differences.extend([0; PADDING]);
        self.table.start_chunk();
        if blocks > 0 {
            self.table.meet(0);
        }
        (self.blocks, self.current) = (blocks, 0);
        (self.block_control, self.block_numbers) = (0, 0);
        self.corrections.start(self.table.max_sites);
        self.size_room();
        self.room.refs[..HISTORY].fill(NO_REF);
        self.refs = 0;
        self.next_block_control()?;
        self.corrections.at.next_control(&self.columns)
    }

    fn size_room(&mut self) {
        let refs = HISTORY + Batch::TARGET_LEN + self.table.max_sites + LANES;
        self.room.refs.resize(refs, NO_REF);
        self.room.spans.resize(Batch::TARGET_LEN, Span { block: BlockId(0), first: 0 });
        self.room.first_ref = HISTORY;
    }

    /// Gives away the room of the last batch, in exchange for any other.
    pub fn give_room(&mut self, for_another: &mut BatchRoom) {
        let before = *around::<_, HISTORY>(&self.room.refs, self.refs);
        std::mem::swap(&mut self.room, for_another);
        self.size_room();
        self.room.refs[..HISTORY].copy_from_slice(&before);
        self.refs = 0;
    }

    /// Decodes up to `limit` block executions, within a batch's limits.
    pub fn batch(&mut self, limit: usize) -> Result<DecodedCounts, Fault> {
        if self.blocks == 0 {
            return Err("it has block executions and no blocks");
        }
        self.room.refs.copy_within(self.refs..self.refs + HISTORY, 0);
        let mut decoded = DecodedCounts::default();
        let limit = limit.min(Batch::TARGET_LEN);
        while decoded.spans < limit && decoded.refs < Batch::TARGET_LEN {
            if self.corrections.ready.len() <= self.table.max_sites {
                self.corrections.spread(&self.columns)?;
            }
            let until =
                Batch::TARGET_LEN.min(decoded.refs + self.corrections.ready.len() - self.table.max_sites);
            self.run(limit, until, &mut decoded)?;
        }
        self.refs = decoded.refs;
        decoded.wide = self.table.wide(&self.room.spans[..decoded.spans]);
        Ok(decoded)
    }

    /// The output of the last [`Decoder::batch`].
    pub fn decoded(&self, decoded: &DecodedCounts) -> (&[Span], &[Ref]) {
        (&self.room.spans[..decoded.spans], &self.room.refs[HISTORY..][..decoded.refs])
    }

    /// Whether the columns are used up, as at the end of a valid chunk.
    pub fn finish(&self) -> Result<(), Fault> {
        let blocks = self.block_run >= ENDED
            && self.block_control == self.columns.block_control.len()
            && self.block_numbers == self.columns.block_numbers.len();
        let at = &self.corrections.at;
        let refs = at.run >= ENDED
            && at.control == self.columns.ref_control.len()
            && at.runs == self.columns.ref_runs.len()
            && at.differences + PADDING == self.columns.differences.len()
            && self.window_is_clean();
        if blocks && refs && !at.unknown_form { Ok(()) } else { Err("its columns do not fit each other") }
    }

    /// Whether every correction had its reference.
    fn window_is_clean(&self) -> bool {
        self.corrections.window[self.corrections.ready.clone()].iter().all(|&word| word == 0)
    }

    /// Decodes blocks until a limit is reached.
    fn run(&mut self, limit: usize, until: usize, decoded: &mut DecodedCounts) -> Result<(), Fault> {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = Avx2::detect() {
            // SAFETY: the function enables AVX2 alone, and `avx2` proves that the processor has it.
            return unsafe { self.run_avx2(avx2, limit, until, decoded) };
        }
        self.run_with(Portable, limit, until, decoded)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn run_avx2(
        &mut self,
        s: Avx2,
        limit: usize,
        until: usize,
        decoded: &mut DecodedCounts,
    ) -> Result<(), Fault> {
        self.run_with(s, limit, until, decoded)
    }

    #[inline(always)]
    fn run_with(
        &mut self,
        simd: impl Simd,
        limit: usize,
        until: usize,
        decoded: &mut DecodedCounts,
    ) -> Result<(), Fault> {
        let start = decoded.refs;
        let DecodedCounts { mut spans, refs: mut at, .. } = *decoded;
        let mut counts = Counts::default();
        while spans < limit && at < until {
            if self.block_run == 0 {
                self.mispredicted()?;
            }
            // Slices, so that lengths are not reloaded after each store.
            let (entries, lines) = (&self.table.entries[..], &mut self.table.lines[..]);
            let window = &self.corrections.window[self.corrections.ready.start..];
            let BatchRoom { refs, spans: all_spans, .. } = &mut self.room;
            let (all_spans, words) = (&mut all_spans[..limit], Ref::slice_bits(refs));
            let mut current = self.current;
            let mut next = entries[current as usize].next[0];
            let first = spans;
            let last = limit.min(spans.saturating_add(self.block_run as usize));
            while spans < last && at < until {
                current = next;
                let entry = &entries[current as usize];
                next = entry.next[0];
                all_spans[spans] = Span { block: BlockId(current), first: at as u32 };
                spans += 1;
                counts.add(entry);
                let (mut left, mut line) = (entry.sites(), entry.line as usize);
                loop {
                    let correction: &Lanes = around(window, at - start);
                    add_corrections(simd, correction, around_mut(words, at), &mut lines[line]);
                    if left <= LANES {
                        at += left;
                        break;
                    }
                    left -= LANES;
                    at += LANES;
                    line += 1;
                }
            }
            self.current = current;
            self.block_run -= (spans - first) as u64;
        }
        self.corrections.ready.start += at - start;
        let instructions = decoded.instructions + counts.instructions(at - start);
        *decoded = DecodedCounts { spans, refs: at, instructions, wide: false };
        Ok(())
    }

    /// Moves an unpredicted following block to the front of the predictions.
    #[inline(never)]
    fn mispredicted(&mut self) -> Result<(), Fault> {
        let block = if self.block_is_explicit {
            let mut numbers = Bytes(&self.columns.block_numbers[self.block_numbers..]);
            let distance = numbers.varint().ok_or("its column of block numbers ends early")?;
            self.block_numbers = self.columns.block_numbers.len() - numbers.0.len();
            let block = i64::from(self.current).wrapping_add(unzigzag(distance));
            let block = u32::try_from(block).ok().filter(|&block| block < self.blocks);
            let block = block.ok_or("it names a block that it says it does not need")?;
            self.table.meet(block);
            block
        } else {
            self.table.entries[self.current as usize].next[1]
        };
        self.table.follow(self.current, block);
        self.next_block_control()?;
        self.block_run += 1;
        Ok(())
    }

    fn next_block_control(&mut self) -> Result<(), Fault> {
        let Some(&control) = self.columns.block_control.get(self.block_control) else {
            self.block_run = NO_MORE;
            return Ok(());
        };
        self.block_control += 1;
        self.block_is_explicit = control & 1 != 0;
        self.block_run = u64::from(control >> 1);
        if self.block_run == LONG_BLOCK_RUN {
            let mut numbers = Bytes(&self.columns.block_numbers[self.block_numbers..]);
            let more = numbers
                .varint()
                .filter(|&more| more < ENDED)
                .ok_or("its column of block numbers ends early")?;
            self.block_numbers = self.columns.block_numbers.len() - numbers.0.len();
            self.block_run += more;
        }
        Ok(())
    }
}

/// Predicts a group, corrects it, and updates its state. `near` holds the references before the group, then those of
/// the group.
#[inline(always)]
fn add_corrections<S: Simd>(s: S, correction: &Lanes, near: &mut [u64; HISTORY + LANES], line: &mut Line) {
    let correction = s.load(correction);
    let (last, offset) = (s.load(&line.last), s.load(&line.offset));
    let choice = s.and(s.xor(last, correction), s.splat(BASE));
    let base = bases(s, choice, last, around(near, 0));
    let difference = s.and_not(correction, s.splat(META));
    let corrected = s.add(offset, difference);
    let actual = s.add(base, corrected);
    s.store(actual, around_mut(near, HISTORY));
    s.store(s.select::<SET_BIT>(correction, corrected, offset), &mut line.offset);
    s.store(s.or(s.and_not(actual, s.splat(META)), choice), &mut line.last);
}

impl Corrections {
    fn start(&mut self, max_sites: usize) {
        self.window.resize(WINDOW + max_sites + LANES, 0);
        self.ready = 0..0;
        self.at = CorrectionCursor::default();
    }

    /// Moves the rest to the window's front and spreads corrections over the remainder.
    fn spread(&mut self, columns: &Columns) -> Result<(), Fault> {
        self.window.copy_within(self.ready.clone(), 0);
        let (first, end) = (self.ready.len(), self.window.len() - LANES);
        self.ready = 0..end;
        self.window[first..].fill(0);
        let mut cursor = self.at;
        let mut rest = &mut self.window[first..end];
        while cursor.run < rest.len() as u64 {
            let word = cursor.correction(columns)?;
            let (place, behind) = rest[cursor.run as usize..].split_first_mut().expect("the run is shorter");
            *place = word;
            rest = behind;
            cursor.next_control(columns)?;
        }
        cursor.run -= rest.len() as u64;
        self.at = cursor;
        Ok(())
    }
}

impl CorrectionCursor {
    /// The next correction.
    #[inline(always)]
    fn correction(&mut self, columns: &Columns) -> Result<u64, Fault> {
        let bytes = columns.differences.get(self.differences..self.differences + PADDING);
        let bytes =
            bytes.and_then(|bytes| bytes.try_into().ok()).ok_or("its column of differences ends early")?;
        let bytes = u64::from_le_bytes(bytes);
        let form = self.form;
        let width = u32::from(FORM_BYTES[usize::from(form)]);
        self.differences += width as usize;
        let unused = (64 - 8 * width) & 63;
        let difference = ((bytes << unused) as i64 >> unused) << Ref::META_BITS;
        let set = if form >= FORM_SET { SET } else { 0 };
        let word = difference as u64 | set;
        let word = if form == FORM_WORD { bytes } else { word };
        self.last = if form == FORM_REPEAT { self.last } else { word };
        self.unknown_form |= form > FORM_WORD;
        Ok(self.last)
    }

    /// Reads where the next correction is.
    #[inline(always)]
    fn next_control(&mut self, columns: &Columns) -> Result<(), Fault> {
        match columns.ref_control.get(self.control) {
            Some(&byte) => {
                self.control += 1;
                self.take_control(byte, columns)
            }
            None => {
                self.run = NO_MORE;
                Ok(())
            }
        }
    }

    #[inline(always)]
    fn take_control(&mut self, byte: u8, columns: &Columns) -> Result<(), Fault> {
        self.form = byte >> 4;
        self.run = u64::from(byte) & LONG_REF_RUN;
        if self.run == LONG_REF_RUN {
            let mut runs = Bytes(&columns.ref_runs[self.runs..]);
            let more = runs.varint().filter(|&more| more < ENDED).ok_or("its column of runs ends early")?;
            self.runs = columns.ref_runs.len() - runs.0.len();
            self.run += more;
        }
        Ok(())
    }
}
