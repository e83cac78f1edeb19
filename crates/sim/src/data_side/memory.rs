//! A process's pages as one data side sees them.
//!
//! - At the first walk in a block, the policy decides whether it gets a huge page or small ones.
//! - With *perfect* backing, ranges are those of the thesis's perfect eager paging: adjacent areas under the same
//!   rights form one range, backed as soon as they are usable, in frames with the same alignment as the pages.
//!   Otherwise frames come from a memory: see [`super::backing`].
//! - Memory mapped without any right is in no range and has no pages.
//!
//! Source: Karakostas 2016, sections 4.5 and 5.5.

use super::backing::Backing;
use super::collapse::Collapser;
use super::extents::Extents;
use super::segment::Segments;
use crate::counts::RangeLengths;
use crate::ranges::{page_bytes, parted_blocks};
use pagewalk_mm::frames::{MemoryError, MemorySpec};
use pagewalk_mm::{AddressSpace, FirstTouch, MappingId, PageSizePolicy, ProcessMapping, Superpage, Vma};
use pagewalk_trace::Protection;
use pagewalk_translate::{self as translate, MachineSpec, RangeTable, RangeWalk, SideMemoryView};
use pagewalk_units::{PageSize, Paging, SpaceId, VirtAddr};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Frames by page.
#[derive(Clone, Debug)]
pub(crate) enum Frames {
    /// Frame numbers equal page numbers.
    Perfect,
    /// From the design's own memory.
    Own(Box<Backing>),
    /// From the memory of a simulated kernel.
    Kernel(Extents),
}

impl Frames {
    /// The design's own memory.
    pub fn own(&mut self) -> Option<&mut Backing> {
        if let Frames::Own(backing) = self { Some(backing) } else { None }
    }

    /// None if frame numbers equal page numbers.
    pub fn extents(&self) -> Option<&Extents> {
        match self {
            Frames::Perfect => None,
            Frames::Own(backing) => Some(&backing.extents),
            Frames::Kernel(extents) => Some(extents),
        }
    }
}

/// The kernel's state for one design.
#[derive(Clone)]
pub(crate) struct DesignMemory {
    /// Whose it is.
    pub process: SpaceId,
    pub(super) paging: Paging,
    /// None if no array holds huge pages.
    pub(super) policy: Option<Arc<dyn PageSizePolicy>>,
    /// Whether the part of a mapping in a block is a huge page.
    pub(super) blocks: BTreeMap<(u64, MappingId), bool>,
    /// Fewest pages of a range.
    threshold: u64,
    /// The table of areas, which are the ranges with perfect backing; none after a change of mappings.
    table: Option<RangeTable>,
    /// Walks by area, if there is a direct segment.
    walks: Option<Vec<u64>>,
    pub frames: Frames,
    /// Collapses in the background.
    pub collapser: Option<Collapser>,
}

/// A design's memory together with its address space.
pub(crate) struct SpaceMemory<'a> {
    memory: &'a mut DesignMemory,
    space: &'a AddressSpace,
    segments: &'a Segments,
}

impl DesignMemory {
    /// Memory under the host's kernel with `policy`.
    pub fn new(machine: &MachineSpec, policy: Arc<dyn PageSizePolicy>) -> Result<DesignMemory, MemoryError> {
        let side = machine.data_side.as_deref();
        let eager = side.is_some_and(|side| side.backing == translate::RangeBacking::Eager);
        let memory =
            side.and_then(|side| side.memory.as_ref()).map(|table| memory_of(table, machine.paging.base()));
        let huge = machine.paging.huge_order();
        let own = |buddy| Frames::Own(Box::new(Backing::new(buddy, eager, huge)));
        let frames = memory.transpose()?.map_or(Frames::Perfect, own);
        // Memory of hugetlb may be huge under any policy.
        let policy = machine.has_huge_pages().then_some(policy);
        Ok(DesignMemory {
            process: SpaceId::default(),
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

    /// One of the process's mappings.
    pub(super) fn owner(&self, mapping: MappingId) -> ProcessMapping {
        ProcessMapping { process: self.process, mapping }
    }

    /// Leaves page sizes to a simulated kernel, and if `has_memory` also frames.
    pub fn under(self, has_memory: bool) -> DesignMemory {
        let frames = if has_memory { Frames::Kernel(Extents::default()) } else { self.frames };
        DesignMemory { policy: None, collapser: None, frames, ..self }
    }

    pub fn of<'a>(&'a mut self, space: &'a AddressSpace, segments: &'a Segments) -> SpaceMemory<'a> {
        SpaceMemory { memory: self, space, segments }
    }

    /// Mappings may have changed; the bytes `opened` have become usable.
    pub fn remapped(&mut self, opened: &[Range<u64>]) {
        self.table = None;
        let Some(backing) = self.frames.own() else { return };
        let base = self.paging.base();
        for bytes in opened {
            let first = bytes.start.div_ceil(base.bytes());
            backing.opened(first..(bytes.end >> base.shift()).max(first), self.threshold);
        }
    }

    /// These pages changed; `gone`: they are no longer mapped.
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
        let process = self.process;
        let owner = |mapping| ProcessMapping { process, mapping };
        let covered = |block: u64| pages.start <= block << order && (block + 1) << order <= pages.end;
        for (&(block, mapping), huge) in self.blocks.range_mut(range.clone()) {
            *huge &= covered(block) || !policy.splits(owner(mapping));
        }
        if gone {
            let keys: Vec<_> = self.blocks.range(range).map(|(&key, _)| key).collect();
            keys.into_iter().filter(|&(block, _)| covered(block)).for_each(|key| {
                self.blocks.remove(&key);
            });
        }
    }

    /// Splits huge pages that advice on some bytes leaves in two areas. Returns the pages of each.
    pub fn part(&mut self, start: VirtAddr, bytes: u64, space: &AddressSpace) -> Vec<Range<u64>> {
        let Some(policy) = &self.policy else { return Vec::new() };
        let order = self.paging.huge_order();
        let mut parted = Vec::new();
        for block in parted_blocks(space, start, bytes, self.paging.huge()) {
            let of_block = (block, MappingId(0))..=(block, MappingId(u32::MAX));
            for (&(_, mapping), huge) in self.blocks.range_mut(of_block) {
                if *huge && policy.splits(ProcessMapping { process: self.process, mapping }) {
                    *huge = false;
                    parted.push(block << order..(block + 1) << order);
                }
            }
        }
        parted
    }

    /// The present ranges.
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

    /// Runs of consecutive pages in consecutive frames under the same rights.
    fn runs(&self, space: &AddressSpace) -> Vec<translate::Range> {
        let areas = ranges(space, self.paging.base(), 1);
        match self.frames.extents() {
            None => areas,
            Some(extents) => areas.iter().flat_map(|area| within(extents, area)).collect(),
        }
    }

    /// Walks for pages that found no frame, if frames come from the design's own memory.
    pub fn unbacked_walks(&self) -> Option<u64> {
        if let Frames::Own(backing) = &self.frames { Some(backing.unbacked) } else { None }
    }

    /// The area of a page, if usable.
    fn usable<'a>(&self, page: u64, space: &'a AddressSpace) -> Option<&'a Vma> {
        space.vma(VirtAddr(page << self.paging.base().shift())).filter(|area| area.is_usable())
    }

    /// See [`SideMemoryView::frame`].
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
        // If frames form ranges, they cut areas of any length.
        let threshold = if self.frames.extents().is_some() { 1 } else { self.threshold };
        let base = self.paging.base();
        self.table.get_or_insert_with(|| RangeTable::new(&ranges(space, base, threshold)))
    }
}

/// Usable adjacent areas under the same rights, as whole base pages, of at least `threshold` pages.
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

/// The ranges of frames inside one range of areas.
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

impl SpaceMemory<'_> {
    fn bytes(&self, page: u64) -> Range<u64> {
        page_bytes(page, self.memory.paging.base())
    }

    /// A walk for a page. `unit` maps it, if it needs frames now.
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

impl SideMemoryView for SpaceMemory<'_> {
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
        // A kernel's huge page maps what comes under other names too.
        let is_mapped = |(&(_, other), &huge): (&(u64, MappingId), &bool)| {
            !huge || !policy.splits(self.memory.owner(other))
        };
        let populated = self.memory.blocks.range(of_block).any(is_mapped);
        let unit = Superpage::around(page, paging.huge_order() as u8);
        let owner = self.memory.owner(mapping);
        let frames = &mut self.memory.frames;
        let huge = *self.memory.blocks.entry((block, mapping)).or_insert_with(|| {
            let fault =
                FirstTouch::new(block, paging.huge(), owner, vma, populated, self.space.thp_disable());
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
        // Rebuilding the table at each new frame would dominate the run; a walk reads one node per level.
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
