//! The system: one design, every reference in order, all features combined.
//!
//! It takes any number of processes and cores, any TLBs, walkers and caches of memory, and one kind of kernel for all
//! processes: the host's or a simulated one. [`Pass`](crate::Pass) is faster; what both can simulate, both count alike.
//!
//! Steps of a reference: first touch (the kernel backs the page), first-level lookup, lower levels, walk, fill; then
//! the kernel does what the miss made due.
//!
//! - *Processes* take turns through [`System::switch_to`]. Each has its own kernel, and its own memory if described.
//! - *Cores* get threads round robin, in order of appearance. Each has its own hardware; `shared` arrays and caches
//!   move with the running core, and so do tables in memory. The kernel's work drops translations from all cores.
//! - *A data side* sees data references only: see `side.rs`.
//! - *Visitors*, the kernel and servers of a structure, are processes too, but their kernels' work is not counted.
//! - *A killed process* freezes the counts at the state before the fatal reference.

mod changes;
mod counts;
mod execution;
mod frames;
mod globals;
mod handlers;
mod host;
mod kernel;
mod lookups;
mod moves;
mod os;
mod page;
mod process;
mod shared;
mod side;
mod side_memory;
mod side_tlbs;
mod tlbs;
mod walks;

use crate::caches::WalkCost;
use crate::classes::{CLASSES, FETCH, STORE, class_of};
use crate::counts::DesignCounts;
use crate::data_side::{DesignMemory, Segments};
use crate::deal::Deal;
use crate::design::Identifiers;
use crate::error::PassError;
use crate::fit::{colored_cache, held_order};
use crate::global_pages::GlobalPages;
use crate::moment::CodePosition;
use crate::watched_tlbs::WatchedTlbs;
use crate::{DesignSpec, SpaceCounts};
use frames::Frames;
use lookups::{CachedTranslation, TranslationCache};
use moves::TlbMoves;
use page::Page;
use pagewalk_mm::Kernel;
use pagewalk_trace::Batch;
use pagewalk_translate::{Asid, MachineSpec, TranslationSource};
use pagewalk_units::{Kind, ThreadId, VirtAddr};
use process::Process;
use rustc_hash::FxHashMap;
use shared::new_process;
use side_memory::SideMemory;
use std::collections::BTreeSet;
use std::sync::Arc;
use tlbs::Tlbs;
use walks::{Observed, PlacedWalk};

/// One core: its hardware and its identifiers of address spaces.
struct Core {
    tlbs: Tlbs,
    identifiers: Identifiers,
    /// Its last address space.
    asid: Asid,
    /// Instructions of programs that it executed, if it is a data side.
    executed: u64,
}

/// Progress of the run.
#[derive(Clone, Copy, Default)]
struct Clock {
    /// References so far, without repetitions.
    now: u64,
    instructions: u64,
    spun: u64,
    data_references: u64,
    pages_touched: u64,
}

/// See the module's documentation.
// Many fields: the design, its cores and processes, and who runs.
pub struct System {
    spec: DesignSpec,
    /// The data-side memory of a new process.
    side: Option<Box<SideMemory>>,
    cores: Vec<Core>,
    /// The running core.
    core: usize,
    /// Threads in order of appearance.
    threads: Deal<(Asid, ThreadId)>,
    processes: FxHashMap<Asid, Process>,
    /// The process whose kernel has the shared physical memory, if there is one.
    holder: Option<Asid>,
    /// Address spaces of visitors.
    visitors: BTreeSet<Asid>,
    /// The running process.
    runs: Asid,
    /// The owner of the current pages: the running process, or the kernel's half of addresses, which all share.
    asid: Asid,
    clock: Clock,
    /// Second halves of references inside one page, by class: they need no lookup.
    inside: [u64; CLASSES],
    globals: Option<GlobalPages>,
    known: TranslationCache,
    frames: Frames,
    /// Whether the kernel reads times of use: each page's first use after each of its looks is recorded.
    records_uses: bool,
    /// Whether no translation is cached.
    looks_up_all: bool,
    /// Whether fetches that change nothing may be counted after any data references among them. Not if these may end
    /// the process, for want of memory.
    fetches_wait: bool,
    killed: Option<Box<DesignCounts>>,
    /// Where in its block the running process is.
    at: CodePosition,
    observed: Option<Box<Observed>>,
}

impl System {
    /// A design on `cores`.
    ///
    /// # Errors
    /// If its kernel or policy does not fit its machine.
    pub fn new(mut spec: DesignSpec, cores: usize) -> Result<System, PassError> {
        let side = side_of(&spec)?;
        let (mut watched, mut watched_cache) = (Vec::new(), None);
        if let Some(kernel) = &mut spec.kernel {
            let refused = |error| PassError::Kernel { design: spec.name.clone(), error };
            held_order(kernel, &spec.machine).map_err(refused)?;
            if let Some((index, colors)) = colored_cache(kernel, &spec.machine).map_err(refused)? {
                kernel.set_colors(colors);
                watched_cache = kernel.watches_caches().then(|| (index, kernel.watches_cache_hits()));
            }
            if kernel.watches_tlbs() {
                let (of_cores, entries) = WatchedTlbs::of_cores(&spec.machine, cores);
                kernel.watch(&entries);
                watched = of_cores;
            }
        }
        let core = |number: usize| {
            let mut tlbs = Tlbs::new(&spec.machine, watched.get(number).cloned());
            tlbs.watch_cache(watched_cache);
            Core {
                tlbs,
                identifiers: Identifiers::new(spec.machine.asids),
                asid: Asid::default(),
                executed: 0,
            }
        };
        let cores: Vec<Core> = (0..cores.max(1)).map(core).collect();
        let known = TranslationCache::new(cores[0].tlbs.groups(), cores[0].tlbs.homes());
        let kernel = spec.kernel.as_ref();
        let records_uses = kernel.is_some_and(Kernel::reads_uses);
        let fetches_wait = known.is_alone(FETCH) && !kernel.is_some_and(Kernel::swaps);
        Ok(System {
            side,
            cores,
            core: 0,
            threads: Deal::default(),
            processes: FxHashMap::default(),
            holder: None,
            visitors: BTreeSet::from([Asid::GLOBAL]),
            runs: Asid::default(),
            asid: Asid::default(),
            clock: Clock::default(),
            inside: [0; CLASSES],
            globals: None,
            known,
            frames: Frames::new(spec.kernel.as_ref(), watched_cache.is_some()),
            records_uses,
            looks_up_all: false,
            fetches_wait,
            killed: None,
            at: CodePosition::Instruction(0),
            observed: None,
            spec,
        })
    }

    /// Makes file pages mapped without the right to write global. Call it before the run.
    pub fn with_global_files(self) -> System {
        System { globals: Some(GlobalPages::default()), ..self }
    }

    /// The slow twin, for tests: looks every reference and frame up. Call it before the run.
    pub fn with_every_lookup(mut self) -> System {
        self.frames.ask_anew = true;
        System { looks_up_all: true, ..self }
    }

    /// Whether the machine is a data side.
    fn is_side(&self) -> bool {
        self.side.is_some()
    }

    fn machine(&self) -> &MachineSpec {
        &self.spec.machine
    }

    /// The owner of the current pages.
    fn process(&mut self) -> &mut Process {
        self.process_of(self.asid)
    }

    fn process_of(&mut self, asid: Asid) -> &mut Process {
        if self.holder.is_some_and(|holder| holder != asid) {
            self.hand_memory(asid);
        }
        let System { spec, processes, side, holder, .. } = self;
        processes.entry(asid).or_insert_with(|| {
            let process = new_process(spec, asid, side.as_deref());
            *holder = process.own().filter(|own| own.kernel.swaps()).map(|_| asid);
            process
        })
    }

    /// The running process's counts.
    fn account(&mut self) -> &mut SpaceCounts {
        &mut self.process_of(self.runs).counts
    }

    /// The running process's counts so far.
    pub(crate) fn counted(&mut self) -> SpaceCounts {
        *self.account()
    }

    fn tlbs(&mut self) -> &mut Tlbs {
        &mut self.cores[self.core].tlbs
    }

    /// Counts of each process so far, in order.
    pub fn space_counts(&self) -> Vec<(Asid, SpaceCounts)> {
        let processes = self.processes.iter().filter(|&(&asid, _)| asid != Asid::GLOBAL);
        let mut all: Vec<_> = processes.map(|(&asid, process)| (asid, process.counts)).collect();
        all.sort_unstable_by_key(|&(asid, _)| asid);
        all
    }

    /// Switches to another process.
    pub fn switch_to(&mut self, asid: Asid) {
        (self.asid, self.runs) = (asid, asid);
        self.known.forget();
        self.process();
        self.tell_use();
        // With several cores, the next thread's core runs.
        if self.cores.len() == 1 {
            self.enter_core();
        }
    }

    /// Makes the running core work for the running process.
    fn enter_core(&mut self) {
        let asid = self.asid;
        let core = &mut self.cores[self.core];
        if core.asid == asid {
            return;
        }
        core.asid = asid;
        let loser = core.identifiers.assign(asid);
        let left = loser.map_or_else(Vec::new, |loser| core.tlbs.flush(loser));
        core.tlbs.enter(asid);
        self.tell(TlbMoves::left(left));
    }

    /// Switches to `thread`.
    fn run_thread(&mut self, thread: ThreadId) {
        if self.cores.len() == 1 {
            return;
        }
        let core = self.threads.core_of((self.asid, thread), self.cores.len());
        if core != self.core {
            let [from, to] = self.cores.get_disjoint_mut([self.core, core]).expect("two cores");
            from.tlbs.give_shared(&mut to.tlbs);
            self.core = core;
            self.known.forget_repetitions();
        }
        self.enter_core();
    }

    /// Runs references of a visitor with its own pages and blocks, without counting them for programs.
    pub(crate) fn visited(&mut self, asid: Asid, batch: &Batch<'_>) {
        if self.killed.is_some() {
            return;
        }
        self.visitors.insert(asid);
        self.known.forget();
        let runs = std::mem::replace(&mut self.runs, asid);
        self.asid = asid;
        // A server's visit is a switch; the kernel answers on the spot.
        if runs == asid {
            self.enter_core();
        }
        let (programs, executed) = (self.clock, self.cores[self.core].executed);
        self.stop_time(Some(self.clock.instructions));
        self.run(batch, 0..batch.spans.len());
        self.stop_time(None);
        self.clock = Clock { now: self.clock.now, ..programs };
        self.cores[self.core].executed = executed;
        if self.killed.is_some() {
            // A visitor caused it: the programs' counts are current.
            self.killed = Some(Box::new(self.count()));
        }
        (self.runs, self.asid) = (runs, runs);
        self.known.forget();
    }

    /// Stops time for moving partitions at `at`, or resumes it.
    fn stop_time(&mut self, at: Option<u64>) {
        if let Some(mmu) = self.tlbs().software() {
            mmu.stop_time(at);
        }
    }

    /// Runs the spans `spans` of a batch, on the core of its thread.
    pub(crate) fn run_on_core(&mut self, batch: &Batch<'_>, spans: std::ops::Range<usize>) {
        if self.killed.is_none() {
            self.run_thread(batch.thread);
        }
        self.run(batch, spans);
    }

    /// Translates one base page. `crosses`: the second half of a reference that began on the previous page.
    #[inline]
    fn touch(&mut self, kind: Kind, vpn: u64, crosses: bool) -> Option<()> {
        let class = class_of(kind, true);
        if !crosses && self.known.repeats(class, vpn) {
            self.known.repeated(class, 1);
            return Some(());
        }
        self.touch_anew(kind, vpn, crosses)
    }

    /// [`System::touch`] for other than repetitions.
    fn touch_anew(&mut self, kind: Kind, vpn: u64, crosses: bool) -> Option<()> {
        if VirtAddr(vpn << self.machine().paging.base().shift()).is_kernel() {
            self.asid = Asid::GLOBAL;
        }
        let class = class_of(kind, true);
        let done = match self.known.get(class, vpn).filter(|_| !crosses) {
            Some(known) => {
                self.look_up(class, kind, known);
                Some(())
            }
            None => self.translate(kind, vpn, crosses),
        };
        self.asid = self.runs;
        done
    }

    fn translate(&mut self, kind: Kind, vpn: u64, crosses: bool) -> Option<()> {
        let class = class_of(kind, true);
        let stores = class == STORE;
        let before = self.process().pages.get(&vpn).copied();
        match before {
            None => self.first_touch(vpn, stores)?,
            Some(_) => self.bring_back(kind, vpn)?,
        }
        self.trap(vpn, stores, before);
        if stores {
            self.stored(vpn)?;
        }
        if crosses && !self.is_side() && self.process().shares(vpn - 1, vpn) {
            self.inside[class] += 1;
            return Some(());
        }
        self.bring_back(kind, vpn)?;
        // A page that is swapped out while a TLB holds it comes back at its next miss.
        let may_change = self.looks_up_all || self.process().own().is_some_and(|own| own.lacks(vpn));
        if self.is_side() {
            let known = self.side_translation(vpn, stores);
            if !may_change {
                self.known.note(class, known);
            }
            self.look_up(class, kind, known);
            self.used(vpn);
            return Some(());
        }
        let (asid, page) = self.translation(vpn);
        match self.tlbs().place(class, page.size).filter(|_| !may_change) {
            Some(place) => {
                let entry = self.tlbs().entry(place.array, asid, page);
                let known = CachedTranslation { vpn, entry, place, stored: stores };
                self.known.note(class, known);
                self.look_up(class, kind, known);
            }
            None => self.look_everywhere(class, kind, vpn, (asid, page)),
        }
        self.used(vpn);
        Some(())
    }

    /// The TLB's page for a base page, with its address space.
    fn translation(&self, vpn: u64) -> (Asid, Page) {
        self.processes[&self.asid].translation(vpn, self.asid, self.spec.machine.paging.base())
    }

    fn miss(&mut self, class: usize, kind: Kind, vpn: u64) {
        if class != FETCH {
            self.wake();
        }
        // Taken anew after the kernel has worked, which may split its superpage.
        let (asid, mut page) = self.translation(vpn);
        let now = self.clock.instructions;
        if self.machine().software().is_some() {
            self.missed(class, kind, vpn);
            page = self.translation(vpn).1;
            let space = self.asid;
            let refill = self.tlbs().refill(class, (asid, page), (space, vpn), now);
            let (cost, moves) = refill.expect("the machine has handlers");
            self.charge(class, vpn, cost);
            self.tell(moves);
            return self.serve(class, kind, vpn);
        }
        let address = VirtAddr(vpn << self.machine().paging.base().shift());
        let (served, prefetched) = self.tlbs().served_below(class, kind, asid, page, address);
        let walks = served == TranslationSource::Walk && !prefetched;
        if walks {
            self.missed(class, kind, vpn);
            page = self.translation(vpn).1;
            let cost = self.tlbs().walk(class, address, page.leaf);
            self.charge(class, vpn, cost);
            self.tell_cache_accesses(vpn);
            page = self.translation(vpn).1;
        }
        let moves = self.tlbs().fill(kind, asid, page, served);
        self.tell(moves);
        if served == TranslationSource::Walk {
            self.prefetch_next(kind, page);
        }
        if walks {
            self.serve(class, kind, vpn);
        }
    }

    fn charge(&mut self, class: usize, vpn: u64, cost: WalkCost) {
        let at = self.at;
        if let Some(observed) = &mut self.observed {
            observed.note(PlacedWalk { class, vpn, cost, at });
        }
        let counts = self.account();
        *(if class == FETCH { &mut counts.walks_fetch } else { &mut counts.walks_data }) += 1;
        counts.walk_cycles = counts.walk_cycles.saturating_add(cost.cycles);
    }

    fn prefetch_next(&mut self, kind: Kind, page: Page) {
        let System { cores, core, processes, asid, spec, .. } = self;
        let (process, base) = (&processes[asid], spec.machine.paging.base());
        let next = |vpn: u64| process.maps(vpn).then(|| process.translation(vpn, *asid, base));
        cores[*core].tlbs.prefetch_next(kind, page, next);
    }
}

/// The data-side memory of a new process; none on other machines.
fn side_of(spec: &DesignSpec) -> Result<Option<Box<SideMemory>>, PassError> {
    if spec.machine.data_side.is_none() {
        return Ok(None);
    }
    let design = DesignMemory::new(&spec.machine, Arc::clone(&spec.policy))
        .map_err(|error| PassError::DataSide(spec.machine.name.clone(), error))?;
    let design = match &spec.kernel {
        None => design,
        Some(kernel) => design.under(kernel.memory().is_some()),
    };
    Ok(Some(Box::new(SideMemory { design, segments: Segments::default() })))
}
