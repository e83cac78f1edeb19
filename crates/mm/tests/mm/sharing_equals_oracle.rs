//! Pages of files, of parents and of children, against a slow model: all counts, the whole page table, every frame,
//! after each operation of random programs.

use crate::common::{PAGE, Process};
use pagewalk_mm::frames::{Buddy, Frame};
use pagewalk_mm::promotion::{Actions, Policy, PolicyEvent, Rules};
use pagewalk_mm::{Account, FileRules, ForkRules, FullMemoryAction, KernelCosts, Remap, Superpage, Vma};
use pagewalk_oracle::backing::Memory;
use pagewalk_oracle::sharing::{Area, Events, Kind, Sharing};
use pagewalk_oracle::{Frames, cases};
use pagewalk_trace::{FileIdentity, MappingKind};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Pages on both sides of the end of a lowest page table.
const PAGES: Range<u64> = 480..544;

/// Advice on which [`Blocks`] looks at the memory, and which Linux does not have.
const LOOK: i32 = 1000;

/// Superpages of private anonymous memory at faults, and nothing else.
#[derive(Clone)]
struct Blocks {
    order: u8,
    /// Pages of private anonymous memory that others have too, when it looked last.
    shared: Arc<Mutex<Vec<u64>>>,
}

impl Policy for Blocks {
    fn rules(&self) -> Rules {
        Rules::new(1 << self.order).to_base_pages()
    }

    fn fault_orders(&self, _page: u64, area: Option<&Vma>) -> u32 {
        u32::from(area.is_some_and(|area| area.kind == MappingKind::Anonymous)) << self.order
    }

    fn on(&mut self, event: PolicyEvent<'_>, _actions: &mut Actions) {
        let PolicyEvent::Advised { pages, advice: LOOK, view } = event else { return };
        let is_anonymous =
            |page: Superpage| view.area_of(page).is_some_and(|area| area.kind == MappingKind::Anonymous);
        let pages = pages.clone().map(|page| Superpage::around(page, 0)).filter(|&page| is_anonymous(page));
        *self.shared.lock().unwrap() =
            pages.filter(|&page| view.shared_in(page) == 1).map(|page| page.first).collect();
    }
}

#[derive(Clone, Debug)]
enum Op {
    Map(u64, u64, Kind, u64, u64),
    Unmap(u64, u64),
    Discard(u64, u64),
    Use(u64, bool),
    Walk(u64),
    Fork(u32),
    Reap(u32),
    Wait(u64),
    Look,
}

fn map() -> impl Strategy<Value = Op> {
    let kind = prop_oneof![
        3 => Just(Kind::Anonymous),
        1 => Just(Kind::Shared),
        3 => Just(Kind::File),
        2 => Just(Kind::SharedFile),
    ];
    (PAGES, 1..40u64, kind, 0..2u64, 0..20u64)
        .prop_map(|(first, pages, kind, file, offset)| Op::Map(first, pages, kind, file, offset))
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => map(),
        1 => (PAGES, 1..20u64).prop_map(|(first, pages)| Op::Unmap(first, pages)),
        1 => (PAGES, 1..20u64).prop_map(|(first, pages)| Op::Discard(first, pages)),
        25 => (PAGES, any::<bool>()).prop_map(|(page, stores)| Op::Use(page, stores)),
        4 => PAGES.prop_map(Op::Walk),
        2 => (0..3u32).prop_map(Op::Fork),
        1 => (0..3u32).prop_map(Op::Reap),
        2 => (0..10u64).prop_map(Op::Wait),
        4 => Just(Op::Look),
    ]
}

/// The policy and the slow model.
struct Both {
    fast: Process,
    slow: Sharing,
    areas: u64,
    shared: Arc<Mutex<Vec<u64>>>,
}

impl Both {
    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Map(first, pages, kind, file, offset) => {
                let range = first..(first + pages).min(PAGES.end);
                // What lies over a file's own pages would be named after it.
                self.unmap(range.clone());
                self.areas += 1;
                let number = if kind == Kind::Anonymous { 0 } else { self.areas };
                for page in range.clone() {
                    let area = Area { kind, number, place: (file, offset + (page - first)) };
                    self.slow.areas.insert(page, area);
                }
                let kind = match kind {
                    Kind::Anonymous => MappingKind::Anonymous,
                    Kind::Shared => MappingKind::SharedAnonymous,
                    Kind::File => MappingKind::File,
                    Kind::SharedFile => MappingKind::SharedFile,
                };
                let is_file = matches!(kind, MappingKind::File | MappingKind::SharedFile);
                let identity =
                    FileIdentity { path: format!("/f{file}"), offset: offset * PAGE, build_id: None };
                self.fast.map_of(first, range.end - first, kind, is_file.then_some(identity));
            }
            Op::Unmap(first, pages) => self.unmap(first..first + pages),
            Op::Discard(first, pages) => {
                const DONTNEED: i32 = 4;
                self.fast.advise(first, pages, DONTNEED);
                self.slow.gone(first..first + pages);
            }
            Op::Use(page, stores) => {
                self.fast.use_page(page, stores);
                self.slow.touch(page, stores);
            }
            Op::Walk(page) => {
                self.fast.kernel.walked(page);
                self.slow.walk(page);
            }
            Op::Fork(child) => {
                let Process { space, kernel, remaps, .. } = &mut self.fast;
                kernel.forked(child, space, remaps);
                self.slow.fork(child);
            }
            Op::Reap(child) => {
                self.fast.kernel.child_ended(child);
                self.slow.reap(child);
            }
            Op::Wait(time) => {
                self.fast.now += time;
                self.fast.kernel.reached(self.fast.now);
                self.slow.reach(self.fast.now);
            }
            Op::Look => {
                self.fast.advise(PAGES.start, PAGES.end - PAGES.start, LOOK);
                assert_eq!(*self.shared.lock().unwrap(), self.slow.shared());
            }
        }
    }

    /// Area by area, as the kernel does it.
    fn unmap(&mut self, range: Range<u64>) {
        self.fast.unmap(range.start, range.end - range.start);
        let mut at = range.start;
        while at < range.end {
            let end = (at..range.end).find(|page| !self.slow.areas.contains_key(page)).unwrap_or(range.end);
            if at < end {
                (at..end).for_each(|page| _ = self.slow.areas.remove(&page));
                self.slow.gone(at..end);
            }
            at = end + 1;
        }
    }

    fn check(&self, others: u64) {
        let (kernel, slow) = (&self.fast.kernel, &self.slow);
        let table = kernel.table();
        assert_eq!(kernel.killed().is_some(), slow.is_killed());
        if slow.is_killed() {
            return self.check_counts();
        }
        for page in PAGES.start - 16..PAGES.end + 48 {
            let of = slow.table.get(&page);
            let found = table
                .mapped(page)
                .map(|unit| (unit.order, !table.is_foreign(page), table.is_protected(page)));
            assert_eq!(found, of.map(|slot| (slot.order, slot.own, slot.protected)), "page {page}");
            assert_eq!(table.is_touched(page), of.is_some_and(|slot| slot.touched), "page {page}");
            if let Some(memory) = slow.memory.as_ref().filter(|_| of.is_some_and(|slot| slot.own)) {
                assert_eq!(kernel.frame_of(page), Some(Frame(memory.frame[&page])), "page {page}");
            }
        }
        let own = slow.table.values().filter(|slot| slot.own);
        assert_eq!(table.backed(), own.clone().count() as u64);
        assert_eq!(table.touched(), own.filter(|slot| slot.touched).count() as u64);
        assert_eq!(table.foreign(), slow.table.values().filter(|slot| !slot.own).count() as u64);
        self.check_counts();
        if let (Some(memory), Some(buddy)) = (&slow.memory, kernel.memory()) {
            memory.check(others);
            assert_eq!(buddy.used_frames(), memory.frame.len() as u64 + others);
        }
    }

    fn check_counts(&self) {
        let (counts, costs) = (self.fast.kernel.counts(), KernelCosts::TODAY);
        let zero = self.fast.kernel.accounts().of(Account::Zero);
        let found = Events {
            faults: counts.faults,
            file_faults: counts.file_faults,
            file_reads: counts.file_reads,
            copies: counts.copies_on_write,
            reused: counts.reused,
            notices: counts.write_notices,
            demotions: counts.demotions,
            cleared: zero / (4 * costs.zero_per_kib),
        };
        assert_eq!(found, self.slow.events);
        let swaps = self.slow.memory.as_ref().map_or([0; 2], |memory| memory.swaps);
        assert_eq!([counts.swap_outs, counts.swap_ins], swaps);
        let killed = u64::from(self.slow.is_killed());
        let accounts = self.fast.kernel.accounts();
        let spent = [Account::Copy, Account::File, Account::Swap].map(|account| accounts.of(account));
        let [outs, ins] = swaps;
        let copy = found.copies * 4 * costs.copy_backed_per_kib;
        assert_eq!(spent, [copy, 5 * found.file_reads, 11 * (outs + ins)]);
        // The fault that kills the process may be charged or not: nothing follows.
        assert!(
            (found.faults - killed..=found.faults).contains(&(accounts.of(Account::Fault) / costs.fault))
        );
    }
}

#[derive(Clone, Debug)]
struct Setting {
    order: u8,
    cold: bool,
    around: u64,
    read_ahead: u64,
    child_instructions: u64,
    is_child: bool,
    memory: Option<(u64, bool)>,
}

fn setting() -> impl Strategy<Value = Setting> {
    let memory = prop::option::of((6..90u64, any::<bool>()));
    let window = || prop_oneof![Just(1u64), Just(4), Just(16)];
    let child = prop_oneof![Just(0u64), Just(8), Just(1000)];
    (0..4u8, any::<bool>(), window(), window(), child, any::<bool>(), memory).prop_map(
        |(order, cold, around, read_ahead, child_instructions, is_child, memory)| Setting {
            order,
            cold,
            around,
            read_ahead,
            child_instructions,
            is_child,
            memory,
        },
    )
}

fn both(of: &Setting) -> Both {
    let rules = FileRules { cold: of.cold, around: of.around, read_ahead: of.read_ahead, read_cycles: 5 };
    let fork = ForkRules { inherits: true, protects: true, child_instructions: of.child_instructions };
    let shared = Arc::default();
    let mut fast = Process::new(Box::new(Blocks { order: of.order, shared: Arc::clone(&shared) }));
    let mut slow = Sharing::new(of.order, of.cold, [of.around, of.read_ahead], of.child_instructions);
    if let Some((frames, kills)) = of.memory {
        let mut memory = Buddy::new(frames, 4);
        let mut of_slow = Frames::new(frames, 4);
        assert!(memory.allocate_at(Frame(3), 0));
        of_slow.set((3, 0), false);
        let when_full = if kills { FullMemoryAction::Oom } else { FullMemoryAction::Swap };
        fast = fast.when_full(memory, true, when_full);
        slow.memory = Some(Memory { kills, ..Memory::new(of_slow, true) });
    }
    fast.space.start_running();
    fast.kernel = fast.kernel.with_sharing(Some(rules), fork);
    if of.is_child {
        fast.kernel.begin_as_child();
    }
    Both { fast, slow, areas: 0, shared }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(400), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_that_is_shared_equals_the_oracles(
        of in setting(),
        before in prop::collection::vec(map(), 0..4),
        ops in prop::collection::vec(op(), 1..150),
    ) {
        let mut both = both(&of);
        before.iter().for_each(|op| both.apply(op));
        let Process { space, kernel, .. } = &mut both.fast;
        kernel.started(space);
        if of.is_child {
            both.slow.start_as_child();
        }
        for op in &ops {
            both.apply(op);
            both.check(1);
            if both.slow.is_killed() {
                return Ok(());
            }
        }
        // Once children have ended, only what is in the page cache is left.
        both.fast.kernel.gone(0..1024, &both.fast.space, &mut both.fast.remaps);
        both.slow.gone(0..1024);
        both.apply(&Op::Wait(2000));
        let cached = if of.memory.is_some() { both.slow.cache.len() as u64 } else { 0 };
        let used = both.fast.kernel.memory().map_or(1, Buddy::used_frames);
        prop_assert_eq!(used, cached + 1);
    }
}

fn usual(is_child: bool) -> Setting {
    let (around, read_ahead) = (16, 32);
    Setting { order: 0, cold: false, around, read_ahead, child_instructions: 0, is_child, memory: None }
}

/// The numbers of `fault_around_bytes` (64 KiB) for a mapping that begins in the middle of such a piece.
#[test]
fn a_load_of_a_file_maps_what_lies_around_it() {
    let mut p = both(&usual(false)).fast;
    let file = FileIdentity { path: "/lib".to_owned(), offset: 0, build_id: None };
    p.map_of(484, 80, MappingKind::File, Some(file));
    p.load(490);
    // From the area's beginning, 16 pages.
    assert_eq!((p.units(0, 1024).len(), p.order(484), p.order(500)), (16, Some(0), None));
    p.load(485);
    assert_eq!(p.kernel.counts().faults, 1);
    // Up to the end of the lowest table.
    p.load(511);
    assert_eq!((p.order(500), p.order(511), p.order(512)), (Some(0), Some(0), None));
    // A store is a fault of its own, and only that page's.
    p.touch(485);
    p.touch(520);
    let counts = p.kernel.counts();
    assert_eq!((counts.faults, counts.file_faults, counts.copies_on_write), (4, 3, 2));
    assert_eq!((p.kernel.table().backed(), p.kernel.table().foreign()), (2, 27));
    assert_eq!(p.remaps, [Remap::Moved(Superpage { first: 485, order: 0 })]);
}
