//! Counts the touched pages and the walks of each huge-page region.

use crate::REGION_BYTES;
use crate::pieces::{Piece, PieceId, Pieces};
use crate::recency::Recency;
use pagewalk_mm::{AddressSpace, FirstTouch, PageSizePolicy, ProcessMapping, Thp, ThpMode};
use pagewalk_sim::{DesignSpec, HostKernel, Makers, Observer, Pass, PassError, Walk};
use pagewalk_trace::{Analysis, Batch, Event, ThpDisable};
use pagewalk_translate::MachineSpec;
use pagewalk_units::RefIndex;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Walks are classified by how many other lines of page tables were read since theirs: 0 to 1, 2 to 3, 4 to 7 …; the
/// last class has those that read a line for the first time.
pub const CLASSES: usize = 25;
/// Log2 of the base pages that a cache line of a page table maps: eight entries of eight bytes.
const PAGES_OF_A_LINE: u32 = 3;
const PAGE_SHIFT: u32 = 12;
const PAGES: usize = (REGION_BYTES >> PAGE_SHIFT) as usize;

/// A region of a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The piece.
    pub piece: PieceId,
    /// Its number: it begins at `number` times [`REGION_BYTES`].
    pub number: u64,
    /// Its touched base pages.
    pub pages: u64,
    /// Walks for base pages as the host's kernel maps it now, by class.
    pub walks: [u64; CLASSES],
    /// Walks for huge pages as the host's kernel maps it now. If there are some, it is backed already.
    pub huge_walks_now: u64,
    /// Walks with huge pages wherever the kernel would give them.
    pub huge_walks: u64,
}

/// The result of watching a stream.
#[derive(Clone, Debug, Default)]
pub struct RegionReport {
    /// The pieces of the regions.
    pub pieces: Vec<Piece>,
    /// Touched regions, by piece and number.
    pub regions: Vec<Region>,
    /// Instructions executed.
    pub instructions: u64,
    /// All walks as the host's kernel maps the program now, including those outside regions.
    pub walks: u64,
    /// All walks with huge pages wherever the kernel would give them.
    pub huge_walks: u64,
    /// Memory that grew by less than [`REGION_BYTES`] at a time.
    pub grown: BlockGrowth,
}

/// Who made the pieces.
#[derive(Debug)]
pub struct Origins {
    /// By piece.
    pub makers: Makers<PieceId>,
    /// The process's memory at the end, with the code of makers.
    pub space: AddressSpace,
}

/// Aligned huge-page blocks with a page touched before the block lay whole in its mapping. The kernel keeps their small
/// pages, whatever its mode and marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockGrowth {
    /// How many have at least half of their pages touched.
    pub blocks: u64,
    /// Walks for pages in them, as the host's kernel maps them now.
    pub walks: u64,
}

/// The class of a walk by its line's distance.
fn class(distance: Option<u64>) -> usize {
    distance.map_or(CLASSES - 1, |distance| (distance.max(1).ilog2() as usize).min(CLASSES - 2))
}

/// The most lines of a class; none for the last: those lines were never read before.
pub fn lines(class: usize) -> Option<u64> {
    (class < CLASSES - 1).then(|| (2 << class) - 1)
}

#[derive(Clone, Debug)]
struct Counts {
    touched: [u64; PAGES / 64],
    walks: [u64; CLASSES],
    huge_walks: u64,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts { touched: [0; PAGES / 64], walks: [0; CLASSES], huge_walks: 0 }
    }
}

impl Counts {
    fn all_walks(&self) -> u64 {
        self.walks.iter().sum::<u64>() + self.huge_walks
    }
}

/// A block that did not lie whole in its mapping at its first touch.
#[derive(Clone, Debug, Default)]
struct PartialBlock {
    touched: [u64; PAGES / 64],
    walks: u64,
    /// Whether it lay whole in one later.
    is_whole: bool,
}

/// Observes the walks of one design.
#[derive(Clone, Debug, Default)]
struct Walks {
    pieces: Pieces,
    lines: Recency,
    regions: FxHashMap<(PieceId, u64), Counts>,
    /// Blocks by number; none for those that lay whole in their mapping from the first touch.
    begun: FxHashMap<u64, Option<PartialBlock>>,
    all: u64,
}

impl Walks {
    fn note_growth(&mut self, address: u64, space: &AddressSpace) {
        let block = address / REGION_BYTES;
        let is_whole = || space.is_one_area(block * REGION_BYTES..(block + 1) * REGION_BYTES);
        let begun = self.begun.entry(block).or_insert_with(|| (!is_whole()).then(PartialBlock::default));
        if let Some(begun) = begun {
            let page = ((address % REGION_BYTES) >> PAGE_SHIFT) as usize;
            begun.touched[page / 64] |= 1 << (page % 64);
            begun.walks += 1;
            begun.is_whole = begun.is_whole || is_whole();
        }
    }

    fn grown(&self) -> BlockGrowth {
        let pages =
            |begun: &PartialBlock| begun.touched.iter().map(|bits| bits.count_ones() as usize).sum::<usize>();
        let begun = self.begun.values().flatten();
        let grown = begun.filter(|begun| begun.is_whole && pages(begun) * 2 >= PAGES);
        grown.fold(BlockGrowth::default(), |sum, begun| BlockGrowth {
            blocks: sum.blocks + 1,
            walks: sum.walks + begun.walks,
        })
    }
}

impl Observer for Walks {
    fn on_walk(&mut self, walk: &Walk<'_>, space: &AddressSpace) {
        self.all += 1;
        let page = walk.page.0 >> PAGE_SHIFT;
        let is_huge = walk.leaf.is_some_and(|leaf| leaf.bytes() >= REGION_BYTES);
        // A huge page has no line of the last tables.
        let distance = if is_huge { None } else { self.lines.refer(page >> PAGES_OF_A_LINE) };
        let Some((piece, offset)) = self.pieces.at(walk.page.0) else { return };
        self.note_growth(walk.page.0, space);
        let counts = self.regions.entry((piece, offset / REGION_BYTES)).or_default();
        *(if is_huge { &mut counts.huge_walks } else { &mut counts.walks[class(distance)] }) += 1;
        let page = ((offset % REGION_BYTES) >> PAGE_SHIFT) as usize;
        counts.touched[page / 64] |= 1 << (page % 64);
    }
}

/// Huge pages wherever a plan can have them: a plan advises, which overrides some processes' ban; a ban on all memory
/// holds under a plan too.
struct AdvisedPolicy(Thp);

impl PageSizePolicy for AdvisedPolicy {
    fn wants_huge(&self, fault: &FirstTouch<'_>) -> bool {
        let mut fault = *fault;
        if fault.forbidden == ThpDisable::ExceptAdvised {
            fault.forbidden = ThpDisable::Off;
        }
        self.0.wants_huge(&fault)
    }

    fn splits(&self, mapping: ProcessMapping) -> bool {
        self.0.splits(mapping)
    }
}

/// Watches a stream on one machine: as the host's kernel maps memory, and with huge pages wherever it would give them
/// on request. The first reference to a page always walks, so walks reveal touched pages.
pub struct Regions {
    now: Pass<Walks>,
    huge: Pass<Walks>,
    makers: Makers<PieceId>,
}

impl Regions {
    /// For `machine`, with the host kernel's mode.
    ///
    /// # Errors
    /// If the machine cannot be simulated in a pass, or its TLBs hold no huge pages.
    pub fn new(machine: &MachineSpec, thp: ThpMode) -> Result<Regions, PassError> {
        let always = Arc::new(AdvisedPolicy(Thp { mode: ThpMode::Always }));
        let now = HostKernel::new(thp).design(machine);
        Ok(Regions {
            now: Pass::new(vec![now], Walks::default())?,
            huge: Pass::new(vec![DesignSpec::new(machine, always)], Walks::default())?,
            makers: Makers::default(),
        })
    }

    /// Ends the stream.
    pub fn finish(mut self) -> (RegionReport, Origins) {
        let instructions = self.now.finish()[0].instructions;
        self.huge.finish();
        self.makers.finish();
        let origins = Origins { makers: self.makers, space: self.now.space().clone() };
        let (now, huge) = (self.now.observer(), self.huge.observer());
        let mut regions: Vec<Region> = now
            .regions
            .iter()
            .map(|(&(piece, number), counts)| Region {
                piece,
                number,
                pages: counts.touched.iter().map(|bits| u64::from(bits.count_ones())).sum(),
                walks: counts.walks,
                huge_walks_now: counts.huge_walks,
                huge_walks: huge.regions.get(&(piece, number)).map_or(0, |counts| counts.all_walks()),
            })
            .collect();
        regions.sort_unstable_by_key(|region| (region.piece, region.number));
        let found = RegionReport {
            pieces: now.pieces.all().to_vec(),
            regions,
            instructions,
            walks: now.all,
            huge_walks: huge.all,
            grown: now.grown(),
        };
        (found, origins)
    }
}

impl Analysis for Regions {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.now.observer_mut().pieces.start_running();
        self.huge.observer_mut().pieces.start_running();
        self.makers.ran(batch, self.now.space());
        self.now.on_batch(batch);
        self.huge.on_batch(batch);
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        for pass in [&mut self.now, &mut self.huge] {
            pass.on_event(at, event);
            pass.observer_mut().pieces.apply(event);
        }
        let pieces = &self.now.observer().pieces;
        self.makers.happened(event, |address| pieces.at(address).map(|(piece, _)| piece));
    }
}
