//! Encodes batches into columns.
//!
//! Two passes over each window of about a thousand references: the first visits the block executions, predicts each
//! group with vector arithmetic, and keeps the corrections (mostly zero) with a bit for each non-zero one; the second
//! visits only the corrections, writes them, and learns from them which base suits a slot. Only the encoder learns: a
//! decoder follows the corrections.

use super::bytes::{put_varint, zigzag};
use super::table::*;
#[cfg(target_arch = "x86_64")]
use super::vector::Avx2;
use super::vector::Portable;
use crate::{Ref, Span};
use std::hint::select_unpredictable;

/// References per window, plus or minus one block.
const WINDOW: usize = 1024;
/// The columns of a chunk, before compression.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// A byte per mispredicted block: the run of correct predictions before it, and the kind of miss.
    pub block_control: Vec<u8>,
    /// Varints: long runs and explicit block numbers.
    pub block_numbers: Vec<u8>,
    /// A byte per corrected reference: the run of correct predictions before it, and the correction's form.
    pub ref_control: Vec<u8>,
    /// Varints: long runs.
    pub ref_runs: Vec<u8>,
    /// Little-endian corrections, of widths given by the forms.
    pub differences: Vec<u8>,
}

impl Columns {
    /// Number of columns.
    pub const COUNT: usize = 5;

    pub fn all(&self) -> [&Vec<u8>; Columns::COUNT] {
        [&self.block_control, &self.block_numbers, &self.ref_control, &self.ref_runs, &self.differences]
    }

    pub fn all_mut(&mut self) -> [&mut Vec<u8>; Columns::COUNT] {
        [
            &mut self.block_control,
            &mut self.block_numbers,
            &mut self.ref_control,
            &mut self.ref_runs,
            &mut self.differences,
        ]
    }

    pub fn clear(&mut self) {
        self.all_mut().into_iter().for_each(Vec::clear);
    }
}

/// The index in [`BASES`] for each value of the bits.
const BASE_NUMBERS: [usize; 4] = [0, 2, 0, 1];
/// A bit for each form whose difference needs more than four bytes.
const FAR_FORMS: u16 = 1 << 4 | 1 << (FORM_SET + 4) | 1 << FORM_WORD;

/// A slot's last correction, to find out which base would have been constant.
#[derive(Clone, Copy, Debug, Default)]
struct Hint {
    address: u64,
    /// Differences from the slot's own last corrected address and from the two references before the group.
    from: [u64; 3],
}

/// A group with non-zero corrections.
#[derive(Clone, Copy, Debug, Default)]
struct MissedGroup {
    /// Zero for correct predictions.
    corrections: Lanes,
    /// Its start in the window.
    at: u32,
    line: u32,
    /// A bit for each lane to correct.
    lanes: u32,
}

/// Data passed from the first pass over a window to the second, and on to the columns. Sized for any window, so that
/// neither pass reallocates.
#[derive(Debug, Default)]
struct Window {
    missed: Vec<MissedGroup>,
    ref_control: Vec<u8>,
    differences: Vec<[u8; 8]>,
}

/// A window's place among the pushed references.
#[derive(Clone, Copy)]
struct WindowPlace {
    /// What spans count beyond the numbers here, modulo 2^64.
    offset: usize,
    /// The window's start.
    first: usize,
    /// One past the last reference.
    end: usize,
    /// References that were pushed at once.
    pushed: usize,
}

/// A chunk before it is encoded.
#[derive(Debug, Default)]
pub(super) struct RawChunk {
    /// Its references, between [`HISTORY`] zeros and padding.
    words: Vec<u64>,
    spans: Vec<Span>,
    pieces: Vec<Piece>,
}

/// What was pushed at once: the window begins anew there.
#[derive(Debug)]
struct Piece {
    spans: usize,
    refs: usize,
    /// Number of the first reference, as spans count.
    base: usize,
}

impl RawChunk {
    /// Makes it empty, with room for so many records.
    pub fn start(&mut self, records: usize) {
        self.words.clear();
        self.spans.clear();
        self.pieces.clear();
        // Room that is not used is not touched.
        self.words.reserve(HISTORY + records + LANES);
        self.spans.reserve(records);
        self.words.resize(HISTORY + LANES, 0);
    }

    /// See [`Encoder::push`].
    pub fn push(&mut self, spans: &[Span], refs: &[Ref], base: usize) {
        self.words.truncate(self.words.len() - LANES);
        self.words.extend(refs.iter().map(|reference| reference.bits()));
        self.words.extend([0; LANES]);
        self.spans.extend_from_slice(spans);
        self.pieces.push(Piece { spans: spans.len(), refs: refs.len(), base });
    }
}

/// How far the first pass came.
struct PassExtent {
    spans: usize,
    refs: usize,
    missed: usize,
    instructions: u64,
}

/// Encodes one chunk after the other.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    pub table: Table,
    pub columns: Columns,
    /// By line: each slot's last difference from its base. A difference seen twice becomes the offset.
    differences: Vec<Lanes>,
    hints: Vec<[Hint; LANES]>,
    window: Window,
    /// References, between preceding ones and padding for a last vector access.
    words: Vec<u64>,
    current: u32,
    started: bool,
    block_run: u64,
    ref_run: u64,
    last_correction: u64,
}

impl Encoder {
    /// Resets the predictions, so that the following can be decoded alone. The columns must have been taken.
    pub fn start_chunk(&mut self) {
        self.table.start_chunk();
        self.columns.clear();
        self.words.clear();
        self.words.resize(HISTORY, 0);
        (self.current, self.started) = (0, false);
        (self.block_run, self.ref_run, self.last_correction) = (0, 0, 0);
    }

    /// Appends block executions and their references, of which the first has number `base` in the spans; returns the
    /// executed instructions. Returns why not if the two do not match.
    pub fn push(&mut self, spans: &[Span], refs: &[Ref], base: usize) -> Result<u64, String> {
        let end = self.words.len() - LANES.min(self.words.len() - HISTORY);
        self.words.copy_within(end - HISTORY..end, 0);
        self.words.truncate(HISTORY);
        self.words.extend(refs.iter().map(|reference| reference.bits()));
        self.words.resize(HISTORY + refs.len() + LANES, 0);
        self.encode(spans, WindowPlace { offset: base, first: 0, end: refs.len(), pushed: refs.len() })
    }

    /// Encodes a chunk that was gathered, from its start.
    pub fn encode_chunk(&mut self, chunk: &mut RawChunk) -> Result<(), String> {
        std::mem::swap(&mut self.words, &mut chunk.words);
        let (mut span, mut first) = (0, 0);
        let encoded = chunk.pieces.iter().try_for_each(|&Piece { spans, refs, base }| {
            let offset = base.wrapping_sub(first);
            let place = WindowPlace { offset, first, end: first + refs, pushed: refs };
            let spans = &chunk.spans[span..span + spans];
            (span, first) = (span + spans.len(), first + refs);
            self.encode(spans, place).map(|_| ())
        });
        std::mem::swap(&mut self.words, &mut chunk.words);
        encoded
    }

    /// Appends block executions and their references, which are at a place.
    fn encode(&mut self, spans: &[Span], place: WindowPlace) -> Result<u64, String> {
        self.make_room();
        let WindowPlace { first: start, end, pushed, .. } = place;
        let (mut span, mut first, mut instructions) = (0, start, 0);
        while span < spans.len() {
            let walked = self.walk(&spans[span..], WindowPlace { first, ..place })?;
            self.write_corrections(first, &walked)?;
            span += walked.spans;
            first += walked.refs;
            instructions += walked.instructions;
        }
        if first != end {
            return Err(format!("{pushed} references in a batch whose blocks make {}", first - start));
        }
        Ok(instructions)
    }

    /// Makes room for all blocks, and for a window.
    fn make_room(&mut self) {
        let lines = self.table.lines.len();
        self.differences.resize(lines, [0; LANES]);
        self.hints.resize(lines, [Hint::default(); LANES]);
        let window = WINDOW + self.table.max_sites + LANES;
        self.window.missed.resize(window, MissedGroup::default());
        self.window.ref_control.resize(window, 0);
        self.window.differences.resize(window, [0; 8]);
        if !self.started && !self.table.entries.is_empty() {
            self.started = true;
            self.meet(0);
        }
    }

    fn meet(&mut self, block: u32) {
        let lines = self.table.meet(block);
        self.differences[lines.clone()].fill([0; LANES]);
        self.hints[lines].fill([Hint::default(); LANES]);
    }

    /// Records that `block` followed the current block, against the prediction.
    #[inline(never)]
    fn mispredicted(&mut self, block: u32) {
        let second = self.table.entries[self.current as usize].next[1] == block;
        let run = std::mem::take(&mut self.block_run);
        self.columns.block_control.push((run.min(LONG_BLOCK_RUN) as u8) << 1 | u8::from(!second));
        if run >= LONG_BLOCK_RUN {
            put_varint(&mut self.columns.block_numbers, run - LONG_BLOCK_RUN);
        }
        if !second {
            let distance = i64::from(block) - i64::from(self.current);
            put_varint(&mut self.columns.block_numbers, zigzag(distance));
            self.meet(block);
        }
        self.table.follow(self.current, block);
    }

    /// The first pass over one window.
    fn walk(&mut self, spans: &[Span], place: WindowPlace) -> Result<PassExtent, String> {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = Avx2::detect() {
            // SAFETY: the function enables AVX2 alone, and `avx2` proves that the processor has it.
            return unsafe { self.walk_avx2(avx2, spans, place) };
        }
        self.walk_with(Portable, spans, place)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn walk_avx2(&mut self, avx2: Avx2, spans: &[Span], place: WindowPlace) -> Result<PassExtent, String> {
        self.walk_with(avx2, spans, place)
    }

    #[inline(always)]
    fn walk_with<S: Simd>(
        &mut self,
        simd: S,
        spans: &[Span],
        place: WindowPlace,
    ) -> Result<PassExtent, String> {
        let WindowPlace { offset, first, end, pushed } = place;
        let mut walked = PassExtent { spans: 0, refs: 0, missed: 0, instructions: 0 };
        let mut counts = Counts::default();
        let mut misplaced = 0;
        while walked.spans < spans.len() && walked.refs < WINDOW {
            let Encoder { table, differences, window, words, .. } = self;
            // Slices, so that lengths are not reloaded after each store.
            let (entries, lines) = (&table.entries[..], &mut table.lines[..]);
            let (differences, words) = (&mut differences[..lines.len()], &words[first..]);
            let missed = &mut window.missed[..];
            let mut current = self.current;
            let mut predicted = entries.get(current as usize).map_or(0, |entry| entry.next[0]);
            let first_span = walked.spans;
            let mut unexpected = None;
            while walked.spans < spans.len() && walked.refs < WINDOW {
                let span = spans[walked.spans];
                let Some(entry) = entries.get(span.block.index()) else {
                    return Err(unknown(span.block, entries.len()));
                };
                if predicted != span.block.0 {
                    unexpected = Some(span.block.0);
                    break;
                }
                current = span.block.0;
                predicted = entry.next[0];
                walked.spans += 1;
                counts.add(entry);
                misplaced |= span.first as usize ^ offset.wrapping_add(first + walked.refs);
                let (mut left, mut line) = (entry.sites(), entry.line as usize);
                loop {
                    let at = walked.refs;
                    let Some(near) = words.get(at..at + HISTORY + LANES) else {
                        return Err(too_many(pushed));
                    };
                    let near = near.try_into().expect("the range is that long");
                    let correction = correct(simd, near, &mut lines[line], &mut differences[line]);
                    let count = left.min(LANES);
                    let lanes = !simd.zeros(correction) as u32 & ((1 << count) - 1);
                    let slot = &mut missed[walked.missed];
                    simd.store(correction, &mut slot.corrections);
                    (slot.at, slot.line, slot.lanes) = (at as u32, line as u32, lanes);
                    // Always written, but kept only if useful: a branch would often be mispredicted.
                    walked.missed += usize::from(lanes != 0);
                    walked.refs += count;
                    left -= count;
                    line += 1;
                    if left == 0 {
                        break;
                    }
                }
            }
            self.current = current;
            self.block_run = self.block_run.wrapping_add((walked.spans - first_span) as u64);
            if let Some(block) = unexpected {
                self.mispredicted(block);
                // Recorded; the loop now finds it predicted and counts it into a run, which must not grow.
                self.block_run = u64::MAX;
            }
        }
        if walked.refs > end - first {
            return Err(too_many(pushed));
        }
        if misplaced != 0 {
            return Err("a block execution does not start where the one before it ends".into());
        }
        walked.instructions = counts.instructions(walked.refs);
        Ok(walked)
    }

    /// The second pass over the window that starts at pushed reference `first`.
    fn write_corrections(&mut self, first: usize, walked: &PassExtent) -> Result<(), String> {
        let Encoder { table, columns, hints, window, words, .. } = self;
        let missed = &window.missed[..walked.missed];
        let (ref_control, differences) = (&mut window.ref_control[..], window.differences.as_flattened_mut());
        let (mut control, mut at) = (0, 0);
        let (mut done, mut run, mut last) = (0, self.ref_run, self.last_correction);
        let mut stray = 0;
        for &MissedGroup { ref corrections, at: group, line, lanes } in missed {
            let near: &[u64; HISTORY + LANES] = around(words, first + group as usize);
            let (line, hints) = (&mut table.lines[line as usize], &mut hints[line as usize]);
            let mut lanes = lanes;
            while lanes != 0 {
                let lane = lanes.trailing_zeros() as usize;
                lanes &= lanes - 1;
                let index = group as usize + lane;
                let correction = corrections[lane] & !TURNED;
                run += (index - done) as u64;
                done = index + 1;
                let shortest = form_of(correction);
                let form = select_unpredictable(correction == last, FORM_REPEAT, shortest);
                last = correction;
                ref_control[control] = run.min(LONG_REF_RUN) as u8 | form << 4;
                control += 1;
                if run >= LONG_REF_RUN {
                    put_varint(&mut columns.ref_runs, run - LONG_REF_RUN);
                }
                run = 0;
                let value =
                    select_unpredictable(form == FORM_WORD, correction, difference(correction) as u64);
                *around_mut(differences, at) = value.to_le_bytes();
                at += usize::from(FORM_BYTES[usize::from(form)]);

                let actual = near[HISTORY + lane];
                stray |= (actual ^ line.meta(lane)) & META;
                learn(&mut hints[lane], actual & !META, around(near, 0), shortest, line, lane);
            }
        }
        columns.ref_control.extend_from_slice(&ref_control[..control]);
        columns.differences.extend_from_slice(&differences[..at]);
        self.last_correction = last;
        self.ref_run = run + (walked.refs - done) as u64;
        if stray != 0 {
            return Err("a reference's kind or size is not that of its place in the block".into());
        }
        Ok(())
    }
}

/// The error for a batch with fewer references than its blocks make.
fn too_many(references: usize) -> String {
    format!("{references} references in a batch whose blocks make more")
}

/// Predicts a group, updates its state, and returns the corrections. `near` holds the references before the group and
/// those of the group. Low bits that differ from the slot's show in the correction.
#[inline(always)]
fn correct<S: Simd>(s: S, near: &[u64; HISTORY + LANES], line: &mut Line, expected: &mut Lanes) -> S::V {
    let meta = s.splat(META);
    let actual = s.load(around(near, HISTORY));
    let (last, offset) = (s.load(&line.last), s.load(&line.offset));
    let base = bases(s, last, last, around(near, 0));
    let from_base = s.sub(actual, base);
    let error = s.sub(from_base, offset);
    let difference = s.and_not(from_base, meta);
    // The top bit: the offset absorbs the difference if it came twice or the base is new.
    let set = s.or(s.equal(difference, s.load(expected)), s.to_top::<TURNED_BIT>(error));
    s.store(difference, expected);
    s.store(s.or(s.and_not(actual, meta), s.and(last, s.splat(BASE))), &mut line.last);
    s.store(s.select_top(set, from_base, offset), &mut line.offset);
    let told = s.and_not(s.top_to::<SET_BIT>(set), s.equal(error, s.splat(0)));
    s.or(error, told)
}

/// The difference of addresses in a correction.
#[inline(always)]
fn difference(correction: u64) -> i64 {
    correction as i64 >> Ref::META_BITS
}

/// The shortest form of a correction that does not repeat the last one. A table, as branches would mostly be
/// mispredicted.
#[inline(always)]
fn form_of(correction: u64) -> u8 {
    /// By flags, then by significant bits, the sign among them.
    const FORMS: [[u8; 65]; 8] = {
        let mut forms = [[FORM_WORD; 65]; 8];
        let mut form = WIDTHS.len();
        while form > 0 {
            form -= 1;
            let mut bits = 0;
            while bits <= 8 * WIDTHS[form] as usize {
                forms[0][bits] = form as u8;
                forms[SET as usize][bits] = form as u8 + FORM_SET;
                bits += 1;
            }
        }
        forms
    };
    let value = difference(correction);
    let bits = 65 - (value ^ value >> 63).leading_zeros();
    FORMS[(correction & (FLIP | SET)) as usize][bits as usize]
}

/// After a correction: if another base would have been exact, or at least near, the slot turns to it.
#[inline(always)]
fn learn(hint: &mut Hint, address: u64, before: &[u64; HISTORY], form: u8, line: &mut Line, lane: usize) {
    let [second, first] = *before;
    let from = [hint.address, first, second].map(|base| address.wrapping_sub(base & !META));
    let same = (0..BASES.len()).map(|base| usize::from(from[base] == hint.from[base]) << base).sum::<usize>();
    *hint = Hint { address, from };
    let untold = line.last[lane] >> UNTOLD_SHIFT & UNTOLD;
    let base = BASE_NUMBERS[((line.last[lane] ^ untold) & BASE) as usize];
    let far = FAR_FORMS >> form & 1 != 0;
    if (same >> base & 1 != 0) | ((same == 0) & !far & (untold == 0)) {
        return;
    }
    let near = |&base: &usize| i32::try_from(difference(from[base])).is_ok();
    let better = match same {
        0 if far => (0..BASES.len()).find(near).unwrap_or(base),
        0 => base,
        same => same.trailing_zeros() as usize,
    };
    turn(line, lane, better);
}

/// Turns a slot to base number `base`. Merges with an earlier turn that is not recorded yet.
fn turn(line: &mut Line, lane: usize, base: usize) {
    let (last, offset) = (&mut line.last[lane], &mut line.offset[lane]);
    let untold = *last >> UNTOLD_SHIFT & UNTOLD;
    let told = (*last ^ untold) & BASE;
    *offset = offset.wrapping_add(untold);
    let untold = if BASES[base] == told { 0 } else { TURNED | BASES[base] ^ told };
    *offset = offset.wrapping_sub(untold);
    *last = *last & !META | untold << UNTOLD_SHIFT | BASES[base];
}
