//! Streams made here.

use pagewalk_trace::{
    Analysis, Batch, BatchBuffer, Block, BlockEnd, Dictionary, Event, Instruction, Ref, Site, Span,
};
use pagewalk_units::{Access, Kind, RefIndex, Size, SpaceId, ThreadId, VirtAddr};
use proptest::prelude::*;

/// What happens next.
#[derive(Clone, Debug)]
pub enum Step {
    /// A block runs.
    Block(u32, Block, Vec<Ref>),
    Event(Event),
}

/// An instruction's address and length.
pub type Fetch = (u64, u64);
/// A reference's kind, address and bytes.
pub type Data = (Kind, u64, u64);

pub fn load(address: u64, bytes: u32) -> Ref {
    reference(Kind::Load, address, bytes)
}

pub fn modify(address: u64, bytes: u32) -> Ref {
    reference(Kind::Modify, address, bytes)
}

pub fn reference(kind: Kind, address: u64, bytes: u32) -> Ref {
    Ref::new(VirtAddr(address), Access { kind, size: Size::of_bytes(bytes).expect("a size") })
}

/// An instruction of unknown bytes, of thread 1.
pub fn instruction(address: u64, length: u8, references: &[Ref]) -> Step {
    block(1, address, &[length], references.iter().map(|_| 0), &[], BlockEnd::Jump, references.to_vec())
}

fn block(
    thread: u32,
    start: u64,
    lengths: &[u8],
    owners: impl Iterator<Item = u16>,
    code: &[u8],
    end: BlockEnd,
    references: Vec<Ref>,
) -> Step {
    let mut address = start;
    let instructions = lengths.iter().map(|&length| {
        let instruction = Instruction { address: VirtAddr(address), length };
        address += u64::from(length);
        instruction
    });
    let sites = owners.zip(&references).map(|(instruction, r)| {
        let access = Access { kind: r.kind(), size: r.size() };
        Site { instruction, access }
    });
    let (instructions, sites) = (instructions.collect(), sites.collect());
    Step::Block(thread, Block { instructions, sites, code: code.into(), end }, references)
}

/// Instructions of x86-64: `nop`, `push`, `mov`, `add`, `movabs`, `addsd`, `jne`, `jmp`, `jmp rax`, `call`, `ret`,
/// `syscall`.
const CODES: [&[u8]; 12] = [
    &[0x90],
    &[0x50],
    &[0x48, 0x8b, 0x03],
    &[0x48, 0x01, 0xd8],
    &[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8],
    &[0xf2, 0x0f, 0x58, 0xc1],
    &[0x75, 0x02],
    &[0xeb, 0x10],
    &[0xff, 0xe0],
    &[0xe8, 0, 0, 0, 0],
    &[0xc3],
    &[0x0f, 0x05],
];

fn any_reference() -> impl Strategy<Value = Ref> {
    let kind = prop::sample::select(vec![Kind::Load, Kind::Load, Kind::Store, Kind::Modify]);
    let bytes = prop::sample::select(vec![1u32, 2, 4, 8, 8, 16, 64, 464, 8192]);
    let address = prop_oneof![4 => 1u64..0x4000, 1 => 0x7ff0u64..0x8010, 1 => 1u64..1 << 47];
    (kind, address, bytes).prop_map(|(kind, address, bytes)| reference(kind, address, bytes))
}

/// References of one instruction: mostly few.
fn references() -> impl Strategy<Value = Vec<Ref>> {
    prop_oneof![9 => prop::collection::vec(any_reference(), 0..3), 1 => prop::collection::vec(any_reference(), 0..12)]
}

fn any_block() -> impl Strategy<Value = Step> {
    let code = prop::collection::vec((0..CODES.len(), references()), 1..5);
    let end = prop::sample::select(vec![BlockEnd::Jump, BlockEnd::Call, BlockEnd::Return, BlockEnd::Other]);
    let address = (1u64..40).prop_map(|n| 0x40_0000 + 7 * n);
    (1u32..4, address, code, end, any::<bool>()).prop_map(|(thread, address, code, end, has_code)| {
        let bytes: Vec<u8> = code.iter().flat_map(|&(which, _)| CODES[which].iter().copied()).collect();
        let lengths: Vec<u8> = code.iter().map(|&(which, _)| CODES[which].len() as u8).collect();
        let owners = code.iter().enumerate().flat_map(|(n, (_, refs))| refs.iter().map(move |_| n as u16));
        let references = code.iter().flat_map(|(_, refs)| refs.iter().copied()).collect();
        block(thread, address, &lengths, owners, if has_code { &bytes } else { &[] }, end, references)
    })
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0u32..400, -40i64..3).prop_map(|(number, result)| Event::Syscall { number, result }),
        (90u64..140).prop_map(|id| Event::Marker { id }),
        (1u64..1 << 40).prop_map(|nanoseconds| Event::Idle { nanoseconds }),
        (1u64..9).prop_map(|page| Event::Unmap { start: VirtAddr(page << 12), bytes: 4096 }),
    ]
}

/// Blocks of three threads, with references that no instruction makes and events in between. A thread that ended runs
/// no more.
pub fn any_stream() -> impl Strategy<Value = Vec<Step>> {
    let alone =
        any_reference().prop_map(|r| block(1, 0, &[], [0].into_iter(), &[], BlockEnd::Other, vec![r]));
    let step = prop_oneof![8 => any_block(), 1 => alone, 1 => any_event().prop_map(Step::Event)];
    (prop::collection::vec(step, 1..30), 1usize..20).prop_map(|(steps, copies)| {
        let steps: Vec<Step> = std::iter::repeat_n(steps, copies).flatten().collect();
        with_switches(&steps)
    })
}

/// Says which thread runs, where it changes.
fn with_switches(steps: &[Step]) -> Vec<Step> {
    let (mut all, mut running) = (Vec::new(), None);
    for step in steps {
        if let Step::Block(thread, ..) = step
            && running.replace(*thread).is_some_and(|before| before != *thread)
        {
            all.push(Step::Event(Event::Switch { thread: *thread }));
        }
        all.push(step.clone());
    }
    all
}

/// Executed instructions with their references, and references without code.
pub fn plain(steps: &[Step]) -> impl Iterator<Item = (Option<Fetch>, Vec<Data>)> {
    let of_block = |block: &Block, refs: &[Ref]| {
        let data = |number: usize| {
            let own =
                block.sites.iter().zip(refs).filter(move |(site, _)| usize::from(site.instruction) == number);
            own.map(|(_, r)| (r.kind(), r.address().0, r.size().bytes().into())).collect::<Vec<Data>>()
        };
        let fetches = block.instructions.iter().enumerate();
        let executed = fetches.map(|(n, one)| (Some((one.address.0, one.length.into())), data(n)));
        let has_code = !block.instructions.is_empty();
        executed.chain((!has_code).then(|| (None, data(0)))).collect::<Vec<_>>()
    };
    steps.iter().flat_map(move |step| match step {
        Step::Block(_, block, refs) => of_block(block, refs),
        Step::Event(_) => Vec::new(),
    })
}

/// Plays the stream, in batches of a few blocks.
pub fn feed(steps: &[Step], to: &mut dyn Analysis) {
    let (mut blocks, mut buffer) = (Dictionary::default(), BatchBuffer::default());
    let (mut refs, mut instructions, mut thread) = (0u64, 0u64, 1);
    let mut flush = |buffer: &mut BatchBuffer, blocks: &Dictionary, thread: u32, to: &mut dyn Analysis| {
        if !buffer.is_empty() {
            let batch = Batch {
                space: SpaceId(0),
                thread: ThreadId(thread),
                first: RefIndex(refs),
                first_instruction: instructions,
                refs: &buffer.refs,
                spans: &buffer.spans,
                wide: true,
                blocks,
            };
            to.on_batch(&batch);
            (refs, instructions) = (refs + buffer.refs.len() as u64, instructions + batch.instructions());
        }
        buffer.clear();
        refs
    };
    for step in steps {
        match step {
            Step::Block(of, block, references) => {
                if *of != thread || buffer.spans.len() >= 7 {
                    flush(&mut buffer, &blocks, thread, to);
                }
                thread = *of;
                buffer
                    .spans
                    .push(Span { block: blocks.intern(block.clone()), first: buffer.refs.len() as u32 });
                buffer.refs.extend(references);
            }
            Step::Event(event) => {
                let at = flush(&mut buffer, &blocks, thread, to);
                to.on_event(RefIndex(at), event);
            }
        }
    }
    flush(&mut buffer, &blocks, thread, to);
}
