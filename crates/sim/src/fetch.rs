//! Instruction fetches, folded.
//!
//! Every instruction makes one fetch reference, at its address and length. Nearly all blocks lie inside
//! one page, and consecutive fetches from one page change nothing in arrays that see only fetches: the page
//! is already their most recent. So a block is kept as its *runs*: maximal sequences of translations of the
//! same page, with their count and their place among the block's data references.

use pagewalk_trace::Block;
use pagewalk_units::{PageSize, VirtAddr};

/// Marks a block that is not one run, above the number of its runs: no page number, nor what the front calls empty.
const SEVERAL: u64 = 1 << 63;
/// Marks one of which some instruction lies on two pages.
const CROSSES: u64 = 1 << 62;

/// What the hot loop knows of a block: 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FetchHead {
    /// The page of its only run, or [`SEVERAL`] and how many.
    pub vpn: u64,
    /// Instructions.
    pub instructions: u32,
    /// For a single run: its translations. Otherwise the index of the first.
    pub translations: u32,
}

impl FetchHead {
    /// Whether it is not one run.
    #[inline]
    pub fn is_several(self) -> bool {
        self.vpn & SEVERAL != 0
    }

    /// Whether some of its instructions lie on two pages, if it is several runs.
    #[inline]
    pub fn crosses(self) -> bool {
        self.vpn & CROSSES != 0
    }
}

/// Consecutive translations of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub vpn: u64,
    pub translations: u32,
    /// Data references of the block before the run.
    pub site: u32,
    /// The instruction whose fetch starts the run.
    pub instruction: u32,
    /// Whether that fetch began on the page before.
    pub crosses: bool,
}

/// Runs of all blocks seen.
pub(crate) struct FetchTable {
    base: PageSize,
    pub heads: Vec<FetchHead>,
    /// Of all blocks with several.
    runs: Vec<Run>,
    /// Whether data references that miss may change what fetches hit, so that no run may be taken before them.
    pub in_place: bool,
    /// Instructions of the longest block.
    pub longest: u64,
}

impl FetchTable {
    /// No blocks yet; `base` is the size of a page.
    pub fn new(base: PageSize, in_place: bool) -> FetchTable {
        FetchTable { base, heads: Vec::new(), runs: Vec::new(), in_place, longest: 0 }
    }

    pub fn learn<'a>(&mut self, blocks: impl Iterator<Item = &'a Block>) {
        for block in blocks {
            let runs = runs_of(block, self.base);
            let instructions = block.instructions.len() as u32;
            self.longest = self.longest.max(u64::from(instructions));
            let head = match runs.as_slice() {
                [only] => FetchHead { vpn: only.vpn, instructions, translations: only.translations },
                _ => {
                    let translations = u32::try_from(self.runs.len()).expect("fewer than 2^32 runs of code");
                    let crosses = u64::from(runs.iter().any(|run| run.crosses)) * CROSSES;
                    self.runs.extend(&runs);
                    FetchHead { vpn: SEVERAL | crosses | runs.len() as u64, instructions, translations }
                }
            };
            self.heads.push(head);
        }
    }

    /// Whether runs may be taken together when `until` is the next data reference that misses; `first`: that of their
    /// block.
    #[inline]
    pub fn may_take(&self, runs: &[Run], first: u32, until: usize) -> bool {
        !self.in_place || runs.last().is_some_and(|last| (first + last.site) as usize <= until)
    }

    /// The runs of a block that is several.
    #[inline]
    pub fn runs(&self, head: FetchHead) -> &[Run] {
        debug_assert!(head.is_several());
        &self.runs[head.translations as usize..][..(head.vpn & (CROSSES - 1)) as usize]
    }
}

fn runs_of(block: &Block, base: PageSize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut site = 0;
    for (i, instruction) in block.instructions.iter().enumerate() {
        let first = base.number(instruction.address);
        let last_byte = instruction.address.0.saturating_add(u64::from(instruction.length.max(1)) - 1);
        let last = base.number(VirtAddr(last_byte));
        for vpn in first..=last {
            match runs.last_mut() {
                Some(run) if run.vpn == vpn => run.translations += 1,
                _ => runs.push(Run {
                    vpn,
                    translations: 1,
                    site,
                    instruction: i as u32,
                    crosses: vpn != first,
                }),
            }
        }
        site += block.sites.iter().filter(|s| usize::from(s.instruction) == i).count() as u32;
    }
    runs
}
