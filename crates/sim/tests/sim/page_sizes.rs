//! Programs that choose their page sizes themselves, in the profile and under kernels of their own: on hugetlb, with
//! transparent huge pages forbidden, growing by less than a huge page, asleep for a while. Small streams of what
//! `hugetlb.c` and `nothp.c` of the project's cases do, of an arena that grows by 1 MiB (Linux's
//! `Documentation/admin-guide/mm/transhuge.rst`, "Optimizing the applications": only a mapping on a border has a huge
//! page at once), and of a server that waits for requests (openjdk/jdk pull request 14919: `khugepaged` makes huge
//! pages of stacks that nobody has filled).

use crate::stream::{LOAD, batch, map, one_block};
use pagewalk_mm::{OsSpec, ThpMode};
use pagewalk_sim::{
    Alternative, AlternativeKind, Arrangement, DesignSpec, Library, Profile, Simulation, held_orders,
};
use pagewalk_trace::{Analysis, Dictionary, Event, Ref, Span, ThpDisable};
use pagewalk_translate::MachineSpec;
use pagewalk_units::{Access, BlockId, Kind, RefIndex, VirtAddr};

const MIB: u64 = 1 << 20;
/// Where data lie.
const DATA: u64 = 0x7f00_0000_0000;
/// Where the only instruction is.
const CODE: u64 = 0x40_0000;

/// A program of one instruction that stores.
struct Stores {
    blocks: Dictionary,
    block: BlockId,
    references: u64,
}

impl Stores {
    fn new() -> Stores {
        let (blocks, block) = one_block(CODE, &[Access { kind: Kind::Store, ..LOAD }]);
        Stores { blocks, block, references: 0 }
    }

    /// Stores to every page of 4 KiB, `rounds` times.
    fn touch(&mut self, analysis: &mut impl Analysis, start: u64, bytes: u64, rounds: u64) {
        let access = self.blocks.get(self.block).sites[0].access;
        let round = (start..start + bytes).step_by(4096);
        let refs: Vec<Ref> =
            (0..rounds).flat_map(|_| round.clone()).map(|at| Ref::new(VirtAddr(at), access)).collect();
        let spans: Vec<Span> =
            (0..refs.len() as u32).map(|first| Span { block: self.block, first }).collect();
        analysis.on_batch(&batch((self.references, self.references), &refs, &spans, &self.blocks));
        self.references += refs.len() as u64;
    }
}

fn tell(analysis: &mut impl Analysis, event: Event) {
    analysis.on_event(RefIndex(0), &event);
}

fn machine(name: &str) -> MachineSpec {
    Library::get(name).expect("a machine of the library")
}

/// The alternative of a kind.
fn of(alternatives: &[Alternative], kind: AlternativeKind) -> Alternative {
    alternatives.iter().find(|alternative| alternative.kind == kind).expect("it was simulated").clone()
}

/// A pass over a machine under a kernel of `[os]`.
fn under(policy: &str, machine: &MachineSpec) -> Simulation {
    let kernel = OsSpec::from_text(policy).unwrap().kernel(machine.paging, held_orders(machine)).unwrap();
    let design = DesignSpec::with_kernel(policy.to_owned(), machine, kernel);
    Simulation::new(vec![design], &Arrangement::default()).unwrap()
}

#[test]
fn memory_of_hugetlb_is_on_huge_pages_under_every_mode_and_has_nothing_to_gain() {
    for (mode, page) in [(ThpMode::Never, 2 * MIB), (ThpMode::Always, 2 * MIB), (ThpMode::Never, 1 << 30)] {
        let bytes = page.max(64 * MIB);
        let mut profile = Profile::new(&[machine("skylake_sp")], mode, true).unwrap().with_first_look(1000);
        let mut program = Stores::new();
        tell(&mut profile, map(DATA, bytes, page));
        program.touch(&mut profile, DATA, 64 * MIB, 3);
        let findings = profile.finish();
        // Those of code, and one of each 2 MiB.
        let walks = findings.machines()[0].walks_data;
        assert!((32..=40).contains(&walks), "{walks} walks in pages of {page}");
        let alternatives = findings.alternatives();
        let small = of(&alternatives, AlternativeKind::AllSmall);
        assert_eq!((small.walks, small.untouched_bytes), (small.baseline_walks, 0));
        let is_candidate = |of: &Alternative| matches!(of.kind, AlternativeKind::Mapping(_));
        assert!(!alternatives.iter().any(is_candidate), "{alternatives:?}");
    }
}

#[test]
fn every_kernel_takes_one_fault_for_a_page_of_hugetlb() {
    let machine = machine("skylake_sp");
    for policy in ["linux", "ingens", "hawkeye", "freebsd", "fixed", "linux:thp=never"] {
        let mut pass = under(policy, &machine);
        let mut program = Stores::new();
        tell(&mut pass, map(DATA, 64 * MIB, 2 * MIB));
        program.touch(&mut pass, DATA, 64 * MIB, 3);
        let counts = pass.finish().remove(0);
        let kernel = counts.kernel.expect("it has one").counts;
        // One of the code.
        assert_eq!((kernel.faults, kernel.demotions), (33, 0), "{policy}");
        assert!((32..=40).contains(&counts.walks_data), "{policy}: {}", counts.walks_data);
    }
}

#[test]
fn machines_without_huge_pages_have_base_pages_for_it() {
    let text = "schema = 1\nname = \"small\"\n\
                [[tlb]]\nname = \"tlb\"\nlevel = 1\nserves = [\"fetch\", \"load\", \"store\"]\n\
                page_sizes = [\"4K\"]\nentries = 64\n\
                [walker]\nkind = \"software\"\nrefill_cycles = 30\n[cost]\nl2_hit = 7\n";
    let machine = MachineSpec::from_toml("small.toml", text).unwrap();
    assert!(!machine.has_huge_pages());
    let mut profile = Profile::new(&[machine], ThpMode::Always, false).unwrap();
    tell(&mut profile, map(DATA, 4 * MIB, 2 * MIB));
    Stores::new().touch(&mut profile, DATA, 4 * MIB, 1);
    assert_eq!(profile.finish().machines()[0].walks_data, 1024);
}

#[test]
fn what_the_process_forbids_stays_small_but_is_shown() {
    let run = |mode: ThpDisable, advise: bool| {
        let mut profile = Profile::new(&[machine("skylake_sp")], ThpMode::Always, true).unwrap();
        tell(&mut profile, Event::ThpDisable { mode });
        tell(&mut profile, map(DATA, 64 * MIB, 4096));
        if advise {
            tell(&mut profile, Event::Advise { start: VirtAddr(DATA), bytes: 64 * MIB, advice: 14 });
        }
        Stores::new().touch(&mut profile, DATA, 64 * MIB, 2);
        let findings = profile.finish();
        assert_eq!(findings.space().thp_disable(), mode);
        let thp = of(&findings.alternatives(), AlternativeKind::ThpAlways);
        assert!(thp.walks < 100, "what it would have otherwise");
        thp.baseline_walks
    };
    assert!(run(ThpDisable::Off, false) < 100);
    assert!(run(ThpDisable::All, false) > 16_384);
    assert!(run(ThpDisable::All, true) > 16_384, "advice does not help");
    assert!(run(ThpDisable::ExceptAdvised, false) > 16_384);
    assert!(run(ThpDisable::ExceptAdvised, true) < 100);
}

#[test]
fn memory_that_grows_by_less_than_a_huge_page_is_counted() {
    let run = |mode: ThpMode, step: u64, advice: Option<i32>| {
        let mut profile = Profile::new(&[machine("skylake_sp")], mode, false).unwrap();
        let mut program = Stores::new();
        for start in (DATA..DATA + 32 * MIB).step_by(step as usize) {
            tell(&mut profile, map(start, step, 4096));
            if let Some(advice) = advice {
                tell(&mut profile, Event::Advise { start: VirtAddr(start), bytes: step, advice });
            }
            program.touch(&mut profile, start, step, 1);
        }
        let mappings = profile.finish().mappings();
        let late = mappings.values().map(|counts| counts.late_blocks);
        late.fold([0; 2], |[a, b], late| [a + late.huge_otherwise, b + late.small_anyway])
    };
    assert_eq!(run(ThpMode::Always, MIB, None), [16, 0]);
    assert_eq!(run(ThpMode::Always, 2 * MIB, None), [0, 0]);
    assert_eq!(run(ThpMode::Madvise, MIB, None), [0, 16]);
    assert_eq!(run(ThpMode::Madvise, MIB, Some(14)), [16, 0]);
    assert_eq!(run(ThpMode::Always, MIB, Some(15)), [0, 0], "the program does not want huge pages");
}

#[test]
fn khugepaged_works_while_the_program_sleeps() {
    let promotions = |sleeps: u64| {
        let mut pass = under("linux", &machine("skylake_sp"));
        let mut program = Stores::new();
        // Each block begins with half of it.
        for start in (DATA..DATA + 32 * MIB).step_by(MIB as usize) {
            tell(&mut pass, map(start, MIB, 4096));
            program.touch(&mut pass, start, MIB, 1);
        }
        for _ in 0..sleeps {
            tell(&mut pass, Event::Idle { nanoseconds: 5_000_000_000 });
        }
        let kernel = pass.finish().remove(0).kernel.expect("it has one").counts;
        kernel.promotions.iter().sum::<u64>()
    };
    // Eight blocks a scan, a scan every ten seconds.
    assert_eq!([0, 1, 2, 3, 4, 6].map(promotions), [0, 0, 8, 8, 16, 16]);
}

#[test]
fn spinning_is_counted() {
    let mut profile = Profile::new(&[machine("skylake_sp")], ThpMode::Always, false).unwrap();
    tell(&mut profile, map(DATA, MIB, 4096));
    Stores::new().touch(&mut profile, DATA, MIB, 1);
    tell(&mut profile, Event::Spin { instructions: 100 });
    tell(&mut profile, Event::Spin { instructions: 20 });
    assert_eq!(profile.finish().machines()[0].spin_instructions, 120);
}
