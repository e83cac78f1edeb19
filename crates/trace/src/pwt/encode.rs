//! From batches to columns.
//!
//! Two passes over each window of about a thousand references: the first walks the block executions, predicts
//! each group with vector arithmetic and keeps the corrections (mostly zero) with a bit for each that is not;
//! the second visits only the corrections, writes them, and learns from them which base suits a slot.
//! Learning lives here alone: a decoder does what the corrections say.

use super::bytes::{put_varint, zigzag};
use super::table::*;
use crate::{Ref, Span};

/// References in a window, give or take one block.
const WINDOW: usize = 1024;
/// In the low bits of [`Line::last`], here only: base bits to flip at the slot's next reference.
const PENDING_SHIFT: u32 = 3;

/// The columns of a chunk, before compression.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// A byte per mispredicted block: run of right predictions before it, and which kind of miss.
    pub block_control: Vec<u8>,
    /// Varints: long runs and explicit block numbers.
    pub block_numbers: Vec<u8>,
    /// A byte per corrected reference: run of right predictions before it, and the correction's form.
    pub ref_control: Vec<u8>,
    /// Varints: long runs.
    pub ref_runs: Vec<u8>,
    /// Little-endian corrections of the widths that the forms say.
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

    /// Bytes in all columns.
    pub fn len(&self) -> usize {
        self.all().iter().map(|column| column.len()).sum()
    }

    pub fn clear(&mut self) {
        self.all_mut().into_iter().for_each(Vec::clear);
    }
}

/// A bit for each form whose difference needs more than four bytes.
const FAR_FORMS: u16 = 1 << 4 | 1 << (FORM_SET + 4) | 1 << FORM_WORD;

/// What is remembered of a slot's last correction, to see which base would have been constant.
#[derive(Clone, Copy, Debug, Default)]
struct Hint {
    address: u64,
    /// Differences from the slot's own last corrected address and from the two references before the group.
    from: [u64; 3],
}

/// Per window: what the first pass leaves to the second. Indexed by reference.
#[derive(Debug, Default)]
struct Window {
    corrections: Vec<u64>,
    slots: Vec<u32>,
    nonzero: Vec<u64>,
}

/// Where a window lies among the references pushed.
#[derive(Clone, Copy)]
struct Place {
    /// Number of the first reference pushed, to the spans.
    base: usize,
    /// Where the window begins.
    first: usize,
    /// How many references were pushed.
    end: usize,
}

/// How far the first pass came.
struct Walked {
    spans: usize,
    refs: usize,
    instructions: u64,
}

/// Encodes one chunk after the other.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    pub table: Table,
    pub columns: Columns,
    /// Per line: each slot's last difference from its base. A difference seen twice becomes the offset.
    differences: Vec<Lanes>,
    hints: Vec<[Hint; LANES]>,
    window: Window,
    /// A batch's references with room around them.
    words: Vec<u64>,
    current: u32,
    started: bool,
    block_run: u64,
    ref_run: u64,
    last_correction: u64,
}

impl Encoder {
    /// Forgets what was predicted, so that what follows decodes alone. The columns must have been taken.
    pub fn start_chunk(&mut self) {
        self.table.start_chunk();
        self.columns.clear();
        self.words.clear();
        self.words.resize(HISTORY, 0);
        (self.current, self.started) = (0, false);
        (self.block_run, self.ref_run, self.last_correction) = (0, 0, 0);
    }

    /// Appends block executions and their references, of which the first is number `base` to the spans; answers
    /// the instructions executed. Says why where the two do not belong together.
    pub fn push(&mut self, spans: &[Span], refs: &[Ref], base: usize) -> Result<u64, String> {
        self.make_room(refs);
        let (mut span, mut first, mut instructions) = (0, 0, 0);
        while span < spans.len() {
            let walked = self.walk(&spans[span..], Place { base, first, end: refs.len() })?;
            self.write_corrections(first, walked.refs);
            span += walked.spans;
            first += walked.refs;
            instructions += walked.instructions;
        }
        if first != refs.len() {
            return Err(format!("{} references in a batch whose blocks make {first}", refs.len()));
        }
        Ok(instructions)
    }

    /// Copies the references between the ones before them and room for a last vector access.
    fn make_room(&mut self, refs: &[Ref]) {
        let end = self.words.len() - LANES.min(self.words.len() - HISTORY);
        self.words.copy_within(end - HISTORY..end, 0);
        self.words.truncate(HISTORY);
        self.words.extend(refs.iter().map(|reference| reference.bits()));
        self.words.resize(HISTORY + refs.len() + LANES, 0);
        let lines = self.table.lines.len();
        self.differences.resize(lines, [0; LANES]);
        self.hints.resize(lines, [Hint::default(); LANES]);
        let window = WINDOW + self.table.max_sites + LANES;
        self.window.corrections.resize(window, 0);
        self.window.slots.resize(window, 0);
        self.window.nonzero.resize(window / 64 + 2, 0);
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

    /// Writes that the current block was followed by `block` and not as predicted.
    #[cold]
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
    fn walk(&mut self, spans: &[Span], place: Place) -> Result<Walked, String> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, the one feature that the function enables.
            return unsafe { self.walk_avx2(spans, place) };
        }
        self.walk_portable(spans, place)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn walk_avx2(&mut self, spans: &[Span], place: Place) -> Result<Walked, String> {
        self.walk_portable(spans, place)
    }

    #[inline(always)]
    fn walk_portable(&mut self, spans: &[Span], place: Place) -> Result<Walked, String> {
        let Place { base, first, end } = place;
        let mut walked = Walked { spans: 0, refs: 0, instructions: 0 };
        let mut marks = 0;
        let mut misplaced = 0;
        let mut stray = [0; LANES];
        while walked.spans < spans.len() && walked.refs < WINDOW {
            let Encoder { table, differences, window, words, .. } = self;
            let (entries, lines) = (&table.entries[..], &mut table.lines[..]);
            let (mut current, mut run) = (self.current, self.block_run);
            let mut missed = None;
            while walked.spans < spans.len() && walked.refs < WINDOW {
                let span = spans[walked.spans];
                let Some(entry) = entries.get(span.block.index()) else {
                    return Err(format!(
                        "block {} is not in the dictionary of {}",
                        span.block.0,
                        entries.len()
                    ));
                };
                if entries[current as usize].next[0] != span.block.0 {
                    missed = Some(span.block.0);
                    break;
                }
                current = span.block.0;
                run = run.wrapping_add(1);
                walked.spans += 1;
                walked.instructions += entry.instructions();
                misplaced |= span.first as usize ^ (base + first + walked.refs);
                if entry.sites() > end - first - walked.refs {
                    return Err(format!("{end} references in a batch whose blocks make more"));
                }
                let (mut left, mut line) = (entry.sites(), entry.line as usize);
                loop {
                    let at = walked.refs;
                    let near: &[u64; HISTORY + LANES] = around(words, first + at);
                    let correction = correct(near, &mut lines[line], &mut differences[line]);
                    let count = left.min(LANES);
                    stray = lanes(|lane| stray[lane] | correction.stray[lane] & LOW[count][lane]);
                    *around_mut(&mut window.corrections, at) = correction.words;
                    let slot = (line * LANES) as u32;
                    *around_mut(&mut window.slots, at) = [slot, slot + 1, slot + 2, slot + 3];
                    let mask = nonzero(&correction.words) & ((1 << count) - 1);
                    marks |= mask << (at & 63);
                    window.nonzero[at >> 6] = marks;
                    walked.refs += count;
                    // The bits that did not fit begin the next word.
                    marks = if walked.refs >> 6 == at >> 6 { marks } else { mask >> 1 >> (63 - (at & 63)) };
                    left -= count;
                    line += 1;
                    if left == 0 {
                        break;
                    }
                }
            }
            (self.current, self.block_run) = (current, run);
            if let Some(block) = missed {
                self.mispredicted(block);
                // Told; the loop now finds it predicted, and counts it into a run that it must not lengthen.
                self.block_run = u64::MAX;
            }
        }
        self.window.nonzero[walked.refs >> 6] = marks;
        if misplaced != 0 {
            return Err("a block execution does not start where the one before it ends".into());
        }
        if stray != [0; LANES] {
            return Err("a reference's kind or size is not that of its place in the block".into());
        }
        Ok(walked)
    }

    /// The second pass over the window that starts at reference `first` of the batch.
    fn write_corrections(&mut self, first: usize, refs: usize) {
        let Encoder { table, columns, hints, window, words, .. } = self;
        let marks = &window.nonzero[..refs / 64 + 1];
        let count: usize = marks.iter().map(|word| word.count_ones() as usize).sum();
        let (control_start, mut at) = (columns.ref_control.len(), columns.differences.len());
        columns.ref_control.resize(control_start + count, 0);
        columns.differences.resize(at + 8 * count, 0);
        let mut control = columns.ref_control[control_start..].iter_mut();
        let (mut done, mut run, mut last) = (0, self.ref_run, self.last_correction);
        for (word, &bits) in marks.iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                let index = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let (correction, slot) = (window.corrections[index], window.slots[index] as usize);
                run += (index - done) as u64;
                done = index + 1;
                let shortest = form_of(correction);
                let form = if correction == last { FORM_REPEAT } else { shortest };
                last = correction;
                if let Some(byte) = control.next() {
                    *byte = run.min(LONG_REF_RUN) as u8 | form << 4;
                }
                if run >= LONG_REF_RUN {
                    put_varint(&mut columns.ref_runs, run - LONG_REF_RUN);
                }
                run = 0;
                let value = if form == FORM_WORD { correction } else { difference(correction) as u64 };
                *around_mut(&mut columns.differences, at) = value.to_le_bytes();
                at += usize::from(FORM_BYTES[usize::from(form)]);

                let group = first + index - slot % LANES;
                let before: &[u64; HISTORY] = around(words, group);
                let hint = &mut hints[slot / LANES][slot % LANES];
                let line = &mut table.lines[slot / LANES];
                let address = words[HISTORY + first + index] & !META;
                learn(hint, address, before, shortest, &mut line.last[slot % LANES]);
            }
        }
        columns.differences.truncate(at);
        self.last_correction = last;
        self.ref_run = run + (refs - done) as u64;
    }
}

/// For each count of lanes, the low bits of those below it.
const LOW: [Lanes; LANES + 1] = {
    let mut low = [[0; LANES]; LANES + 1];
    let mut count = 0;
    while count <= LANES {
        let mut lane = 0;
        while lane < count {
            low[count][lane] = META;
            lane += 1;
        }
        count += 1;
    }
    low
};

struct Correction {
    words: Lanes,
    /// Low bits that differ from the slot's: none in a sound batch.
    stray: Lanes,
}

/// Predicts a group, brings its state up to date, and answers what was wrong. `near` is the references before
/// the group and those of the group.
#[inline(always)]
fn correct(near: &[u64; HISTORY + LANES], line: &mut Line, expected: &mut Lanes) -> Correction {
    let [second, first, actual @ ..] = *near;
    let (last, offset) = (line.last, line.offset);
    let flip = lanes(|lane| last[lane] >> PENDING_SHIFT & BASE);
    let choice = lanes(|lane| (last[lane] ^ flip[lane]) & BASE);
    let base = bases(&choice, &last, [second, first]);
    let from_base = lanes(|lane| actual[lane].wrapping_sub(base[lane]));
    let error = lanes(|lane| from_base[lane].wrapping_sub(offset[lane]));
    let difference = lanes(|lane| from_base[lane] & !META);
    let set = lanes(|lane| if difference[lane] == expected[lane] || flip[lane] != 0 { u64::MAX } else { 0 });
    *expected = difference;
    line.last = lanes(|lane| actual[lane] & !META | choice[lane]);
    line.offset = lanes(|lane| if set[lane] != 0 { from_base[lane] } else { offset[lane] });
    let wrong = lanes(|lane| if error[lane] != 0 { SET } else { 0 });
    Correction {
        words: lanes(|lane| error[lane] & !META | flip[lane] | set[lane] & wrong[lane]),
        stray: lanes(|lane| error[lane] & META),
    }
}

/// A bit for each lane that is not zero.
#[inline(always)]
fn nonzero(words: &Lanes) -> u64 {
    (0..LANES).map(|lane| u64::from(words[lane] != 0) << lane).sum()
}

/// The difference of addresses in a correction.
#[inline(always)]
fn difference(correction: u64) -> i64 {
    correction as i64 >> Ref::META_BITS
}

/// The shortest form of a correction that does not repeat the last one.
#[inline(always)]
fn form_of(correction: u64) -> u8 {
    /// By significant bits, the sign among them.
    const BY_BITS: [u8; 65] = {
        let mut forms = [FORM_WORD; 65];
        let mut form = WIDTHS.len();
        while form > 0 {
            form -= 1;
            let mut bits = 0;
            while bits <= 8 * WIDTHS[form] as usize {
                forms[bits] = form as u8;
                bits += 1;
            }
        }
        forms
    };
    let value = difference(correction);
    let bits = 65 - (value ^ value >> 63).leading_zeros();
    let form = BY_BITS[bits as usize];
    match correction & (FLIP | SET) {
        0 => form,
        SET if form != FORM_WORD => form + FORM_SET,
        _ => FORM_WORD,
    }
}

/// After a correction: would another base have been right, or at least near? Then the slot's next reference
/// turns to it.
#[inline(always)]
fn learn(hint: &mut Hint, address: u64, before: &[u64; HISTORY], form: u8, last: &mut u64) {
    let [second, first] = *before;
    let from = [hint.address, first, second].map(|base| address.wrapping_sub(base & !META));
    let same = (0..3).map(|base| usize::from(from[base] == hint.from[base]) << base).sum::<usize>();
    *hint = Hint { address, from };
    let base = (*last & BASE) as usize;
    if same >> base & 1 != 0 {
        return;
    }
    let better = if same != 0 {
        same.trailing_zeros() as usize
    } else if FAR_FORMS >> form & 1 != 0 {
        let near = |&base: &usize| i32::try_from(difference(from[base])).is_ok();
        (0..3).find(near).unwrap_or(base)
    } else {
        base
    };
    *last = *last & !(BASE << PENDING_SHIFT) | ((better ^ base) as u64) << PENDING_SHIFT;
}
