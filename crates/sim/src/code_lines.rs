//! The fetches of a block by cache line.
//!
//! Consecutive fetches from one line change only counts in a cache that sees nothing but fetches, whatever data
//! references and walks do between them. So a block is stored as its *line runs*: a fetch, and how many fetches from
//! its line follow.

use crate::pages::as_recorded;
use pagewalk_cache::{Hierarchy, RecordLines, Requester};
use pagewalk_trace::{Batch, Block, Instruction};
use pagewalk_units::VirtAddr;
use std::collections::HashSet;
use std::ops::RangeInclusive;

/// A fetch, and the fetches from its last line that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineRun {
    /// Of the first fetch, as records hold it.
    pub address: VirtAddr,
    pub bytes: u32,
    /// Fetches that follow.
    pub repeats: u32,
    /// Data references of the block before the run.
    pub site: u32,
    /// The instruction of the first fetch.
    pub instruction: u32,
}

/// Caches have lines of at least 8 bytes.
const LEAST_SHIFT: u32 = 3;

/// Which fetches make a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineGrain {
    /// Those from a line of this log2 of bytes.
    Line(u32),
    /// Each its own.
    Fetch,
}

impl LineGrain {
    /// The longest runs that these caches allow. `has_clock`: they must know of each instruction in its place.
    pub fn of(caches: &Hierarchy, has_clock: bool) -> LineGrain {
        if has_clock || !caches.repeats_wait(Requester::Fetch) {
            return LineGrain::Fetch;
        }
        LineGrain::Line(caches.line_shift(Requester::Fetch))
    }

    /// log2 of the bytes of lines that no cache's are shorter than.
    fn line_shift(self) -> u32 {
        match self {
            LineGrain::Line(shift) => shift,
            LineGrain::Fetch => LEAST_SHIFT,
        }
    }

    /// The longest runs that both allow.
    pub fn and(self, other: LineGrain) -> LineGrain {
        match (self, other) {
            (LineGrain::Line(one), LineGrain::Line(two)) => LineGrain::Line(one.min(two)),
            _ => LineGrain::Fetch,
        }
    }
}

impl LineRun {
    /// Its fetches.
    pub fn fetches(&self) -> u32 {
        self.repeats.saturating_add(1)
    }

    /// The lines of the first fetch.
    fn lines(&self, shift: u32) -> RangeInclusive<u64> {
        let last_byte = self.address.0 + u64::from(self.bytes.max(1) - 1);
        self.address.0 >> shift..=last_byte >> shift
    }

    /// How many lines its fetches look up.
    fn lookups(&self, shift: u32) -> u64 {
        self.lines(shift).count() as u64 + u64::from(self.repeats)
    }

    /// Its fetches before an instruction.
    pub fn fetches_before(&self, instruction: u32) -> u32 {
        instruction.saturating_sub(self.instruction).min(self.fetches())
    }
}

/// The lines that the fetches of a block use, each once, in the order of their last uses.
#[derive(Clone, Copy)]
struct BlockLines {
    first: u64,
    /// How far the second is from it; 0 if there is none, or it is too far and among the others.
    second: i32,
    /// Lines looked up, and [`BlockLines::HAS_OTHERS`].
    lookups: u32,
}

/// The line of a block without instructions. No cache has it, whatever its lines and the address space: these leave at
/// least three bits above a line's number.
const NO_LINE: u64 = 1 << 63;

impl BlockLines {
    /// Set if there are more than two.
    const HAS_OTHERS: u32 = 1 << 31;

    /// Appends all but the first two to `others`.
    fn of(runs: &[LineRun], shift: u32, others: &mut Vec<u64>) -> BlockLines {
        let mut all: Vec<u64> = runs.iter().flat_map(|run| run.lines(shift)).collect();
        let repeats = runs.iter().fold(0_u32, |sum, run| sum.saturating_add(run.repeats));
        let lookups = repeats.saturating_add(all.len() as u32).min(BlockLines::HAS_OTHERS - 1);
        all.reverse();
        let mut seen = HashSet::new();
        all.retain(|&line| seen.insert(line));
        all.reverse();
        let first = all.first().copied().unwrap_or(NO_LINE);
        let distance = |line: u64| i32::try_from(line.wrapping_sub(first) as i64).ok();
        let second = all.get(1).and_then(|&line| distance(line));
        let more = all.get(1 + usize::from(second.is_some())..).unwrap_or_default();
        others.extend(more);
        let flag = if more.is_empty() { 0 } else { BlockLines::HAS_OTHERS };
        BlockLines { first, second: second.unwrap_or(0), lookups: lookups | flag }
    }
}

/// What ends with a block.
#[derive(Clone, Copy)]
struct BlockEnds {
    /// Runs of all blocks up to here.
    runs: u32,
    /// Lines of all blocks up to here, beyond two of each.
    others: u32,
    /// Sites of all blocks up to here.
    sites: u32,
    /// Its data references among its instructions. A file may have sites in any order: those after one that is out of
    /// order follow all instructions.
    ordered: u32,
}

/// The instruction that makes a data reference.
#[derive(Clone, Copy)]
struct CodeSite {
    address: VirtAddr,
    /// Its number in the block.
    number: u16,
}

/// The code of a reference, by its number among all of its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CodeNumber {
    /// A data reference of a block.
    Site(u32),
    /// A run of fetches.
    Run(u32),
}

/// The line runs of all blocks seen.
///
/// What a miss needs to know of its block is here too: blocks lie scattered in memory.
#[derive(Default)]
pub(crate) struct CodeLines {
    blocks: Vec<BlockEnds>,
    /// By block.
    lines: Vec<BlockLines>,
    /// Lines of blocks beyond two.
    others: Vec<u64>,
    /// log2 of the bytes of these lines.
    line_shift: u32,
    runs: Vec<LineRun>,
    /// By run: the address of its first instruction.
    instructions: Vec<VirtAddr>,
    sites: Vec<CodeSite>,
    /// Those of one block, at most.
    most_lines: usize,
}

impl CodeLines {
    /// How many blocks it has.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Appends blocks.
    pub fn learn<'a>(&mut self, blocks: impl Iterator<Item = &'a Block>, grain: LineGrain) {
        for block in blocks {
            let before = self.runs.len();
            let ordered = add_runs(&mut self.runs, block, grain);
            let first = |run: &LineRun| block.instructions[run.instruction as usize].address;
            self.instructions.extend(self.runs[before..].iter().map(first));
            self.sites.extend((0..block.sites.len()).map(|site| CodeSite {
                address: block.instruction_of(site).map_or(VirtAddr(0), |instruction| instruction.address),
                number: block.sites[site].instruction,
            }));
            let sites = u32::try_from(self.sites.len()).expect("fewer than 2^32 sites of code");
            let runs = u32::try_from(self.runs.len()).expect("fewer than 2^32 runs of code");
            debug_assert!(self.lines.is_empty() || self.line_shift == grain.line_shift(), "one grain");
            self.line_shift = grain.line_shift();
            let before_others = self.others.len();
            self.lines.push(BlockLines::of(&self.runs[before..], self.line_shift, &mut self.others));
            self.most_lines = self.most_lines.max(2 + self.others.len() - before_others);
            let others = u32::try_from(self.others.len()).expect("fewer than 2^32 lines of code");
            self.blocks.push(BlockEnds { runs, others, sites, ordered });
        }
    }

    /// The runs of a block.
    #[inline]
    pub fn runs(&self, block: usize) -> &[LineRun] {
        &self.runs[self.first_run(block)..self.blocks[block].runs as usize]
    }

    #[inline]
    fn first_run(&self, block: usize) -> usize {
        if block == 0 { 0 } else { self.blocks[block - 1].runs as usize }
    }

    /// The number of a run of a block among all runs.
    #[inline]
    pub fn number_of_run(&self, block: usize, run: usize) -> u32 {
        (self.first_run(block) + run) as u32
    }

    /// The number of a data reference of a block among those of all blocks.
    #[inline]
    pub fn number_of_site(&self, block: usize, site: usize) -> u32 {
        debug_assert!(
            site < self.all_sites(block).len(),
            "a span has as many references as its block has sites"
        );
        (self.first_site(block) + site) as u32
    }

    #[inline]
    fn first_site(&self, block: usize) -> usize {
        if block == 0 { 0 } else { self.blocks[block - 1].sites as usize }
    }

    #[inline]
    fn all_sites(&self, block: usize) -> &[CodeSite] {
        &self.sites[self.first_site(block)..self.blocks[block].sites as usize]
    }

    /// The address of the instruction that makes a data reference, or with which a run begins; 0 if there is none.
    #[inline]
    pub fn instruction_at(&self, code: CodeNumber) -> VirtAddr {
        match code {
            CodeNumber::Site(site) => self.sites.get(site as usize).map_or(VirtAddr(0), |site| site.address),
            CodeNumber::Run(run) => self.instructions[run as usize],
        }
    }

    /// Its data references in the order of its instructions.
    fn sites_in_order(&self, block: usize) -> &[CodeSite] {
        &self.all_sites(block)[..self.ordered_sites(block)]
    }

    /// How many data references of a block come before an instruction.
    pub fn sites_before(&self, block: usize, instruction: u32) -> usize {
        self.sites_in_order(block).partition_point(|site| u32::from(site.number) < instruction)
    }

    /// The number after that of the instruction that makes a data reference; `u32::MAX` if that reference follows all
    /// instructions.
    pub fn instruction_after(&self, block: usize, site: usize) -> u32 {
        self.sites_in_order(block).get(site).map_or(u32::MAX, |site| u32::from(site.number) + 1)
    }

    /// A run of a batch, by its span, and its number in the block.
    #[inline]
    pub fn run(&self, batch: &Batch<'_>, (span, run): (usize, usize)) -> &LineRun {
        &self.runs(batch.spans[span].block.index())[run]
    }

    /// log2 of the bytes of the lines by which blocks are fetched. Caches may have longer ones.
    pub fn line_shift(&self) -> u32 {
        self.line_shift
    }

    /// How blocks are fetched by a cache with lines of 2 to the power of `shift` bytes. `COARSER`: those are longer.
    pub fn fetches<const COARSER: bool>(&self, shift: u32) -> BlockFetches<'_, COARSER> {
        debug_assert_eq!(COARSER, shift > self.line_shift);
        BlockFetches { lines: &self.lines, all: self, shift, coarser: shift - self.line_shift }
    }

    /// The lines of one block, at most.
    pub fn most_lines(&self) -> usize {
        self.most_lines
    }

    /// How many data references a block has among its instructions; others follow them.
    #[inline]
    pub fn ordered_sites(&self, block: usize) -> usize {
        self.blocks[block].ordered as usize
    }
}

/// How blocks are fetched by a cache.
#[derive(Clone, Copy)]
pub(crate) struct BlockFetches<'a, const COARSER: bool> {
    /// Those of `all`, so that loops hold them in registers.
    lines: &'a [BlockLines],
    all: &'a CodeLines,
    /// log2 of the bytes of its lines, and of how many of the blocks' lines are one of them.
    shift: u32,
    coarser: u32,
}

impl<const COARSER: bool> BlockFetches<'_, COARSER> {
    /// The lines that the fetches of a block use.
    #[inline(always)]
    pub fn lines(&self, block: usize) -> RecordLines {
        let BlockLines { first, second, lookups } = self.lines[block];
        let own = lookups & !BlockLines::HAS_OTHERS;
        let second = first.wrapping_add_signed(second.into());
        let coarser = if COARSER { self.coarser } else { 0 };
        RecordLines {
            first: first >> coarser,
            second: second >> coarser,
            has_others: own != lookups,
            soils: false,
            lookups: if COARSER { self.lookups(block) } else { own.into() },
        }
    }

    #[cold]
    fn lookups(&self, block: usize) -> u64 {
        self.all.runs(block).iter().map(|run| run.lookups(self.shift)).sum()
    }

    /// Those beyond two.
    pub fn others(&self, block: usize) -> impl Iterator<Item = u64> {
        let CodeLines { blocks, others, .. } = self.all;
        let start = if block == 0 { 0 } else { blocks[block - 1].others };
        let others = &others[start as usize..blocks[block].others as usize];
        others.iter().map(|line| line >> self.coarser)
    }
}

/// Appends the runs of a block. Returns its data references among them.
fn add_runs(all: &mut Vec<LineRun>, block: &Block, grain: LineGrain) -> u32 {
    let mut line = None;
    let mut sites = block.sites.iter().peekable();
    let mut site = 0;
    for (index, &Instruction { address, length }) in block.instructions.iter().enumerate() {
        let (address, bytes) = (as_recorded(address), u32::from(length));
        let own = match grain {
            LineGrain::Line(shift) => {
                Some((address.0 >> shift, (address.0 + u64::from(bytes.max(1) - 1)) >> shift))
            }
            LineGrain::Fetch => None,
        };
        match all.last_mut() {
            Some(run) if own.is_some_and(|(first, last)| first == last && line == Some(last)) => {
                run.repeats += 1
            }
            _ => all.push(LineRun { address, bytes, repeats: 0, site, instruction: index as u32 }),
        }
        line = own.map(|(_, last)| last);
        while sites.next_if(|site| usize::from(site.instruction) == index).is_some() {
            site += 1;
        }
    }
    site
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_trace::BlockEnd;
    use pagewalk_units::BlockId;
    use proptest::prelude::*;

    /// Each line once, in the order of last uses.
    fn last_uses(lines: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut all = Vec::new();
        for line in lines {
            all.retain(|&other| other != line);
            all.push(line);
        }
        all
    }

    fn all_lines<const COARSER: bool>(
        fetches: BlockFetches<'_, COARSER>,
        block: usize,
    ) -> (RecordLines, Vec<u64>) {
        (fetches.lines(block), fetches.others(block).collect())
    }

    /// The address and length of an instruction, near the others or far from them.
    fn instruction() -> impl Strategy<Value = (u64, u8)> {
        let address = prop_oneof![4 => 0..600_u64, 1 => (1..4_u64).prop_map(|far| far << 50)];
        (address, 1..16_u8)
    }

    proptest! {
        /// For lines as they are and for longer ones: those that the instructions use one after the other.
        #[test]
        fn a_blocks_lines_are_those_of_its_instructions(
            blocks in prop::collection::vec(prop::collection::vec(instruction(), 0..12), 1..5),
            coarser in 0..3_u32,
        ) {
            let (grain, shift) = (6, 6 + coarser);
            let block = |instructions: &Vec<(u64, u8)>| Block {
                instructions: instructions
                    .iter()
                    .map(|&(address, length)| Instruction { address: VirtAddr(address), length })
                    .collect(),
                sites: Box::default(),
                code: Box::default(),
                end: BlockEnd::Jump,
            };
            let learned: Vec<Block> = blocks.iter().map(block).collect();
            let mut all = CodeLines::default();
            all.learn(learned.iter(), LineGrain::Line(grain));
            for (number, instructions) in blocks.iter().enumerate() {
                let number = BlockId(number as u32).index();
                let used = || {
                    let lines = |&(address, length): &(u64, u8)| {
                        address >> shift..=(address + u64::from(length) - 1) >> shift
                    };
                    instructions.iter().flat_map(lines)
                };
                let (record, others) = match coarser {
                    0 => all_lines(all.fetches::<false>(shift), number),
                    _ => all_lines(all.fetches::<true>(shift), number),
                };
                let RecordLines { first, second, has_others, lookups, .. } = record;
                prop_assert_eq!(has_others, !others.is_empty());
                let told = last_uses([first, second].into_iter().chain(others.iter().copied()));
                prop_assert_eq!(lookups, used().count() as u64);
                match instructions.is_empty() {
                    true => prop_assert!(told.iter().all(|&line| line >= 1 << (64 - shift))),
                    false => prop_assert_eq!(told, last_uses(used())),
                }
                prop_assert!(2 + others.len() <= all.most_lines());
            }
        }
    }
}
