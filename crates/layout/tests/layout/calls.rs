//! The call graph: small programs by hand, random ones against a slow count, and Callgrind's reader.

use crate::common::{PAGE, Run, Step, Steps, anonymous, header, image, load, play};
use pagewalk_layout::calls::{CallGraph, Calls};
use pagewalk_trace::BlockEnd;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::process::Command;

const A: u64 = 0x1000_0000;
const B: u64 = 0x1100_0000;
const MAIN: u64 = 0x40_0000;

fn run(start: u64, instructions: u64, end: BlockEnd) -> Step {
    Step::Run(Run { end, ..Run::new(start, instructions, &[]) })
}

fn graph(steps: Vec<Step>, together: usize) -> CallGraph {
    let mut calls = Calls::new(&header());
    play(Steps::new(steps, together), &mut calls);
    calls.finish()
}

fn libraries() -> Vec<Step> {
    let mut steps: Vec<Step> = image().into_iter().map(Step::Event).collect();
    steps.push(run(MAIN, 1, BlockEnd::Other));
    for (path, base) in [("/lib/liba.so", A), ("/lib/libb.so", B)] {
        steps.extend(load(path, base, 4, 1, 1).into_iter().map(Step::Event));
    }
    steps
}

/// (caller, callee) to calls and instructions.
type Counts = BTreeMap<(u64, u64), (u64, u64)>;

/// Calls by pages.
fn by_pages(graph: &CallGraph) -> Counts {
    let page = |index: usize| graph.pages[index].page.0 * PAGE;
    graph
        .calls
        .iter()
        .map(|call| ((page(call.caller), page(call.callee)), (call.calls, call.instructions)))
        .collect()
}

/// Main calls a stub of library A, which jumps to B; B calls itself once, and returns to main.
fn through_a_stub() -> Vec<Step> {
    let mut steps = libraries();
    let inner = B + PAGE;
    steps.extend([
        run(MAIN + PAGE, 3, BlockEnd::Call),
        run(A + PAGE, 1, BlockEnd::Jump),
        run(inner, 5, BlockEnd::Call),
        run(inner, 5, BlockEnd::Call),
        run(inner + 0x100, 2, BlockEnd::Return),
        run(inner + 20, 4, BlockEnd::Return),
        run(inner + 20, 4, BlockEnd::Return),
        run(MAIN + PAGE + 12, 7, BlockEnd::Jump),
    ]);
    steps
}

#[test]
fn calls_go_through_stubs_to_the_functions_they_stand_for() {
    let graph = graph(through_a_stub(), 3);
    let expected = [
        ((MAIN + PAGE, A + PAGE), (1, 21)),
        ((A + PAGE, B + PAGE), (1, 20)),
        // The function itself, then what it calls.
        ((B + PAGE, B + PAGE), (2, 11 + 2)),
    ];
    assert_eq!(by_pages(&graph), expected.into());
    let pages: Vec<(u64, u64, String, Option<u64>)> = graph
        .pages
        .iter()
        .map(|page| {
            let name = graph.owners.get(page.owner).name();
            (page.page.0 * PAGE, page.instructions, name, page.file_offset)
        })
        .collect();
    let expected = [
        (MAIN, 1, "/bin/program", 0),
        (MAIN + PAGE, 10, "/bin/program", PAGE),
        (A + PAGE, 1, "/lib/liba.so", PAGE),
        (B + PAGE, 20, "/lib/libb.so", PAGE),
    ];
    assert_eq!(pages, expected.map(|(page, count, name, at)| (page, count, name.to_owned(), Some(at))));
    assert_eq!(graph.instructions(), 32);
}

#[test]
fn a_call_without_a_return_counts_up_to_the_end() {
    let mut steps = libraries();
    steps.push(run(MAIN, 2, BlockEnd::Call));
    steps.push(run(A + PAGE, 3, BlockEnd::Jump));
    // Of another thread.
    steps.push(Step::Run(Run { thread: 2, ..Run::new(MAIN, 9, &[]) }));
    steps.push(run(A + PAGE + 64, 4, BlockEnd::Return));
    // A return to where no call came from.
    steps.push(run(A + 2 * PAGE, 8, BlockEnd::Jump));
    assert_eq!(by_pages(&graph(steps, 3)), [((MAIN, A + PAGE), (1, 15))].into());
}

#[test]
fn code_of_no_file_has_pages_too() {
    let mut steps = libraries();
    steps.push(Step::Event(anonymous(0x2000_0000, 4)));
    steps.push(run(MAIN, 2, BlockEnd::Call));
    steps.push(run(0x2000_0000, 3, BlockEnd::Jump));
    let graph = graph(steps, 3);
    let page = graph.pages.last().unwrap();
    assert_eq!((graph.owners.get(page.owner).name().as_str(), page.file_offset), ("[anonymous]", None));
}

/// One block of a random program.
#[derive(Clone, Debug, PartialEq)]
struct Made {
    at: u64,
    instructions: u64,
    end: BlockEnd,
    thread: u32,
}

fn made() -> impl Strategy<Value = Made> {
    let ends = vec![BlockEnd::Jump, BlockEnd::Call, BlockEnd::Call, BlockEnd::Return, BlockEnd::Syscall];
    let page = (prop::sample::select(vec![MAIN, A, B]), 0..3u64);
    // Some go on to the next page.
    let into = prop_oneof![4 => (0..4u64).prop_map(|n| 4 * n), 1 => Just(PAGE - 4)];
    (page, into, 0..3u64, prop::sample::select(ends), 1..3u32).prop_map(
        |((base, page), into, instructions, end, thread)| Made {
            at: base + page * PAGE + into,
            instructions,
            end,
            thread,
        },
    )
}

/// An open call.
struct Open {
    blocks: [(u64, u64, BlockEnd); 2],
    pages: (u64, u64),
    at: u64,
    returns_to: Option<u64>,
}

/// One thread's calls, counted one by one.
fn slow(program: &[&Made], all: &mut Counts) {
    let mut open: Vec<Open> = Vec::new();
    let mut last: Option<&Made> = None;
    let mut executed = 0;
    let key = |made: &Made| (made.at, made.instructions, made.end);
    let mut close = |open: &mut Vec<Open>, first: usize, now: u64| {
        while open.len() > first {
            let call = open.pop().unwrap();
            if !open.iter().any(|outer| outer.blocks == call.blocks) {
                all.entry(call.pages).or_default().1 += now - call.at;
            }
        }
    };
    let mut calls: Vec<(u64, u64)> = Vec::new();
    for made in program {
        if let Some(last) = last {
            let behind = last.at + 4 * last.instructions;
            let leaves = last.end == BlockEnd::Jump && last.at >> 24 != made.at >> 24;
            if last.end == BlockEnd::Call || leaves {
                let pages = ((behind - 4) / PAGE * PAGE, made.at / PAGE * PAGE);
                calls.push(pages);
                let returns_to = (!leaves).then_some(behind);
                open.push(Open { blocks: [key(last), key(made)], pages, at: executed, returns_to });
            } else if last.end == BlockEnd::Return
                && let Some(found) = open.iter().rposition(|call| call.returns_to == Some(made.at))
            {
                close(&mut open, found, executed);
            }
        }
        executed += made.instructions;
        last = Some(made);
    }
    close(&mut open, 0, executed);
    for pages in calls {
        all.entry(pages).or_default().0 += 1;
    }
}

proptest! {
    #[test]
    fn graphs_equal_slow_ones(
        program in prop::collection::vec(made(), 0..120),
        together in 1..20usize,
    ) {
        let at_least_one = |made: Made| Made { instructions: made.instructions + 1, ..made };
        let program: Vec<Made> = program.into_iter().map(at_least_one).collect();
        let mut steps = libraries();
        // The block that runs before libraries exist ends with no call.
        steps.extend(program.iter().map(|made| {
            Step::Run(Run { end: made.end, thread: made.thread, ..Run::new(made.at, made.instructions, &[]) })
        }));
        let mut expected = Counts::new();
        for thread in 1..3 {
            let of: Vec<&Made> = program.iter().filter(|made| made.thread == thread).collect();
            slow(&of, &mut expected);
        }
        let graph = graph(steps, together);
        prop_assert_eq!(by_pages(&graph), expected);
        let executed: u64 = program.iter().map(|made| made.instructions).sum();
        prop_assert_eq!(graph.instructions(), executed + 1);
        let (nodes, calls) = graph.by_functions(|file, offset| Some(format!("{file} {}", offset / 8)));
        prop_assert_eq!(nodes.iter().map(|node| node.instructions).sum::<u64>(), executed + 1);
        let counted: u64 = calls.iter().map(|call| call.calls).sum();
        prop_assert_eq!(counted, graph.calls.iter().map(|call| call.calls).sum::<u64>());
    }
}

#[test]
fn callgrinds_tools_read_it() {
    let graph = graph(through_a_stub(), 3);
    let name = |file: &str, offset: u64| match (file, offset / PAGE) {
        ("/bin/program", 1) => Some("main".to_owned()),
        ("/lib/libb.so", _) => Some(if offset < PAGE + 0x100 { "work" } else { "leaf" }.to_owned()),
        _ => None,
    };
    let text = graph.to_callgrind("program\n--with two lines", name);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("callgrind.out.1");
    std::fs::write(&path, &text).unwrap();
    let annotate = |arguments: &[&str]| {
        let output = Command::new("callgrind_annotate").args(arguments).arg(&path).output();
        let output = output.expect("callgrind_annotate comes with Valgrind");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{text}");
        String::from_utf8(output.stdout).unwrap()
    };
    let own = annotate(&["--threshold=100"]);
    let row = |report: &str, part: &str| {
        let line = report.lines().find(|line| line.contains(part));
        let line = line.unwrap_or_else(|| panic!("no {part} in {report}"));
        line.split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(row(&own, "PROGRAM TOTALS"), "32");
    assert_eq!(row(&own, "libb.so+0x1000:work [/lib/libb.so]"), "18");
    assert_eq!(row(&own, "libb.so+0x1000:leaf [/lib/libb.so]"), "2");
    assert_eq!(row(&own, "program+0x1000:main [/bin/program]"), "10");
    assert_eq!(row(&own, "liba.so+0x1000:page 0x10001000 [/lib/liba.so]"), "1");
    let inclusive = annotate(&["--threshold=100", "--inclusive=yes"]);
    assert_eq!(row(&inclusive, "program+0x1000:main"), "31");
    let tree = annotate(&["--threshold=100", "--tree=both"]);
    assert!(tree.contains("liba.so+0x1000:page 0x10001000 (1x)"), "{tree}");
    assert!(tree.contains("libb.so+0x1000:leaf (1x)"), "{tree}");
}
