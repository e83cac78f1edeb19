//! TLBs and caches of memory count alike whatever lags behind: the pass, the system, and the system that looks each
//! reference up. Blocks are short and on few lines, their sites in any order, and one array may serve fetches and data.

use crate::random::Random;
use crate::stream::batch;
use pagewalk_mm::Small;
use pagewalk_oracle::cases;
use pagewalk_sim::{DesignCounts, DesignSpec, NoObserver, Pass, System};
use pagewalk_trace::{Analysis, BatchBuffer, Block, BlockEnd, Dictionary, Instruction, Ref, Site, Span};
use pagewalk_translate::MachineSpec;
use pagewalk_units::{Access, Kind, Size, VirtAddr};
use proptest::prelude::*;
use std::sync::Arc;

fn machine(random: &mut Random) -> MachineSpec {
    let array = |name: &str, serves: &str, entries: u64| {
        format!(
            "[[tlb]]\nname = \"{name}\"\nlevel = 1\nentries = {entries}\nserves = [{serves}]\n\
             page_sizes = [\"4K\"]\n"
        )
    };
    let entries = random.of(&[1, 2, 4]);
    let tlbs = match random.below(2) {
        0 => array("l1", "\"fetch\", \"load\", \"store\"", entries),
        _ => array("itlb", "\"fetch\"", entries) + &array("dtlb", "\"load\", \"store\"", entries),
    };
    let replacement = random.of(&["lru", "tree-plru", "fifo", "srrip"]);
    let walks = random.of(&["", ", \"walk\""]);
    let cache = |name: &str, level: u8, serves: &str, size: &str, inclusive: bool| {
        format!(
            "[[cache]]\nname = \"{name}\"\nlevel = {level}\nserves = [{serves}]\nsize = \"{size}\"\nways = 2\n\
             latency = {}\nreplacement = \"{replacement}\"\ninclusive = {inclusive}\n",
            level * 5
        )
    };
    let first = match random.below(3) {
        0 => cache("l1", 1, "\"fetch\", \"load\", \"store\"", "256", false),
        _ => {
            cache("l1i", 1, "\"fetch\"", "128", false)
                + &cache("l1d", 1, &format!("\"load\", \"store\"{walks}"), "256", false)
        }
    };
    let second = cache("l2", 2, "\"fetch\", \"load\", \"store\", \"walk\"", "512", random.below(2) == 0);
    let (caches, cost) = match random.below(4) {
        0 => (String::new(), "walk_reference = 20"),
        _ => (first + &second, "memory = 50"),
    };
    let text = format!(
        "schema = 1\nname = \"m\"\n{tlbs}{caches}[walker]\nkind = \"radix\"\nlevels = 4\n[cost]\n{cost}\n"
    );
    MachineSpec::from_toml("m.toml", &text).unwrap()
}

fn access(random: &mut Random) -> Access {
    Access { kind: random.of(&[Kind::Load, Kind::Store, Kind::Modify]), size: Size::at_least(8).unwrap() }
}

/// A block near the end of a line or page.
fn block(random: &mut Random, is_ordered: bool) -> Block {
    let mut address = random.of(&[0x1000, 0x1030, 0x1ff0, 0x2fe8]) + random.below(8);
    let instructions: Vec<Instruction> = (0..1 + random.below(5))
        .map(|_| {
            let length = random.of(&[1, 4, 15]);
            address += u64::from(length);
            Instruction { address: VirtAddr(address - u64::from(length)), length }
        })
        .collect();
    let mut sites: Vec<Site> = (0..random.below(4))
        .map(|_| Site { instruction: random.below(instructions.len() as u64) as u16, access: access(random) })
        .collect();
    if is_ordered || random.below(4) > 0 {
        sites.sort_by_key(|site| site.instruction);
    }
    Block {
        instructions: instructions.into(),
        sites: sites.into(),
        code: Box::default(),
        end: BlockEnd::Jump,
    }
}

fn check(seed: u64) {
    let mut random = Random::new(seed);
    let machine = machine(&mut random);
    let design = || DesignSpec::new(&machine, Arc::new(Small));
    let mut blocks = Dictionary::default();
    // Without caches, sites that are out of order have no order of their own.
    let is_ordered = machine.caches.is_empty();
    let ids: Vec<_> = (0..4).map(|_| blocks.intern(block(&mut random, is_ordered))).collect();
    let mut pass = Pass::new(vec![design()], NoObserver).unwrap();
    let mut system = System::new(design(), 1).unwrap();
    let mut slow = System::new(design(), 1).unwrap().with_every_lookup();
    let (mut refs, mut instructions) = (0, 0);
    for _ in 0..20 {
        let mut buffer = BatchBuffer::default();
        for _ in 0..1 + random.below(20) {
            let id = random.of(&ids);
            buffer.spans.push(Span { block: id, first: buffer.refs.len() as u32 });
            for site in blocks.get(id).sites.iter() {
                let page = random.of(&[1, 2, 0x10, 0x11, 0x12]) << 12;
                buffer
                    .refs
                    .push(Ref::new(VirtAddr(page + random.of(&[0, 8, 0x40, 0x7c, 0xffc])), site.access));
            }
        }
        let batch = batch((refs, instructions), &buffer.refs, &buffer.spans, &blocks);
        refs += batch.refs.len() as u64;
        instructions += batch.instructions();
        for engine in [&mut pass as &mut dyn Analysis, &mut system, &mut slow] {
            engine.on_batch(&batch);
        }
    }
    let expected = slow.counts();
    let of = |counts: &DesignCounts| (counts.caches.clone(), counts.memory, counts.walks());
    assert_eq!(of(&system.counts()), of(&expected), "system (seed {seed})");
    assert_eq!(of(&pass.finish()[0]), of(&expected), "pass (seed {seed})");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(600), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_lags_behind_counts_like_what_looks_everything_up(seed in any::<u64>()) {
        check(seed);
    }
}
