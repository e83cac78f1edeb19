//! Folded instruction fetches.
//!
//! Every instruction makes one fetch reference, at its address and length. Nearly all blocks lie inside one page, and
//! consecutive fetches from one page change nothing in arrays that see only fetches: the page is already the most
//! recent. So a block is stored as its *runs*: maximal sequences of translations of one page, with their count and
//! their place among the block's data references.

use crate::pages::pages_of;
use pagewalk_trace::{Block, Instruction};
use pagewalk_units::PageSize;
use std::ops::RangeInclusive;

/// Marks a block of several runs, above their number. It is neither a page number nor the front's empty mark.
const SEVERAL: u64 = 1 << 63;
/// Marks a block with an instruction on two pages.
const CROSSES: u64 = 1 << 62;

/// A block for the hot loop: 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FetchHead {
    /// The page of its only run, or [`SEVERAL`] with their number.
    pub vpn: u64,
    /// Instructions.
    pub instructions: u32,
    /// The translations of its only run, or the index of the first of several.
    pub translations: u32,
}

impl FetchHead {
    /// Whether it has several runs.
    #[inline]
    pub fn is_several(self) -> bool {
        self.vpn & SEVERAL != 0
    }

    /// Its only run.
    #[inline]
    pub fn only_run(self) -> Run {
        debug_assert!(!self.is_several());
        Run { vpn: self.vpn, translations: self.translations, site: 0, instruction: 0, crosses: false }
    }

    /// Whether some instruction lies on two pages, if it has several runs.
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
    /// Whether that fetch began on the previous page.
    pub crosses: bool,
}

/// Runs of all blocks seen.
pub(crate) struct FetchTable {
    base: PageSize,
    pub heads: Vec<FetchHead>,
    /// The runs of all blocks with several.
    runs: Vec<Run>,
    /// Whether data misses may change what fetches hit, so that no run may be counted ahead of them.
    pub in_place: bool,
}

impl FetchTable {
    /// An empty table; `base` is the base page.
    pub fn new(base: PageSize, in_place: bool) -> FetchTable {
        FetchTable { base, heads: Vec::new(), runs: Vec::new(), in_place }
    }

    pub fn learn<'a>(&mut self, blocks: impl Iterator<Item = &'a Block>) {
        for block in blocks {
            let instructions = block.instructions.len() as u32;
            let head = match only_page(block, self.base) {
                Some(vpn) => FetchHead { vpn, instructions, translations: instructions },
                None => self.several(block),
            };
            self.heads.push(head);
        }
    }

    fn several(&mut self, block: &Block) -> FetchHead {
        let before = self.runs.len();
        add_runs(&mut self.runs, block, self.base);
        let runs = &self.runs[before..];
        let crosses = u64::from(runs.iter().any(|run| run.crosses)) * CROSSES;
        FetchHead {
            vpn: SEVERAL | crosses | runs.len() as u64,
            instructions: block.instructions.len() as u32,
            translations: u32::try_from(before).expect("fewer than 2^32 runs of code"),
        }
    }

    /// The runs of a block of several that may be counted together: their hits only set stamps, whatever data
    /// references lie between. Empty if a data reference that may make them miss comes first (`until` is the next data
    /// miss, `first` the block's first data reference), or if an instruction lies on two pages that one entry may hold.
    #[inline]
    pub fn takeable(&self, head: FetchHead, first: u32, until: u32, may_merge: bool) -> &[Run] {
        if !head.is_several() || may_merge && head.crosses() {
            return &[];
        }
        let runs = self.runs(head);
        let before = !self.in_place || runs.last().is_some_and(|last| first + last.site <= until);
        if before { runs } else { &[] }
    }

    /// The runs of a block of several.
    #[inline]
    pub fn runs(&self, head: FetchHead) -> &[Run] {
        debug_assert!(head.is_several());
        &self.runs[head.translations as usize..][..(head.vpn & (CROSSES - 1)) as usize]
    }
}

/// The pages of an instruction.
#[inline]
pub(crate) fn instruction_pages(instruction: &Instruction, base: PageSize) -> RangeInclusive<u64> {
    pages_of(base, instruction.address, instruction.length.into())
}

/// The page that holds all of a block; none for a block on several pages or without code.
fn only_page(block: &Block, base: PageSize) -> Option<u64> {
    let mut pages = block.instructions.iter().map(|instruction| instruction_pages(instruction, base));
    let (first, last) = pages.next()?.into_inner();
    (first == last && pages.all(|pages| pages == (first..=first))).then_some(first)
}

/// Appends the runs of a block.
fn add_runs(all: &mut Vec<Run>, block: &Block, base: PageSize) {
    let before = all.len();
    let mut site = 0;
    for (i, instruction) in block.instructions.iter().enumerate() {
        let pages = instruction_pages(instruction, base);
        let first = *pages.start();
        for vpn in pages {
            match all[before..].last_mut() {
                Some(run) if run.vpn == vpn => run.translations += 1,
                _ => all.push(Run {
                    vpn,
                    translations: 1,
                    site: site as u32,
                    instruction: i as u32,
                    crosses: vpn != first,
                }),
            }
        }
        let own = block.sites[site..].iter().take_while(|site| usize::from(site.instruction) == i);
        site += own.count();
    }
}
