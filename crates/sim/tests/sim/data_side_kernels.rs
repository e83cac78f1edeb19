//! Data sides under simulated kernels, on several cores, in turns, with caches: exact counts, and equality with the
//! data side of a whole machine.

use crate::random::Random;
use crate::stream::{MEMORY, Stream};
use pagewalk_mm::{OsKernel, OsSpec, Small};
use pagewalk_sim::{Arrangement, DataSideTotals, DesignCounts, DesignSpec, Library, Simulation, held_orders};
use pagewalk_trace::{Analysis, Batch, Event, FileIdentity, Item, Mapping, MappingKind, Protection, Source};
use pagewalk_translate::{Asid, MachineSpec};
use pagewalk_units::{RefIndex, ThreadId, VirtAddr};
use std::sync::Arc;

fn under(machine: &MachineSpec, os: &str) -> DesignSpec {
    let built = OsSpec::from_text(os).unwrap().build(machine.paging, held_orders(machine)).unwrap();
    let OsKernel::Running(kernel) = built else { panic!("{os} replays the stream") };
    DesignSpec::with_kernel(os.to_owned(), machine, *kernel)
}

/// The same loads, from memory that is mapped already.
fn again(stream: &Stream) -> Stream {
    Stream { area: stream.area.end..stream.area.end, ..stream.clone() }
}

fn alone(design: DesignSpec) -> Simulation {
    Simulation::new(vec![design], &Arrangement::default()).unwrap()
}

fn side_of(experiment: &mut Simulation) -> DataSideTotals {
    *experiment.finish().remove(0).data_side.unwrap()
}

/// Misses of level 1 and walks so far.
fn misses(experiment: &mut Simulation) -> [u64; 2] {
    let counts = side_of(experiment).counts;
    [counts.level1_misses, counts.walks]
}

/// The last of 512 pages is touched, and the kernel makes one of them before that load looks it up.
#[test]
fn what_a_kernel_promotes_is_one_page_to_a_data_side() {
    let machine = Library::get("karakostas_thp").unwrap();
    let round = Stream::new((0..512).collect());
    let mut small = alone(DesignSpec::new(&machine, Arc::new(Small)));
    let mut asap = alone(under(&machine, "asap"));
    for (rounds, of_small, of_asap) in [(1, [512, 512], [512, 512]), (2, [1024, 512], [512, 512])] {
        let pages = if rounds == 1 { round.clone() } else { again(&round) };
        pages.play(&mut small);
        assert_eq!(misses(&mut small), of_small, "{rounds} rounds");
        pages.play(&mut asap);
        assert_eq!(misses(&mut asap), of_asap, "{rounds} rounds");
    }
    let counts = asap.finish().remove(0);
    let hits = |name: &str| counts.arrays.iter().find(|array| array.name == name).unwrap().hits;
    assert_eq!((hits("l1_2m"), counts.kernel.unwrap().counts.promotions[9]), (512, 1));
    // It falls apart where a page of it goes.
    let gone = Event::Unmap { start: VirtAddr((MEMORY + 511) << 12), bytes: 4096 };
    asap.on_event(RefIndex(0), &gone);
    again(&Stream::new((0..511).collect())).play(&mut asap);
    assert_eq!(misses(&mut asap), [512 + 511, 512 + 511]);
}

/// A superpage that a miss builds is filled after the reference that missed, which does not search its array.
#[test]
fn references_before_the_first_superpage_search_no_array_for_it() {
    let machine = Library::get("karakostas_thp").unwrap();
    for length in 2..8 {
        let mut experiment = alone(under(&machine, "approx-online:threshold=0"));
        Stream::new((0..length).collect()).play(&mut experiment);
        let counts = experiment.finish().remove(0);
        assert_eq!(counts.kernel.unwrap().counts.promotions[9], 1, "{length} loads");
        let side = counts.data_side.unwrap();
        let reads = |name: &str| -> u64 {
            let array = side.counts.arrays.iter().find(|array| array.name == name).unwrap();
            array.operations.iter().map(|of| of.reads).sum()
        };
        // The first load fills the one, the second builds what fills the other.
        assert_eq!([reads("l1_4k"), reads("l1_2m")], [length - 1, length - 2], "{length} loads");
    }
}

/// A heap that grows by less than a page moves no frame. Files may say so of any address.
#[test]
fn growth_within_a_page_changes_nothing() {
    let machine = Library::get("zen4_coalescing").unwrap();
    let mut experiment = alone(under(&machine, "fixed:memory.size=1M"));
    Stream::new((0..8).collect()).play(&mut experiment);
    let before = misses(&mut experiment);
    for (old_end, new_end) in [(0x1100, 0x1200), (0x1f00, 0x2100), (0x2fff, 0x3000)] {
        let [old_end, new_end] = [old_end, new_end].map(|bytes| VirtAddr((MEMORY << 12) + bytes));
        experiment.on_event(RefIndex(0), &Event::Break { old_end, new_end });
        assert_eq!(misses(&mut experiment), before);
    }
}

/// Four pages share an entry where the kernel's frames lie together: as it gave them out in the order of touches.
#[test]
fn entries_hold_what_lies_together_in_the_kernels_memory() {
    let machine = Library::get("zen4_coalescing").unwrap();
    const PAGES: u64 = 16384;
    // With the page of code, the first three fill a group of frames.
    let first = [PAGES, PAGES + 1, PAGES + 2].into_iter();
    let touches =
        |order: &dyn Fn(u64) -> u64| Stream::new(first.clone().chain((0..PAGES).map(order)).collect());
    let round = again(&Stream::new((0..PAGES).collect()));
    for (touches, walks) in [(touches(&|page| page), PAGES / 4), (touches(&|page| PAGES - 1 - page), PAGES)] {
        let mut experiment = alone(under(&machine, "fixed:memory.size=256M"));
        touches.play(&mut experiment);
        round.play(&mut experiment);
        let [_, before] = misses(&mut experiment);
        round.play(&mut experiment);
        assert_eq!(misses(&mut experiment)[1] - before, walks);
    }
}

const DATA: &str = "
[[tlb]]
name = \"l1\"
level = 1
serves = [\"load\", \"store\"]
page_sizes = [\"4K\", \"64K\", \"2M\"]
entries = 16
ways = 4
[[tlb]]
name = \"l2\"
level = 2
serves = [\"load\", \"store\"]
page_sizes = [\"4K\", \"64K\", \"2M\"]
entries = 64
ways = 4
[walker]
kind = \"radix\"
format = \"aarch64-4k\"
levels = 4
";

const FETCHES: &str = "
[[tlb]]
name = \"l1i\"
level = 1
serves = [\"fetch\"]
page_sizes = [\"4K\", \"64K\", \"2M\"]
entries = 16
[[tlb]]
name = \"l2i\"
level = 2
serves = [\"fetch\"]
page_sizes = [\"4K\", \"64K\", \"2M\"]
entries = 16
";

/// The two, with the same arrays for data.
fn side_and_whole() -> [MachineSpec; 2] {
    let head = "schema = 1\nname = \"m\"\n";
    let side = format!("{head}side = \"data\"\n{DATA}[cost]\nwalk = 50\n");
    let whole = format!("{head}{DATA}{FETCHES}[cost]\nwalk_reference = 10\n");
    [side, whole].map(|text| MachineSpec::from_toml("m.toml", &text).unwrap())
}

/// Loads from most of some regions, and some of others.
fn uneven() -> Stream {
    let mut random = Random::new(1998);
    let pages = (0..60_000).map(|_| {
        let region = random.below(4) * random.below(4) * random.below(2) * 256;
        region + random.below(512)
    });
    Stream { growth: 64, instructions: 3, ..Stream::new(pages.collect()) }
}

/// OFFLINE chooses the same superpages for both.
#[test]
fn replays_choose_for_a_data_side_as_for_a_whole_machine() {
    let built = OsSpec::from_text("offline:miss_cycles=2000").unwrap();
    let [side, whole] = side_and_whole().map(|machine| {
        let built = built.build(machine.paging, held_orders(&machine)).unwrap();
        let OsKernel::Offline(settings) = built else { panic!("it replays the stream") };
        let stream = uneven();
        let found = stream.offline(&machine, &settings);
        (found.blocks, found.counts.walks_data)
    });
    assert!(!side.0.is_empty());
    assert_eq!(side, whole);
}

/// A data side without ranges and coalescing is that of a whole machine, under every kernel: also for those that watch
/// what enters and leaves its TLBs.
#[test]
fn a_plain_data_side_is_that_of_a_whole_machine() {
    let [side, whole] = side_and_whole();
    let mut compared = 0;
    for (name, _) in OsSpec::policies() {
        for keys in ["", ":memory.size=256M"] {
            let os = format!("{name}{keys}");
            let build = |machine: &MachineSpec| {
                OsSpec::from_text(&os).ok()?.build(machine.paging, held_orders(machine)).ok()
            };
            if !matches!(
                (build(&side), build(&whole)),
                (Some(OsKernel::Running(_)), Some(OsKernel::Running(_)))
            ) {
                continue;
            }
            let stream = uneven();
            let counts = [&side, &whole].map(|machine| {
                let mut experiment = alone(under(machine, &os));
                stream.play(&mut experiment);
                experiment.finish().remove(0)
            });
            let data = |counts: &DesignCounts| {
                let of = |name: &str| {
                    let array = counts.arrays.iter().find(|array| array.name == name).unwrap();
                    (array.lookups, array.hits)
                };
                let kernel = counts.kernel.unwrap().counts;
                (counts.walks_data, of("l1"), of("l2"), kernel.promotions, kernel.demotions)
            };
            assert_eq!(data(&counts[0]), data(&counts[1]), "{os}");
            compared += 1;
        }
    }
    assert!(compared >= 14, "{compared} kernels");
}

/// Each walk reads four entries: from memory at first, then from the line that all levels' tables have there.
#[test]
fn walks_go_through_caches() {
    let cache = "[[cache]]\nname = \"l1d\"\nlevel = 1\n\
                 serves = [\"load\", \"store\", \"walk\"]\nsize = \"32K\"\nways = 8\n\
                 latency = 5\n[cost]\nmemory = 100\n";
    let text = format!("schema = 1\nname = \"m\"\nside = \"data\"\n{DATA}{cache}");
    let machine = MachineSpec::from_toml("m.toml", &text).unwrap();
    let mut experiment = alone(DesignSpec::new(&machine, Arc::new(Small)));
    Stream::new(vec![0, 1]).play(&mut experiment);
    let counts = experiment.finish().remove(0);
    assert_eq!((counts.walks_data, counts.cycles.walk), (2, 4 * 100 + 4 * 5));
    assert_eq!(counts.memory.map(|memory| memory.walk_references), Some(4));
    assert!(!counts.caches.is_empty());
}

/// A page of a file that two processes map alike is global: one entry serves both, though none else does.
#[test]
fn pages_that_processes_share_have_one_entry() {
    let machine = MachineSpec { asids: 2, ..Library::get("karakostas_rmm").unwrap() };
    for (global_files, walks) in [(false, 6), (true, 5)] {
        let arrangement = Arrangement { turns: true, global_files, ..Arrangement::default() };
        let design = DesignSpec::new(&machine, Arc::new(Small));
        let mut experiment = Simulation::new(vec![design], &arrangement).unwrap();
        for asid in [0, 1] {
            experiment.switch_to(Asid::new(asid).unwrap());
            // A page of the file, and two of memory of its own, too few for a range.
            experiment.on_event(RefIndex(0), &map(3, 4, true));
            experiment.on_event(RefIndex(0), &map(0, 2, false));
            again(&Stream::new(vec![3, 0, 1, 3, 0, 1])).play(&mut experiment);
        }
        assert_eq!(misses(&mut experiment)[1], walks);
    }
}

/// An array of level 2 that cores share has what another core walked for.
#[test]
fn cores_share_an_array_of_level_2() {
    let mut machine = Library::get("karakostas_4k").unwrap();
    for (shared, walks) in [(false, 200), (true, 100)] {
        machine.tlbs.iter_mut().filter(|tlb| tlb.level == 2).for_each(|tlb| tlb.shared = shared);
        let arrangement = Arrangement { cores: 2, ..Arrangement::default() };
        let design = DesignSpec::new(&machine, Arc::new(Small));
        let mut experiment = Simulation::new(vec![design], &arrangement).unwrap();
        let stream = Stream::new((0..100).collect());
        for thread in [1, 2] {
            let stream = if thread == 1 { stream.clone() } else { again(&stream) };
            let mut reader = stream.open();
            while let Some(item) = reader.next_item().unwrap() {
                match item {
                    Item::Batch(batch) => experiment.on_batch(&Batch { thread: ThreadId(thread), ..batch }),
                    Item::Event { at, event } => experiment.on_event(at, &event),
                }
            }
        }
        assert_eq!(misses(&mut experiment), [200, walks]);
        let of_cores: u64 = [0, 1].map(|core| experiment.core_counts(core)[0].walks()).iter().sum();
        assert_eq!(of_cores, walks);
    }
}

fn map(first: u64, end: u64, of_file: bool) -> Event {
    let file = FileIdentity { path: "/file".to_owned(), offset: 0, build_id: None };
    Event::Map(Mapping {
        protection: Protection { read: true, write: !of_file, execute: false },
        kind: if of_file { MappingKind::SharedFile } else { MappingKind::Anonymous },
        file: of_file.then_some(file),
        ..Mapping::anonymous(VirtAddr((MEMORY + first) << 12), (end - first) << 12)
    })
}
