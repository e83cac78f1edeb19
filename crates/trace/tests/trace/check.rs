//! The checker finds each kind of breach, and nothing in a sound stream.

use crate::common::{Stream, block, map};
use pagewalk_trace::check::{CheckFinding, Checker, Rule, Severity};
use pagewalk_trace::{
    Analysis, Batch, Block, BlockEnd, Dictionary, Event, Instruction, Mapping, Ref, Span, ThpDisable,
};
use pagewalk_units::{BlockId, RefIndex, SpaceId, ThreadId, VirtAddr};

/// A sound stream: code at 0x2000 (executable), data at 0x5000, two threads.
fn sound() -> Stream {
    let mut stream = Stream { thread: ThreadId(1), ..Stream::default() };
    let code = stream.blocks.intern(block(0x2000, 3, &[13, 14]));
    stream.event(map(0x2000, 0x1000));
    stream.event(map(0x5000, 0x2000));
    for round in 0..20 {
        stream.execute(code, |slot| 0x5000 + 64 * round + 8 * slot as u64);
    }
    stream.event(Event::ThreadStart { thread: 2, parent: 1 });
    stream.event(Event::Switch { thread: 2 });
    stream.execute(code, |_| 0x5ffc);
    stream.event(Event::ThreadEnd { thread: 2 });
    stream.event(Event::Switch { thread: 1 });
    stream.event(Event::Break { old_end: VirtAddr(0x9000), new_end: VirtAddr(0xa000) });
    stream.event(Event::Remap {
        old_start: VirtAddr(0x5000),
        old_bytes: 0x1000,
        new_start: VirtAddr(0xb000),
        new_bytes: 0x2000,
    });
    stream.execute(code, |slot| [0x9ff8, 0xbffc][slot]);
    stream.event(Event::ThpDisable { mode: ThpDisable::All });
    stream.event(Event::Idle { nanoseconds: 2_000_000 });
    stream.event(Event::Spin { instructions: 66 });
    stream.event(Event::Break { old_end: VirtAddr(0xa000), new_end: VirtAddr(0x9000) });
    stream
}

fn check(stream: &Stream) -> Vec<CheckFinding> {
    let mut checker = Checker::new();
    stream.play(7, &mut checker);
    checker.finish()
}

fn rules(findings: &[CheckFinding]) -> Vec<(Rule, u64)> {
    findings.iter().map(|finding| (finding.rule, finding.count)).collect()
}

#[test]
fn a_sound_stream_has_no_findings() {
    assert_eq!(check(&sound()), []);
}

#[test]
fn events_that_break_rules_are_found() {
    let (start, bytes) = (VirtAddr(0x20_0000), 4096);
    let huge = |start, bytes| match map(start, bytes) {
        Event::Map(mapping) => Event::Map(Mapping { page_bytes: 2 << 20, ..mapping }),
        other => other,
    };
    let cases: [(&[Event], Rule); 12] = [
        (&[Event::Unmap { start, bytes }], Rule::RangeKnown),
        (&[Event::Protect { start, bytes, protection: Default::default() }], Rule::RangeKnown),
        (
            &[Event::Remap { old_start: start, old_bytes: bytes, new_start: start, new_bytes: bytes }],
            Rule::RangeKnown,
        ),
        (&[map(0x20_0001, 4096)], Rule::PageAligned),
        (&[map(0x20_0000, 5)], Rule::PageAligned),
        (&[huge(0x20_1000, 2 << 20)], Rule::PageAligned),
        (&[huge(0x20_0000, 3 << 20)], Rule::PageAligned),
        (&[Event::Spin { instructions: 67 }], Rule::SpinExecuted),
        (&[Event::ThreadEnd { thread: 9 }], Rule::ThreadKnown),
        (&[Event::Switch { thread: 9 }], Rule::ThreadKnown),
        (&[Event::Exit { status: 0 }, Event::Marker { id: 1 }], Rule::NothingAfterExit),
        (&[Event::Lost { what: "all".into() }], Rule::NothingLost),
    ];
    for (events, rule) in cases {
        let mut stream = sound();
        events.iter().for_each(|event| stream.event(event.clone()));
        assert_eq!(rules(&check(&stream)), [(rule, 1)], "{events:?}");
    }
}

#[test]
fn references_and_code_outside_mappings_are_warnings_with_the_first_example() {
    let mut stream = sound();
    let code = stream.blocks.intern(block(0x2ffc, 2, &[13]));
    for address in [0x6fff, 0x7000, 0x5000] {
        stream.execute(code, |_| address);
    }
    let findings = check(&stream);
    assert_eq!(rules(&findings), [(Rule::CodeMapped, 1), (Rule::DataMapped, 3)]);
    assert!(findings.iter().all(|finding| finding.rule.severity() == Severity::Warning));
    assert_eq!(
        findings[1].to_string(),
        "warning: Load(0x6fff, 8) is in no mapping (at reference 44, block execution 22, event 12; 3 times in all)"
    );
    assert_eq!(
        findings[0].to_string(),
        "warning: the instruction at 0x3000 is in no executable mapping (at reference 45, block execution 22, event 12)"
    );
}

#[test]
fn without_mappings_nothing_is_said_of_them() {
    let mut stream = Stream { thread: ThreadId(1), ..Stream::default() };
    let code = stream.blocks.intern(block(0x2000, 3, &[13, 14]));
    stream.execute(code, |_| 0);
    assert_eq!(check(&stream), []);
}

/// The rules that one batch breaks, in its own stream.
fn broken(change: impl FnOnce(&mut Batch<'_>, &mut Vec<Span>, &mut Vec<Ref>)) -> Vec<(Rule, u64)> {
    let mut blocks = Dictionary::default();
    let id = blocks.intern(block(0, 2, &[13, 14]));
    let (mut spans, mut refs) = (vec![], vec![]);
    for number in 0..3 {
        spans.push(Span { block: id, first: 2 * number });
        refs.extend([Ref::from_parts(4096, 13), Ref::from_parts(8192, 14)]);
    }
    let (first, first_instruction, space) = (RefIndex(0), 0, SpaceId(0));
    let thread = ThreadId(1);
    let mut batch = Batch {
        space,
        thread,
        first,
        first_instruction,
        refs: &[],
        spans: &[],
        wide: false,
        blocks: &blocks,
    };
    change(&mut batch, &mut spans, &mut refs);
    let mut checker = Checker::new();
    checker.on_batch(&Batch { refs: &refs, spans: &spans, ..batch });
    rules(&checker.finish())
}

#[test]
fn batches_that_break_rules_are_found() {
    assert_eq!(broken(|_, _, _| {}), []);
    assert_eq!(broken(|batch, _, _| batch.first = RefIndex(1)), [(Rule::RefsContinue, 1)]);
    assert_eq!(broken(|batch, _, _| batch.first_instruction = 5), [(Rule::InstructionsContinue, 1)]);
    assert_eq!(broken(|batch, _, _| batch.wide = true), [(Rule::WideMarked, 1)]);
    assert_eq!(
        broken(|_, spans, _| spans[1].first = 3),
        [(Rule::SpansCoverRefs, 1), (Rule::RefsFitSites, 2)]
    );
    assert_eq!(broken(|_, _, refs| refs.truncate(5)), [(Rule::SpansCoverRefs, 2)]);
    assert_eq!(broken(|_, _, refs| refs.push(Ref::from_parts(0, 13))), [(Rule::SpansCoverRefs, 1)]);
    assert_eq!(broken(|_, _, refs| refs[2] = Ref::from_parts(4096, 14)), [(Rule::RefsFitSites, 1)]);
    let unknown = |_: &mut Batch<'_>, spans: &mut Vec<Span>, refs: &mut Vec<Ref>| {
        spans[2].block = BlockId(7);
        refs.truncate(4);
    };
    assert_eq!(broken(unknown), [(Rule::BlockKnown, 1)]);
}

#[test]
fn blocks_that_break_rules_are_found() {
    let instruction = |length| Instruction { address: VirtAddr(0), length };
    let end = BlockEnd::Jump;
    let cases = [
        (vec![instruction(0)], vec![], Rule::InstructionLength),
        (vec![instruction(16)], vec![], Rule::InstructionLength),
        (vec![instruction(4)], vec![0; 3], Rule::CodeBytes),
    ];
    for (instructions, code, rule) in cases {
        let mut stream = Stream { thread: ThreadId(1), ..Stream::default() };
        let block =
            Block { instructions: instructions.into(), sites: Box::default(), code: code.into(), end };
        let id = stream.blocks.intern(block);
        stream.execute(id, |_| 0);
        stream.execute(id, |_| 0);
        assert_eq!(rules(&check(&stream)), [(rule, 1)]);
    }
    let mut stream = Stream { thread: ThreadId(1), ..Stream::default() };
    let mut odd = block(0, 1, &[13]);
    odd.sites[0].instruction = 1;
    let id = stream.blocks.intern(odd);
    stream.execute(id, |_| 0);
    assert_eq!(rules(&check(&stream)), [(Rule::SiteInstruction, 1)]);
}

#[test]
fn threads_and_places_must_follow() {
    let mut stream = sound();
    stream.thread = ThreadId(2);
    let code = BlockId(0);
    stream.execute(code, |_| 0x6000);
    assert_eq!(rules(&check(&stream)), [(Rule::ThreadRuns, 1)]);

    let mut checker = Checker::new();
    checker.on_event(RefIndex(3), &Event::Marker { id: 0 });
    assert_eq!(rules(&checker.finish()), [(Rule::EventPlace, 1)]);
}
