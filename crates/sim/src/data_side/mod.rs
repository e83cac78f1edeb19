//! One stream through many data sides at once, in the order of its data references: one process on one core under the
//! host's kernel. [`System`](crate::System) does everything else, with the same memory.
//!
//! Unlike designs of [`Pass`](crate::Pass), data sides see every reference, because they count every operation by the
//! array's state. Two things make that fast. References that repeat a page are one step for all designs, since a
//! repetition changes no order of use of pages or ranges. And each design takes a batch as a whole.
//!
//! Periodic decisions (Lite, the distance of anchors, collapses) happen at the start of the first block after an
//! interval's end.

mod backing;
mod collapse;
mod engine;
mod extents;
mod memory;
mod openings;
mod segment;
mod totals;

use crate::attribution::{Observer, Walk, lost_code};
use crate::counts::{DataSideTotals, DesignCounts, SpaceCounts};
use crate::pass::site;
use crate::profile::Programs;
use crate::spec::DesignSpec;
pub(crate) use extents::Extents;
pub(crate) use memory::{DesignMemory, Frames, SpaceMemory};
pub(crate) use openings::opened;
use pagewalk_mm::frames::MemoryError;
use pagewalk_mm::{AddressSpace, Change, MappingId, PageSizePolicy};
use pagewalk_trace::{Analysis, Batch, Event, Ref};
use pagewalk_translate::{Asid, DataSide, MachineSpec};
use pagewalk_units::{PageSize, RefIndex, VirtAddr};
pub(crate) use segment::Segments;
use std::ops::Range;
use std::sync::Arc;
pub(crate) use totals::SideOf;

/// Consecutive references to one base page.
#[derive(Clone, Copy)]
struct Run {
    page: u64,
    count: u64,
    /// The first of them in the batch.
    first: usize,
}

/// A data side with its memory.
struct Design {
    name: String,
    side: DataSide,
    memory: DesignMemory,
}

impl Design {
    /// `walked` hears of runs whose first reference walks, and how many page-table entries that reads.
    fn take(
        &mut self,
        runs: &[Run],
        space: &AddressSpace,
        segments: &Segments,
        mut walked: impl FnMut(&Run, u32),
    ) {
        let mut memory = self.memory.of(space, segments);
        for run in runs {
            let (walks, read) = (self.side.walks(), self.side.walk_references());
            self.side.reference(run.page, run.count, &mut memory);
            if self.side.walks() != walks {
                walked(run, (self.side.walk_references() - read) as u32);
            }
        }
    }

    /// Instructions at which the next decision is due.
    fn due(&self) -> Option<u64> {
        self.side.due().into_iter().chain(self.memory.due()).min()
    }

    /// Makes the decisions that are due, the kernel's before the hardware's.
    fn decide(&mut self, instructions: u64, space: &AddressSpace, segments: &Segments) {
        if self.memory.due().is_some_and(|due| due <= instructions) {
            for pages in self.memory.scan(space, instructions) {
                self.side.invalidate(&pages);
            }
        }
        self.side.decide(instructions, &mut self.memory.of(space, segments));
    }
}

/// The pass.
pub struct DataSides {
    base: PageSize,
    space: AddressSpace,
    designs: Vec<Design>,
    segments: Segments,
    instructions: u64,
    /// Those before the batch that runs.
    before_batch: u64,
    spun: u64,
    data_references: u64,
    runs: Vec<Run>,
    changes: Vec<Change>,
    /// Walks of the first design.
    programs: Programs,
}

/// Why data sides cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum DataSideError {
    /// A machine is no data side.
    #[error("machine `{0}` has no side = \"data\"")]
    Whole(String),
    /// Two machines have different page sizes.
    #[error("machines `{0}` and `{1}` have different page sizes")]
    Paging(String, String),
    /// A machine's memory cannot be built.
    #[error("machine `{0}`: ranges.memory: {1}")]
    Memory(String, MemoryError),
    /// No machine.
    #[error("no machine is given")]
    None,
}

impl DataSides {
    /// A pass over machines with `side = "data"`; the kernel chooses page sizes by `policy` if they hold huge pages.
    pub fn new(
        machines: &[MachineSpec],
        policy: Arc<dyn PageSizePolicy>,
    ) -> Result<DataSides, DataSideError> {
        let design = |machine: &MachineSpec| DesignSpec::new(machine, Arc::clone(&policy));
        DataSides::of(machines.iter().map(design).collect())
    }

    /// A pass over such designs under the host's kernel.
    pub(crate) fn of(designs: Vec<DesignSpec>) -> Result<DataSides, DataSideError> {
        let first = designs.first().ok_or(DataSideError::None)?.machine.clone();
        if let Some(other) = designs.iter().find(|other| other.machine.paging != first.paging) {
            return Err(DataSideError::Paging(first.name, other.machine.name.clone()));
        }
        let design = |DesignSpec { name, machine, policy, .. }: DesignSpec| {
            let side = DataSide::new(&machine).ok_or_else(|| DataSideError::Whole(machine.name.clone()))?;
            let memory = DesignMemory::new(&machine, policy);
            let memory = memory.map_err(|why| DataSideError::Memory(machine.name.clone(), why))?;
            Ok(Design { name, side, memory })
        };
        Ok(DataSides {
            base: first.paging.base(),
            space: AddressSpace::default(),
            designs: designs.into_iter().map(design).collect::<Result<_, _>>()?,
            segments: Segments::default(),
            instructions: 0,
            before_batch: 0,
            spun: 0,
            data_references: 0,
            runs: Vec::new(),
            changes: Vec::new(),
            programs: Programs::default(),
        })
    }

    /// Counts of every machine, in their order.
    pub fn finish(&self) -> Vec<DataSideTotals> {
        let of = |design: &Design| {
            let process = (&design.memory, &self.space, &self.segments, self.instructions);
            let counts = design.side.counts();
            let executed = (self.instructions, self.data_references);
            DataSideTotals::new(design.side.machine(), counts, executed, &[process])
        };
        self.designs.iter().map(of).collect()
    }

    /// [`DataSides::finish`] as counts of designs.
    pub(crate) fn design_counts(&self) -> Vec<DesignCounts> {
        let of = |(design, totals): (&Design, DataSideTotals)| {
            let walk = design.side.machine().side_walk_cycles();
            let cycles = totals.counts.walks.saturating_mul(walk.unwrap_or(0));
            let counts = DesignCounts::of_data_side(design.name.clone(), totals, cycles);
            DesignCounts { spin_instructions: self.spun, ..counts }
        };
        self.designs.iter().zip(self.finish()).map(of).collect()
    }

    /// The first design's counts. A direct segment's hits are known only at the end.
    fn counted(&self) -> SpaceCounts {
        let side = &self.designs[0].side;
        let price = side.machine().side_walk_cycles();
        SpaceCounts {
            instructions: self.instructions,
            data_references: self.data_references,
            walks_data: side.walks(),
            walk_cycles: side.walks().saturating_mul(price.unwrap_or(0)),
            ..SpaceCounts::default()
        }
    }

    /// References `range` of a batch.
    fn references(&mut self, batch: &Batch<'_>, range: Range<usize>) {
        self.runs.clear();
        self.data_references += range.len() as u64;
        for (first, record) in range.clone().zip(&batch.refs[range]) {
            let last = record.last_byte().0.min(Ref::ADDRESS_END - 1);
            for page in self.base.number(record.address())..=self.base.number(VirtAddr(last)) {
                match self.runs.last_mut() {
                    Some(run) if run.page == page => run.count += 1,
                    _ => self.runs.push(Run { page, count: 1, first }),
                }
            }
        }
        let DataSides { designs, runs, space, segments, programs, .. } = self;
        let mut walked = Vec::new();
        for (number, design) in designs.iter_mut().enumerate() {
            match number == 0 && programs.keeps() {
                true => design.take(runs, space, segments, |&run, read| walked.push((run, read))),
                false => design.take(runs, space, segments, |_, _| {}),
            }
        }
        if !walked.is_empty() {
            self.observe(batch, &walked);
        }
    }

    /// Keeps walks of the first design, in order: the runs that caused them, and the entries read.
    fn observe(&mut self, batch: &Batch<'_>, walked: &[(Run, u32)]) {
        let cycles = self.designs[0].side.machine().side_walk_cycles().unwrap_or(0);
        let instructions = |span: usize| batch.blocks.get(batch.spans[span].block).instructions.len() as u64;
        let (mut span, mut executed) = (0, self.before_batch + instructions(0));
        for &(Run { page, first: index, .. }, references) in walked {
            while batch.span_end(span) <= index {
                span += 1;
                executed += instructions(span);
            }
            let (place, page) = (site(batch, span, index), VirtAddr(page << self.base.shift()));
            let walk = Walk {
                process: Asid::default(),
                page,
                // The census knows it.
                mapping: MappingId::UNKNOWN,
                leaf: None,
                fetch: false,
                references,
                cycles,
                instruction: place.instruction(),
                block: place.block(),
                instructions: executed,
            };
            self.programs.on_walk(&walk, &self.space);
        }
    }

    fn due(&self) -> u64 {
        self.designs.iter().filter_map(Design::due).min().unwrap_or(u64::MAX)
    }

    /// Makes the decisions that are due.
    fn decide(&mut self) {
        for design in &mut self.designs {
            if design.due().is_some_and(|due| due <= self.instructions) {
                design.decide(self.instructions, &self.space, &self.segments);
            }
        }
    }

    fn apply(&mut self, change: Change) {
        let pages = change.pages(self.base);
        for design in &mut self.designs {
            design.side.invalidate(&pages);
            design.memory.changed(&pages, matches!(change, Change::Gone { .. }));
        }
    }
}

impl Analysis for DataSides {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        if self.instructions == 0 {
            self.space.start_running();
        }
        self.before_batch = self.instructions;
        let end = self.instructions + batch.instructions();
        let mut first = 0;
        if self.due() <= end {
            for span in batch.spans {
                if self.due() <= self.instructions {
                    self.references(batch, first..span.first as usize);
                    first = span.first as usize;
                    self.decide();
                }
                self.instructions += batch.blocks.get(span.block).instructions.len() as u64;
            }
        }
        self.instructions = end;
        self.references(batch, first..batch.refs.len());
    }

    fn on_event(&mut self, _at: RefIndex, event: &Event) {
        let mut changes = std::mem::take(&mut self.changes);
        changes.clear();
        if let Some(range) = lost_code(event, &self.space) {
            self.programs.on_lost_code(Asid::default(), range);
        }
        let opened = opened(event, &self.space);
        self.space.apply(event, &mut changes);
        for &change in &changes {
            self.apply(change);
        }
        self.changes = changes;
        match *event {
            Event::Advise { start, bytes, .. } => {
                for Design { side, memory, .. } in &mut self.designs {
                    memory.part(start, bytes, &self.space).iter().for_each(|pages| side.invalidate(pages));
                }
            }
            Event::Spin { instructions } => self.spun = self.spun.saturating_add(instructions),
            _ => {}
        }
        self.segments.note(event, self.instructions);
        if changes_areas(event) {
            self.designs.iter_mut().for_each(|design| design.memory.remapped(&opened));
        }
    }
}

/// Whether an event may change areas or their rights.
pub(crate) fn changes_areas(event: &Event) -> bool {
    matches!(
        event,
        Event::Map(_)
            | Event::Unmap { .. }
            | Event::Remap { .. }
            | Event::Break { .. }
            | Event::Protect { .. }
    )
}
