//! Caches of memory in a design, which the program's references and the reads of walks go through.
//!
//! Only machines with caches pay for this: the caches see every reference of the program in order, even if its page
//! hits the TLB. Physical addresses of the program equal virtual ones, unless its kernel gives pages frames.
//! `docs/reference/machine-files.md` describes the model.

use crate::attribution::Waits;
use crate::code_lines::LineGrain;
use pagewalk_cache::{CacheAddress, CacheSpec, DataSource, Hierarchy, PassedLine, Requester, StoreRule};
use pagewalk_trace::Grain;
use pagewalk_translate::{Asid, MachineSpec, Walker, WalkerSpec};
use pagewalk_units::{BlockId, Kind, PageSize, VirtAddr};

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

/// The time of write buffers: instructions that the caches' core executed. Waits of references come on top.
#[derive(Clone, Copy, Debug)]
struct BufferClock {
    instructions: u64,
    cycles_per_instruction: f64,
}

/// A block whose fetches all repeated the line used last in its set, when it last ran.
#[derive(Clone, Copy, Debug, Default)]
struct RepeatedBlock {
    /// The lookups of its fetches, and the changes before them: see [`Hierarchy::fetches`].
    lookups: u64,
    changes: u64,
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
    /// The design that simulates the first level for this one, which has the levels below.
    pub first_level_of: Option<usize>,
    /// Blocks of the running address space, if repeated fetches need not keep their place among other references.
    repeated: Option<Vec<RepeatedBlock>>,
    /// The lookups and changes before the block that runs.
    block: RepeatedBlock,
    has_counted_block: bool,
    /// The running address space.
    space: Asid,
    /// Addresses of the entries of one walk.
    entries: Vec<u64>,
    /// Where the lines of one reference were found.
    found: Vec<(Requester, DataSource)>,
}

impl MemoryCaches {
    /// The empty caches of a machine that has some.
    pub fn of(machine: &MachineSpec) -> Option<MemoryCaches> {
        let hierarchy = Hierarchy::new(&machine.caches, machine.cost.memory);
        let mut memory = MemoryCaches {
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
            first_level_of: None,
            repeated: None,
            block: RepeatedBlock::default(),
            has_counted_block: false,
            space: Asid::default(),
            entries: Vec::new(),
            found: Vec::new(),
        };
        let may_repeat = matches!(memory.line_grain(), LineGrain::Line(_));
        memory.repeated = may_repeat.then(Vec::new);
        (!machine.caches.is_empty()).then_some(memory)
    }

    /// Leaves the first level to another design: see [`pagewalk_cache::shares_first_level`].
    pub fn leave_first_level_to(&mut self, design: usize, caches: &[CacheSpec]) {
        self.hierarchy = self.hierarchy.below_first(caches);
        self.first_level_of = Some(design);
    }

    /// Sees what passed the first level.
    pub fn pass(&mut self, passed: &[PassedLine]) {
        for &line in passed {
            self.counts.stall_cycles = self.counts.stall_cycles.saturating_add(self.hierarchy.pass(line));
        }
    }

    /// Walks; each read of an entry goes through the caches.
    pub fn walk(&mut self, walker: &mut Walker, address: VirtAddr, size: PageSize) -> WalkCost {
        if let Some(price) = self.refill {
            return WalkCost::flat(walker.walk(address, size), price);
        }
        self.entries.clear();
        let references = walker.walk_listing(address, size, &mut self.entries);
        let mut cycles = 0u64;
        for &entry in &self.entries {
            let served = self.hierarchy.access(Requester::Walk, CacheAddress::same(entry));
            self.counts.walk_references += u64::from(served == DataSource::Memory);
            cycles = cycles.saturating_add(self.hierarchy.latency(served));
        }
        WalkCost { references, cycles }
    }
}

impl MemoryCaches {
    /// Which fetches it may be given together.
    pub fn line_grain(&self) -> LineGrain {
        LineGrain::of(&self.hierarchy, self.clock.is_some())
    }

    /// References of another address space follow.
    pub fn enter(&mut self, space: Asid) {
        if std::mem::replace(&mut self.space, space) != space {
            // It has other blocks.
            self.repeated.iter_mut().for_each(Vec::clear);
            self.has_counted_block = false;
        }
    }

    /// Counts each fetch in its place: somebody may ask for counts in the middle of a block.
    pub fn count_each_fetch(&mut self) {
        self.repeated = None;
    }

    /// A block's first fetch follows. If all its fetches change only counts, they are counted at once.
    #[inline(always)]
    pub fn begin_block(&mut self, block: BlockId) {
        let Some(blocks) = &self.repeated else { return };
        let (lookups, changes) = self.hierarchy.fetches();
        self.block = RepeatedBlock { lookups, changes };
        let repeated = blocks.get(block.index()).filter(|repeated| repeated.changes == changes);
        self.has_counted_block = repeated.is_some();
        if let Some(repeated) = repeated {
            self.hierarchy.repeated(Requester::Fetch, repeated.lookups);
        }
    }

    /// Whether all fetches of the block that runs are counted.
    #[inline(always)]
    pub fn has_counted_block(&self) -> bool {
        self.has_counted_block
    }

    /// The block that began has run whole.
    #[inline(always)]
    pub fn end_block(&mut self, block: BlockId) {
        if std::mem::take(&mut self.has_counted_block) {
            return;
        }
        let (lookups, changes) = self.hierarchy.fetches();
        if let (Some(blocks), true) = (&mut self.repeated, changes == self.block.changes) {
            if blocks.len() <= block.index() {
                blocks.resize(block.index() + 1, RepeatedBlock::default());
            }
            blocks[block.index()] = RepeatedBlock { lookups: lookups - self.block.lookups, changes };
        }
    }

    /// The core executes an instruction, whose references follow.
    #[inline]
    pub fn executed(&mut self) {
        if let Some(clock) = &mut self.clock {
            clock.instructions += 1;
        }
    }

    /// A reference of the program inside a page.
    #[inline(always)]
    pub fn access(&mut self, kind: Kind, address: CacheAddress, bytes: u64) {
        if !self.repeats(kind, address, bytes) {
            self.access_noting(kind, address, bytes, |_, _| {});
        }
    }

    /// Whether a reference changes only counts; then it is done. Most are.
    #[inline(always)]
    fn repeats(&mut self, kind: Kind, address: CacheAddress, bytes: u64) -> bool {
        (kind != Kind::Modify || !self.writes_through)
            && self.hierarchy.repeats(requester(kind), address, bytes)
    }

    /// As [`MemoryCaches::access`]; returns its waits, if it misses a cache.
    #[inline]
    pub fn access_telling(&mut self, kind: Kind, address: CacheAddress, bytes: u64) -> Option<Waits> {
        if self.repeats(kind, address, bytes) {
            return None;
        }
        let mut found = std::mem::take(&mut self.found);
        let cycles =
            self.access_noting(kind, address, bytes, |requester, served| found.push((requester, served)));
        let mut waits = Waits { cycles, ..Waits::default() };
        for (requester, served) in found.drain(..) {
            for level in self.hierarchy.levels_before(requester, served) {
                waits.misses[usize::from(level) - 1] += 1;
            }
        }
        self.found = found;
        (waits != Waits::default()).then_some(waits)
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
