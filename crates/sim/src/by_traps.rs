//! Trap-driven simulation in an arrangement: each core has a host TLB, and the simulated one beside it. Both drop what
//! the machine drops: pages that are unmapped, and address spaces that lose their identifiers.

use crate::counts::{DesignCounts, SoftwareTotals, SpaceCounts};
use crate::deal::Deal;
use crate::design::identifiers::Identifiers;
use crate::error::PassError;
use crate::pages::pages_of;
use crate::player::Engine;
use crate::profile::Programs;
use crate::software_keys::{software_key, software_page};
use crate::spec::{DesignSpec, TrapSpec};
use pagewalk_mm::{AddressSpace, Change, Kernel};
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_translate::{Asid, RefillRequest, TrapDriven};
use pagewalk_units::{PageSize, RefIndex, ThreadId, VirtAddr};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A core's two TLBs.
struct TrapCore {
    tlbs: TrapDriven,
    identifiers: Identifiers,
}

/// An address space.
#[derive(Default)]
struct TrappedSpace {
    areas: AddressSpace,
    touched: BTreeSet<u64>,
}

/// Programs on a machine whose hits nobody sees.
pub(crate) struct TrapSimulation {
    name: String,
    system: String,
    base: PageSize,
    cores: Vec<TrapCore>,
    core: usize,
    threads: Deal<(Asid, ThreadId)>,
    spaces: BTreeMap<Asid, TrappedSpace>,
    runs: Asid,
    executed: SpaceCounts,
    changes: Vec<Change>,
}

/// A base page of an address space; the kernel's belong to all.
fn page(asid: Asid, number: u64, base: PageSize) -> RefillRequest {
    let kernel = VirtAddr(number << base.shift()).is_kernel();
    let asid = if kernel { Asid::GLOBAL } else { asid };
    RefillRequest { key: software_key(asid, number, base), asid, number, base: number, kernel }
}

impl TrapSimulation {
    /// `cores` cores of a design that traps simulate.
    ///
    /// # Errors
    /// If its machine has no mapped page tables, or its replacement heeds hits.
    pub fn new(design: &DesignSpec, traps: TrapSpec, cores: usize) -> Result<TrapSimulation, PassError> {
        let machine = &design.machine;
        let Some(software) = machine.software() else {
            return Err(PassError::NoTraps(machine.name.clone()));
        };
        let tlbs = TrapDriven::new(software, traps.host, traps.nested)
            .map_err(|error| PassError::Traps(machine.name.clone(), error))?;
        let core = |_| TrapCore { tlbs: tlbs.clone(), identifiers: Identifiers::new(machine.asids) };
        Ok(TrapSimulation {
            name: design.name.clone(),
            system: software.system.name.clone(),
            base: machine.paging.base(),
            cores: (0..cores).map(core).collect(),
            core: 0,
            threads: Deal::default(),
            spaces: BTreeMap::new(),
            runs: Asid::default(),
            executed: SpaceCounts::default(),
            changes: Vec::new(),
        })
    }

    fn reference(&mut self, asid: Asid, address: VirtAddr, bytes: u64) {
        for number in pages_of(self.base, address, bytes) {
            if self.cores[self.core].tlbs.reference(page(asid, number, self.base)) {
                self.spaces.entry(asid).or_default().touched.insert(number);
            }
        }
    }

    /// Makes the running core work for an address space.
    fn enter_core(&mut self, asid: Asid) {
        let core = &mut self.cores[self.core];
        if let Some(loser) = core.identifiers.assign(asid) {
            core.tlbs.remove_pages(|key| software_page(key).0 == loser);
        }
    }

    fn run_thread(&mut self, thread: ThreadId) {
        if self.cores.len() == 1 {
            return;
        }
        self.core = self.threads.core_of((self.runs, thread), self.cores.len());
        self.enter_core(self.runs);
    }

    /// The references of some spans, in order.
    fn references(&mut self, asid: Asid, batch: &Batch<'_>, spans: Range<usize>) {
        for span in spans {
            let block = batch.blocks.get(batch.spans[span].block);
            let mut refs = batch.refs[batch.spans[span].first as usize..batch.span_end(span)].iter();
            let mut sites = block.sites.iter().peekable();
            for (index, instruction) in block.instructions.iter().enumerate() {
                self.reference(asid, instruction.address, instruction.length.into());
                while sites.next_if(|site| usize::from(site.instruction) == index).is_some()
                    && let Some(record) = refs.next()
                {
                    self.reference(asid, record.address(), record.size().bytes().into());
                }
            }
            // References without code.
            for record in refs {
                self.reference(asid, record.address(), record.size().bytes().into());
            }
        }
    }
}

impl Analysis for TrapSimulation {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        Engine::run(self, batch, 0..batch.spans.len());
    }

    fn on_event(&mut self, _at: RefIndex, event: &Event) {
        let mut changes = std::mem::take(&mut self.changes);
        changes.clear();
        let runs = self.runs;
        let TrappedSpace { areas, touched } = self.spaces.entry(runs).or_default();
        areas.apply(event, &mut changes);
        for &change in &changes {
            for &number in touched.range(change.pages(self.base)) {
                let key = page(runs, number, self.base).key;
                self.cores.iter_mut().for_each(|core| core.tlbs.remove(key));
            }
        }
        self.changes = changes;
    }
}

impl Engine for TrapSimulation {
    // Base pages of the host's kernel: a child copies none.
    fn begin_as_child(&mut self, _asid: Asid) {}

    fn switch_to(&mut self, asid: Asid) {
        self.runs = asid;
        // With several cores, the next thread's core runs.
        if self.cores.len() == 1 {
            self.enter_core(asid);
        }
    }

    fn run(&mut self, batch: &Batch<'_>, spans: Range<usize>) {
        self.run_thread(batch.thread);
        let blocks = spans.clone().map(|span| batch.blocks.get(batch.spans[span].block));
        self.executed.instructions += blocks.map(|block| block.instructions.len() as u64).sum::<u64>();
        let first = batch.spans.get(spans.start).map_or(0, |span| span.first as usize);
        let end = spans.end.checked_sub(1).map_or(0, |last| batch.span_end(last));
        self.executed.data_references += end.saturating_sub(first) as u64;
        self.references(self.runs, batch, spans);
    }

    fn visited(&mut self, asid: Asid, batch: &Batch<'_>) {
        // A server's visit is a switch; the kernel answers on the spot.
        if self.runs == asid {
            self.enter_core(asid);
        }
        self.references(asid, batch, 0..batch.spans.len());
    }

    fn counted(&mut self) -> SpaceCounts {
        self.executed
    }

    fn space_counts(&mut self) -> Vec<(Asid, SpaceCounts)> {
        Vec::new()
    }

    fn core_counts(&self, _core: usize) -> Vec<DesignCounts> {
        Vec::new()
    }

    /// The host's kernel runs.
    fn kernels(&self) -> Vec<(Asid, &Kernel)> {
        Vec::new()
    }

    /// Most references do not trap, and tell nothing.
    fn keep_walks(&mut self) {}

    fn walks(&mut self) -> Option<&mut Programs> {
        None
    }

    fn finish(&mut self) -> Vec<DesignCounts> {
        let mut software = SoftwareTotals { system: self.system.clone(), ..SoftwareTotals::default() };
        let mut host_misses = 0;
        for core in &self.cores {
            software.counts.add(core.tlbs.counts());
            host_misses += core.tlbs.host_misses();
        }
        vec![DesignCounts {
            name: self.name.clone(),
            instructions: self.executed.instructions,
            data_references: self.executed.data_references,
            fetch_references: self.executed.instructions,
            software: Some(software),
            host_misses: Some(host_misses),
            ..DesignCounts::default()
        }]
    }
}
