//! Files made here, read by the importer and by a slow twin.

mod twin;

use super::super::{Bytes, ImportError, Input, Opened, open};
use super::record::{Record, kind, marker};
use pagewalk_trace::check::Checker;
use pagewalk_trace::{Analysis, Item};
use proptest::prelude::*;
use std::io::Cursor;
use twin::Step;

fn record(kind: u16, size: u16, value: u64) -> Record {
    Record { kind, size, value }
}

fn mark(of: u16, value: u64) -> Record {
    record(kind::MARKER, of, value)
}

/// What stands before the first timestamp in files of version 6.
fn header(thread: u64) -> Vec<Record> {
    vec![
        record(kind::HEADER, 0, 6),
        mark(marker::VERSION, 6),
        mark(marker::FILETYPE, 0xe40),
        record(kind::THREAD, 4, thread),
        record(kind::PID, 4, 7),
        mark(10, 64),
        mark(20, 10_000_000),
        mark(18, 4096),
    ]
}

/// A whole file of one thread.
fn file(thread: u64, time: u64, records: &[Record]) -> Vec<u8> {
    let mut all = header(thread);
    all.extend([mark(marker::TIMESTAMP, time), mark(3, 1)]);
    all.extend(records);
    all.extend([record(kind::THREAD_EXIT, 4, thread), record(kind::FOOTER, 0, 0)]);
    bytes(&all)
}

fn bytes(records: &[Record]) -> Vec<u8> {
    records.iter().flat_map(|record| record.to_bytes()).collect()
}

fn input(name: &str, bytes: Vec<u8>) -> Input {
    let bytes: Bytes = Box::new(Cursor::new(bytes));
    Input { name: name.to_owned(), bytes, in_folder: false }
}

/// What a stream tells, one instruction, reference or event after the other.
#[derive(Debug, Default)]
struct Told {
    steps: Vec<Step>,
    /// How blocks end, in the order of executions.
    ends: Vec<String>,
    notes: Vec<String>,
    error: Option<String>,
}

/// Reads files; the stream must keep the rules of streams.
fn read(files: Vec<Vec<u8>>) -> Result<Told, ImportError> {
    let files = files.into_iter().enumerate().map(|(i, bytes)| input(&format!("f{i}"), bytes)).collect();
    let Opened { mut import, .. } = open(files, Some(&super::FORMAT))?;
    let (mut told, mut checker) = (Told::default(), Checker::new());
    loop {
        match import.source.next_item() {
            Ok(Some(Item::Batch(batch))) => {
                checker.on_batch(&batch);
                told.steps.extend(twin::steps(&batch));
                let ends = batch.spans.iter().map(|span| format!("{:?}", batch.blocks.get(span.block).end));
                told.ends.extend(ends);
            }
            Ok(Some(Item::Event { at, event })) => {
                checker.on_event(at, &event);
                told.steps.push(Step::Event(event));
            }
            Ok(None) => break,
            Err(error) => {
                told.error = Some(error.to_string());
                break;
            }
        }
    }
    assert_eq!(checker.finish(), [], "a sound stream");
    told.notes = import.notes.sentences();
    Ok(told)
}

fn lines(told: &Told) -> Vec<String> {
    told.steps.iter().map(Step::to_string).collect()
}

#[test]
fn instructions_with_their_bytes_and_references_become_blocks() {
    let records = [
        record(kind::ENCODING, 3, 0x11_2233),
        record(kind::INSTR, 3, 0x1000),
        record(kind::READ, 8, 0x7000),
        record(kind::ENCODING, 8, 0x8877_6655_4433_2211),
        record(kind::ENCODING, 2, 0xaa99),
        record(kind::DIRECT_CALL, 10, 0x1003),
        record(kind::WRITE, 8, 0x6ff8),
        record(kind::RETURN, 1, 0x2000),
        record(kind::READ, 8, 0x6ff8),
        mark(29, 0x1000),
        record(kind::INSTR, 3, 0x1000),
        record(kind::INSTR, 3, 0x1000),
        record(kind::UNTAKEN_JUMP, 2, 0x1003),
        record(kind::INSTR, 2, 0x1005),
    ];
    let told = read(vec![file(5, 1, &records)]).unwrap();
    assert_eq!(
        lines(&told),
        [
            "5 I 1000,3 332211",
            "5 Load 7000,8",
            "5 I 1003,10 112233445566778899aa",
            "5 Store 6ff8,8",
            "5 I 2000,1 ?",
            "5 Load 6ff8,8",
            "5 I 1000,3 332211",
            // The bytes known for the jump are of another length, so those of its block are unknown.
            "5 I 1000,3 ?",
            "5 I 1003,2 ?",
            "5 I 1005,2 ?",
            "ThreadEnd { thread: 5 }",
        ]
    );
    assert_eq!(told.ends, ["Call", "Return", "Jump", "Jump", "Jump"]);
    assert_eq!((told.notes.len(), told.error), (0, None));
}

#[test]
fn further_iterations_of_string_instructions_are_references_of_the_same_instruction() {
    let iterations = |count: u64| {
        let mut records = vec![record(kind::INSTR, 2, 0x1000), record(kind::READ, 8, 0x5000)];
        for i in 1..count {
            records.extend([record(kind::NO_FETCH, 2, 0x1000), record(kind::READ, 8, 0x5000 + 8 * i)]);
        }
        let told = read(vec![file(5, 1, &records)]).unwrap();
        assert_eq!(told.steps.iter().filter(|step| matches!(step, Step::Instruction { .. })).count(), 1);
        let references = told.steps.iter().filter(|step| matches!(step, Step::Reference { .. })).count();
        assert_eq!(references as u64, count);
        told
    };
    let told = iterations(1024);
    assert_eq!(told.ends.len(), 1, "all are of one block");
    assert!(told.notes[0].starts_with("1023 records of instructions without a fetch"), "{:?}", told.notes);
    assert_eq!(iterations(1027).ends.len(), 4);
}

#[test]
fn system_calls_and_own_markers_are_events_at_their_place() {
    let records = [
        record(kind::INSTR, 2, 0x1000),
        mark(marker::TIMESTAMP, 2),
        mark(marker::SYSCALL, 9),
        mark(marker::TIMESTAMP, 3),
        record(kind::INSTR, 2, 0x1002),
        mark(marker::SYSCALL, 3),
        mark(marker::SYSCALL_FAILED, 22),
        mark(130, 55),
        record(kind::INSTR, 2, 0x1004),
        mark(marker::SYSCALL, 231),
    ];
    let told = read(vec![file(5, 1, &records)]).unwrap();
    assert_eq!(
        lines(&told),
        [
            "5 I 1000,2 ?",
            "Syscall { number: 9, result: 0 }",
            "5 I 1002,2 ?",
            "Syscall { number: 3, result: -22 }",
            "Marker { id: 130 }",
            "5 I 1004,2 ?",
            "ThreadEnd { thread: 5 }",
        ],
        "the last call does not return"
    );
    assert_eq!(told.ends, ["Syscall"; 3]);
}

#[test]
fn what_streams_cannot_say_is_counted() {
    let records = [
        record(kind::INSTR, 4, 0x1000),
        record(kind::READ, 0, 0x5000),
        record(kind::WRITE, 88, 0x5000),
        record(kind::WRITE, 65_535, 0x5000),
        record(kind::PREFETCH, 1, 0x5000),
        record(40, 1, 0x5000),
        record(kind::FLUSH, 64, 0x5000),
        record(kind::READ, 8, 0xffff_8000_0000_0000),
        record(kind::INSTR, 4, 0xffff_8000_0000_0000),
        record(kind::READ, 8, 0x5000),
        mark(marker::KERNEL_EVENT, 0x1004),
        mark(marker::FUNC_ID, 3),
        mark(marker::PHYSICAL_ADDRESS, 0x9000),
        mark(marker::WINDOW_ID, 0),
        mark(marker::WINDOW_ID, 1),
        record(kind::INSTR, 4, 0x1004),
    ];
    let told = read(vec![file(5, 1, &records)]).unwrap();
    let expected = ["5 I 1000,4 ?", "5 Load 5000,1", "5 Store 5000,94", "5 Store 5000,32768", "5 I 1004,4 ?"];
    assert_eq!(lines(&told)[..5], expected);
    let counts: Vec<&str> = told.notes.iter().map(|note| note.split(" (record").next().unwrap()).collect();
    assert_eq!(
        counts,
        [
            "1 record of references of unknown size",
            "2 records of references of sizes that traces here do not know",
            "3 records of the kernel's instructions and references",
            "2 records of prefetches",
            "1 record of cache flushes",
            "1 record of physical addresses",
            "1 record of functions, their arguments and results",
            "1 record of signals and other transfers by the kernel",
            "1 record of another window of tracing",
        ]
    );
}

#[test]
fn threads_of_several_files_run_in_the_order_of_their_timestamps() {
    let code = |address| record(kind::INSTR, 1, address);
    let a = file(1, 10, &[code(0x10), mark(marker::TIMESTAMP, 30), code(0x30)]);
    let b = file(2, 20, &[code(0x20), mark(marker::TIMESTAMP, 30), code(0x31)]);
    let told = read(vec![a.clone(), b.clone()]).unwrap();
    let expected = [
        "1 I 10,1 ?",
        "ThreadStart { thread: 2, parent: 1 }",
        "Switch { thread: 2 }",
        "2 I 20,1 ?",
        "Switch { thread: 1 }",
        "1 I 30,1 ?",
        "ThreadEnd { thread: 1 }",
        "Switch { thread: 2 }",
        "2 I 31,1 ?",
        "ThreadEnd { thread: 2 }",
    ];
    assert_eq!(lines(&told), expected);
    let (_, first) = (b, read(vec![file(2, 5, &[mark(marker::TIMESTAMP, 40), code(0x40)]), a]).unwrap());
    assert_eq!(
        lines(&first)[..3],
        ["Switch { thread: 2 }", "ThreadStart { thread: 1, parent: 2 }", "Switch { thread: 1 }"]
    );
}

#[test]
fn threads_that_take_turns_in_one_file_are_told_apart() {
    let records = [
        record(kind::INSTR, 1, 0x10),
        record(kind::THREAD, 4, 2),
        record(kind::INSTR, 1, 0x20),
        record(kind::THREAD_EXIT, 4, 2),
        record(kind::THREAD, 4, 1),
        record(kind::INSTR, 1, 0x11),
    ];
    let told = read(vec![file(1, 10, &records)]).unwrap();
    assert_eq!(
        lines(&told)[1..6].join("; "),
        "ThreadStart { thread: 2, parent: 1 }; Switch { thread: 2 }; \
        2 I 20,1 ?; ThreadEnd { thread: 2 }; Switch { thread: 1 }"
    );
}

#[test]
fn other_versions_and_files_are_refused_by_name() {
    let with = |first: Record| bytes(&[first, record(kind::FOOTER, 0, 0)]);
    let mut two = header(1);
    two.extend([record(kind::INSTR, 1, 1), record(kind::PID, 4, 8)]);
    let mut behind = file(1, 1, &[record(kind::INSTR, 1, 1)]);
    behind.extend(record(kind::INSTR, 1, 2).to_bytes());
    let odd = |odd: Record| file(1, 1, &[record(kind::INSTR, 1, 1), odd]);
    for (bytes, part) in [
        (
            with(record(kind::HEADER, 0, 8)),
            "record 1 says that the file is of version 8; versions 1 to 7 are read",
        ),
        (with(record(kind::HEADER, 0, 6 | 28 << 32)), "record 1 is of a 32-bit program's trace"),
        (with(record(kind::INSTR, 0, 6)), "record 1 is of type 10, not the header (25)"),
        (bytes(&two), "record 10 is of another process"),
        (behind, "record 14 follows the footer"),
        (odd(record(kind::BUNDLE, 1, 1)), "record 12 is of type 17, which is not in such a file"),
        (odd(record(50, 1, 1)), "record 12 is of the unknown type 50"),
        (odd(record(kind::INSTR, 16, 1)), "record 12 has an instruction of 16 bytes, not 1 to 15"),
        (odd(record(kind::ENCODING, 9, 1)), "record 12 gives more than 8 bytes of an instruction"),
        (odd(record(kind::THREAD, 4, 1 << 32)), "record 12 names thread 4294967296"),
        (bytes(&header(1)), "the file ends without its footer (after 8 records)"),
    ] {
        let error = match read(vec![bytes]) {
            Ok(told) => told.error.unwrap_or_default(),
            Err(error) => error.to_string(),
        };
        assert!(error.starts_with(part), "{part}: {error}");
    }
    let mut other = header(2);
    other[4] = record(kind::PID, 4, 8);
    other.push(record(kind::FOOTER, 0, 0));
    let Err(error) = read(vec![file(1, 1, &[]), bytes(&other)]) else { panic!("they were read") };
    assert!(error.to_string().starts_with("f0 is of process 7 and f1 of process 8"), "{error}");
}

/// In a folder with more files, errors name the file.
#[test]
fn a_file_cut_anywhere_tells_what_it_has_and_that_it_is_cut() {
    let records =
        [record(kind::INSTR, 4, 0x1000), record(kind::READ, 8, 0x5000), record(kind::RETURN, 1, 0x1004)];
    let whole = file(1, 1, &records);
    let all = lines(&read(vec![whole.clone()]).unwrap());
    for end in 0..whole.len() {
        match read(vec![whole[..end].to_vec()]) {
            Err(error) => assert!(end < 120 && error.to_string().contains("the file"), "{end}: {error}"),
            Ok(told) => {
                let error = told.error.clone().unwrap_or_else(|| panic!("{end}: it counts as whole"));
                assert!(error.starts_with("the file ends"), "{end}: {error}");
                assert!(all.starts_with(&lines(&told)), "{end}: {told:?}");
            }
        }
    }
    // The file that is whole is read whole, whichever is cut.
    let second = file(2, 5, &records);
    let told = read(vec![whole[..140].to_vec(), second.clone()]).unwrap();
    assert_eq!(told.error.as_deref(), Some("f0: the file ends in the middle of record 12"));
    let of_second = read(vec![second]).unwrap();
    let count = |told: &Told| lines(told).iter().filter(|line| line.starts_with("2 ")).count();
    assert_eq!((count(&told), count(&of_second)), (3, 3));
}

#[test]
fn a_call_right_behind_another_and_a_mark_right_behind_a_call_lose_none() {
    let call = |number: u64| mark(marker::SYSCALL, number);
    let records =
        [record(kind::INSTR, 2, 0x1000), call(1), call(2), mark(100, 0), record(kind::INSTR, 2, 0x1002)];
    let told = read(vec![file(1, 1, &records)]).unwrap();
    let expected = [
        "Syscall { number: 1, result: 0 }",
        "Syscall { number: 2, result: 0 }",
        "Marker { id: 100 }",
        "1 I 1002,2 ?",
    ];
    assert_eq!(lines(&told)[1..5], expected);
}

#[test]
fn a_size_without_a_name_reaches_no_other_page() {
    let records = [
        record(kind::INSTR, 4, 0x1000),
        record(kind::READ, 88, 0x5000),
        record(kind::READ, 88, 0x6000 - 88),
        record(kind::READ, 88, 0x6000 - 87),
    ];
    let told = read(vec![file(1, 1, &records)]).unwrap();
    assert_eq!(lines(&told)[1..4], ["1 Load 5000,94", "1 Load 5fa8,64", "1 Load 5fa9,94"]);
}

#[test]
fn its_files_are_recognised_and_others_are_not() {
    let of = |bytes: Vec<u8>| open(vec![input("t", bytes)], None).map(|opened| opened.format.name);
    assert_eq!(of(file(1, 1, &[])).unwrap(), "drmemtrace");
    let schedule: Vec<u8> = [25u64, 6, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    assert!(matches!(of(schedule), Err(ImportError::Unrecognised { .. })));
    let error = of(bytes(&[record(kind::HEADER, 0, 99)])).unwrap_err().to_string();
    assert!(error.contains("version 99; versions 1 to 7"), "{error}");
}

/// Records as in files, and odd ones; bytes of an instruction stand before one.
fn any_records() -> impl Strategy<Value = Vec<Record>> {
    let coded = (1u16..4, 0u64..3, prop::sample::select(vec![10u16, 10, 16, 29]), 0u64..12).prop_map(
        |(size, code, kind, address)| vec![record(kind::ENCODING, size, code), record(kind, size, address)],
    );
    prop_oneof![1 => coded, 8 => any_record().prop_map(|record| vec![record])]
}

fn any_record() -> impl Strategy<Value = Record> {
    let flow = prop::sample::select(vec![10u16, 10, 10, 10, 11, 12, 13, 14, 15, 16, 31, 48, 49]);
    let address = prop_oneof![6 => 0u64..40, 1 => Just(1 << 57), 1 => any::<u64>()];
    prop_oneof![
        8 => (flow, 1u16..4, 0u64..12).prop_map(|(kind, size, value)| record(kind, size, value)),
        6 => (0u16..2, prop::sample::select(vec![0u16, 1, 4, 8, 8, 64, 88, 128]), address)
            .prop_map(|(kind, size, value)| record(kind, size, value)),
        1 => (2u64..12).prop_map(|value| record(kind::NO_FETCH, 1, value)),
        1 => (0u64..20).prop_map(|value| mark(marker::TIMESTAMP, value)),
        1 => prop::sample::select(vec![0u16, 1, 3, 4, 14, 15, 21, 25, 29, 30, 100]).prop_map(|of| mark(of, 3)),
        1 => (1u64..4).prop_map(|thread| record(kind::THREAD, 4, thread)),
        1 => prop::sample::select(vec![2u16, 18, 23, 27, 33]).prop_map(|kind| record(kind, 1, 2)),
        1 => (1u16..3, 1u64 << 60..1 << 61).prop_map(|(size, value)| record(kind::INSTR, size, value)),
    ]
}

proptest! {
    /// Whatever blocks and batches they become: a reader that keeps no block tells the same.
    #[test]
    fn a_slow_reader_tells_the_same(
        parts in prop::collection::vec(prop::collection::vec(any_records(), 0..120), 1..4), repeats in 1usize..60
    ) {
        let files: Vec<Vec<Record>> = parts.iter().enumerate().map(|(i, records)| {
            let mut all = header(i as u64 + 1);
            all.push(mark(marker::TIMESTAMP, i as u64));
            (0..repeats).for_each(|_| all.extend(records.iter().flatten()));
            all.push(record(kind::FOOTER, 0, 0));
            all
        }).collect();
        let told = read(files.iter().map(|records| bytes(records)).collect()).unwrap();
        prop_assert_eq!(told.error, None);
        let expected = twin::read(&files);
        prop_assert_eq!(told.steps.len(), expected.len());
        for (step, expected) in told.steps.iter().zip(&expected) {
            prop_assert!(step.agrees_with(expected), "{} is not {}", step, expected);
        }
    }

    #[test]
    fn any_bytes_behind_a_header_end_in_an_error_or_the_end(
        kinds in prop::collection::vec((0u16..52, 0u16..140, any::<u64>()), 0..60), cut in 0usize..12
    ) {
        let mut all = header(1);
        all.extend(kinds.into_iter().map(|(kind, size, value)| record(kind, size, value)));
        let mut bytes = bytes(&all);
        bytes.truncate(bytes.len() - cut);
        let _ = read(vec![bytes]);
    }
}
