//! Superpages where page tables are mapped: a superpage has a PTE for each of its base pages, and takes one slot.

use crate::composition::kernels;
use crate::random::{self, Random};
use crate::slow::feed;
use pagewalk_mm::{Thp, ThpMode};
use pagewalk_oracle::cases;
use pagewalk_sim::{Arrangement, DesignCounts, DesignSpec, Simulation};
use pagewalk_translate::MachineSpec;
use proptest::prelude::*;
use std::sync::Arc;

/// A machine whose only TLB handlers refill.
fn machine(slots: u64, walker: &str) -> MachineSpec {
    let text = format!(
        "schema = 1\nname = \"m\"\n[[tlb]]\nname = \"tlb\"\nlevel = 1\nserves = [\"fetch\", \"load\", \"store\"]\n\
         page_sizes = [\"4K\", \"8K\", \"16K\", \"32K\", \"64K\", \"2M\"]\nentries = {slots}\nreplacement = \"fifo\"\n\
         [walker]\nkind = \"software\"\n{walker}"
    );
    MachineSpec::from_toml("m.toml", &text).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

fn mapped(slots: u64, tables: u8, lower: u64) -> MachineSpec {
    let placement = if lower == 0 { "d" } else { "a" };
    machine(
        slots,
        &format!(
            "[walker.mapped]\nplacement = \"{placement}\"\nlower = {lower}\nlower_replacement = \"fifo\"\n\
             entry_bytes = 4\n[walker.mapped.systems.one]\ntables = {tables}\n\
             cycles = {{ l1u = 20, l1k = 20, l2 = 407, l3 = 286, modify = 0, invalid = 0 }}\n[cost]\n"
        ),
    )
}

/// The machine under every policy that it can have, and the host's kernel.
fn designs(machine: &MachineSpec) -> Vec<DesignSpec> {
    let mut designs = kernels(machine, "");
    designs.push(DesignSpec::new(machine, Arc::new(Thp { mode: ThpMode::Always })));
    designs
}

fn run(machine: &MachineSpec, seed: u64) -> Vec<DesignCounts> {
    let mut random = Random::new(seed);
    let mut program = random::program(&mut random, true, &[]);
    random::add_hugetlb(&mut random, &mut program);
    let mut experiment = Simulation::new(designs(machine), &Arrangement::default()).unwrap();
    feed(&mut experiment, &program, &mut random);
    experiment.finish()
}

/// With one level of tables nothing misses but pages: the machine is one whose handler loads from memory that needs no
/// translation, at the same price.
fn check(seed: u64) {
    let slots = [4, 8, 16, 32][(seed % 4) as usize];
    let plain = machine(slots, "refill_cycles = 20\n[cost]\n");
    let (mapped, plain) = (run(&mapped(slots, 1, 0), seed), run(&plain, seed));
    assert!(plain.len() > 10, "{}", plain.len());
    for (mapped, plain) in mapped.iter().zip(&plain) {
        let name = format!("{}, seed {seed}", plain.name);
        let hits = |counts: &DesignCounts| counts.arrays[0].hits;
        assert_eq!((mapped.walks_fetch, mapped.walks_data), (plain.walks_fetch, plain.walks_data), "{name}");
        assert_eq!((mapped.translations, hits(mapped)), (plain.translations, hits(plain)), "{name}");
        assert_eq!((mapped.kernel, mapped.cycles.walk), (plain.kernel, plain.cycles.walk), "{name}");
        assert_eq!(mapped.memory_samples, plain.memory_samples, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(30), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_level_of_tables_is_a_handler_alone(seed in any::<u64>()) {
        check(seed);
    }
}

/// Table pages are fewer where superpages are walked for: 1,024 pages of a program have one, whatever maps them.
#[test]
fn a_superpage_is_found_in_the_table_page_of_the_page_that_missed() {
    let seed = 1;
    let found = run(&mapped(16, 3, 4), seed);
    let class = |counts: &DesignCounts, name: &str| {
        let software = counts.software.as_ref().unwrap();
        let all = software.counts.misses;
        let at = pagewalk_translate::MissClass::ALL.iter().position(|class| class.name() == name).unwrap();
        all[at]
    };
    let fixed = found.iter().find(|counts| counts.name == "fixed").unwrap();
    let huge = found.last().unwrap();
    assert!(class(huge, "l1u") < class(fixed, "l1u"), "huge pages miss less");
    assert!(class(huge, "l2") > 0 && class(huge, "l2") <= class(huge, "l1u"));
    for counts in &found {
        assert_eq!(class(counts, "l1u") + class(counts, "l1k"), counts.walks(), "{}", counts.name);
    }
}
