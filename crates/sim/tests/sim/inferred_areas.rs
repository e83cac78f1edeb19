//! Kernels on streams without mappings: areas that are inferred count like the same areas mapped by the program, whose
//! counts equal the oracle's (`kernels_equal_oracle.rs`).

use crate::random::{self, Op, Program, Random};
use crate::slow::feed;
use pagewalk_mm::promotion::{ApproxOnline, Asap, BreakEven, Policy};
use pagewalk_mm::{AreaMode, AreaRules, InferredAreas, Kernel, KernelCosts, Small, Thp, ThpMode};
use pagewalk_oracle::cases;
use pagewalk_sim::{Arrangement, DesignCounts, DesignSpec, Library, Simulation};
use pagewalk_trace::pwt::{Reader, Writer};
use pagewalk_trace::{Block, BlockEnd, Dictionary, Origin, Site, Source, StreamHeader};
use pagewalk_units::{Access, Kind, PageSize, Size, ThreadId};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn prices() -> BreakEven {
    BreakEven { base: PageSize::FOUR_KIB, copy_per_kib: 3000, miss_cycles: 30 }
}

/// The machine of Romer's thesis without superpages, under ASAP, and under APPROX-ONLINE.
fn designs() -> Vec<DesignSpec> {
    let machine = Library::get("romer_1998").unwrap();
    let kernels: [(&str, Option<Box<dyn Policy>>); 3] = [
        ("none", None),
        ("asap", Some(Box::new(Asap::new(11)))),
        ("approx-online", Some(Box::new(ApproxOnline::new(11, &prices(), 0.125, 100)))),
    ];
    let design = |(name, policy): (&str, Option<Box<dyn Policy>>)| match policy {
        None => DesignSpec { name: name.to_owned(), ..DesignSpec::new(&machine, std::sync::Arc::new(Small)) },
        Some(policy) => {
            let kernel = Kernel::new(PageSize::FOUR_KIB, policy, KernelCosts::ROMER);
            DesignSpec::with_kernel(name.to_owned(), &machine, kernel)
        }
    };
    kernels.into_iter().map(design).collect()
}

fn counts(designs: Vec<DesignSpec>, mut source: impl Source) -> Vec<DesignCounts> {
    let mut pass = Simulation::new(designs, &Arrangement::default()).unwrap();
    while let Some(item) = source.next_item().unwrap() {
        item.play(&mut pass);
    }
    pass.finish()
}

/// The program's trace, in batches cut at random places.
fn trace(program: &Program, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &StreamHeader::unknown(Origin::Import)).unwrap();
    feed(&mut writer, program, random);
    writer.finish().unwrap();
    bytes
}

fn rules(gap: u64) -> AreaRules {
    AreaRules { mode: AreaMode::Auto, gap }
}

/// The program that maps each piece itself, right before it touches it.
fn with_mappings(program: &Program, gap: u64) -> Vec<Op> {
    let mut mapped = BTreeSet::new();
    let mut ops = Vec::new();
    for op in &program.ops {
        let Op::Run { block, addresses } = op else { continue };
        let block = program.blocks.get(*block);
        let code = block.instructions.iter().map(|one| (one.address.0, u64::from(one.length)));
        let data = block.sites.iter().zip(addresses);
        let data = data.map(|(site, &address)| (address, u64::from(site.access.size.bytes())));
        for (first, bytes) in code.chain(data) {
            for piece in first / gap..=(first + bytes - 1) / gap {
                if mapped.insert(piece) {
                    ops.push(Op::Map { start: piece * gap / 4096, pages: gap / 4096, anonymous: true });
                }
            }
        }
        ops.push(op.clone());
    }
    ops
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(40), ..ProptestConfig::default() })]

    #[test]
    fn inferred_areas_count_like_the_same_areas_mapped(seed in any::<u64>(), shift in 12u32..=22) {
        let mut random = Random::new(seed);
        let mut program = random::program(&mut random, true, &[]);
        program.ops.retain(|op| matches!(op, Op::Run { .. }));
        let bytes = trace(&program, &mut random);
        let found = counts(designs(), InferredAreas::new(Reader::new(&bytes[..]).unwrap(), rules(1 << shift)));
        program.ops = with_mappings(&program, 1 << shift);
        let bytes = trace(&program, &mut random);
        prop_assert_eq!(found, counts(designs(), Reader::new(&bytes[..]).unwrap()));
    }
}

/// A million loads from 1,024 pages at random.
fn random_pages() -> Vec<u8> {
    let access = Access { kind: Kind::Load, size: Size::of_bytes(8).expect("a size") };
    let mut blocks = Dictionary::default();
    let sites = [Site { instruction: 0, access }].into();
    let block = Block { instructions: Box::default(), sites, code: Box::default(), end: BlockEnd::Other };
    let block = blocks.intern(block);
    let mut random = Random::new(1024);
    let mut load = || Op::Run { block, addresses: vec![(1 << 32) + (random.below(1024) << 12)] };
    let ops = (0..1_000_000).map(|_| load()).collect();
    trace(&Program { thread: ThreadId(1), blocks, ops }, &mut Random::new(1))
}

#[test]
fn a_kernel_promotes_on_a_stream_without_mappings_where_areas_are_inferred() {
    let bytes = random_pages();
    let under = |rules| counts(designs(), InferredAreas::new(Reader::new(&bytes[..]).unwrap(), rules));
    let walks = |counts: &[DesignCounts]| counts.iter().map(DesignCounts::walks).collect::<Vec<_>>();
    let without = walks(&under(AreaRules { mode: AreaMode::None, ..AreaRules::default() }));
    assert_eq!([without[1], without[2]], [without[0]; 2], "without areas there are no superpages");
    let with = under(AreaRules::default());
    let promotions = |of: &DesignCounts| of.kernel.unwrap().counts.promotions.iter().sum::<u64>();
    assert!(promotions(&with[1]) > 0 && promotions(&with[2]) > 0);
    let [none, asap, approx_online] = walks(&with)[..] else { panic!("three designs") };
    assert_eq!(none, without[0]);
    assert!(asap < none / 100 && approx_online < none / 10, "{none} {asap} {approx_online}");
}

#[test]
fn first_touches_have_huge_pages_if_the_gap_is_as_large() {
    let bytes = random_pages();
    let machine = Library::get("golden_cove").unwrap();
    let walks = |gap| {
        let thp = std::sync::Arc::new(Thp { mode: ThpMode::Always });
        let design = DesignSpec::new(&machine, thp);
        counts(vec![design], InferredAreas::new(Reader::new(&bytes[..]).unwrap(), rules(gap)))[0].walks()
    };
    assert_eq!(walks(2 << 20), 2, "two huge pages");
    assert!(walks(4 << 10) >= 1024, "each page is touched before its region is mapped");
}
