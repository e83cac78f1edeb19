//! The fetches of each block, at the points where they matter.
//!
//! Consecutive fetches of one page, without a data reference in between, are one step.

use pagewalk_trace::{Batch, Block, Dictionary};
use pagewalk_units::{PAGE_SHIFT, VirtAddr};
use std::ops::Range;

/// Consecutive fetches of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FetchStep {
    pub vpn: u64,
    /// The first byte fetched there.
    pub address: u64,
    /// The block's data references before it.
    pub site: u32,
    /// Consecutive translations of this page, across data references: 0 if the previous step was of the same page.
    pub count: u32,
}

/// A part of a batch.
pub(crate) enum Touch {
    /// Data references, by index in [`Batch::refs`]; may be empty.
    Data(Range<usize>),
    /// Fetches of one page.
    Fetch(u64),
}

/// The steps of all blocks.
#[derive(Debug, Default)]
pub(crate) struct FetchTable {
    steps: Vec<FetchStep>,
    /// By block: the end of its steps.
    ends: Vec<u32>,
}

impl FetchTable {
    /// Adds new blocks.
    pub fn learn(&mut self, blocks: &Dictionary) {
        for block in blocks.since(self.ends.len()) {
            add_steps(block, &mut self.steps);
            self.ends.push(u32::try_from(self.steps.len()).expect("fewer than 2^32 steps of code"));
        }
    }

    /// Passes on a batch's fetches and references, in order. Adds its blocks first.
    #[inline]
    pub fn each(&mut self, batch: &Batch<'_>, mut take: impl FnMut(Touch)) {
        self.learn(batch.blocks);
        for (index, span) in batch.spans.iter().enumerate() {
            let mut next = span.first as usize;
            for step in self.of(span.block.index()) {
                let site = span.first as usize + step.site as usize;
                take(Touch::Data(next..site));
                next = site;
                take(Touch::Fetch(step.vpn));
            }
            take(Touch::Data(next..batch.span_end(index)));
        }
    }

    /// The steps of a block.
    #[inline]
    pub fn of(&self, block: usize) -> &[FetchStep] {
        let start = if block == 0 { 0 } else { self.ends[block - 1] };
        &self.steps[start as usize..self.ends[block] as usize]
    }
}

fn add_steps(block: &Block, steps: &mut Vec<FetchStep>) {
    let begin = steps.len();
    // The step that counts the translations of the last fetched page.
    let mut counting = begin;
    let mut sites = block.sites.iter().peekable();
    let mut site = 0;
    for (index, instruction) in block.instructions.iter().enumerate() {
        let first = instruction.address.vpn().0;
        let last_byte = instruction.address.0.saturating_add(u64::from(instruction.length.max(1)) - 1);
        for vpn in first..=VirtAddr(last_byte).vpn().0 {
            let before = steps[begin..].last().copied();
            let is_same = before.is_some_and(|before| before.vpn == vpn);
            if !is_same || before.is_some_and(|before| before.site != site) {
                let address = if vpn == first { instruction.address.0 } else { vpn << PAGE_SHIFT };
                steps.push(FetchStep { vpn, address, site, count: 0 });
            }
            if !is_same {
                counting = steps.len() - 1;
            }
            steps[counting].count += 1;
        }
        while sites.next_if(|site| usize::from(site.instruction) == index).is_some() {
            site += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_trace::{BlockEnd, Instruction, Site};
    use pagewalk_units::{Access, Kind, Size};

    #[test]
    fn fetches_are_folded_between_data_references() {
        let instruction = |address| Instruction { address: VirtAddr(address), length: 4 };
        let access = Access { kind: Kind::Load, size: Size::from_code(0) };
        let mut blocks = Dictionary::default();
        blocks.intern(Block {
            // The fourth instruction crosses pages.
            instructions: [0xff0, 0xff4, 0xff8, 0xffe, 0x1002].map(instruction).into(),
            sites: [0, 0, 2].map(|instruction| Site { instruction, access }).into(),
            code: Box::default(),
            end: BlockEnd::Jump,
        });
        let mut table = FetchTable::default();
        table.learn(&blocks);
        let step = |vpn, address, site, count| FetchStep { vpn, address, site, count };
        let expected =
            [step(0, 0xff0, 0, 4), step(0, 0xff4, 2, 0), step(0, 0xffe, 3, 0), step(1, 0x1000, 3, 2)];
        assert_eq!(table.of(0), expected);
    }
}
