//! Decodes words into items.
//!
//! [`Decoder::run`] decodes whole executions of blocks without padding whose slots all made their reference, eight
//! slots at a time and without data-dependent branches. It stops at anything else (a block left early, an absent slot,
//! an event, a fault); [`Decoder::execution`] or [`Decoder::event`] decodes that one thing.
//!
//! Almost all executions are of the first kind. So a stretch of them is decoded optimistically: headers give the
//! position of the next header, and whether all slot words were addresses is checked once at the stretch's end. If not,
//! the stretch is decoded again in shorter ones, down to the deviating execution.

use super::definition::{Definition, Path};
use super::event::{self, ParsedEvent};
use super::table::{Entry, Table, look_up};
use super::{
    BadWord, Chunk, MAX_BLOCKS, MAX_SLOTS, WireError, block_number, event_parts, is_block_header, kind,
    slots_told,
};
use pagewalk_trace::{Batch, BatchRoom, Dictionary, Event, Ref, Span};
use pagewalk_units::{BlockId, RefIndex, SpaceId, ThreadId};
use rustc_hash::FxHashMap;

/// Slots decoded at once.
const LANES: usize = 8;

/// Most executions per optimistic stretch.
const STRETCH_MAX: usize = 64;

/// Room for references: an almost full batch plus the longest block, and overwritten lanes.
const REFS: usize = Batch::TARGET_LEN + MAX_SLOTS + LANES;

/// A window of this table, starting at `LANES - n`, keeps the first `n` lanes.
static KEEP: [u64; LANES * 2] = {
    let mut keep = [0; LANES * 2];
    let mut lane = 0;
    while lane < LANES {
        keep[lane] = u64::MAX;
        lane += 1;
    }
    keep
};

/// The result of [`Decoder::step`].
#[derive(Debug, PartialEq, Eq)]
pub enum DecodeStep {
    /// All words are decoded; more are needed.
    NeedWords,
    /// [`Decoder::batch`] has a batch.
    Batch,
    /// An event.
    Event {
        /// Data references before it.
        at: RefIndex,
        /// What happened.
        event: Event,
    },
    /// The command line of the process image.
    Identity(Vec<String>),
}

/// Decodes the words of one stream, in order.
#[derive(Debug)]
pub struct Decoder {
    space: SpaceId,
    thread: ThreadId,
    dictionary: Dictionary,
    table: Table,
    /// The low record bits of each slot of each defined block, and `LANES` bytes of slack.
    metas: Vec<u8>,
    definitions: Vec<Definition>,
    /// Paths with absent slots, by definition, exit and bit set of absent slots.
    gapped_paths: FxHashMap<Box<[u64]>, Path>,
    /// Buffer for look-up keys of `gapped_paths`.
    key: Vec<u64>,
    batch: Filling,
    /// Executions in the next stretch: fewer after many deviations.
    stretch: usize,
    /// Whether the batch was yielded.
    handed_out: bool,
    /// Data references and instructions before the batch.
    references: u64,
    instructions: u64,
}

/// A batch being filled.
#[derive(Debug)]
struct Filling {
    /// [`REFS`] of them.
    refs: Vec<Ref>,
    /// [`Batch::TARGET_LEN`] of them.
    spans: Vec<Span>,
    refs_len: usize,
    spans_len: usize,
    instructions: u64,
    wide: bool,
}

impl Filling {
    /// Exchanges rooms of any size.
    fn exchange(&mut self, room: &mut BatchRoom) {
        std::mem::swap(&mut self.refs, &mut room.refs);
        std::mem::swap(&mut self.spans, &mut room.spans);
        room.first_ref = 0;
        self.refs.resize(REFS, Ref::from_parts(0, 0));
        self.spans.resize(Batch::TARGET_LEN, Span { block: BlockId(0), first: 0 });
    }
}

/// Why the fast path stopped.
enum Stop {
    End,
    Full,
    Other,
    /// The stretch is complete.
    Stretch,
    /// A block with many slots follows, or the chunk's end is near.
    Many,
}

impl Decoder {
    /// A decoder for the stream of address space `space`.
    pub fn new(space: SpaceId) -> Decoder {
        let mut batch = Filling {
            refs: Vec::new(),
            spans: Vec::new(),
            refs_len: 0,
            spans_len: 0,
            instructions: 0,
            wide: false,
        };
        batch.exchange(&mut BatchRoom::default());
        Decoder {
            space,
            thread: ThreadId(1),
            dictionary: Dictionary::default(),
            table: Table::default(),
            metas: vec![0; LANES],
            definitions: Vec::new(),
            gapped_paths: FxHashMap::default(),
            key: Vec::new(),
            batch,
            stretch: STRETCH_MAX,
            handed_out: false,
            references: 0,
            instructions: 0,
        }
    }

    /// Decodes words from `chunk.at` up to the next item. After [`DecodeStep::Batch`] the batch stays until the next
    /// call. References decoded before an error remain available through [`Decoder::flush`].
    pub fn step(&mut self, chunk: &mut Chunk) -> Result<DecodeStep, WireError> {
        self.retire();
        let Chunk { number, skipped, ref words, ref mut at } = *chunk;
        self.step_words(words, at).map_err(|fault| WireError { chunk: number, word: skipped + *at, fault })
    }

    /// Whether there are references that no batch has yielded; they are now in [`Decoder::batch`].
    pub fn flush(&mut self) -> bool {
        self.retire();
        self.handed_out = self.batch.spans_len > 0;
        self.handed_out
    }

    /// The batch announced by [`DecodeStep::Batch`] or [`Decoder::flush`].
    pub fn batch(&self) -> Batch<'_> {
        Batch {
            space: self.space,
            thread: self.thread,
            first: RefIndex(self.references),
            first_instruction: self.instructions,
            refs: &self.batch.refs[..self.batch.refs_len],
            spans: &self.batch.spans[..self.batch.spans_len],
            wide: self.batch.wide,
            blocks: &self.dictionary,
        }
    }

    /// Gives away the room of the last announced batch, in exchange for another.
    pub fn give_room(&mut self, for_another: &mut BatchRoom) {
        if self.handed_out {
            self.batch.exchange(for_another);
        }
    }

    /// Makes room after a batch was yielded.
    fn retire(&mut self) {
        if self.handed_out {
            self.handed_out = false;
            self.references += self.batch.refs_len as u64;
            self.instructions += self.batch.instructions;
            self.batch.refs_len = 0;
            self.batch.spans_len = 0;
            self.batch.instructions = 0;
            self.batch.wide = false;
        }
    }

    fn step_words(&mut self, words: &[u64], at: &mut usize) -> Result<DecodeStep, BadWord> {
        loop {
            match self.run(words, at) {
                Stop::End => return Ok(DecodeStep::NeedWords),
                Stop::Full => {
                    self.handed_out = true;
                    return Ok(DecodeStep::Batch);
                }
                Stop::Other | Stop::Stretch | Stop::Many => {}
            }
            if is_block_header(words[*at]) {
                *at = self.execution(block_number(words[*at]), words, *at)?;
            } else if let Some(step) = self.event(words, at)? {
                return Ok(step);
            }
        }
    }

    /// Decodes whole executions without absent slots, until something else follows. Moves `at` there.
    fn run(&mut self, words: &[u64], at: &mut usize) -> Stop {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { self.run_with_avx2(words, at) };
        }
        self.run_stretches(words, at)
    }

    /// [`Decoder::run_stretches`], compiled for vectors of four words.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn run_with_avx2(&mut self, words: &[u64], at: &mut usize) -> Stop {
        self.run_stretches(words, at)
    }

    #[inline(always)]
    fn run_stretches(&mut self, words: &[u64], at: &mut usize) -> Stop {
        loop {
            match self.run_stretch(words, at) {
                Some(Stop::Stretch) => self.stretch = (self.stretch * 2).min(STRETCH_MAX),
                Some(Stop::Many) if self.run_many(words, at) => {}
                Some(Stop::Many) => return Stop::Other,
                Some(stop) => return stop,
                None if self.stretch == 1 => return Stop::Other,
                None => self.stretch = 1,
            }
        }
    }

    /// Decodes a stretch and returns why it ended; `None`: nothing was decoded because a word was no address.
    #[inline(always)]
    fn run_stretch(&mut self, words: &[u64], at: &mut usize) -> Option<Stop> {
        let Filling { refs, spans, refs_len, spans_len, instructions, .. } = &mut self.batch;
        let (entries, all_metas) = (self.table.entries(), self.metas.as_slice());
        // Locals stay in registers; they are written back at the end.
        let (mut next, mut refs_end, mut spans_end, mut executed) = (*at, *refs_len, *spans_len, 0);
        // Bits from 57 up are set if a word has them or is 0.
        let mut odd = [0; LANES];
        let last = spans_end + self.stretch;
        let stop = loop {
            let Some(&header) = words.get(next) else { break Stop::End };
            if refs_end >= Batch::TARGET_LEN || spans_end >= Batch::TARGET_LEN {
                break Stop::Full;
            }
            if spans_end == last {
                break Stop::Stretch;
            }
            if !is_block_header(header) {
                break Stop::Other;
            }
            // The next header's position follows from this header, without waiting for the entry.
            let slots = slots_told(header);
            let Entry { first_slot, block, slots: of_block, instructions, .. } =
                look_up(entries, block_number(header));
            let first_slot = first_slot as usize;
            if slots > LANES {
                break Stop::Many;
            }
            if usize::from(of_block) != slots {
                break Stop::Other;
            }
            if let Some(lanes) = words[next + 1..].first_chunk::<LANES>()
                && let Some(metas) = all_metas[first_slot..].first_chunk::<LANES>()
                && let Some(keep) = KEEP[LANES - slots..].first_chunk::<LANES>()
                && let Some(out) = refs[refs_end..].first_chunk_mut::<LANES>()
            {
                // Lanes beyond `slots` are overwritten by the next execution. All lanes are packed before one is
                // stored, so that the compiler need not assume aliasing.
                let mut packed = [Ref::from_parts(0, 0); LANES];
                for lane in 0..LANES {
                    odd[lane] |= (lanes[lane].wrapping_sub(1) | lanes[lane]) & keep[lane];
                    packed[lane] = Ref::from_parts(lanes[lane], metas[lane]);
                }
                *out = packed;
            } else {
                break Stop::Many;
            }
            spans[spans_end] = Span { block, first: refs_end as u32 };
            spans_end += 1;
            refs_end += slots;
            next += 1 + slots;
            executed += u64::from(instructions);
        };
        if odd.into_iter().fold(0, |all, odd| all | odd) >= Ref::ADDRESS_END {
            return None;
        }
        (*at, *refs_len, *spans_len) = (next, refs_end, spans_end);
        *instructions += executed;
        Some(stop)
    }

    /// Decodes one whole execution of a block with any number of slots; false if it is not one. Kept apart: a call in
    /// the loop for short blocks would spill its vectors each time.
    #[inline(never)]
    fn run_many(&mut self, words: &[u64], at: &mut usize) -> bool {
        let Filling { refs, spans, refs_len, spans_len, instructions, .. } = &mut self.batch;
        let entry = self.table.get(block_number(words[*at]));
        let (first_slot, slots) = (entry.first_slot as usize, usize::from(entry.slots));
        let Some(slot_words) = words.get(*at + 1..*at + 1 + slots) else { return false };
        let Some(metas) = self.metas.get(first_slot..first_slot + slots) else { return false };
        if entry.slots == Entry::NOT_FAST
            || copy_many(&mut refs[*refs_len..], slot_words, metas) >= Ref::ADDRESS_END
        {
            return false;
        }
        spans[*spans_len] = Span { block: entry.block, first: *refs_len as u32 };
        *spans_len += 1;
        *refs_len += slots;
        *instructions += u64::from(entry.instructions);
        *at += 1 + slots;
        true
    }

    /// Decodes the execution of block `number` with its header at `at`, along any path; returns the position after it.
    #[inline(never)]
    fn execution(&mut self, number: u32, words: &[u64], at: usize) -> Result<usize, BadWord> {
        let entry = self.table.get(number);
        let Some(index) = (entry.definition as usize).checked_sub(1) else {
            return Err(BadWord::UndefinedBlock(number));
        };
        let definition = &self.definitions[index];
        let (first_slot, slots) = (entry.first_slot as usize, definition.slots.len());
        let run = words[at + 1..].iter().take(slots).take_while(|word| **word >> 63 == 0).count();
        let slot_words = &words[at + 1..at + 1 + run];
        let Some(exit_index) = definition.exits.iter().position(|exit| usize::from(exit.slots) == run) else {
            return Err(BadWord::NoExit { number, slots: run });
        };

        let mut end = self.batch.refs_len;
        for (slot, (&word, &meta)) in slot_words.iter().zip(&self.metas[first_slot..]).enumerate() {
            if word >= Ref::ADDRESS_END {
                return Err(BadWord::Address { number, address: word });
            }
            if meta == 0 && word != 0 {
                return Err(BadWord::PaddingUsed { number, slot, address: word });
            }
            // The next reference overwrites an absent one.
            self.batch.refs[end] = Ref::from_parts(word, meta);
            end += usize::from(word != 0);
        }

        let exit = definition.exits[exit_index];
        let absent = run - (end - self.batch.refs_len);
        let path = match exit.path {
            Some(path) if absent == usize::from(exit.padding) => path,
            None if absent == usize::from(exit.padding) => self.first_on_path(number, index, exit_index)?,
            _ => self.gapped_path(index, exit_index, slot_words)?,
        };
        if let Some(block) = path.block {
            self.batch.spans[self.batch.spans_len] = Span { block, first: self.batch.refs_len as u32 };
            self.batch.spans_len += 1;
            self.batch.refs_len = end;
            self.batch.instructions += u64::from(path.instructions);
            self.batch.wide |= path.wide;
        }
        Ok(at + 1 + run)
    }

    /// The path to an exit taken for the first time, with every reference made. If it is the whole block and plain, the
    /// fast path handles it from now on.
    fn first_on_path(&mut self, number: u32, index: usize, exit_index: usize) -> Result<Path, BadWord> {
        let path = intern(&mut self.dictionary, &self.definitions[index], exit_index, |_| false)?;
        let definition = &mut self.definitions[index];
        definition.exits[exit_index].path = Some(path);
        let exit = definition.exits[exit_index];
        if let Some(block) = path.block
            && exit_index + 1 == definition.exits.len()
            && exit.padding == 0
            && !path.wide
        {
            let entry = self.table.get_mut(number);
            (entry.block, entry.slots, entry.instructions) = (block, exit.slots, path.instructions);
        }
        Ok(path)
    }

    /// The path to an exit with some references absent.
    fn gapped_path(&mut self, index: usize, exit_index: usize, slot_words: &[u64]) -> Result<Path, BadWord> {
        self.key.clear();
        self.key.extend([index as u64, exit_index as u64]);
        self.key.extend(slot_words.chunks(64).map(|words| {
            words.iter().enumerate().fold(0, |set, (bit, &word)| set | u64::from(word == 0) << bit)
        }));
        if let Some(&path) = self.gapped_paths.get(self.key.as_slice()) {
            return Ok(path);
        }
        if self.gapped_paths.len() >= MAX_BLOCKS {
            return Err(BadWord::TooMuchCode);
        }
        let absent = |slot: usize| slot_words[slot] == 0;
        let path = intern(&mut self.dictionary, &self.definitions[index], exit_index, absent)?;
        self.gapped_paths.insert(self.key.as_slice().into(), path);
        Ok(path)
    }

    /// Decodes the event with its header at `at`. Block definitions are silent; any other event first ends the batch,
    /// then is yielded.
    #[inline(never)]
    fn event(&mut self, words: &[u64], at: &mut usize) -> Result<Option<DecodeStep>, BadWord> {
        let (kind, payload_words) = event_parts(words[*at]).ok_or(BadWord::NoHeader(words[*at]))?;
        let rest = &words[*at + 1..];
        let payload = rest.get(..payload_words).ok_or(BadWord::EventTooLong {
            kind,
            words: payload_words,
            left: rest.len(),
        })?;
        if kind == kind::BLOCK {
            self.define(payload)?;
            *at += 1 + payload_words;
            return Ok(None);
        }
        if self.batch.spans_len > 0 {
            self.handed_out = true;
            return Ok(Some(DecodeStep::Batch));
        }
        let step = match event::parse(kind, payload)? {
            ParsedEvent::Identity(arguments) => DecodeStep::Identity(arguments),
            ParsedEvent::Spin { block, executions } => {
                let event = Event::Spin { instructions: self.spun(block, executions)? };
                DecodeStep::Event { at: RefIndex(self.references), event }
            }
            ParsedEvent::Event(event) => {
                self.thread = event.switches_to().unwrap_or(self.thread);
                DecodeStep::Event { at: RefIndex(self.references), event }
            }
        };
        *at += 1 + payload_words;
        Ok(Some(step))
    }

    /// Instructions of this many whole executions.
    fn spun(&self, number: u32, executions: u64) -> Result<u64, BadWord> {
        let index = (self.table.get(number).definition as usize).checked_sub(1);
        let definition = &self.definitions[index.ok_or(BadWord::UndefinedBlock(number))?];
        let many = BadWord::Payload { kind: kind::SPIN, what: "more instructions than 64 bits count" };
        (definition.instructions.len() as u64).checked_mul(executions).ok_or(many)
    }

    fn define(&mut self, payload: &[u64]) -> Result<(), BadWord> {
        let (number, definition) = Definition::parse(payload)?;
        if self.table.get(number).definition != 0 {
            return Err(BadWord::RedefinedBlock(number));
        }
        let first_slot = self.metas.len() - LANES;
        if number as usize >= MAX_BLOCKS
            || self.definitions.len() >= MAX_BLOCKS
            || first_slot > u32::MAX as usize
        {
            return Err(BadWord::TooMuchCode);
        }
        self.metas.truncate(first_slot);
        self.metas.extend(definition.slots.iter().map(|slot| slot.meta()));
        self.metas.extend([0; LANES]);
        self.definitions.push(definition);
        let entry = self.table.get_mut(number);
        entry.first_slot = first_slot as u32;
        entry.definition = self.definitions.len() as u32;
        Ok(())
    }
}

/// Writes a block's references. Returns the bits of odd words.
fn copy_many(refs: &mut [Ref], words: &[u64], metas: &[u8]) -> u64 {
    let mut odd = 0;
    for ((out, &word), &meta) in refs.iter_mut().zip(words).zip(metas) {
        odd |= word.wrapping_sub(1) | word;
        *out = Ref::from_parts(word, meta);
    }
    odd
}

/// Adds a path's block to the dictionary.
fn intern(
    dictionary: &mut Dictionary,
    definition: &Definition,
    exit: usize,
    absent: impl Fn(usize) -> bool,
) -> Result<Path, BadWord> {
    if dictionary.len() >= MAX_BLOCKS {
        return Err(BadWord::TooMuchCode);
    }
    let (block, instructions, wide) = definition.path(exit, absent);
    Ok(Path { block: block.map(|block| dictionary.intern(block)), instructions, wide })
}
