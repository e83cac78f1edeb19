//! Families and stack distances against the slow models of `oracle`, fed with whole streams: blocks with fetches and
//! data, references that cross pages, events, batches cut anywhere, processes that take turns.

use pagewalk_oracle::{LruSets, cases};
use pagewalk_reuse::{Family, ReferenceKinds, SampledDistances, Sampling, StackDistances};
use pagewalk_trace::{
    Analysis, Batch, BatchBuffer, Block, BlockEnd, Dictionary, Event, Instruction, Protection, Ref, Site,
    Span,
};
use pagewalk_units::{Access, BlockId, Kind, PageSize, RefIndex, Size, SpaceId, ThreadId, VirtAddr};
use proptest::prelude::*;

/// Code and data lie in these pages, and in as many pages some GiB away.
const PAGES: u64 = 600;

#[derive(Clone, Debug)]
enum Op {
    /// An execution of the block with this number (modulo their count); where its data is.
    Run(usize, Vec<u64>),
    /// Pages are unmapped or protected.
    Gone { start: u64, bytes: u64, unmapped: bool },
    /// The batch ends here.
    Cut,
    /// Another process runs.
    Turn(u32),
}

/// Processes that take turns.
const PROCESSES: u32 = 3;

#[derive(Clone, Debug)]
struct Stream {
    blocks: Vec<Block>,
    ops: Vec<Op>,
}

/// An address: often in a few pages, often near the end of a page, sometimes far away.
fn address() -> impl Strategy<Value = u64> {
    let page = prop_oneof![3 => 0..8_u64, 3 => 0..PAGES, 1 => (0..20_u64).prop_map(|page| page << 5)];
    let offset = prop_oneof![2 => 0..4096_u64, 1 => 4030..4096_u64];
    let far = prop::sample::select(vec![0, 0, 0, 1 << 21, 3 << 30]);
    (page, offset, far).prop_map(|(page, offset, far)| (page << 12) + offset + far)
}

/// A block; `imported`: fetches may be among its data references.
fn block(imported: bool) -> impl Strategy<Value = Block> {
    let kinds = if imported { &Kind::ALL[..] } else { &Kind::ALL[1..] };
    let size = prop::sample::select(vec![1, 8, 8, 8, 64, 10, 464, 8192])
        .prop_map(|bytes| Size::of_bytes(bytes).unwrap());
    let access = (prop::sample::select(kinds), size).prop_map(|(kind, size)| Access { kind, size });
    let instruction =
        (1..16_u8, prop::sample::select(vec![0, 0, 0, 0, 4096, 9000]), prop::collection::vec(access, 0..3));
    (address(), prop::collection::vec(instruction, 0..8), any::<bool>()).prop_map(|(start, parts, code)| {
        let (mut at, mut instructions, mut sites) = (start, Vec::new(), Vec::new());
        for (index, (length, jump, accesses)) in parts.into_iter().enumerate() {
            if code {
                instructions.push(Instruction { address: VirtAddr(at), length });
            }
            at += u64::from(length) + jump;
            sites.extend(accesses.into_iter().map(|access| Site { instruction: index as u16, access }));
        }
        Block {
            instructions: instructions.into(),
            sites: sites.into(),
            code: Box::default(),
            end: BlockEnd::Jump,
        }
    })
}

fn stream() -> impl Strategy<Value = Stream> {
    let op = prop_oneof![
        40 => (any::<usize>(), prop::collection::vec(address(), 16)).prop_map(|(block, at)| Op::Run(block, at)),
        1 => (address(), prop_oneof![9 => 1..40_000_u64, 1 => Just(u64::MAX << 12)], any::<bool>())
            .prop_map(|(start, bytes, unmapped)| Op::Gone { start, bytes, unmapped }),
        2 => Just(Op::Cut),
        2 => (0..PROCESSES).prop_map(Op::Turn),
    ];
    let blocks =
        prop::bool::weighted(0.2).prop_flat_map(|imported| prop::collection::vec(block(imported), 1..12));
    (blocks, prop::collection::vec(op, 1..400)).prop_map(|(blocks, ops)| Stream { blocks, ops })
}

/// Plays a stream as a source would.
fn play(stream: &Stream, to: &mut dyn Analysis) {
    // Processes do not share numbers of blocks.
    let mut all: Vec<Dictionary> = (0..PROCESSES).map(|_| Dictionary::default()).collect();
    let mut runs = 0;
    let mut buffer = BatchBuffer::default();
    let mut first = 0;
    let mut flush = |buffer: &mut BatchBuffer, blocks: &Dictionary, to: &mut dyn Analysis| {
        let BatchBuffer { refs, spans, wide } = &*buffer;
        let (first_ref, first_instruction) = (RefIndex(first), 0);
        let (space, thread) = (SpaceId(0), ThreadId(1));
        if !spans.is_empty() {
            to.on_batch(&Batch {
                space,
                thread,
                first: first_ref,
                first_instruction,
                refs,
                spans,
                wide: *wide,
                blocks,
            });
        }
        first += refs.len() as u64;
        buffer.clear();
        RefIndex(first)
    };
    for op in &stream.ops {
        match op {
            Op::Run(number, addresses) => {
                let block = &stream.blocks[number % stream.blocks.len()];
                let id: BlockId = all[runs].intern(block.clone());
                buffer.spans.push(Span { block: id, first: buffer.refs.len() as u32 });
                for (site, &address) in block.sites.iter().zip(addresses) {
                    buffer.refs.push(Ref::new(VirtAddr(address), site.access));
                    buffer.wide |= site.access.size.bytes() > Batch::WIDE_BYTES;
                }
            }
            Op::Gone { start, bytes, unmapped } => {
                let at = flush(&mut buffer, &all[runs], to);
                let (start, bytes) = (VirtAddr(start & !4095), bytes.div_ceil(4096) << 12);
                to.on_event(
                    at,
                    &match unmapped {
                        true => Event::Unmap { start, bytes },
                        false => Event::Protect { start, bytes, protection: Protection::default() },
                    },
                );
            }
            Op::Cut => {
                flush(&mut buffer, &all[runs], to);
            }
            Op::Turn(process) => {
                flush(&mut buffer, &all[runs], to);
                to.on_turn(SpaceId(*process));
                runs = *process as usize;
            }
        }
    }
    flush(&mut buffer, &all[runs], to);
}

/// The pages of processes lie so far apart.
const APART: u64 = 1 << 46;

/// Passes each page of each included reference, and all invalidations, to the slow models.
fn each(stream: &Stream, serves: ReferenceKinds, slow: &mut [LruSets]) -> u64 {
    let (mut references, mut origin) = (0, 0);
    let mut refer = |slow: &mut [LruSets], origin: u64, kind: Kind, address: u64, bytes: u64| {
        if serves == ReferenceKinds::Everything
            || (kind == Kind::Fetch) == (serves == ReferenceKinds::Fetches)
        {
            for vpn in address >> 12..=(address + bytes - 1) >> 12 {
                references += 1;
                slow.iter_mut().for_each(|array| array.refer(origin + vpn));
            }
        }
    };
    for op in &stream.ops {
        match op {
            Op::Run(number, addresses) => {
                let block = &stream.blocks[number % stream.blocks.len()];
                let mut sites = block.sites.iter().zip(addresses).peekable();
                for (index, instruction) in block.instructions.iter().enumerate() {
                    refer(slow, origin, Kind::Fetch, instruction.address.0, instruction.length.into());
                    while let Some((site, &address)) =
                        sites.next_if(|(site, _)| usize::from(site.instruction) == index)
                    {
                        refer(slow, origin, site.access.kind, address, site.access.size.bytes().into());
                    }
                }
                for (site, &address) in sites {
                    refer(slow, origin, site.access.kind, address, site.access.size.bytes().into());
                }
            }
            Op::Gone { start, bytes, .. } => {
                let first = origin + (start >> 12);
                let pages = bytes.div_ceil(4096);
                let end = (first + pages).min(origin + APART);
                slow.iter_mut().for_each(|array| array.remove(first..end));
            }
            Op::Cut => {}
            Op::Turn(process) => origin = u64::from(*process) * APART,
        }
    }
    references
}

type Shape = (PageSize, u32, u32);

fn shape() -> impl Strategy<Value = Shape> {
    let ways = prop_oneof![1..=4_u32, 1..=Family::WAYS_MAX];
    (prop::sample::select(&Family::PAGE_SIZES[..]), (0..13_u32).prop_map(|bits| 1 << bits), ways)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(300), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_that_is_served_counts(
        stream in stream(),
        serves in prop::sample::select(vec![ReferenceKinds::Data, ReferenceKinds::Fetches, ReferenceKinds::Everything]),
        shapes in prop::collection::vec(shape(), 1..10),
        sizes in prop::collection::vec(1..300_usize, 1..4),
    ) {
        let (mut family, mut distances) = (Family::new(serves), StackDistances::new(serves));
        play(&stream, &mut family);
        play(&stream, &mut distances);
        let mut sampled = SampledDistances::new(serves, Sampling::Rate(1.0));
        play(&stream, &mut sampled);
        let arrays = shapes.iter().map(|&(size, sets, ways)| (size.shift(), sets as usize, ways as usize));
        let arrays = arrays.chain(sizes.iter().map(|&size| (12, 1, size)));
        let mut slow: Vec<_> = arrays.map(|(shift, sets, ways)| LruSets::new(shift, sets, ways)).collect();
        let references = each(&stream, serves, &mut slow);
        prop_assert_eq!((family.references(), distances.references()), (references, references));
        for (&(size, sets, ways), slow) in shapes.iter().zip(&slow) {
            let misses = family.misses(size, sets, ways);
            prop_assert_eq!(misses, Some(slow.misses), "{}, {} sets, {} ways", size, sets, ways);
        }
        for (&size, slow) in sizes.iter().zip(&slow[shapes.len()..]) {
            prop_assert_eq!(distances.misses_with(size), slow.misses, "{} entries", size);
            if size <= 256 {
                prop_assert_eq!(sampled.misses_with(size as u64).value, slow.misses as f64, "{} sampled", size);
            }
        }
    }
}
