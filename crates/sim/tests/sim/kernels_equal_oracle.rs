//! Designs whose kernels build superpages, against slow kernels that look at the whole TLB at every miss: all counters
//! of the machine and of the kernel, on random machines and streams.

// This file uses only the programs and slow machines of these modules.
use crate::equal;
use crate::promoting::{SlowKernel, watched};
use crate::random;
use crate::random::{ALL, Op, Program, Random};
use crate::slow::feed;
use crate::systems::Systems;
use pagewalk_mm::frames::{Buddy, Frame};
use pagewalk_mm::promotion::{
    ApproxOnline, Asap, AsapShare, BreakEven, Eager, EagerSettings, Fixed, Online, Policy, Throttle,
    ThrottleLimits,
};
use pagewalk_mm::{Account, FullMemoryAction, Kernel, KernelCosts, MemoryRules, OomKill};
use pagewalk_oracle::backing::Memory;
use pagewalk_oracle::miss_policies::{self, MissPolicyModel};
use pagewalk_oracle::{Frames, cases};
use pagewalk_sim::{Arrangement, DesignSpec, KernelTotals, Simulation};
use pagewalk_trace::{Block, BlockEnd, Dictionary, Instruction};
use pagewalk_translate::MachineSpec;
use pagewalk_units::{PageSize, ThreadId, VirtAddr};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Largest order that TLBs hold.
const TOP: u8 = 4;

/// A machine whose arrays hold base pages and superpages, together or apart; `radix`: those of x86-64. Some lower
/// arrays receive what those above replace, or serve only data or fetches, or cores share them; some prefetch.
pub fn whole_machine(random: &mut Random, index: usize, radix: bool) -> MachineSpec {
    let victims = random.below(3) == 0;
    let prefetches = !victims && random.below(4) == 0;
    let mut text = format!("schema = 1\nname = \"m{index}\"\n");
    let data = random.of(&["\"load\", \"store\"", "\"load\", \"store\"", "\"fetch\", \"load\", \"store\""]);
    let mut serves = match (data, random.below(4)) {
        (data, _) if data.contains("fetch") => vec![data],
        (_, 0) => vec!["\"fetch\"", "\"load\"", "\"store\""],
        _ => vec!["\"fetch\"", data],
    };
    let levels = random.of(&[1, 2, 2, 2, 3]);
    for level in 1..=levels {
        match random.below(4) {
            0 if level > 1 && serves.len() > 1 => {
                serves.remove(random.below(serves.len() as u64) as usize);
            }
            1 | 2 if level == 2 => serves = vec!["\"fetch\", \"load\", \"store\""],
            _ => {}
        }
        for (number, serves) in serves.iter().enumerate() {
            let small = if radix { "\"4K\"" } else { "\"4K\", \"8K\"" };
            let large = if radix { "\"2M\"" } else { "\"16K\", \"32K\", \"64K\"" };
            let both = format!("{small}, {large}");
            let apart = random.below(3) == 0;
            let parts: Vec<&str> = if apart { vec![small, large] } else { vec![&both] };
            for (part, sizes) in parts.iter().enumerate() {
                let ways = random.of(&[1, 2, 3, 4, 8, 16u32]);
                let sets = random.of(&[1, 1, 1, 2, 8]);
                let mut replacement = random::replacement(random, ways, level as u8).join("\n");
                // Each size of a skewed array has as many ways.
                if sets > 1 && ways.is_multiple_of(sizes.matches(',').count() as u32 + 1) {
                    replacement = "index = \"skewed\"".to_owned();
                }
                let lower = |of: bool| of && level > 1;
                let fills = if lower(victims && random.below(3) > 0) { "victims" } else { "walks" };
                let pages = if lower(!victims) { random.of(&[1, 1, 2, 4]) } else { 1 };
                let shared = lower(random.below(3) == 0);
                text += &format!(
                    "[[tlb]]\nname = \"l{level}_{number}_{part}\"\nlevel = {level}\nserves = [{serves}]\n\
                     page_sizes = [{sizes}]\nentries = {}\nways = {ways}\n{replacement}\n\
                     fills = \"{fills}\"\npages_per_entry = {pages}\nshared = {shared}\n",
                    sets * ways
                );
            }
        }
    }
    if prefetches {
        text = random::with_prefetching(random, &text);
    }
    text += match radix {
        false => "[walker]\nkind = \"software\"\nrefill_cycles = 30\n[cost]\nl2_hit = 7\n",
        true => {
            "[walker]\nkind = \"radix\"\nlevels = 4\n[walker.caches]\npde = { entries = 4, ways = 2 }\n\
             [cost]\nl2_hit = 7\nwalk_reference = 20\n"
        }
    };
    MachineSpec::from_toml("random.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Entries of the TLBs that a kernel watches.
fn entries(machine: &MachineSpec) -> Vec<u64> {
    let of_array = |&index: &usize| machine.tlbs[index].entries();
    watched(machine).iter().map(|arrays| arrays.iter().map(of_array).sum()).collect()
}

/// A policy and its slow model, with thresholds that random streams reach.
fn policies(random: &mut Random, radix: bool, with_memory: bool) -> (Box<dyn Policy>, miss_policies::Policy) {
    let miss_cycles = random.of(&[300, 1000, 4000]);
    let prices = BreakEven { base: PageSize::FOUR_KIB, copy_per_kib: 3000, miss_cycles };
    let top = if radix { 9 } else { 1 + random.below(u64::from(TOP)) as u8 };
    let thresholds = |share: f64| -> Vec<u64> {
        (0..=top)
            .map(|order| ((3000.0 * f64::from(4u32 << order) / miss_cycles as f64) * share).ceil() as u64)
            .collect()
    };
    if with_memory && random.below(5) == 0 {
        let huge = if radix { 9 } else { TOP };
        let orders = if radix { random.of(&[0, 1 << 9]) } else { random.below(1 << TOP) as u32 * 2 };
        let (least_pages, limit) = (1 + random.below(8), random.of(&[0.1, 0.5, 1.0]));
        let settings = EagerSettings { orders, huge, least_pages, fragmentation_limit: limit };
        let policy = Eager::new(settings).expect("possible settings");
        return (Box::new(policy), miss_policies::Policy::Eager { orders, huge, least: least_pages, limit });
    }
    match random.below(6) {
        kind if radix && kind > 0 => {
            let pages = 1 + random.below(20);
            (Box::new(AsapShare { order: top, pages }), miss_policies::Policy::Share(top, pages))
        }
        0 => (Box::new(Fixed { order: top }), miss_policies::Policy::Fixed(top)),
        1 => (Box::new(Asap::new(top)), miss_policies::Policy::Asap(top)),
        2 => {
            let pages = 1 + random.below(1 << top);
            (Box::new(AsapShare { order: top, pages }), miss_policies::Policy::Share(top, pages))
        }
        kind => {
            let share = random.of(&[0.05, 0.125, 0.3]);
            let far = random.of(&[0.05, 0.2, 0.625]);
            let capacity = (kind == 3).then(|| thresholds(far));
            let bookkeeping = if kind == 3 { 2570 } else { 100 };
            let fast: Box<dyn Policy> = match kind {
                3 => Box::new(Online::new(top, &prices, share, far, bookkeeping)),
                _ => Box::new(ApproxOnline::new(top, &prices, share, bookkeeping)),
            };
            let prefetch = thresholds(share);
            (fast, miss_policies::Policy::Charged { top, prefetch, capacity, bookkeeping })
        }
    }
}

/// A memory smaller than the programs, partly used by others, with its slow model and the number of others' frames.
fn memory(random: &mut Random, radix: bool) -> (Buddy, Frames, u64) {
    let frames = if radix { 512 + random.below(600) } else { 8 + random.below(150) };
    let top = random.of(&[if radix { 10 } else { 5 }, 3]);
    let (mut fast, mut slow) = (Buddy::new(frames, top), Frames::new(frames, top));
    let (pinned, share) = (random.of(&[0, 0, 4]), random.of(&[0, 2, 3]));
    let mut others = 0;
    for frame in 0..frames {
        if random.below(10) < share && others + 1 < frames {
            others += 1;
            assert!(fast.allocate_at(Frame(frame), 0));
            let pin = random.below(10) < pinned;
            slow.set((frame, 0), pin);
            if pin {
                fast.pin(Frame(frame), 0);
            }
        }
    }
    (fast, slow, others)
}

fn check(seed: u64, with_memory: bool) {
    let mut random = Random::new(seed);
    let mut program = random::program(&mut random, true, &[]);
    if random.below(3) == 0 {
        random::add_hugetlb(&mut random, &mut program);
    }
    // The slow model of these kernels is not told of advice.
    program.ops.retain(|op| !matches!(op, Op::Advise { .. }));
    for op in &mut program.ops {
        if let Op::Protect { rights, .. } = op {
            *rights = random.of(&[ALL, ALL - 1]);
        }
    }
    let (mut specs, mut slows, mut others_of) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..3 {
        let radix = random.below(4) == 0;
        let machine = whole_machine(&mut random, index, radix);
        let (mut policy, slow) = policies(&mut random, radix, with_memory);
        let mut throttle = None;
        if random.below(3) == 0 {
            let limits = ThrottleLimits {
                window: random.of(&[20, 100, 1000]),
                trip: random.of(&[0.01, 0.1, 0.5]),
                target: random.of(&[1.0, 20.0, 500.0]),
            };
            let ThrottleLimits { window, trip, target } = limits;
            throttle =
                Some(miss_policies::Throttle { window, trip, target, on: true, seen: (0, 0), since: (0, 0) });
            policy = Box::new(Throttle::new(policy, limits));
        }
        let name = format!("{slow:?} {throttle:?} on {machine:?}");
        let mut kernel = Kernel::new(PageSize::FOUR_KIB, policy, KernelCosts::ROMER);
        let mut slow = MissPolicyModel::new(slow, throttle, 1, entries(&machine), 4 * 3000);
        if with_memory {
            let (buddy, frames, others) = memory(&mut random, radix);
            let compact = random.below(2) == 0;
            let when_full =
                random.of(&[FullMemoryAction::Swap, FullMemoryAction::Swap, FullMemoryAction::Oom]);
            let rules = MemoryRules { compact, migration_cycles: 7, swap_cycles: 11, when_full };
            kernel = kernel.with_memory(buddy, rules);
            let kills = when_full == FullMemoryAction::Oom;
            slow.memory = Some(Memory { kills, ..Memory::new(frames, compact) });
            others_of.push(others);
        }
        specs.push(DesignSpec::with_kernel(name, &machine, kernel));
        slows.push(SlowKernel::new(&machine, slow));
    }
    let systems = Systems::new(&specs, 1);
    // A pass simulates only some of the machines.
    let pass = Simulation::new(specs, &Arrangement::default());
    let pass = pass.unwrap_or_else(|error| panic!("{error} (seed {seed})"));
    let mut both = (pass, systems);
    feed(&mut both, &program, &mut random);
    let (mut pass, systems) = both;
    for slow in &mut slows {
        program.ops.iter().for_each(|op| slow.op(&program, op));
    }
    systems.assert_equal(&pass.finish(), seed);
    for (fast, slow) in pass.finish().iter().zip(&slows) {
        let kernel = fast.kernel.expect("each has one");
        let promotions: Vec<(u8, u64)> =
            (0u8..).zip(kernel.counts.promotions).filter(|&(_, count)| count > 0).collect();
        let expected: Vec<(u8, u64)> =
            slow.kernel.promotions.iter().map(|(&order, &count)| (order, count)).collect();
        assert_eq!(promotions, expected, "promotions of {} (seed {seed})", fast.name);
        equal::assert_equal(fast, &slow.machine, slow.instructions, seed);
        let killed =
            slow.kernel.is_killed().then_some(OomKill { instructions: slow.instructions, bytes: 4096 });
        assert_eq!(kernel.killed, killed, "end of {} (seed {seed})", fast.name);
        let executed = [fast.instructions, fast.data_references];
        assert_eq!(
            executed,
            [slow.instructions, slow.data_references],
            "length of {} (seed {seed})",
            fast.name
        );
        let counts = [kernel.counts.faults, kernel.counts.demotions, kernel.counts.refused_area];
        let expected = [slow.kernel.faults, slow.kernel.demotions, slow.kernel.refused];
        assert_eq!(counts, expected, "events of {} (seed {seed})", fast.name);
        let spent = [Account::Copy, Account::Bookkeeping].map(|account| kernel.accounts.of(account));
        assert_eq!(spent, slow.kernel.spent, "cycles of {} (seed {seed})", fast.name);
        for sample in &fast.memory_samples {
            let before = slow.history.iter().take_while(|of| of[0] < sample.instructions).last();
            let found = [sample.backed_bytes / 4096, sample.touched_bytes / 4096];
            let [_, backed, touched] = before.copied().unwrap_or_default();
            assert_eq!(
                found,
                [backed, touched],
                "memory of {} at {} (seed {seed})",
                fast.name,
                sample.instructions
            );
        }
    }
    for ((fast, slow), others) in pass.finish().iter().zip(&slows).zip(others_of) {
        let memory = slow.kernel.memory.as_ref().expect("each has one");
        memory.check(others);
        let KernelTotals { counts: of, accounts, .. } = fast.kernel.expect("each has one");
        let counts = [
            of.faults_fallen_back,
            of.refused_memory,
            of.compactions,
            of.frames_moved,
            of.swap_outs,
            of.swap_ins,
        ];
        let [outs, ins] = memory.swaps;
        let expected = [memory.fallen_back, memory.refused, memory.compactions, memory.moved, outs, ins];
        assert_eq!(counts, expected, "frames of {} (seed {seed})", fast.name);
        let eager = [of.eager_areas, of.eager_bytes / 4096, of.eager_runs, of.eager_left];
        assert_eq!(eager, memory.eager, "areas of {} (seed {seed})", fast.name);
        let spent = [Account::Compaction, Account::Swap].map(|account| accounts.of(account));
        assert_eq!(spent, [7 * memory.moved, 11 * (outs + ins)], "cycles of {} (seed {seed})", fast.name);
    }
}

/// Ordinary runs use the same programs each time, long runs others. Shrinking a seed would give no simpler program.
pub fn config(usual: u32) -> ProptestConfig {
    let is_long = std::env::var("PAGEWALK_CASES").is_ok();
    ProptestConfig {
        cases: cases(usual),
        failure_persistence: None,
        max_shrink_iters: 0,
        rng_seed: if is_long { RngSeed::Random } else { RngSeed::Fixed(1998) },
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn every_counter_equals_the_oracles(seed in any::<u64>()) {
        check(seed, false);
    }
}

proptest! {
    // The slow allocator is slow.
    #![proptest_config(config(15))]

    #[test]
    fn every_counter_equals_the_oracles_where_memory_runs_out(seed in any::<u64>()) {
        check(seed, true);
    }
}

/// Two runs of an instruction that lies in the first two pages of a block: in private memory, which ends a page before
/// the block, then in hugetlb memory.
fn hugetlb_in_place_of_less() -> Program {
    let start = 512;
    let mut blocks = Dictionary::default();
    let across = Instruction { address: VirtAddr(((start + 1) << 12) - 1), length: 2 };
    let block = blocks.intern(Block {
        instructions: Box::new([across]),
        sites: Box::default(),
        code: Box::default(),
        end: BlockEnd::Jump,
    });
    let run = Op::Run { block, addresses: Vec::new() };
    let private = Op::Map { start, pages: 511, anonymous: true };
    let hugetlb = Op::MapHuge { start, pages: 512, page: 512 };
    Program { thread: ThreadId(1), blocks, ops: vec![private, run.clone(), hugetlb, run] }
}

/// The kernel's first huge page also backs the page after the private memory. That page stays, so small pages map the
/// hugetlb memory. A pass that decided by itself took them for one huge page, and the second fetch for one lookup.
#[test]
fn a_fetch_across_two_small_pages_of_hugetlb_memory_looks_up_both() {
    let text = "schema = 1\nname = \"m\"\n[[tlb]]\nname = \"l1\"\nlevel = 1\n\
                serves = [\"fetch\", \"load\", \"store\"]\npage_sizes = [\"4K\", \"2M\"]\nentries = 4\n\
                [walker]\nkind = \"radix\"\nlevels = 4\n[cost]\nl2_hit = 7\nwalk_reference = 20\n";
    let machine = MachineSpec::from_toml("m.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let kernel = Kernel::new(PageSize::FOUR_KIB, Box::new(Fixed { order: 9 }), KernelCosts::ROMER);
    let spec = DesignSpec::with_kernel("fixed".to_owned(), &machine, kernel);
    let model = MissPolicyModel::new(miss_policies::Policy::Fixed(9), None, 1, entries(&machine), 4 * 3000);
    let mut slow = SlowKernel::new(&machine, model);
    let program = hugetlb_in_place_of_less();
    let mut pass = Simulation::new(vec![spec], &Arrangement::default()).unwrap();
    feed(&mut pass, &program, &mut Random::new(1));
    program.ops.iter().for_each(|op| slow.op(&program, op));
    assert_eq!(slow.machine.counts.translations, [1 + 2, 0], "in a huge page, then in two small ones");
    equal::assert_equal(&pass.finish()[0], &slow.machine, slow.instructions, 1);
}
