//! Trap-driven simulation of a stream.

use crate::pages::pages_of;
use pagewalk_mm::{AddressSpace, Change};
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_translate::{
    Asid, MachineSpec, NestedMisses, RefillRequest, SoftwareCounts, TrapDriven, TrapDrivenError,
};
use pagewalk_units::{PageSize, RefIndex, VirtAddr};
use std::collections::BTreeSet;

/// One process on one machine, simulated through the misses of a host's TLB.
pub struct TrapSimulation {
    base: PageSize,
    space: AddressSpace,
    touched: BTreeSet<u64>,
    changes: Vec<Change>,
    engine: TrapDriven,
}

impl TrapSimulation {
    /// Simulates on a fully associative host TLB of `host` slots with random replacement. `None` for machines without
    /// mapped page tables.
    pub fn new(
        machine: &MachineSpec,
        host: u32,
        nested: NestedMisses,
    ) -> Option<Result<TrapSimulation, TrapDrivenError>> {
        let engine = TrapDriven::new(machine.software()?, host, nested);
        Some(engine.map(|engine| TrapSimulation {
            base: machine.paging.base(),
            space: AddressSpace::default(),
            touched: BTreeSet::new(),
            changes: Vec::new(),
            engine,
        }))
    }

    /// Misses of the simulated TLB, without the classes that depend on no TLB.
    pub fn counts(&self) -> &SoftwareCounts {
        self.engine.counts()
    }

    /// Misses of the host's TLB, each a trap.
    pub fn host_misses(&self) -> u64 {
        self.engine.host_misses()
    }

    fn reference(&mut self, address: VirtAddr, bytes: u64) {
        for number in pages_of(self.base, address, bytes) {
            let kernel = VirtAddr(number << self.base.shift()).is_kernel();
            let asid = if kernel { Asid::GLOBAL } else { Asid::default() };
            if self.engine.reference(RefillRequest { key: number, asid, number, base: number, kernel }) {
                self.touched.insert(number);
            }
        }
    }
}

impl Analysis for TrapSimulation {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        for (at, span) in batch.spans.iter().enumerate() {
            let block = batch.blocks.get(span.block);
            let mut refs = batch.refs[span.first as usize..batch.span_end(at)].iter();
            let mut sites = block.sites.iter().peekable();
            for (index, instruction) in block.instructions.iter().enumerate() {
                self.reference(instruction.address, instruction.length.into());
                while sites.next_if(|site| usize::from(site.instruction) == index).is_some()
                    && let Some(record) = refs.next()
                {
                    self.reference(record.address(), record.size().bytes().into());
                }
            }
            // References without code.
            for record in refs {
                self.reference(record.address(), record.size().bytes().into());
            }
        }
    }

    fn on_event(&mut self, _at: RefIndex, event: &Event) {
        let mut changes = std::mem::take(&mut self.changes);
        changes.clear();
        self.space.apply(event, &mut changes);
        for &change in &changes {
            for &page in self.touched.range(change.pages(self.base)) {
                self.engine.remove(page);
            }
        }
        self.changes = changes;
    }
}
