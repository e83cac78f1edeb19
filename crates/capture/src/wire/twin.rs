//! Checks the decoder against a slow twin: one word at a time, with maps, straight from `WIRE.md`.

mod faults;

use super::*;
use pagewalk_trace::{Block, BlockEnd, Event, Instruction, Mapping, Protection, Ref, Site, ThpDisable};
use pagewalk_units::{Access, Kind, Size, SpaceId, VirtAddr};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A stream's contents, with blocks spelled out and without batches.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    Execution { block: Block, refs: Vec<u64>, first: u64, first_instruction: u64, thread: u32 },
    Event { at: u64, event: Event },
    Arguments(Vec<String>),
}

/// A block as a test describes it.
#[derive(Clone, Debug)]
struct Shape {
    instruction_lengths: Vec<u8>,
    /// Instruction, kind (0 padding), bytes; by ascending instruction.
    slots: Vec<(u16, u8, u32)>,
    /// Slots before and instructions executed, the last being the block's end.
    exits: Vec<(usize, usize)>,
    end: u8,
}

impl Shape {
    fn address(number: u32) -> u64 {
        0x1000 + u64::from(number) * 0x1_0000
    }

    fn payload(&self, number: u32) -> Vec<u64> {
        let counts = [self.instruction_lengths.len(), self.slots.len(), self.exits.len()];
        let mut words = vec![u64::from(number), u64::from(self.end)];
        words.extend(counts.map(|count| count as u64));
        let mut address = Shape::address(number);
        for &length in &self.instruction_lengths {
            words.extend([address, u64::from(length)]);
            address += u64::from(length);
        }
        let slot_word = |&(instruction, kind, bytes): &(u16, u8, u32)| {
            u64::from(instruction) | u64::from(kind) << 16 | u64::from(bytes) << 32
        };
        words.extend(self.slots.iter().map(slot_word));
        words.extend(self.exits.iter().map(|&(slots, instructions)| (slots | instructions << 32) as u64));
        let code: usize = self.instruction_lengths.iter().map(|&length| usize::from(length)).sum();
        words.extend((0..code.div_ceil(8)).map(|word| {
            u64::from_le_bytes(std::array::from_fn(|byte| {
                let at = word * 8 + byte;
                if at < code { at as u8 } else { 0 }
            }))
        }));
        words
    }
}

fn event(kind: u8, payload: &[u64]) -> Vec<u64> {
    let mut words = vec![event_header(kind, payload.len() as u32)];
    words.extend_from_slice(payload);
    words
}

/// The twin. Stops at the first malformed word.
#[derive(Default)]
struct Twin {
    shapes: BTreeMap<u32, Vec<u64>>,
    told: Vec<Told>,
    refs: u64,
    instructions: u64,
    thread: u32,
}

impl Twin {
    /// Decodes one chunk; `None` if it is malformed.
    fn chunk(&mut self, words: &[u64]) -> Option<()> {
        let mut at = 0;
        while at < words.len() {
            let word = words[at];
            if (word as i64) < 0 && (word as i64) >= -(1 << 31) {
                let start = at + 1;
                at = start;
                while at < words.len() && words[at] < 1 << 63 {
                    at += 1;
                }
                at = self.execution(word as u32 & 0xff_ffff, words, start, at)?;
            } else if word >> 62 == 2 {
                let (kind, count) = ((word >> 56 & 63) as u8, (word & 0xffff_ffff) as usize);
                let payload = words[at + 1..].get(..count)?;
                match kind {
                    kind::BLOCK => {
                        if self.shapes.insert(payload[0] as u32, payload.to_vec()).is_some() {
                            return None;
                        }
                    }
                    kind::IDENTITY => self.told.push(Told::Arguments(vec![])),
                    kind::SWITCH => {
                        self.thread = payload[0] as u32;
                        self.event(Event::Switch { thread: self.thread });
                    }
                    kind::MARKER => self.event(Event::Marker { id: payload[0] }),
                    kind::SYSCALL => {
                        let event = Event::Syscall { number: payload[0] as u32, result: payload[1] as i64 };
                        self.event(event);
                    }
                    kind::MAP => self.map(payload),
                    kind::THP_DISABLE => {
                        let mode = [ThpDisable::Off, ThpDisable::All, ThpDisable::ExceptAdvised];
                        self.event(Event::ThpDisable { mode: mode[payload[0] as usize] });
                    }
                    kind::IDLE => self.event(Event::Idle { nanoseconds: payload[0] }),
                    kind::SPIN => {
                        let instructions = self.shapes.get(&(payload[0] as u32))?[2] * payload[1];
                        self.event(Event::Spin { instructions });
                    }
                    _ => return None,
                }
                at += 1 + count;
            } else {
                return None;
            }
        }
        Some(())
    }

    /// Private readable memory without a file.
    fn map(&mut self, payload: &[u64]) {
        let page_bytes = match payload[2] >> 16 {
            0 => 4096,
            log2 => 1 << log2,
        };
        self.event(Event::Map(Mapping {
            protection: Protection { read: true, ..Protection::default() },
            page_bytes,
            ..Mapping::anonymous(VirtAddr(payload[0]), payload[1])
        }));
    }

    fn event(&mut self, event: Event) {
        self.told.push(Told::Event { at: self.refs, event });
    }

    /// Returns the position after the execution.
    fn execution(&mut self, number: u32, words: &[u64], start: usize, end: usize) -> Option<usize> {
        let p = self.shapes.get(&number)?;
        let (n_instructions, n_slots, n_exits) = (p[2] as usize, p[3] as usize, p[4] as usize);
        let instruction =
            |i: usize| Instruction { address: VirtAddr(p[5 + 2 * i]), length: p[6 + 2 * i] as u8 };
        let found = (end - start).min(n_slots);
        let exits = &p[5 + 2 * n_instructions + n_slots..][..n_exits];
        let exit = exits.iter().position(|exit| (exit & 0xffff_ffff) as usize == found)?;
        let executed = (exits[exit] >> 32) as usize;
        let (mut sites, mut refs) = (vec![], vec![]);
        for slot in 0..found {
            let (word, what) = (words[start + slot], p[5 + 2 * n_instructions + slot]);
            if word >= 1 << 57 {
                return None;
            }
            let kind = Kind::from_code((what >> 16) as u8);
            match (kind, word) {
                (Kind::Fetch, 0) => {}
                (Kind::Fetch, _) => return None,
                (_, 0) => {}
                _ => {
                    let access = Access { kind, size: Size::of_bytes((what >> 32) as u32)? };
                    sites.push(Site { instruction: what as u16, access });
                    refs.push(Ref::new(VirtAddr(word), access).bits());
                }
            }
        }
        let mut code: Vec<u8> = p[5 + 2 * n_instructions + n_slots + n_exits..]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        code.truncate((0..executed).map(|i| usize::from(instruction(i).length)).sum());
        let (first, first_instruction) = (self.refs, self.instructions);
        self.refs += refs.len() as u64;
        self.instructions += executed as u64;
        if executed > 0 {
            let end = if exit + 1 == n_exits { p[1] as u8 } else { 0 };
            let block = Block {
                instructions: (0..executed).map(instruction).collect(),
                sites: sites.into(),
                code: code.into(),
                end: BlockEnd::from_code(end)?,
            };
            self.told.push(Told::Execution { block, refs, first, first_instruction, thread: self.thread });
        }
        Some(start + found)
    }
}

/// Runs the decoder over chunks, each split in two at a boundary that the test chose; returns its output, and whether
/// it ended without a fault.
fn decode(chunks: &[(Vec<u64>, usize)]) -> (Vec<Told>, bool) {
    let mut decoder = Decoder::new(SpaceId(0));
    let mut told = vec![];
    for (number, (words, cut)) in chunks.iter().enumerate() {
        for (skipped, piece) in [(0, &words[..*cut]), (*cut, &words[*cut..])] {
            let mut chunk = Chunk { number: number as u64, skipped, words: piece.to_vec(), at: 0 };
            loop {
                match decoder.step(&mut chunk) {
                    Ok(DecodeStep::NeedWords) => break,
                    Ok(DecodeStep::Batch) => tell(&decoder, &mut told),
                    Ok(DecodeStep::Event { at, event }) => told.push(Told::Event { at: at.0, event }),
                    Ok(DecodeStep::Identity(arguments)) => told.push(Told::Arguments(arguments)),
                    Err(error) => {
                        assert_eq!(error.chunk, number as u64);
                        assert!(error.word < words.len());
                        if decoder.flush() {
                            tell(&decoder, &mut told);
                        }
                        return (told, false);
                    }
                }
            }
        }
    }
    if decoder.flush() {
        tell(&decoder, &mut told);
    }
    (told, true)
}

/// Spells out the decoder's batch.
fn tell(decoder: &Decoder, told: &mut Vec<Told>) {
    let batch = decoder.batch();
    let mut first_instruction = batch.first_instruction;
    let mut wide = false;
    for (index, span) in batch.spans.iter().enumerate() {
        let block = batch.blocks.get(span.block).clone();
        let refs = &batch.refs[span.first as usize..batch.span_end(index)];
        assert_eq!(refs.len(), block.sites.len());
        wide |= refs.iter().any(|r| r.size().bytes() > pagewalk_trace::Batch::WIDE_BYTES);
        let instructions = block.instructions.len() as u64;
        told.push(Told::Execution {
            block,
            refs: refs.iter().map(|r| r.bits()).collect(),
            first: batch.first.0 + u64::from(span.first),
            first_instruction,
            thread: batch.thread.0,
        });
        first_instruction += instructions;
    }
    assert_eq!(batch.wide, wide);
    assert!(!batch.spans.is_empty());
}

fn shape() -> impl Strategy<Value = Shape> {
    let bytes = prop::sample::select(vec![1u32, 2, 4, 8, 16, 32, 64, 464]);
    let padding_or_kind = prop_oneof![1 => Just(0u8), 8 => 1u8..=3];
    (
        prop::collection::vec(1u8..16, 1..8),
        prop::collection::vec((0u16..8, padding_or_kind, bytes), 0..14),
        prop::collection::btree_set(0usize..14, 0..4),
        0u8..5,
    )
        .prop_map(|(instruction_lengths, mut slots, cuts, end)| {
            let instructions = instruction_lengths.len();
            slots.iter_mut().for_each(|slot| slot.0 %= instructions as u16);
            slots.sort_by_key(|slot| slot.0);
            let executed = |before: usize| match before {
                0 => 0,
                _ => usize::from(slots[before - 1].0) + 1,
            };
            let mut exits: Vec<_> =
                cuts.into_iter().filter(|&cut| cut < slots.len()).map(|cut| (cut, executed(cut))).collect();
            exits.push((slots.len(), instructions));
            Shape { instruction_lengths, slots, exits, end }
        })
}

/// A step of a generated stream; numbers choose among what exists.
#[derive(Clone, Debug)]
enum Act {
    Run {
        block: usize,
        exit: usize,
        absent: u16,
        address: u64,
        times: usize,
    },
    Marker(u64),
    Switch(u64),
    Syscall(u64, i64),
    /// log2 of the page, 0 for the usual one, and pages.
    Map(u64, u64),
    ThpDisable(u64),
    Idle(u64),
    Spin {
        block: usize,
        executions: u64,
    },
    NewChunk,
}

fn act() -> impl Strategy<Value = Act> {
    let run = (any::<usize>(), any::<usize>(), prop_oneof![3 => Just(0), 1 => any::<u16>()], 1u64..1 << 57)
        .prop_flat_map(|(block, exit, absent, address)| {
            prop_oneof![20 => 1usize..4, 1 => Just(300)].prop_map(move |times| Act::Run {
                block,
                exit,
                absent,
                address,
                times,
            })
        });
    prop_oneof![
        30 => run,
        1 => any::<u64>().prop_map(Act::Marker),
        1 => (1u64..9).prop_map(Act::Switch),
        1 => (0u64..400, any::<i64>()).prop_map(|(number, result)| Act::Syscall(number, result)),
        1 => (prop::sample::select(vec![0u64, 12, 16, 21, 30, 39]), 1u64..9)
            .prop_map(|(log2, pages)| Act::Map(log2, pages)),
        1 => (0u64..3).prop_map(Act::ThpDisable),
        1 => any::<u64>().prop_map(Act::Idle),
        1 => (any::<usize>(), 0u64..1 << 40).prop_map(|(block, executions)| Act::Spin { block, executions }),
        2 => Just(Act::NewChunk),
    ]
}

/// Chunks of whole executions and events, each with a boundary at which it may be split.
fn stream() -> impl Strategy<Value = Vec<(Vec<u64>, usize)>> {
    let numbers = prop::collection::btree_set(prop_oneof![0u32..2000, 0u32..50_000], 1..6);
    (numbers, prop::collection::vec(shape(), 6), prop::collection::vec(act(), 0..60), any::<usize>())
        .prop_map(|(numbers, shapes, acts, cut)| {
            let numbers: Vec<u32> = numbers.into_iter().collect();
            let mut chunks = vec![(event(kind::IDENTITY, &[0]), 0)];
            let mut boundaries = vec![0];
            let mut defined = vec![false; numbers.len()];
            for act in acts {
                let (words, boundary) = chunks.last_mut().unwrap();
                match act {
                    Act::Run { block, exit, absent, address, times } => {
                        let which = block % numbers.len();
                        let shape = &shapes[which];
                        if !std::mem::replace(&mut defined[which], true) {
                            words.extend(event(kind::BLOCK, &shape.payload(numbers[which])));
                        }
                        let slots = shape.exits[exit % shape.exits.len()].0;
                        for time in 0..times {
                            words.push(block_header(numbers[which], shape.slots.len()));
                            words.extend((0..slots).map(|slot| {
                                let gone = shape.slots[slot].1 == 0 || absent >> slot & 1 == 1;
                                if gone {
                                    0
                                } else {
                                    (address + (time * 64 + slot * 8) as u64).min((1 << 57) - 1)
                                }
                            }));
                            boundaries.push(words.len());
                        }
                    }
                    Act::Marker(id) => words.extend(event(kind::MARKER, &[id])),
                    Act::Switch(thread) => words.extend(event(kind::SWITCH, &[thread])),
                    Act::Syscall(number, result) => {
                        words.extend(event(kind::SYSCALL, &[number, result as u64]));
                    }
                    Act::Map(log2, pages) => {
                        let bytes = 1 << log2.max(12);
                        words.extend(event(kind::MAP, &[bytes, pages * bytes, 1 | log2 << 16, 0, 0]));
                    }
                    Act::ThpDisable(mode) => words.extend(event(kind::THP_DISABLE, &[mode])),
                    Act::Idle(nanoseconds) => words.extend(event(kind::IDLE, &[nanoseconds])),
                    Act::Spin { block, executions } => {
                        let which = block % numbers.len();
                        if defined[which] {
                            words.extend(event(kind::SPIN, &[numbers[which].into(), executions]));
                        }
                    }
                    Act::NewChunk => {
                        *boundary = boundaries[cut % boundaries.len()];
                        boundaries = vec![0];
                        chunks.push((vec![], 0));
                    }
                }
            }
            chunks
        })
}

fn twin(chunks: &[(Vec<u64>, usize)]) -> (Vec<Told>, bool) {
    let mut twin = Twin { thread: 1, ..Twin::default() };
    let whole = chunks.iter().all(|(words, _)| twin.chunk(words).is_some());
    (twin.told, whole)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn tells_what_the_twin_tells(chunks in stream()) {
        let (expected, whole) = twin(&chunks);
        prop_assert!(whole);
        let (told, whole) = decode(&chunks);
        prop_assert!(whole);
        prop_assert_eq!(told, expected);
    }

    /// The twin knows fewer faults than the decoder, but both agree up to the first.
    #[test]
    fn one_wrong_word_is_told_or_harmless(chunks in stream(), which: usize, at: usize, word: u64, shape: u8) {
        let mut chunks = chunks;
        let which = which % chunks.len();
        let words = &mut chunks[which].0;
        prop_assume!(!words.is_empty());
        let at = at % words.len();
        // A changed definition may still be valid, which is no fault.
        let word = match shape % 4 {
            0 => word,
            1 => 0,
            2 => word | 1 << 63,
            _ => block_header(word as u32 >> 8, word as usize >> 57),
        };
        words[at] = word;
        chunks.iter_mut().for_each(|chunk| chunk.1 = 0);
        let (told, _) = decode(&chunks);
        let mut cut_off = chunks.clone();
        cut_off[which].0.truncate(at);
        cut_off.truncate(which + 1);
        let (sure, _) = decode(&cut_off);
        // Everything before the wrong word's execution or event was yielded.
        let sure = &sure[..sure.len().saturating_sub(1)];
        prop_assert!(told.starts_with(sure));
    }

    #[test]
    fn any_words_end_in_a_fault_or_the_end(words in prop::collection::vec(any_word(), 0..200)) {
        decode(&[(words, 0)]);
    }
}

/// Words that are meaningful more often than random ones.
fn any_word() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0u64..4,
        2 => (0u32..3, 0usize..200).prop_map(|(number, slots)| block_header(number, slots)),
        2 => (0u8..24, 0u32..20).prop_map(|(kind, words)| event_header(kind, words)),
        1 => Just(1 | 1 << 16 | 8 << 32),
        1 => any::<u64>(),
    ]
}

/// A full execution at the fast path's lanes and at both sides of the limit, wide or not, also at a chunk's end.
#[test]
fn every_number_of_slots_is_exact() {
    for slots in (0..=20usize).chain(125..=130) {
        let shape = Shape {
            instruction_lengths: vec![1],
            slots: vec![(0, 1, 8); slots],
            exits: vec![(slots, 1)],
            end: 2,
        };
        let mut words = event(kind::BLOCK, &shape.payload(1));
        for time in 0..40 {
            words.push(block_header(1, slots));
            words.extend((0..slots).map(|slot| 1 + time * 100 + slot as u64));
        }
        let (expected, _) = twin(&[(words.clone(), 0)]);
        assert_eq!(expected.len(), 40);
        assert_eq!(decode(&[(words, 0)]), (expected, true));
    }
}
