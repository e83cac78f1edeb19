//! Runs the fuzz targets for a second each under plain `cargo test`, so that they cannot rot. The inputs are always the
//! same; only how many fit a second depends on the machine.

mod mutator;
#[path = "../../../crates/capture/src/samples/tests/writer.rs"]
mod perf_writer;

use mutator::Mutator;
use pagewalk_capture::LackeySource;
use pagewalk_fuzz as harness;
use pagewalk_trace::{Analysis, Event, Source, pwt};
use pagewalk_units::RefIndex;
use std::time::{Duration, Instant};

/// What Valgrind's Lackey writes, small.
const LACKEY: &str = "==1== Lackey, an example Valgrind tool
I  04000c50,3
 L 1ffeffe7e,8
 S 1ffeffe80,8
I  04000c53,5
 M 0421c7cc,4
I  04001000,1
I  04001001,2
 L 04222fff,2
==1==
";

/// Feeds `target` with the seeds and then with mutations of them.
fn fuzz(name: &str, seeds: &[Vec<u8>], target: fn(&[u8])) {
    for seed in seeds {
        target(seed);
    }
    let mut mutator = Mutator::new(seeds);
    let end = Instant::now() + Duration::from_secs(1);
    let mut cases = 0u64;
    while Instant::now() < end {
        let input = mutator.next_input();
        let outcome = std::panic::catch_unwind(|| target(&input));
        if outcome.is_err() {
            let path = std::env::temp_dir().join(format!("pagewalk-fuzz-{name}-{cases}"));
            std::fs::write(&path, &input).expect("the temporary folder is writable");
            panic!("{name}: case {cases} panicked; its input is in {}", path.display());
        }
        cases += 1;
    }
    assert!(cases > 100, "{name}: only {cases} cases in a second");
}

#[test]
fn machine_file() {
    fuzz("machine_file", &library("machines"), harness::machine_file);
}

#[test]
fn structure_file() {
    fuzz("structure_file", &library("structures"), harness::structure_file);
}

/// The files of a library.
fn library(name: &str) -> Vec<Vec<u8>> {
    let folder = &format!("{}/../{name}", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect(folder).map(|entry| entry.expect(folder).path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths.iter().map(|path| std::fs::read(path).expect("readable")).collect()
}

#[test]
fn imports() {
    let din = b"2 400c50\r\n0 0x7ffeffe7e the stack\n3 0\n4 0\n1 0".to_vec();
    let texts = ["l 0x1fffff58 1\ns 0x10\n", "7\n*\n12\r\n", "page,size,op\n0x7,8,r\n9,4,w\n"];
    let mut seeds: Vec<Vec<u8>> = texts.map(|text| text.as_bytes().to_vec()).to_vec();
    seeds.extend([LACKEY.as_bytes().to_vec(), din, champsim(), requests(), Vec::new()]);
    seeds.extend([gem5(), drmemtrace(1), stored(&drmemtrace(2))]);
    fuzz("imports", &seeds, harness::imports);
}

/// Instructions as ChampSim has them, one after the other, each with a load.
fn champsim() -> Vec<u8> {
    let record = |at: u64| [0x1000 + 4 * at, 0, 0, 0, 0x7000 + at, 0, 0, 0].map(u64::to_le_bytes).concat();
    (0..20).flat_map(record).collect()
}

/// Requests as libCacheSim has them: time, object, bytes, next request.
fn requests() -> Vec<u8> {
    let record = |object: u8| [&[1, 0, 0, 0, object], &[0; 7][..], &[9, 0, 0, 0], &[255; 8]].concat();
    (0..20).flat_map(record).collect()
}

/// Packets as gem5 has them: a header, then reads, fetches and writes.
fn gem5() -> Vec<u8> {
    let header = b"gem5\x08\x0a\x03mon\x18\x90\x4e".to_vec();
    let packet = |command: u8| [12, 8, 1, 16, command, 24, 0x80, 0x60, 32, 8, 40, 0x80, 2];
    [header, [1, 4, 2].map(packet).concat()].concat()
}

#[test]
fn import_files() {
    let two = |place, files: [Vec<u8>; 2]| [vec![place], files.concat()].concat();
    let halves = two(128, [drmemtrace(1), drmemtrace(2)]);
    let packed = two(128, [stored(&drmemtrace(1)), stored(&drmemtrace(2))]);
    fuzz("import_files", &[halves, packed], harness::import_files);
}

/// A small file of DynamoRIO's drmemtrace: records of a type, a size and a value.
fn drmemtrace(thread: u64) -> Vec<u8> {
    let records: [(u16, u16, u64); 16] = [
        (25, 0, 6),
        (28, 12, 6),
        (28, 9, 0xe40),
        (22, 4, thread),
        (24, 4, 1),
        (28, 2, 10 + thread),
        (47, 3, 0x55_48e5),
        (10, 3, 0x401000),
        (0, 8, 0x7fff_0000),
        (28, 25, 1),
        (28, 2, 20),
        (28, 30, 22),
        (29, 2, 0x401000),
        (1, 16, 0x7fff_fff8),
        (23, 4, thread),
        (26, 0, 0),
    ];
    let bytes = |(kind, size, value): (u16, u16, u64)| {
        [&kind.to_le_bytes()[..], &size.to_le_bytes(), &value.to_le_bytes()].concat()
    };
    records.into_iter().flat_map(bytes).collect()
}

/// A zip archive with one member, not compressed.
fn stored(contents: &[u8]) -> Vec<u8> {
    let size = (contents.len() as u32).to_le_bytes();
    let header = [&b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0"[..], &[0; 4], &size, &size, b"\x01\0\0\0a"].concat();
    [&header[..], contents, b"PK\x01\x02"].concat()
}

#[test]
fn samples() {
    let fields =
        perf_writer::Fields { time: 5, code: 0x1010, address: 0x7008, weight: 3, source: perf_writer::WALK };
    let hit = perf_writer::Fields { source: perf_writer::FIRST_LEVEL, ..fields };
    let records = [
        perf_writer::command(7, "prog", true),
        perf_writer::mapping(7, 0x1000, 0x1000, 0, "/bin/prog"),
        perf_writer::fork(8, 7, 4),
        perf_writer::sample(7, fields),
        perf_writer::sample(8, hit),
        perf_writer::record(71, 0, &[0; 40]),
    ];
    let text =
        b"prog 7/7 1.5: 3 e: 7008 [unknown] ([heap]) 50080021 |OP LOAD|TLB L2 miss|LCK No 3 1010 f (/p) 4K\n";
    let file = perf_writer::file(perf_writer::SAMPLE_TYPE, "e", &records);
    fuzz("samples", &[file, text.to_vec()], harness::samples);
}

#[test]
fn pwt_reader() {
    fuzz("pwt_reader", &[small_trace(1), small_trace(1 << 20)], harness::pwt_reader);
}

/// A trace of [`LACKEY`] with an event among its references, in chunks of `chunk_records`.
fn small_trace(chunk_records: u64) -> Vec<u8> {
    let mut source = LackeySource::new(LACKEY.as_bytes()).expect("the text is good");
    let mut bytes = Vec::new();
    let header = source.header().clone();
    let mut writer =
        pwt::Writer::with_chunk_records(&mut bytes, &header, chunk_records).expect("memory takes it");
    while let Some(item) = source.next_item().expect("the text is good") {
        item.play(&mut writer);
        writer.on_event(RefIndex(4), &Event::Marker { id: 7 });
    }
    writer.finish().expect("memory takes it");
    bytes
}
