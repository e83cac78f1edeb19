//! Kernels whose pages are shared with files, parents and children, in passes beside others: no first store is missed,
//! and all counters of machine and kernel equal those of slow models that look at every reference.

// This file uses only a part of the shared modules.

use crate::equal;
use crate::random;
use crate::random::{ALL, Op, Program, Random};
use crate::slow::{Slow, feed};
use crate::systems::Systems;
use pagewalk_mm::frames::{Buddy, Frame};
use pagewalk_mm::promotion::Fixed;
use pagewalk_mm::{FileRules, ForkRules, FullMemoryAction, Kernel, KernelCosts, MemoryRules, Small};
use pagewalk_oracle::backing::Memory;
use pagewalk_oracle::sharing::{Area, Events, Kind as Made, Sharing};
use pagewalk_oracle::{Frames, Paging, cases};
use pagewalk_sim::{DesignCounts, DesignSpec, NoObserver, Pass};
use pagewalk_trace::{Analysis, Batch, Event, Mapping, MappingKind};
use pagewalk_translate::MachineSpec;
use pagewalk_units::{Kind, PageSize, RefIndex};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Loads and stores together or apart, with fetches or without.
fn machine(random: &mut Random, index: usize) -> MachineSpec {
    let serves: &[&str] = match random.below(3) {
        0 => &["\"fetch\"", "\"load\", \"store\""],
        1 => &["\"fetch\"", "\"load\"", "\"store\""],
        _ => &["\"fetch\", \"load\", \"store\""],
    };
    let mut text = format!("schema = 1\nname = \"m{index}\"\n");
    let mut tlb = |name: String, level: u32, serves: &str| {
        let (ways, sets) = (random.of(&[1, 2, 4, 16u32]), random.of(&[1, 4, 8]));
        text += &format!(
            "[[tlb]]\nname = \"{name}\"\nlevel = {level}\nserves = [{serves}]\npage_sizes = [\"4K\", \"2M\"]\n\
             entries = {}\nways = {ways}\nreplacement = \"{}\"\n",
            sets * ways,
            random.of(&["lru", "lru", "fifo"])
        );
    };
    serves.iter().enumerate().for_each(|(number, serves)| tlb(format!("l1_{number}"), 1, serves));
    tlb("l2".to_owned(), 2, "\"fetch\", \"load\", \"store\"");
    text += "[walker]\nkind = \"radix\"\nlevels = 4\n[walker.caches]\npde = { entries = 4, ways = 2 }\n\
             [cost]\nl2_hit = 7\nwalk_reference = 20\n";
    MachineSpec::from_toml("random.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Whether a file is mapped privately.
fn is_private(path: &str) -> bool {
    path == "/file0"
}

/// Whether the process forks after a discard of so many pages.
fn forks(pages: u64) -> bool {
    pages < 4
}

/// Whether the process waits for this child at once.
fn is_waited_for(child: u32) -> bool {
    child == 2
}

/// A pass that hears of private mappings of files, and of forks.
struct Forking<A>(A);

impl<A: Analysis> Analysis for Forking<A> {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.0.on_batch(batch);
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        match event {
            Event::Map(mapping) if mapping.file.as_ref().is_some_and(|file| is_private(&file.path)) => {
                self.0.on_event(at, &Event::Map(Mapping { kind: MappingKind::File, ..mapping.clone() }));
            }
            Event::Advise { bytes, .. } if forks(bytes >> 12) => {
                self.0.on_event(at, event);
                let child = (bytes >> 12) as u32;
                self.0.on_event(at, &Event::Fork { child });
                if is_waited_for(child) {
                    self.0.on_event(at, &Event::Syscall { number: 61, result: child.into() });
                }
            }
            _ => self.0.on_event(at, event),
        }
    }
}

struct SlowShared {
    slow: Slow,
    sharing: Sharing,
    rights: BTreeMap<u64, u8>,
    areas: u64,
    instructions: u64,
}

impl SlowShared {
    fn reference(&mut self, kind: Kind, address: u64, bytes: u64) {
        for page in address >> 12..=(address + bytes - 1) >> 12 {
            let mapped: Vec<u64> = self.sharing.table.keys().copied().collect();
            let before = self.sharing.events;
            let moved = |events: &Events| events.copies + events.reused + events.notices;
            self.sharing.touch(page, matches!(kind, Kind::Store | Kind::Modify));
            let gone = mapped.into_iter().filter(|page| !self.sharing.table.contains_key(page));
            gone.for_each(|page| self.slow.machine.drop_page(12, page));
            if self.sharing.is_killed() {
                return;
            }
            if moved(&self.sharing.events) > moved(&before) {
                self.slow.machine.drop_page(12, page);
            }
            let walks = |slow: &Slow| slow.machine.counts.walks_data + slow.machine.counts.walks_fetch;
            let walked = walks(&self.slow);
            self.slow.reference(kind, page << 12, 1);
            if walks(&self.slow) > walked {
                self.sharing.walk(page);
            }
        }
    }

    fn run(&mut self, program: &Program, op: &Op) {
        let Op::Run { block, addresses } = op else { return };
        let block = program.blocks.get(*block);
        self.instructions += block.instructions.len() as u64;
        self.sharing.reach(self.instructions);
        let mut sites = block.sites.iter().zip(addresses).peekable();
        for (i, instruction) in block.instructions.iter().enumerate() {
            let fetch = [(Kind::Fetch, instruction.address.0, u64::from(instruction.length))];
            let own = std::iter::from_fn(|| sites.next_if(|(site, _)| usize::from(site.instruction) == i));
            let data =
                own.map(|(site, &address)| (site.access.kind, address, site.access.size.bytes().into()));
            let all: Vec<(Kind, u64, u64)> = fetch.into_iter().chain(data).collect();
            for (kind, address, bytes) in all {
                if !self.sharing.is_killed() {
                    self.reference(kind, address, bytes);
                }
            }
        }
    }

    fn area(&mut self, range: Range<u64>, kind: Made, place: (u64, u64), rights: u8) {
        for page in range.clone() {
            if self.sharing.areas.contains_key(&page) {
                self.sharing.gone(page..page + 1);
            }
        }
        self.areas += 1;
        for page in range.clone() {
            let place = (place.0, place.1 + (page - range.start));
            self.sharing.areas.insert(page, Area { kind, number: self.areas, place });
            self.rights.insert(page, rights);
        }
    }

    /// What gets other rights is an area of its own, and so is what follows of the area.
    fn protect(&mut self, range: Range<u64>, rights: u8) {
        let mut at = range.start;
        while at < range.end {
            let Some(number) = self.sharing.areas.get(&at).map(|area| area.number) else {
                at += 1;
                continue;
            };
            let end =
                (at..).find(|page| self.sharing.areas.get(page).is_none_or(|area| area.number != number));
            let end = end.expect("memory ends");
            let part = end.min(range.end);
            if self.rights[&at] != rights {
                for (from, to) in [(at, part), (part, end)] {
                    self.areas += 1;
                    let number = self.areas;
                    (from..to).for_each(|page| self.sharing.areas.get_mut(&page).unwrap().number = number);
                }
                (at..part).for_each(|page| _ = self.rights.insert(page, rights));
            }
            at = part;
        }
    }

    fn op(&mut self, program: &Program, op: &Op) {
        if self.sharing.is_killed() {
            return;
        }
        if let Op::Run { .. } = op {
            return self.run(program, op);
        }
        self.slow.op(program, op);
        match *op {
            Op::Map { start, pages, anonymous } => {
                let kind = if anonymous { Made::Anonymous } else { Made::Shared };
                self.area(start..start + pages, kind, (9, 0), ALL);
            }
            Op::MapFile { start, pages, file, offset, rights } => {
                let kind = if is_private(&format!("/file{file}")) { Made::File } else { Made::SharedFile };
                self.area(start..start + pages, kind, (file, offset), rights);
            }
            Op::Unmap { start, pages } => {
                for page in start..start + pages {
                    if self.sharing.areas.remove(&page).is_some() {
                        self.sharing.gone(page..page + 1);
                    }
                }
            }
            Op::Discard { start, pages } => {
                self.sharing.gone(start..start + pages);
                if forks(pages) {
                    let protected = self.sharing.fork(pages as u32);
                    protected.into_iter().for_each(|page| self.slow.machine.drop_page(12, page));
                    if is_waited_for(pages as u32) {
                        self.sharing.reap(pages as u32);
                    }
                }
            }
            Op::Protect { start, pages, rights } => self.protect(start..start + pages, rights),
            Op::Advise { .. } | Op::Forbid(_) => unreachable!("programs without advice"),
            Op::MapHuge { .. } => unreachable!("programs without hugetlb"),
            Op::Run { .. } => unreachable!("it was run above"),
        }
    }

    fn check(&self, fast: &DesignCounts, seed: u64) {
        let counts = fast.kernel.expect("it has one").counts;
        let found = Events {
            faults: counts.faults,
            file_faults: counts.file_faults,
            file_reads: counts.file_reads,
            copies: counts.copies_on_write,
            reused: counts.reused,
            notices: counts.write_notices,
            demotions: 0,
            cleared: self.sharing.events.cleared,
        };
        assert_eq!(found, self.sharing.events, "events of {} (seed {seed})", fast.name);
        let killed = fast.kernel.and_then(|kernel| kernel.killed).map(|killed| killed.instructions);
        let expected = self.sharing.is_killed().then_some(self.instructions);
        assert_eq!(killed, expected, "end of {} (seed {seed})", fast.name);
        equal::assert_equal(fast, &self.slow.machine, self.instructions, seed);
        if let Some(memory) = &self.sharing.memory {
            let swaps = [counts.swap_outs, counts.swap_ins];
            assert_eq!(swaps, memory.swaps, "swapping of {} (seed {seed})", fast.name);
        }
    }
}

/// A kernel and its slow model.
fn kernel(random: &mut Random) -> (Kernel, Sharing) {
    let [around, read_ahead] = [0; 2].map(|_| random.of(&[1u64, 4, 16]));
    let (cold, child_instructions) = (random.below(2) == 0, random.of(&[0, 100, 100_000]));
    let rules = FileRules { cold, around, read_ahead, read_cycles: 5 };
    let fork = ForkRules { inherits: true, protects: true, child_instructions };
    let mut fast = Kernel::new(PageSize::FOUR_KIB, Box::new(Fixed { order: 0 }), KernelCosts::TODAY);
    let mut slow = Sharing::new(0, cold, [around, read_ahead], child_instructions);
    fast = fast.with_sharing(Some(rules), fork);
    if random.below(2) == 0 {
        let (frames, kills) = (8 + random.below(150), random.below(2) == 0);
        let (mut buddy, mut of_slow) = (Buddy::new(frames, 3), Frames::new(frames, 3));
        assert!(buddy.allocate_at(Frame(5), 0));
        of_slow.set((5, 0), false);
        let when_full = if kills { FullMemoryAction::Oom } else { FullMemoryAction::Swap };
        let rules = MemoryRules { compact: true, migration_cycles: 7, swap_cycles: 11, when_full };
        fast = fast.with_memory(buddy, rules);
        slow.memory = Some(Memory { kills, ..Memory::new(of_slow, true) });
    }
    (fast, slow)
}

fn check(seed: u64) {
    let mut random = Random::new(seed);
    let libraries = random::libraries(&mut random);
    let mut program = random::program(&mut random, true, &libraries);
    // The slow model of these kernels knows no advice.
    program.ops.retain(|op| !matches!(op, Op::Advise { .. }));
    // The same machine without a kernel of its own.
    let plain = machine(&mut random, 0);
    let mut specs = vec![DesignSpec::new(&plain, Arc::new(Small))];
    let mut beside = Slow::new(&plain, Paging::Small);
    let mut slows = Vec::new();
    for index in 1..3 {
        let machine = machine(&mut random, index);
        let (fast, sharing) = kernel(&mut random);
        let name = format!("{fast:?} on {machine:?}", fast = sharing.windows);
        specs.push(DesignSpec::with_kernel(name, &machine, fast));
        let slow = Slow::new(&machine, Paging::Small);
        slows.push(SlowShared { slow, sharing, rights: BTreeMap::new(), areas: 0, instructions: 0 });
    }
    let systems = Systems::new(&specs, 1);
    let pass = Pass::new(specs, NoObserver).unwrap_or_else(|error| panic!("{error} (seed {seed})"));
    let mut both = Forking((pass, systems));
    feed(&mut both, &program, &mut random);
    let Forking((mut pass, systems)) = both;
    for op in &program.ops {
        beside.op(&program, op);
        slows.iter_mut().for_each(|slow| slow.op(&program, op));
    }
    let counts = pass.finish();
    systems.assert_equal(&counts, seed);
    equal::assert_all_equal(&counts[0], &beside, seed);
    counts[1..].iter().zip(&slows).for_each(|(fast, slow)| slow.check(fast, seed));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(60), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_first_store_is_seen(seed in any::<u64>()) {
        check(seed);
    }
}

#[test]
fn once_they_were_missed() {
    [15_930_974_775_689_993_471, 5_539_625_698_586_852_402].into_iter().for_each(check);
}
