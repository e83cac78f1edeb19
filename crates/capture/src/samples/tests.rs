mod writer;

use super::*;
use proptest::prelude::*;
use std::io::Cursor;
use writer::{FIRST_LEVEL, Fields, SAMPLE_TYPE, WALK, command, file, fork, mapping, record, sample};

/// A file's records, notes and error.
fn told(bytes: impl Into<Vec<u8>>) -> (Vec<SampleRecord>, Result<SampleNotes, String>) {
    let mut records = Vec::new();
    let notes = read(Cursor::new(bytes.into()), &mut |record| records.push(record));
    (records, notes.map_err(|error| error.to_string()))
}

fn walk(time: u64, address: u64) -> Fields {
    Fields { time, code: 0x40_1010, address, weight: 30, source: WALK }
}

fn small() -> Vec<u8> {
    let records = [
        command(7, "prog", true),
        mapping(7, 0x40_0000, 0x2000, 0x1000, "/bin/prog"),
        mapping(7, 0x7000_0000, 0x10_0000, 0, "//anon"),
        sample(7, walk(50, 0x7000_1234)),
        fork(8, 7, 60),
        sample(8, Fields { source: FIRST_LEVEL, address: 0, ..walk(70, 0) }),
    ];
    file(SAMPLE_TYPE, "cpu/mem-loads,ldlat=30/P", &records)
}

#[test]
fn a_file_has_its_mappings_and_all_fields_of_its_samples() {
    let (records, notes) = told(small());
    let expected = Sample {
        process: 7,
        nanoseconds: Some(50),
        event: 0,
        code: Some(0x40_1010),
        address: Some(0x7000_1234),
        weight: Some(30),
        outcome: Outcome::Walk,
        page_bytes: Some(4096),
        period: Some(100),
        ..Sample::default()
    };
    let range = |start, end, offset, name: &str| {
        SampleRecord::Mapped(MappedRange { process: 7, start, end, offset, name: name.to_owned() })
    };
    assert_eq!(records[0], SampleRecord::Command { process: 7, name: "prog".to_owned(), is_exec: true });
    assert_eq!(records[1], range(0x40_0000, 0x40_2000, 0x1000, "/bin/prog"));
    assert_eq!(records[2], range(0x7000_0000, 0x7010_0000, 0, ""));
    assert_eq!(records[3], SampleRecord::Sample(expected.clone()));
    assert_eq!(records[4], SampleRecord::Fork { process: 8, parent: 7 });
    let second =
        Sample { process: 8, nanoseconds: Some(70), address: None, outcome: Outcome::FirstLevel, ..expected };
    assert_eq!(records[5], SampleRecord::Sample(second));
    let notes = notes.unwrap();
    assert_eq!((notes.format, notes.events), ("perf.data", vec!["cpu/mem-loads,ldlat=30/P".to_owned()]));
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused() {
    let whole = small();
    for length in 0..whole.len() {
        let (records, notes) = told(&whole[..length]);
        let error = notes.unwrap_err();
        let expected = length < 8 || error.contains("the file ends ") || error.contains("describe");
        assert!(expected && records.is_empty(), "{length} bytes: {error}");
    }
}

#[test]
fn lengths_beyond_the_file_are_refused_before_anything_is_allocated() {
    let whole = small();
    let damaged = |at: usize, word: u64| {
        let mut file = whole.clone();
        file[at..at + 8].copy_from_slice(&word.to_le_bytes());
        told(file).1.unwrap_err()
    };
    let description = whole.len() - (8 + 128 + 8 + 32);
    assert!(damaged(8, 16).contains("written to a pipe"), "{}", damaged(8, 16));
    assert!(damaged(16, 0).contains("no version of perf.data"));
    assert!(damaged(24, u64::MAX).contains("it is cut off or damaged"));
    assert!(damaged(48, 0).contains("has no records"));
    assert!(damaged(48, 1 << 50).contains("it is cut off or damaged"));
    assert!(damaged(description, u64::MAX).contains("describes 4294967295 events"));
    assert!(damaged(description + 136, u64::MAX).contains("descriptions of events are damaged"));
    let of = |records: &[Vec<u8>]| told(file(SAMPLE_TYPE, "e", records)).1.unwrap_err();
    let long = of(&[record(71, 0, &[u64::MAX.to_le_bytes(); 5].concat())]);
    assert_eq!(long, "the file ends in the middle of the record at byte 248");
    assert!(of(&[record(81, 0, &[0; 8])]).contains("are compressed"));
    assert_eq!(of(&[9u64.to_le_bytes().to_vec()]), "the record at byte 248 has 0 bytes");
}

#[test]
fn samples_that_end_early_or_have_counters_are_counted() {
    let short = record(9, 2, &[0; 16]);
    let (records, notes) = told(file(SAMPLE_TYPE, "e", &[short, sample(7, walk(50, 0x7000))]));
    assert_eq!(records.len(), 1);
    assert!(notes.unwrap().notes[0].starts_with("samples left out, as they are damaged"));
    let with_counters = file(SAMPLE_TYPE | 1 << 4, "e", &[sample(7, walk(50, 0x7000))]);
    assert!(told(with_counters).1.unwrap().notes[0].contains("values of other counters"));
}

const TEXT: &str = "\
# perf script --show-mmap-events
       my prog  7/7    12.000000001: PERF_RECORD_COMM exec: my prog:7/7
    my prog  7/7  12.000000500: PERF_RECORD_MMAP2 7/7: [0x400000(0x2000) @ 0x1000 fe:00 247849 0]: r-xp /bin/my prog
    my prog  7/7  12.000000600: PERF_RECORD_MMAP2 7/7: [0x70000000(0x100000) @ 0x70000000 00:00 0 0]: rw-p //anon
       my prog  7/8 [001] 12.5:  100 cpu/mem-loads,ldlat=30/P:   70001234 [unknown] (//anon) \
  50080021 |OP LOAD|LVL L1 hit|SNP None|TLB L2 miss|LCK No|BLK  N/A   30 \
  401010 fade(int, (anonymous namespace)::x) (/bin/my prog)  2M
       my prog  7/7 13.000001: page-faults:u: 7fb8d60f97ad ffffffff81752b6a elf_load ([kernel.kallsyms])
              7f0902333b70 _start (/usr/lib/ld.so)

       my prog  7/7 13.1: PERF_RECORD_FORK(9:9):(7:7)
       my prog  7/7 13.1: PERF_RECORD_FORK(7:10):(7:7)
       my prog  7/7 13.2: PERF_RECORD_EXIT(9:9):(7:7)
       my prog  7/7 13.5: cycles:  1234 23 401010
       my prog  7/7 14.0: cycles:  401010 add (/bin/my prog)
what is this
";

#[test]
fn a_text_has_the_same() {
    let (records, notes) = told(TEXT);
    assert_eq!(records[0], SampleRecord::Command { process: 7, name: "my prog".to_owned(), is_exec: true });
    let SampleRecord::Mapped(mapped) = &records[1] else { panic!("{records:?}") };
    assert_eq!(
        (mapped.start, mapped.end, mapped.offset, &mapped.name[..]),
        (0x40_0000, 0x40_2000, 0x1000, "/bin/my prog")
    );
    let SampleRecord::Mapped(mapped) = &records[2] else { panic!("{records:?}") };
    assert_eq!(mapped.name, "");
    let samples: Vec<&Sample> = records
        .iter()
        .filter_map(|record| match record {
            SampleRecord::Sample(sample) => Some(sample),
            _ => None,
        })
        .collect();
    let first = Sample {
        process: 7,
        nanoseconds: Some(12_500_000_000),
        code: Some(0x40_1010),
        function: Some(("fade(int, (anonymous namespace)::x)".to_owned(), "/bin/my prog".to_owned())),
        address: Some(0x7000_1234),
        mapping: Some(String::new()),
        weight: Some(30),
        outcome: Outcome::Walk,
        page_bytes: Some(2 << 20),
        period: Some(100),
        ..Sample::default()
    };
    assert_eq!(samples[0], &first);
    assert_eq!(records[5], SampleRecord::Fork { process: 9, parent: 7 });
    let fault = samples[1];
    assert_eq!(
        (fault.address, fault.in_kernel, fault.outcome),
        (Some(0x7fb8_d60f_97ad), true, Outcome::Fault)
    );
    assert_eq!(
        (samples[2].address, samples[2].weight, samples[2].code),
        (Some(0x1234), Some(23), Some(0x40_1010))
    );
    assert_eq!((samples[3].address, samples[3].code), (None, Some(0x40_1010)), "`add` is no number here");
    let notes = notes.unwrap();
    assert_eq!(notes.events, ["cpu/mem-loads,ldlat=30/P", "page-faults:u", "cycles"]);
    assert_eq!(notes.notes, ["lines left out that are no samples: 1 (line 14 is the first)"]);
}

#[test]
fn what_is_neither_is_refused() {
    let error = told("some\ntext\n").1.unwrap_err();
    assert!(error.starts_with("the file is neither perf.data nor a text of perf script"), "{error}");
    assert!(told([b"2ELIFREP".to_vec(), vec![0; 200]].concat()).1.unwrap_err().contains("big-endian"));
}

/// Found by the random test below.
#[test]
fn a_build_id_of_an_impossible_length_is_no_fault() {
    // The mark of a build id in a mapping's record, and its length.
    let _ = told(damaged(small(), &[(1269, 64), (432, 21)]));
}

fn damaged(mut bytes: Vec<u8>, changes: &[(usize, u8)]) -> Vec<u8> {
    for &(at, byte) in changes {
        let at = at % bytes.len();
        bytes[at] = byte;
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damaged_files_end_in_an_error_or_the_end(
        changes in prop::collection::vec((0usize..2000, any::<u8>()), 1..6), of_text in any::<bool>(),
    ) {
        let bytes = if of_text { TEXT.as_bytes().to_vec() } else { small() };
        let _ = told(damaged(bytes, &changes));
    }
}
