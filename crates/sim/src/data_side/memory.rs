//! What the kernel has made of a process's pages, for one data side.
//!
//! - A block gets a huge page or small ones when one of its pages is first walked for, by the policy.
//! - Ranges are those of the thesis's *perfect eager paging*: neighbouring areas under the same rights are one range,
//!   backed from the moment they are mapped on, in frames whose numbers are aligned as the pages' are.
//!
//! Source: Karakostas 2016, sections 4.5 and 5.5.

use super::segment::Segments;
use pagewalk_mm::{AddressSpace, Fault, MappingId, PageSizePolicy};
use pagewalk_translate::{MachineSpec, Memory, RangeTable, RangeWalk};
use pagewalk_units::{PageSize, Paging, VirtAddr};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The part of a kernel that one design needs.
pub(super) struct DesignMemory {
    paging: Paging,
    /// None where no array holds huge pages.
    policy: Option<Arc<dyn PageSizePolicy>>,
    /// By block and mapping, whether it is a huge page.
    blocks: BTreeMap<(u64, MappingId), bool>,
    /// Fewest pages of a range.
    threshold: u64,
    /// None when mappings have changed since it was built.
    table: Option<RangeTable>,
    /// By region, where a segment is to be told of.
    walks: Option<Vec<u64>>,
}

/// It, in an address space.
pub(super) struct InSpace<'a> {
    memory: &'a mut DesignMemory,
    space: &'a AddressSpace,
    segments: &'a Segments,
}

impl DesignMemory {
    pub fn new(machine: &MachineSpec, policy: Arc<dyn PageSizePolicy>) -> DesignMemory {
        let side = machine.data_side.as_deref();
        let policy = (policy.may_be_huge() && machine.has_huge_pages()).then_some(policy);
        DesignMemory {
            paging: machine.paging,
            policy,
            blocks: BTreeMap::new(),
            threshold: side.map_or(1, |side| side.range_threshold),
            table: None,
            walks: side.and_then(|side| side.segment).map(|_| Vec::new()),
        }
    }

    pub fn of<'a>(&'a mut self, space: &'a AddressSpace, segments: &'a Segments) -> InSpace<'a> {
        InSpace { memory: self, space, segments }
    }

    /// Mappings may have changed.
    pub fn remapped(&mut self) {
        self.table = None;
    }

    /// These pages are gone, or their translations are.
    pub fn changed(&mut self, pages: &Range<u64>, gone: bool) {
        let Some(policy) = &self.policy else { return };
        let order = self.paging.huge_order();
        let (first, last) = (pages.start >> order, (pages.end - 1) >> order);
        let range = (first, MappingId(0))..=(last, MappingId(u32::MAX));
        let covered = |block: u64| pages.start <= block << order && (block + 1) << order <= pages.end;
        for (&(block, mapping), huge) in self.blocks.range_mut(range.clone()) {
            *huge &= covered(block) || !policy.splits(mapping);
        }
        if gone {
            let keys: Vec<_> = self.blocks.range(range).map(|(&key, _)| key).collect();
            keys.into_iter().filter(|&(block, _)| covered(block)).for_each(|key| {
                self.blocks.remove(&key);
            });
        }
    }

    /// Ranges in the table, and its nodes.
    pub fn range_table(&mut self, space: &AddressSpace) -> (u64, u64) {
        let table = self.table(space);
        (table.len() as u64, table.nodes() as u64)
    }

    /// Walks by region.
    pub fn walks(&self) -> &[u64] {
        self.walks.as_deref().unwrap_or_default()
    }

    fn table(&mut self, space: &AddressSpace) -> &RangeTable {
        let (base, threshold) = (self.paging.base(), self.threshold);
        self.table.get_or_insert_with(|| RangeTable::new(&ranges(space, base, threshold)))
    }
}

/// Neighbouring areas under the same rights, as whole base pages, of so many at least.
fn ranges(space: &AddressSpace, base: PageSize, threshold: u64) -> Vec<pagewalk_translate::Range> {
    let mut bytes: Vec<(Range<u64>, pagewalk_trace::Protection)> = Vec::new();
    for area in space.areas() {
        match bytes.last_mut() {
            Some((range, protection)) if range.end == area.start && *protection == area.protection => {
                range.end = area.end;
            }
            _ => bytes.push((area.start..area.end, area.protection)),
        }
    }
    let pages =
        bytes.into_iter().map(|(range, _)| range.start.div_ceil(base.bytes())..range.end >> base.shift());
    let long = pages.filter(|pages| pages.end.saturating_sub(pages.start) >= threshold.max(1));
    long.map(|pages| pagewalk_translate::Range { base: pages.start, limit: pages.end, offset: 0 }).collect()
}

impl InSpace<'_> {
    fn bytes(&self, page: u64) -> Range<u64> {
        let shift = self.memory.paging.base().shift();
        page << shift..(page + 1) << shift
    }
}

impl Memory for InSpace<'_> {
    fn size(&mut self, page: u64) -> PageSize {
        let paging = self.memory.paging;
        let Some(policy) = &self.memory.policy else { return paging.base() };
        let bytes = self.bytes(page);
        let block = page >> paging.huge_order();
        let mapping = self.space.mapping_of(bytes.clone());
        let of_block = (block, MappingId(0))..=(block, MappingId(u32::MAX));
        let populated = self.memory.blocks.range(of_block).any(|(_, &huge)| !huge);
        let huge = *self.memory.blocks.entry((block, mapping)).or_insert_with(|| {
            let vma = self.space.vma_within(bytes);
            policy.wants_huge(&Fault::new(block, paging.huge(), mapping, vma, populated))
        });
        if huge { paging.huge() } else { paging.base() }
    }

    fn frame(&self, page: u64) -> Option<u64> {
        self.space.vma(VirtAddr(self.bytes(page).start)).map(|_| page)
    }

    fn range(&mut self, page: u64) -> Option<RangeWalk> {
        self.memory.table(self.space).walk(page)
    }

    fn walked(&mut self, page: u64) {
        let address = self.bytes(page).start;
        if let (Some(walks), Some(region)) = (&mut self.memory.walks, self.segments.region(address)) {
            if walks.len() <= region {
                walks.resize(region + 1, 0);
            }
            walks[region] += 1;
        }
    }
}
