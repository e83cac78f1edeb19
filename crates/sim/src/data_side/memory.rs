//! What the kernel has made of a process's pages, for one data side.
//!
//! - A block gets a huge page or small ones when one of its pages is first walked for, by the policy.
//! - With *perfect* backing, ranges are those of the thesis's perfect eager paging: neighbouring areas under the same
//!   rights are one range, backed from the moment they may be used on, in frames whose numbers are aligned as the
//!   pages' are. Otherwise frames come from a memory: see [`super::backing`].
//! - What is mapped without any right is in no range, and no walk finds a page there.
//!
//! Source: Karakostas 2016, sections 4.5 and 5.5.

use super::backing::Backing;
use super::collapse::Collapser;
use super::extents::Extents;
use super::segment::Segments;
use crate::counts::RangeLengths;
use crate::ranges::parted_blocks;
use pagewalk_mm::frames::{MemoryError, MemorySpec};
use pagewalk_mm::{AddressSpace, Fault, MappingId, PageSizePolicy, Superpage, Vma};
use pagewalk_trace::Protection;
use pagewalk_translate::{self as translate, MachineSpec, Memory, RangeTable, RangeWalk};
use pagewalk_units::{PageSize, Paging, VirtAddr};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Frames by page.
#[derive(Clone, Debug)]
pub(crate) enum Frames {
    /// Numbered as the pages are.
    Perfect,
    /// Of a memory of the design's own.
    Own(Box<Backing>),
    /// Of a kernel that has a memory: as it gave them out.
    Kernel(Extents),
}

impl Frames {
    /// The design's own memory.
    pub fn own(&mut self) -> Option<&mut Backing> {
        if let Frames::Own(backing) = self { Some(backing) } else { None }
    }

    /// None where frames are numbered as the pages are.
    pub fn extents(&self) -> Option<&Extents> {
        match self {
            Frames::Perfect => None,
            Frames::Own(backing) => Some(&backing.extents),
            Frames::Kernel(extents) => Some(extents),
        }
    }
}

/// The part of a kernel that one design needs.
#[derive(Clone)]
pub(crate) struct DesignMemory {
    pub(super) paging: Paging,
    /// None where no array holds huge pages.
    pub(super) policy: Option<Arc<dyn PageSizePolicy>>,
    /// By block and mapping, whether it is a huge page.
    pub(super) blocks: BTreeMap<(u64, MappingId), bool>,
    /// Fewest pages of a range.
    threshold: u64,
    /// Of areas, which are ranges with perfect backing; none when mappings have changed since it was built.
    table: Option<RangeTable>,
    /// By region, where a segment is to be told of.
    walks: Option<Vec<u64>>,
    pub frames: Frames,
    /// Huge pages made in the background.
    pub collapser: Option<Collapser>,
}

/// It, in an address space.
pub(crate) struct InSpace<'a> {
    memory: &'a mut DesignMemory,
    space: &'a AddressSpace,
    segments: &'a Segments,
}

impl DesignMemory {
    /// Under the host's kernel, whose huge pages are chosen by `policy`.
    pub fn new(machine: &MachineSpec, policy: Arc<dyn PageSizePolicy>) -> Result<DesignMemory, MemoryError> {
        let side = machine.data_side.as_deref();
        let eager = side.is_some_and(|side| side.backing == translate::Backing::Eager);
        let memory =
            side.and_then(|side| side.memory.as_ref()).map(|table| memory_of(table, machine.paging.base()));
        let huge = machine.paging.huge_order();
        let own = |buddy| Frames::Own(Box::new(Backing::new(buddy, eager, huge)));
        let frames = memory.transpose()?.map_or(Frames::Perfect, own);
        // Whatever the policy, memory of hugetlb may be huge.
        let policy = machine.has_huge_pages().then_some(policy);
        Ok(DesignMemory {
            frames,
            paging: machine.paging,
            policy,
            blocks: BTreeMap::new(),
            threshold: side.map_or(1, |side| side.range_threshold),
            table: None,
            walks: side.and_then(|side| side.segment).map(|_| Vec::new()),
            collapser: side.and_then(|side| side.collapse).map(Collapser::new),
        })
    }

    /// Under a kernel that chooses page sizes itself; `has_memory`: and frames.
    pub fn under(self, has_memory: bool) -> DesignMemory {
        let frames = if has_memory { Frames::Kernel(Extents::default()) } else { self.frames };
        DesignMemory { policy: None, collapser: None, frames, ..self }
    }

    pub fn of<'a>(&'a mut self, space: &'a AddressSpace, segments: &'a Segments) -> InSpace<'a> {
        InSpace { memory: self, space, segments }
    }

    /// Mappings may have changed; `opened`: bytes that may be used now and could not before.
    pub fn remapped(&mut self, opened: &[Range<u64>]) {
        self.table = None;
        let Some(backing) = self.frames.own() else { return };
        let base = self.paging.base();
        for bytes in opened {
            let first = bytes.start.div_ceil(base.bytes());
            backing.opened(first..(bytes.end >> base.shift()).max(first), self.threshold);
        }
    }

    /// These pages are gone, or their translations are.
    pub fn changed(&mut self, pages: &Range<u64>, gone: bool) {
        match &mut self.frames {
            Frames::Own(backing) if gone => backing.gone(pages),
            Frames::Kernel(extents) if gone => _ = extents.remove(pages),
            _ => {}
        }
        if let (Some(collapser), true) = (&mut self.collapser, gone) {
            collapser.gone(pages);
        }
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

    /// There has been advice on some bytes: huge pages go that no one area holds any more. Returns the pages of each.
    pub fn part(&mut self, start: VirtAddr, bytes: u64, space: &AddressSpace) -> Vec<Range<u64>> {
        let Some(policy) = &self.policy else { return Vec::new() };
        let order = self.paging.huge_order();
        let mut parted = Vec::new();
        for block in parted_blocks(space, start, bytes, self.paging.huge()) {
            let of_block = (block, MappingId(0))..=(block, MappingId(u32::MAX));
            for (&(_, mapping), huge) in self.blocks.range_mut(of_block) {
                if *huge && policy.splits(mapping) {
                    *huge = false;
                    parted.push(block << order..(block + 1) << order);
                }
            }
        }
        parted
    }

    /// What ranges there are now.
    pub fn range_lengths(&self, space: &AddressSpace) -> RangeLengths {
        let all = self.runs(space);
        let pages = match self.frames.extents() {
            None => all.iter().map(|range| range.limit - range.base).sum(),
            Some(extents) => extents.all().map(|(pages, _)| pages.end - pages.start).sum(),
        };
        let long = |range: &&translate::Range| range.limit - range.base >= self.threshold;
        let long: Vec<translate::Range> = all.iter().filter(long).copied().collect();
        let lengths = long.iter().map(|range| range.limit - range.base).collect();
        RangeLengths { lengths, pages, nodes: RangeTable::new(&long).nodes() as u64 }
    }

    /// Pages that follow each other in frames that do, under the same rights.
    fn runs(&self, space: &AddressSpace) -> Vec<translate::Range> {
        let areas = ranges(space, self.paging.base(), 1);
        match self.frames.extents() {
            None => areas,
            Some(extents) => areas.iter().flat_map(|area| within(extents, area)).collect(),
        }
    }

    /// Walks for pages that found no frame, where they come from a memory of the design's own.
    pub fn unbacked_walks(&self) -> Option<u64> {
        if let Frames::Own(backing) = &self.frames { Some(backing.unbacked) } else { None }
    }

    /// The area of a page, where it may be used.
    fn usable<'a>(&self, page: u64, space: &'a AddressSpace) -> Option<&'a Vma> {
        space.vma(VirtAddr(page << self.paging.base().shift())).filter(|area| area.is_usable())
    }

    /// See [`Memory::frame`].
    pub fn frame(&self, page: u64, space: &AddressSpace) -> Option<(u64, [bool; 3])> {
        let Protection { read, write, execute } = self.usable(page, space)?.protection;
        let frame = match self.frames.extents() {
            Some(extents) => extents.frame(page)?,
            None => page,
        };
        Some((frame, [read, write, execute]))
    }

    /// Walks by region.
    pub fn walks(&self) -> &[u64] {
        self.walks.as_deref().unwrap_or_default()
    }

    fn table(&mut self, space: &AddressSpace) -> &RangeTable {
        // Where frames make ranges, areas of any length are cut by them.
        let threshold = if self.frames.extents().is_some() { 1 } else { self.threshold };
        let base = self.paging.base();
        self.table.get_or_insert_with(|| RangeTable::new(&ranges(space, base, threshold)))
    }
}

/// Neighbouring areas under the same rights that may be used, as whole base pages, of so many at least.
fn ranges(space: &AddressSpace, base: PageSize, threshold: u64) -> Vec<pagewalk_translate::Range> {
    let mut bytes: Vec<(Range<u64>, Protection)> = Vec::new();
    for area in space.areas().filter(|area| area.is_usable()) {
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

/// The memory that a table describes.
fn memory_of(table: &toml::Table, frame: PageSize) -> Result<pagewalk_mm::frames::Buddy, MemoryError> {
    let spec: MemorySpec =
        table.clone().try_into().map_err(|why: toml::de::Error| MemoryError::Table(why.to_string()))?;
    spec.build(frame, |path| std::fs::read_to_string(path))
}

/// What has frames of one range of areas, in ranges of frames.
fn within<'a>(
    extents: &'a Extents,
    area: &'a translate::Range,
) -> impl Iterator<Item = translate::Range> + 'a {
    extents.of(area.base..area.limit).map(|(pages, frame)| {
        let base = pages.start.max(area.base);
        let offset = frame.wrapping_sub(pages.start);
        translate::Range { base, limit: pages.end.min(area.limit), offset }
    })
}

impl InSpace<'_> {
    fn bytes(&self, page: u64) -> Range<u64> {
        let shift = self.memory.paging.base().shift();
        page << shift..(page + 1) << shift
    }

    /// A walk for a page is made. `unit`: what maps it, where that is to have frames now.
    pub fn walked_for(&mut self, page: u64, unit: Option<Superpage>) {
        let unit = unit.filter(|_| self.memory.usable(page, self.space).is_some());
        if let (Some(backing), Some(unit)) = (self.memory.frames.own(), unit) {
            match unit.order {
                0 => backing.touched(page),
                _ => backing.unbacked += u64::from(!backing.collapse(unit)),
            }
        }
        let region = self.segments.region(self.bytes(page).start);
        if let (Some(walks), Some(region)) = (&mut self.memory.walks, region) {
            if walks.len() <= region {
                walks.resize(region + 1, 0);
            }
            walks[region] += 1;
        }
    }
}

impl Memory for InSpace<'_> {
    fn size(&mut self, page: u64) -> PageSize {
        let paging = self.memory.paging;
        let Some(policy) = &self.memory.policy else { return paging.base() };
        let block = page >> paging.huge_order();
        let vma = self.space.vma_within(self.bytes(page));
        if vma.is_some_and(|vma| !vma.is_usable()) {
            return paging.base();
        }
        let mapping = vma.map_or(MappingId::UNKNOWN, |vma| vma.mapping);
        let of_block = (block, MappingId(0))..=(block, MappingId(u32::MAX));
        let populated = self.memory.blocks.range(of_block).any(|(_, &huge)| !huge);
        let unit = Superpage::around(page, paging.huge_order() as u8);
        let frames = &mut self.memory.frames;
        let huge = *self.memory.blocks.entry((block, mapping)).or_insert_with(|| {
            let fault = Fault::new(block, paging.huge(), mapping, vma, populated, self.space.thp_disable());
            (fault.is_hugetlb() && !populated || policy.wants_huge(&fault))
                && frames.own().is_none_or(|backing| backing.back_block(unit))
        });
        if huge { paging.huge() } else { paging.base() }
    }

    fn frame(&self, page: u64) -> Option<(u64, [bool; 3])> {
        self.memory.frame(page, self.space)
    }

    fn together(&mut self, page: u64, most: u64) -> u64 {
        let base = self.memory.paging.base();
        let (first, mut end, mut rights) = (page << base.shift(), page << base.shift(), None);
        for area in self.space.areas_from(first) {
            let is_other = rights.is_some_and(|rights| rights != area.protection) || !area.is_usable();
            if area.start > end || is_other {
                break;
            }
            (end, rights) = (area.end, Some(area.protection));
            if (end - first) >> base.shift() >= most {
                break;
            }
        }
        let mapped = ((end - first) >> base.shift()).min(most);
        let Some(extents) = self.memory.frames.extents() else { return mapped };
        extents.extent(page).map_or(0, |(pages, _)| mapped.min(pages.end - page))
    }

    fn runs(&mut self) -> Vec<u64> {
        self.memory.runs(self.space).iter().map(|range| range.limit - range.base).collect()
    }

    fn range(&mut self, page: u64) -> Option<RangeWalk> {
        let area = self.memory.table(self.space).walk(page)?;
        let Some(extents) = self.memory.frames.extents() else { return Some(area) };
        let (pages, frame) = extents.extent(page)?;
        let (base, limit) = (pages.start.max(area.range.base), pages.end.min(area.range.limit));
        let range = translate::Range { base, limit, offset: frame.wrapping_sub(pages.start) };
        // Built anew at each frame that is given out, the table would cost more than all else: one node of each level.
        let nodes = RangeTable::levels_of(extents.len());
        (limit - base >= self.memory.threshold).then_some(RangeWalk { range, nodes })
    }

    fn walked(&mut self, page: u64) -> PageSize {
        let size = self.size(page);
        if let Some(collapser) = &mut self.memory.collapser {
            collapser.walked(page);
        }
        self.walked_for(page, (size == self.memory.paging.base()).then(|| Superpage::around(page, 0)));
        size
    }
}
