//! The fetches of a block by cache line.
//!
//! Consecutive fetches from one line change only counts in a cache that sees nothing but fetches, whatever data
//! references and walks do between them. So a block is stored as its *line runs*: a fetch, and how many fetches from
//! its line follow.

use crate::pages::as_recorded;
use pagewalk_cache::{Hierarchy, Requester};
use pagewalk_trace::{Batch, Block, Instruction};
use pagewalk_units::VirtAddr;

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

    /// Its fetches before an instruction.
    pub fn fetches_before(&self, instruction: u32) -> u32 {
        instruction.saturating_sub(self.instruction).min(self.fetches())
    }
}

/// What ends with a block.
#[derive(Clone, Copy)]
struct BlockEnds {
    /// Runs of all blocks up to here.
    runs: u32,
    /// Fetches of the block that repeat its runs' lines.
    repeats: u32,
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

/// The line runs of all blocks seen.
///
/// What a miss needs to know of its block is here too: blocks lie scattered in memory.
#[derive(Default)]
pub(crate) struct CodeLines {
    blocks: Vec<BlockEnds>,
    runs: Vec<LineRun>,
    /// By run: the address of its first instruction.
    instructions: Vec<VirtAddr>,
    sites: Vec<CodeSite>,
    /// Runs of one block, at most.
    most_runs: usize,
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
            let repeats = self.runs[before..].iter().map(|run| run.repeats).sum();
            self.most_runs = self.most_runs.max(self.runs.len() - before);
            self.blocks.push(BlockEnds { runs, repeats, sites, ordered });
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

    /// The address of the instruction with which a run of a block begins.
    #[inline]
    pub fn instruction_of_run(&self, block: usize, run: usize) -> VirtAddr {
        self.instructions[self.first_run(block) + run]
    }

    #[inline]
    fn all_sites(&self, block: usize) -> &[CodeSite] {
        let start = if block == 0 { 0 } else { self.blocks[block - 1].sites };
        &self.sites[start as usize..self.blocks[block].sites as usize]
    }

    /// The address of the instruction that makes a data reference of a block; 0 if it has none.
    #[inline]
    pub fn instruction_of_site(&self, block: usize, site: usize) -> VirtAddr {
        self.all_sites(block).get(site).map_or(VirtAddr(0), |site| site.address)
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

    /// Fetches of a block that repeat its runs' lines.
    #[inline]
    pub fn repeats(&self, block: usize) -> u32 {
        self.blocks[block].repeats
    }

    /// Runs of one block, at most.
    pub fn most_runs(&self) -> usize {
        self.most_runs
    }

    /// How many data references a block has among its instructions; others follow them.
    #[inline]
    pub fn ordered_sites(&self, block: usize) -> usize {
        self.blocks[block].ordered as usize
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
