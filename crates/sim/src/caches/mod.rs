//! Caches of memory in a design, which the program's references and the reads of walks go through.
//!
//! Only machines with caches pay for this: the caches see every reference of the program in order, even if its page
//! hits the TLB. Physical addresses of the program equal virtual ones, unless its kernel gives pages frames.
//! `docs/reference/machine-files.md` describes the model.

mod lookahead;
pub(crate) mod passage;
pub(crate) mod waiting_walks;

use crate::attribution::ReferenceWaits;
use crate::caches::waiting_walks::{WaitingWalks, WalkCause};
use crate::code_lines::{BlockFetches, CodeLines, LineGrain, LineRun};
use crate::moment::Moment;
use pagewalk_cache::{
    Accesses, ByteAccess, CacheAddress, CacheSpec, DataSource, Hierarchy, HierarchyCounts, PassedLine,
    RecordLines, Requester, StoreRule,
};
use pagewalk_trace::{Grain, Ref, Span};
use pagewalk_translate::{Asid, MachineSpec, Walker, WalkerSpec};
use pagewalk_units::{Kind, PageSize, VirtAddr};
use std::iter;

/// The stream lacks detail that caches need.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "only the pages of its data are known (record --grain page), and {0}, which need whole addresses: record it \
     without --grain page, or leave the caches out"
)]
pub struct GrainError(String);

/// Checks that streams of this grain have the detail that a machine needs.
///
/// # Errors
/// If the machine has caches and the stream has pages only.
pub fn check_grain(grain: Grain, machine: &MachineSpec) -> Result<(), GrainError> {
    if machine.caches.is_empty() {
        return Ok(());
    }
    check_grain_of_caches(grain, &format!("machine `{}` has caches ([[cache]])", machine.name))
}

/// The same for caches without a machine; `caches` says in the error who has them.
///
/// # Errors
/// If the stream has pages only.
pub fn check_grain_of_caches(grain: Grain, caches: &str) -> Result<(), GrainError> {
    if grain.is_byte() { Ok(()) } else { Err(GrainError(caches.to_owned())) }
}

/// What a walk cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkCost {
    /// Page-table entries read.
    pub references: u32,
    /// Modelled cycles.
    pub cycles: u64,
}

impl WalkCost {
    /// A walk whose entries cost `price` cycles each.
    pub fn flat(references: u32, price: u64) -> WalkCost {
        WalkCost { references, cycles: u64::from(references).saturating_mul(price) }
    }
}

/// Counts of the memory behind caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryCounts {
    /// Page-table entries that missed every cache.
    pub walk_references: u64,
    /// Modelled cycles that the program's references wait beyond their fastest access: that of the nearest cache that
    /// can end it. Nothing overlaps; stores that a cache passes on wait only beyond the cache behind it.
    pub stall_cycles: u64,
}

impl MemoryCounts {
    /// Adds those of another core.
    pub(crate) fn add(&mut self, other: MemoryCounts) {
        self.walk_references += other.walk_references;
        self.stall_cycles = self.stall_cycles.saturating_add(other.stall_cycles);
    }
}

/// What the caches of a design have counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct CacheUse {
    hierarchy: HierarchyCounts,
    memory: MemoryCounts,
    waited_cycles: u64,
}

impl CacheUse {
    /// Adds what others of the same specification have counted.
    pub fn add(&mut self, other: &CacheUse) {
        self.hierarchy.add(&other.hierarchy);
        self.memory.add(other.memory);
        self.waited_cycles = self.waited_cycles.saturating_add(other.waited_cycles);
    }
}

/// The time of write buffers: instructions that the caches' core executed. Waits of references come on top.
#[derive(Clone, Copy, Debug)]
struct BufferClock {
    instructions: u64,
    cycles_per_instruction: f64,
}

/// The caches of one design.
#[derive(Clone, Debug)]
pub(crate) struct MemoryCaches {
    pub hierarchy: Hierarchy,
    pub counts: MemoryCounts,
    /// Whether some cache passes stores on, so that what loads and stores at once is two accesses there.
    writes_through: bool,
    /// The clock of write buffers, if there are some.
    clock: Option<BufferClock>,
    /// The price of a refill by software, which reads nothing through the caches.
    refill: Option<u64>,
    /// The pass's first level, if this has only the levels below.
    pub first_level: Option<usize>,
    /// Walks that wait for the references before them, if they may.
    waiting: Option<WaitingWalks>,
    /// Cycles of walks that waited, since they were last taken.
    waited_cycles: u64,
    /// Addresses of the entries of one walk.
    entries: Vec<u64>,
    /// Where the lines of one reference were found.
    found: Vec<(Requester, DataSource)>,
}

impl MemoryCaches {
    /// The empty caches of a machine that has some.
    pub fn of(machine: &MachineSpec) -> Option<MemoryCaches> {
        MemoryCaches::with(machine, Hierarchy::new)
    }

    /// Those of a machine's caches that `build` takes.
    fn with(machine: &MachineSpec, build: fn(&[CacheSpec], u64) -> Hierarchy) -> Option<MemoryCaches> {
        let hierarchy = build(&machine.caches, machine.cost.memory);
        let memory = MemoryCaches {
            counts: MemoryCounts::default(),
            clock: hierarchy.has_write_buffers().then_some(BufferClock {
                instructions: 0,
                cycles_per_instruction: machine.cost.cycles_per_instruction,
            }),
            hierarchy,
            refill: matches!(machine.walker, WalkerSpec::Software).then_some(machine.cost.walk_reference),
            writes_through: machine
                .caches
                .iter()
                .any(|cache| cache.serves.has(Requester::Store) && cache.stores == StoreRule::Through),
            first_level: None,
            waiting: None,
            waited_cycles: 0,
            entries: Vec::new(),
            found: Vec::new(),
        };
        (!machine.caches.is_empty()).then_some(memory)
    }

    /// The first level alone, empty, if the machine has caches.
    pub fn first_level(machine: &MachineSpec) -> Option<MemoryCaches> {
        MemoryCaches::with(machine, Hierarchy::first_level)
    }

    /// Leaves the first level, still empty, to a pass; `defers`: and walks wait, if hardware walks.
    pub fn leave_first_level_to(&mut self, first: usize, machine: &MachineSpec, defers: bool) {
        self.hierarchy = Hierarchy::below_first_level(&machine.caches, machine.cost.memory);
        self.first_level = Some(first);
        let walks = !matches!(machine.walker, WalkerSpec::Software | WalkerSpec::Mapped(_));
        self.waiting = (defers && walks).then(WaitingWalks::default);
    }

    /// Whether walks wait.
    pub fn defers_walks(&self) -> bool {
        self.waiting.is_some()
    }

    /// Notes when the walks came that wait since the last time, and the cause of the first.
    pub fn note_walks(&mut self, moment: Moment, cause: Option<WalkCause>) {
        if let Some(waiting) = &mut self.waiting {
            waiting.note(moment, cause);
        }
    }

    /// The walks that have waited until now.
    pub fn take_walks(&mut self) -> WaitingWalks {
        let Some(waiting) = &mut self.waiting else { return WaitingWalks::default() };
        let next = WaitingWalks::like(waiting);
        std::mem::replace(waiting, next)
    }

    /// The cycles of walks that waited, since the last call.
    pub fn take_waited_cycles(&mut self) -> u64 {
        std::mem::take(&mut self.waited_cycles)
    }

    /// Takes what they have counted, which is zero then.
    pub fn take_counts(&mut self) -> CacheUse {
        let (memory, waited_cycles) = (std::mem::take(&mut self.counts), self.take_waited_cycles());
        CacheUse { hierarchy: self.hierarchy.take_counts(), memory, waited_cycles }
    }

    /// Adds what others of the same specification have counted.
    pub fn add_counts(&mut self, other: &CacheUse) {
        self.hierarchy.add_counts(&other.hierarchy);
        self.counts.add(other.memory);
        self.waited_cycles = self.waited_cycles.saturating_add(other.waited_cycles);
    }

    /// Sends the caches away, to be simulated elsewhere until [`MemoryCaches::come_back`].
    pub fn send_away(&mut self) -> MemoryCaches {
        MemoryCaches {
            hierarchy: std::mem::replace(&mut self.hierarchy, Hierarchy::new(&[], 0)),
            counts: std::mem::take(&mut self.counts),
            waited_cycles: std::mem::take(&mut self.waited_cycles),
            clock: None,
            waiting: None,
            entries: Vec::new(),
            found: Vec::new(),
            ..*self
        }
    }

    /// Takes back what [`MemoryCaches::send_away`] sent.
    pub fn come_back(&mut self, caches: MemoryCaches) {
        (self.hierarchy, self.counts) = (caches.hierarchy, caches.counts);
        self.waited_cycles = self.waited_cycles.saturating_add(caches.waited_cycles);
    }

    /// Walks; each read of an entry goes through the caches. If walks wait, their cycles come later.
    pub fn walk(&mut self, walker: &mut Walker, address: VirtAddr, size: PageSize) -> WalkCost {
        if let Some(price) = self.refill {
            return WalkCost::flat(walker.walk(address, size), price);
        }
        if let Some(waiting) = &mut self.waiting {
            let references = waiting.add(|entries| walker.walk_listing(address, size, entries));
            return WalkCost { references, cycles: 0 };
        }
        let mut entries = std::mem::take(&mut self.entries);
        entries.clear();
        let references = walker.walk_listing(address, size, &mut entries);
        let cycles = self.read_entries(&entries);
        self.entries = entries;
        WalkCost { references, cycles }
    }
}

impl MemoryCaches {
    /// Which fetches it may be given together.
    pub fn line_grain(&self) -> LineGrain {
        LineGrain::of(&self.hierarchy, self.clock.is_some())
    }

    /// The core executes an instruction, whose references follow.
    #[inline]
    pub fn executed(&mut self) {
        if let Some(clock) = &mut self.clock {
            clock.instructions += 1;
        }
    }

    /// Lets data references go through a first level; `passes` hears what passes, with the number of its reference.
    pub fn take_data(&mut self, records: &[Ref], space: Asid, mut passes: impl FnMut(usize, PassedLine)) {
        let space = logical(space, VirtAddr(0));
        let shift = self.hierarchy.line_shift(Requester::Load);
        let accesses = DataAccesses { space, first: space >> shift, shift };
        if self.hierarchy.take_data(records, accesses, |(index, _), line| passes(index, line)) {
            return;
        }
        for (index, record) in records.iter().enumerate() {
            let address = CacheAddress::same(space | record.address().0);
            self.access_passing(record.kind(), address, record.size().bytes(), |line| passes(index, line));
        }
    }

    /// Lets the fetches of blocks that run whole go through a first level that sees no data. `passes` hears what
    /// passes, with the number of its span, and of its run in the block.
    pub fn take_fetches(
        &mut self,
        spans: &[Span],
        lines: &CodeLines,
        space: Asid,
        mut passes: impl FnMut((usize, usize), PassedLine),
    ) {
        let space = logical(space, VirtAddr(0));
        let shift = self.hierarchy.line_shift(Requester::Fetch);
        let first = space >> shift;
        let is_done = if shift == lines.line_shift() {
            let accesses = FetchAccesses { lines, fetches: lines.fetches::<false>(shift), space, first };
            self.hierarchy.take_fetches(spans, accesses, &mut passes)
        } else {
            let accesses = FetchAccesses { lines, fetches: lines.fetches::<true>(shift), space, first };
            self.hierarchy.take_fetches(spans, accesses, &mut passes)
        };
        if is_done {
            return;
        }
        for (span, here) in spans.iter().enumerate() {
            for (number, run) in lines.runs(here.block.index()).iter().enumerate() {
                let address = CacheAddress::same(space | run.address.0);
                self.access_passing(Kind::Fetch, address, run.bytes, |line| passes((span, number), line));
                self.hierarchy.repeated(Requester::Fetch, run.repeats.into());
            }
        }
    }

    /// A reference of the program inside a page; `passes` hears what passes a first level.
    fn access_passing(
        &mut self,
        kind: Kind,
        address: CacheAddress,
        bytes: u32,
        passes: impl FnMut(PassedLine),
    ) {
        self.access(kind, address, bytes.into());
        self.hierarchy.passed().iter().copied().for_each(passes);
        self.hierarchy.clear_passed();
    }

    /// A reference of the program inside a page.
    #[inline(always)]
    pub fn access(&mut self, kind: Kind, address: CacheAddress, bytes: u64) {
        if !self.repeats(kind, address, bytes) {
            self.access_noting(kind, address, bytes, |_, _| {});
        }
    }

    /// The fetches and data references of a block, where physical addresses equal virtual ones.
    #[inline(always)]
    pub fn access_block(&mut self, runs: &[LineRun], refs: &[Ref], space: Asid) {
        let space = logical(space, VirtAddr(0));
        let mut next = 0;
        for (index, run) in runs.iter().enumerate() {
            self.executed();
            self.access(Kind::Fetch, CacheAddress::same(space | run.address.0), run.bytes.into());
            self.hierarchy.repeated(Requester::Fetch, run.repeats.into());
            let end = runs.get(index + 1).map_or(refs.len(), |next| refs.len().min(next.site as usize));
            while next < end {
                let record = refs[next];
                let address = CacheAddress::same(space | record.address().0);
                self.access(record.kind(), address, record.size().bytes().into());
                next += 1;
            }
        }
    }

    /// Whether a reference changes only counts and times of use; then it is done. Most are.
    #[inline(always)]
    fn repeats(&mut self, kind: Kind, address: CacheAddress, bytes: u64) -> bool {
        (kind != Kind::Modify || !self.writes_through)
            && self.hierarchy.repeats(requester(kind), address, bytes)
    }

    /// As [`MemoryCaches::access`]; returns its waits, if it misses a cache.
    #[inline]
    pub fn access_telling(
        &mut self,
        kind: Kind,
        address: CacheAddress,
        bytes: u64,
    ) -> Option<ReferenceWaits> {
        if self.repeats(kind, address, bytes) {
            return None;
        }
        let mut found = std::mem::take(&mut self.found);
        let cycles =
            self.access_noting(kind, address, bytes, |requester, served| found.push((requester, served)));
        let mut waits = ReferenceWaits::of_cycles(cycles);
        for (requester, served) in found.drain(..) {
            self.hierarchy.levels_before(requester, served).for_each(|level| waits.miss(level));
        }
        self.found = found;
        (waits != ReferenceWaits::default()).then_some(waits)
    }

    /// Returns the cycles that the reference waits.
    #[inline(never)]
    fn access_noting(
        &mut self,
        kind: Kind,
        address: CacheAddress,
        bytes: u64,
        mut note: impl FnMut(Requester, DataSource),
    ) -> u64 {
        let requester = requester(kind);
        if let (Requester::Store, Some(clock)) = (requester, &self.clock) {
            let executed = (clock.instructions as f64 * clock.cycles_per_instruction) as u64;
            self.hierarchy.set_time(executed.saturating_add(self.counts.stall_cycles));
        }
        let mut through = |requester| {
            self.hierarchy.access_lines(requester, address, bytes, |served| note(requester, served))
        };
        let loaded = if kind == Kind::Modify && self.writes_through { through(Requester::Load) } else { 0 };
        let stalled = through(requester).saturating_add(loaded);
        self.counts.stall_cycles = self.counts.stall_cycles.saturating_add(stalled);
        stalled
    }
}

/// Data references to a cache with lines of 2 to the power of `shift` bytes.
#[derive(Clone, Copy)]
struct DataAccesses {
    /// The start of their address space, and its first line.
    space: u64,
    first: u64,
    shift: u32,
}

impl Accesses for DataAccesses {
    type Record = Ref;
    const PAIRED: bool = false;

    #[inline(always)]
    fn lines(&self, record: &Ref) -> RecordLines {
        let (first, last) = record.lines(self.shift);
        RecordLines {
            first: self.first + first,
            second: self.first + last,
            has_others: false,
            soils: record.kind() != Kind::Load,
            lookups: 0,
        }
    }

    fn others(&self, _: &Ref) -> impl Iterator<Item = u64> {
        iter::empty()
    }

    fn each(&self, record: &Ref) -> impl Iterator<Item = ByteAccess> {
        iter::once(ByteAccess {
            start: self.space | record.address().0,
            bytes: record.size().bytes().into(),
            soils: record.kind() != Kind::Load,
        })
    }

    fn most_lines(&self) -> usize {
        2
    }
}

/// The fetches of blocks.
#[derive(Clone, Copy)]
struct FetchAccesses<'a, const COARSER: bool> {
    lines: &'a CodeLines,
    fetches: BlockFetches<'a, COARSER>,
    /// The start of their address space, and its first line.
    space: u64,
    first: u64,
}

impl<const COARSER: bool> Accesses for FetchAccesses<'_, COARSER> {
    type Record = Span;
    const PAIRED: bool = true;

    #[inline(always)]
    fn lines(&self, span: &Span) -> RecordLines {
        let lines = self.fetches.lines(span.block.index());
        RecordLines { first: self.first + lines.first, second: self.first + lines.second, ..lines }
    }

    #[inline(always)]
    fn others(&self, span: &Span) -> impl Iterator<Item = u64> {
        self.fetches.others(span.block.index()).map(|line| self.first + line)
    }

    fn each(&self, span: &Span) -> impl Iterator<Item = ByteAccess> {
        self.lines.runs(span.block.index()).iter().map(|run| ByteAccess {
            start: self.space | run.address.0,
            bytes: run.bytes.max(1).into(),
            soils: false,
        })
    }

    fn most_lines(&self) -> usize {
        self.lines.most_lines()
    }
}

/// Who asks the caches for a reference's bytes. What loads and stores at once asks to store.
#[inline(always)]
fn requester(kind: Kind) -> Requester {
    match kind {
        Kind::Fetch => Requester::Fetch,
        Kind::Load => Requester::Load,
        Kind::Store | Kind::Modify => Requester::Store,
    }
}

/// The address of a record where physical addresses equal virtual ones. Address spaces have 57 bits each and lie one
/// after the other.
#[inline]
pub(crate) fn logical(asid: Asid, address: VirtAddr) -> u64 {
    (asid.index() as u64) << VirtAddr::BITS | address.0
}
