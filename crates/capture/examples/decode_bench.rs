//! Measures the wire decoder on streams like those of real programs, from memory.
//!
//! `cargo run --release -p pagewalk-capture --example decode_bench`
//!
//! "Whole" is the fast path alone; "mixed" leaves an eighth of the executions early and gives an eighth of the blocks a
//! padding slot. Block choice and lengths are random, so branch prediction gets no more help than real code
//! gives it. Prints millions of words per second, the median of several runs.

use pagewalk_capture::wire::{Chunk, Decoder, Step, block_header, event_header, kind};
use pagewalk_trace::seconds_worked;
use pagewalk_units::SpaceId;
use std::io;

const CHUNK_WORDS: usize = 8192;
const CHUNKS: usize = 256;
const BLOCKS: u64 = 61 * 64;
const RUNS: usize = 15;

/// A small random number generator (xorshift64), so that every run decodes the same words.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) % bound
    }
}

/// What the generator knows of a block.
struct Shape {
    slots: u64,
    /// Slot number at which the block can be left early.
    side_exit: Option<u64>,
    padded: bool,
}

impl Shape {
    fn random(random: &mut Random, mixed: bool) -> Shape {
        // 0 to 7 references mostly, a few long blocks: the mean of real programs is near 3.
        let slots = if random.below(16) == 0 { random.below(24) } else { random.below(7) };
        let padded = mixed && slots > 1 && random.below(8) == 0;
        let side_exit = (mixed && slots > 2).then(|| 1 + random.below(slots - 2));
        Shape { slots, side_exit, padded }
    }

    fn definition(&self, number: u64) -> Vec<u64> {
        let instructions = self.slots + 2;
        let exits = self.side_exit.map(|slot| slot | (slot + 1) << 32).into_iter();
        let exits: Vec<u64> = exits.chain([self.slots | instructions << 32]).collect();
        let mut payload = vec![number, 0, instructions, self.slots, exits.len() as u64];
        payload.extend((0..instructions).flat_map(|i| [0x40_0000 + number * 512 + i * 4, 4]));
        payload.extend((0..self.slots).map(|slot| {
            let access_kind = if self.padded && slot == self.slots - 1 { 0 } else { 1 + slot % 2 };
            slot | access_kind << 16 | 8 << 32
        }));
        payload.extend(exits);
        payload.resize(payload.len() + (instructions * 4).div_ceil(8) as usize, 0x9090_9090_9090_9090);
        payload
    }

    fn execution(&self, number: u64, random: &mut Random, words: &mut Vec<u64>) {
        words.push(block_header(number as u32, self.slots as usize));
        let slots = self.side_exit.filter(|_| random.below(8) == 0).unwrap_or(self.slots);
        for slot in 0..slots {
            let padding = self.padded && slot == self.slots - 1;
            words.push(if padding { 0 } else { 0x7f00_0000_0000 + random.below(1 << 30) * 8 });
        }
    }
}

fn stream(mixed: bool) -> Vec<Chunk> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let shapes: Vec<Shape> = (0..BLOCKS).map(|_| Shape::random(&mut random, mixed)).collect();
    let definitions = shapes.iter().enumerate().flat_map(|(number, shape)| {
        let payload = shape.definition(number as u64);
        [event_header(kind::BLOCK, payload.len() as u32)].into_iter().chain(payload)
    });
    let mut chunks = vec![Chunk { words: definitions.collect(), ..Chunk::default() }];
    let mut block = 0;
    for number in 1..=CHUNKS {
        let mut words = Vec::with_capacity(CHUNK_WORDS);
        while words.len() + 32 < CHUNK_WORDS {
            block = if random.below(10) < 9 {
                (block * 7 + 13) % 61 + block / 61 * 61
            } else {
                random.below(BLOCKS)
            };
            shapes[block as usize].execution(block, &mut random, &mut words);
        }
        chunks.push(Chunk { number: number as u64, words, ..Chunk::default() });
    }
    chunks
}

/// Decodes chunks from their start; gives the words decoded per second of processor time.
fn decode(decoder: &mut Decoder, chunks: &mut [Chunk]) -> io::Result<f64> {
    let (mut words, mut checksum) = (0, 0);
    let start = seconds_worked()?;
    for chunk in chunks {
        chunk.at = 0;
        words += chunk.words.len();
        while decoder.step(chunk).expect("the stream is well formed") != Step::NeedWords {
            let batch = decoder.batch();
            checksum ^= batch.refs[batch.refs.len() - 1].bits();
        }
    }
    let rate = words as f64 / (seconds_worked()? - start);
    std::hint::black_box(checksum);
    Ok(rate)
}

fn main() -> io::Result<()> {
    for (name, mixed) in [("whole", false), ("mixed", true)] {
        let mut chunks = stream(mixed);
        let mut decoder = Decoder::new(SpaceId(0));
        // Once with the definitions; after that every path has been met, as in any long run.
        decode(&mut decoder, &mut chunks)?;
        let rates = (0..RUNS).map(|_| decode(&mut decoder, &mut chunks[1..]));
        let mut rates = rates.collect::<io::Result<Vec<f64>>>()?;
        rates.sort_by(f64::total_cmp);
        println!("{name}: {:.0} M words/s (best {:.0})", rates[RUNS / 2] / 1e6, rates[RUNS - 1] / 1e6);
    }
    Ok(())
}
