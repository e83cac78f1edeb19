//! Trap-driven simulation in an arrangement: each core has a host TLB, and the simulated one beside it. Both drop what
//! the machine drops: pages that are unmapped, and address spaces that lose their identifiers. The simulated kernel
//! knows which pages of files are global: each process's first touch of a page tells it.

use crate::counts::{DesignCounts, SoftwareTotals, SpaceCounts};
use crate::deal::Deal;
use crate::design::identifiers::Identifiers;
use crate::error::PassError;
use crate::global_pages::{FirstTouch, GlobalPages};
use crate::pages::pages_of;
use crate::player::Engine;
use crate::profile::Programs;
use crate::ranges::page_bytes;
use crate::removals::Removal;
use crate::software_keys::{software_key, software_page};
use crate::spec::{DesignSpec, TrapSpec};
use pagewalk_mm::{AddressSpace, Change, FilePage, Kernel};
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_translate::{Asid, RefillRequest, TrapDriven};
use pagewalk_units::{PageSize, Paging, RefIndex, ThreadId, VirtAddr};
use std::collections::BTreeMap;
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
    /// Pages that it has touched, with their owners: itself, or [`Asid::GLOBAL`]. Without global pages, only those that
    /// trapped.
    touched: BTreeMap<u64, Asid>,
}

/// Programs on a machine whose hits nobody sees.
pub(crate) struct TrapSimulation {
    name: String,
    system: String,
    paging: Paging,
    cores: Vec<TrapCore>,
    core: usize,
    threads: Deal<(Asid, ThreadId)>,
    spaces: BTreeMap<Asid, TrappedSpace>,
    globals: Option<GlobalPages>,
    runs: Asid,
    executed: SpaceCounts,
    changes: Vec<Change>,
}

fn is_kernel(number: u64, base: PageSize) -> bool {
    VirtAddr(number << base.shift()).is_kernel()
}

/// A base page of `owner` by the tables of `asid`; the kernel's belong to all.
fn page(owner: Asid, asid: Asid, number: u64, base: PageSize) -> RefillRequest {
    let kernel = is_kernel(number, base);
    let [owner, asid] = [owner, asid].map(|one| if kernel { Asid::GLOBAL } else { one });
    RefillRequest { key: software_key(owner, number, base), asid, number, base: number, kernel }
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
            paging: machine.paging,
            cores: (0..cores).map(core).collect(),
            core: 0,
            threads: Deal::default(),
            spaces: BTreeMap::new(),
            globals: None,
            runs: Asid::default(),
            executed: SpaceCounts::default(),
            changes: Vec::new(),
        })
    }

    /// Makes file pages mapped without the right to write global.
    pub fn with_global_files(self) -> TrapSimulation {
        TrapSimulation { globals: Some(GlobalPages::default()), ..self }
    }

    fn space(&mut self, asid: Asid) -> &mut TrappedSpace {
        self.spaces.entry(asid).or_default()
    }

    fn reference(&mut self, asid: Asid, address: VirtAddr, bytes: u64) {
        let base = self.paging.base();
        for number in pages_of(base, address, bytes) {
            let owner = self.owner(asid, number);
            if self.cores[self.core].tlbs.reference(page(owner, asid, number, base)) && self.globals.is_none()
            {
                self.space(asid).touched.insert(number, owner);
            }
        }
    }

    /// The owner of a page that a space touches.
    fn owner(&mut self, asid: Asid, number: u64) -> Asid {
        if self.globals.is_none() || is_kernel(number, self.paging.base()) {
            return asid;
        }
        let touched = self.spaces.get(&asid).and_then(|space| space.touched.get(&number));
        touched.copied().unwrap_or_else(|| self.first_touch(asid, number))
    }

    /// The owner of a page that a space touches first.
    fn first_touch(&mut self, asid: Asid, number: u64) -> Asid {
        let file = self.file_page(asid, number);
        let TrapSimulation { globals: Some(globals), spaces, .. } = self else { return asid };
        let others_own =
            || spaces.iter().any(|(&of, space)| of != asid && space.touched.contains_key(&number));
        let owner = match globals.touch(asid, number, file, others_own) {
            FirstTouch::Global => Asid::GLOBAL,
            FirstTouch::Own => asid,
            FirstTouch::Ends(users) => {
                self.remove(Asid::GLOBAL, number);
                for user in users {
                    self.space(user).touched.insert(number, user);
                }
                asid
            }
        };
        self.space(asid).touched.insert(number, owner);
        owner
    }

    /// The piece of a file at a page, if nobody may write it.
    fn file_page(&self, asid: Asid, number: u64) -> Option<FilePage> {
        self.spaces.get(&asid)?.areas.file_page(page_bytes(number, self.paging.base()))
    }

    /// Drops a page from all TLBs.
    fn remove(&mut self, owner: Asid, number: u64) {
        let key = page(owner, owner, number, self.paging.base()).key;
        self.cores.iter_mut().for_each(|core| core.tlbs.remove(key));
    }

    /// A change of the running program's mappings.
    fn change(&mut self, change: Change) {
        let asid = self.runs;
        let paging = self.paging;
        let space = self.space(asid);
        let Some(Removal { pages, gone, .. }) = Removal::by(change, &space.areas, paging) else {
            return;
        };
        let touched: Vec<(u64, Asid)> =
            space.touched.range(pages).map(|(&number, &owner)| (number, owner)).collect();
        for &(number, owner) in &touched {
            self.remove(owner, number);
        }
        for (number, owner) in touched {
            let is_gone = gone.contains(&number);
            if owner == Asid::GLOBAL {
                self.change_global(asid, number, is_gone);
            } else if is_gone {
                self.space(asid).touched.remove(&number);
            }
        }
    }

    /// A space has changed its mapping of a global page; `gone`: it has none there any more.
    fn change_global(&mut self, asid: Asid, number: u64, gone: bool) {
        let file = self.file_page(asid, number).filter(|_| !gone);
        if self.globals.as_mut().is_none_or(|globals| globals.remapped(asid, number, file.as_ref())) {
            return;
        }
        self.space(asid).touched.remove(&number);
        if !gone {
            self.first_touch(asid, number);
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

    /// Misses on these cores.
    fn counts_on(&self, cores: &[TrapCore]) -> DesignCounts {
        let mut software = SoftwareTotals { system: self.system.clone(), ..SoftwareTotals::default() };
        let mut host_misses = 0;
        for core in cores {
            software.counts.add(core.tlbs.counts());
            host_misses += core.tlbs.host_misses();
        }
        DesignCounts {
            name: self.name.clone(),
            software: Some(software),
            host_misses: Some(host_misses),
            ..DesignCounts::default()
        }
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
        self.space(self.runs).areas.apply(event, &mut changes);
        for &change in &changes {
            self.change(change);
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

    fn core_counts(&self, core: usize) -> Vec<DesignCounts> {
        vec![self.counts_on(&self.cores[core..=core])]
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
        vec![DesignCounts {
            instructions: self.executed.instructions,
            data_references: self.executed.data_references,
            fetch_references: self.executed.instructions,
            ..self.counts_on(&self.cores)
        }]
    }
}
