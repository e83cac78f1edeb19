//! `pagewalk samples`, and `advise --samples`: made files of perf, attributed, compared and advised on.

use crate::advising::probe;
use crate::harness::{BAD_INPUT, Outcome, Place, USAGE};
use crate::perf_writer::{FIRST_LEVEL, Fields, SAMPLE_TYPE, WALK, command, file, fork, mapping, sample};
use pagewalk::capture::LackeySource;
use pagewalk::trace::{Analysis, Event, FileIdentity, Mapping, MappingKind, Protection, Source, pwt};
use pagewalk::units::{RefIndex, VirtAddr};
use serde_json::Value;

const ANONYMOUS: u64 = 0x7f00_0000_0000;
const HEAP: u64 = 0x6000_0000;
const CODE: u64 = 0x40_0000;

/// Walks in two regions of anonymous memory, 40 and 20 of them, and hits in two pages of the heap and one of the file.
fn perf_data() -> Vec<u8> {
    let mut records = vec![
        fork(7, 6, 0),
        command(7, "prog", true),
        mapping(7, CODE, 0x2000, 0, "/bin/no such prog"),
        mapping(7, HEAP, 0x4000, 0, "[heap]"),
        mapping(7, ANONYMOUS, 8 << 20, 0, "//anon"),
    ];
    let at = |time: u64, address: u64, source: u64| {
        sample(7, Fields { time, code: CODE + 0x10, address, weight: 50, source })
    };
    records.extend((0..40).map(|n| at(1000 + n, ANONYMOUS + n % 4 * 4096, WALK)));
    records.extend((0..20).map(|n| at(2000 + n, ANONYMOUS + (2 << 20) + n % 4 * 4096, WALK)));
    let hits = [HEAP, HEAP + 8, HEAP + 0x1000, CODE + 0x1000];
    records.extend(hits.map(|address| at(1_000_000_000, address, FIRST_LEVEL)));
    file(SAMPLE_TYPE, "cpu/mem-loads/P", &records)
}

fn with_samples() -> Place {
    let place = Place::new();
    place.write("perf.data", perf_data());
    place
}

/// Name, samples, walks, weight and pages of each part.
fn parts(result: &Value, list: &str) -> Vec<(String, [u64; 4])> {
    let list = result[list].as_array().expect("a list");
    let counts = |part: &Value| {
        ["samples", "walks", "weight", "pages"].map(|name| part["counts"][name].as_u64().expect("a number"))
    };
    list.iter().map(|part| (part["name"].as_str().expect("a name").to_owned(), counts(part))).collect()
}

#[test]
fn samples_are_told_by_mapping_function_outcome_and_region() {
    let place = with_samples();
    let result = place.good(&["samples", "perf.data", "--json", "-o", "result.json"]).json();
    assert_eq!(result, place.json("result.json"));
    let of = |name: &str, counts| (name.to_owned(), counts);
    let mappings = parts(&result, "mappings");
    let expected = [
        of("[anonymous]", [60, 60, 3000, 8]),
        of("[heap]", [3, 0, 150, 2]),
        of("/bin/no such prog", [1, 0, 50, 1]),
    ];
    assert_eq!(mappings, expected);
    let outcomes = parts(&result, "outcomes");
    assert_eq!(outcomes, [of("first_level", [4, 0, 200, 3]), of("walk", [60, 60, 3000, 8])]);
    assert_eq!(parts(&result, "page_sizes"), [of("4K", [64, 60, 3200, 11])]);
    assert_eq!(result["functions"][0]["file"], "/bin/no such prog");
    assert_eq!((&result["regions"][0]["walks"], &result["regions"][0]["pages"]), (&40.into(), &4.into()));
    assert_eq!(result["regions"][1]["start"], format!("{:#x}", ANONYMOUS + (2 << 20)));
    assert_eq!(result["events"][0]["name"], "cpu/mem-loads/P");

    let text = place.good(&["samples", "perf.data"]);
    for part in ["64 samples with addresses", "60 of them walks", "[anonymous]", "2 MiB region"] {
        assert!(text.stdout.contains(part), "{}", text.stdout);
    }
    assert!(text.stderr.contains("pagewalk advise -o plan.toml --samples perf.data"), "{}", text.stderr);
}

/// A function of this program, which has debug information.
#[inline(never)]
fn sampled_function() -> u32 {
    std::hint::black_box(line!())
}

#[test]
fn samples_are_told_by_line_of_source_where_debug_information_has_it() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let code = sampled_function as *const () as u64;
    let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let (start, offset, name) = maps
        .lines()
        .find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (start, end) = words[0].split_once('-')?;
            (number(start)..number(end)).contains(&code).then(|| (number(start), number(words[2]), words[5]))
        })
        .unwrap();
    let place = Place::new();
    let fields =
        Fields { time: 1000, code: CODE + code - start, address: ANONYMOUS, weight: 50, source: WALK };
    let records = [
        command(7, "prog", true),
        mapping(7, CODE, 1 << 32, offset, name),
        mapping(7, ANONYMOUS, 8 << 20, 0, "//anon"),
        sample(7, fields),
    ];
    place.write("perf.data", file(SAMPLE_TYPE, "cpu/mem-loads/P", &records));
    let result = place.good(&["samples", "perf.data", "--json"]).json();
    let site = result["sites"][0]["name"].as_str().unwrap();
    // The function has two lines, and begins in the first one, unless the compiler leaves that out.
    let lines = [1, 0].map(|before| format!("sampling.rs:{}", sampled_function() - before));
    let is_one = lines.iter().any(|line| site.ends_with(line.as_str()));
    assert!(site.contains("sampled_function") && is_one, "{site}: {lines:?}");
    assert_eq!(result["sites"][0]["file"], name);
    let text = place.good(&["samples", "perf.data"]).stdout;
    assert!(text.contains("line of source") && text.contains("sampling.rs:"), "{text}");
}

/// A file may hold names that would drive the terminal.
#[test]
fn names_of_a_file_are_printed_without_control_characters() {
    let place = Place::new();
    let records = [
        command(7, "pr\x1b[2Jog", true),
        mapping(7, ANONYMOUS, 8 << 20, 0, "/lib/\x1b]0;x\x07.so"),
        sample(7, Fields { time: 1000, code: CODE, address: ANONYMOUS, weight: 50, source: WALK }),
    ];
    place.write("perf.data", file(SAMPLE_TYPE, "cpu/\x1b[31m/", &records));
    for words in [&["samples", "perf.data"][..], &["samples", "-v", "perf.data"]] {
        let outcome = place.good(words);
        assert!(outcome.stdout.contains("\\u{1b}[2J"), "{}", outcome.stdout);
        let drives = |text: &str| text.chars().any(|one| one.is_control() && one != '\n');
        assert!(!drives(&outcome.stdout) && !drives(&outcome.stderr), "{outcome:?}");
    }
}

#[test]
fn advice_from_samples_plans_the_regions_whose_walks_cost_an_eighth_of_a_promotion() {
    let place = with_samples();
    place.write("probe.json", probe());
    let advise = ["advise", "--samples", "perf.data", "--probe", "probe.json", "-o", "plan.toml"];
    let result = place.good(&[&advise[..], &["--json"]].concat()).json();
    assert_eq!(
        (&result["sampler"], &result["file"], &result["process"]),
        (&"file".into(), &"perf.data".into(), &7.into())
    );
    // A sample stands for 100 events; the price is 200000 / 8 / 8 = 3125 walks.
    let ranges = result["ranges"].as_array().unwrap();
    assert_eq!(ranges.len(), 1, "4000 walks pay, 2000 do not: {result:#}");
    assert_eq!(ranges[0]["range"], "anonymous 0x800000 number 1 0x0-0x200000");
    assert_eq!(ranges[0]["memory_mib"], 0.0);
    let plan = String::from_utf8(place.read("plan.toml")).unwrap();
    assert!(plan.contains("0x800000"), "{plan}");
    let text = place.good(&advise).stdout;
    assert!(text.contains("process 7 (prog), sampled for 1.0 s; by perf.data"), "{text}");
    assert!(text.contains("a file of samples has no page maps"), "{text}");
}

/// A trace of the same program: four references of the heap, one of the file, at other addresses.
fn trace() -> Vec<u8> {
    let text = " L 50000010,4\n L 50000020,4\n S 50000030,4\n L 50001000,4\n L 10001000,4\n";
    let mut source = LackeySource::new(text.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    let mut writer = pwt::Writer::with_chunk_records(&mut bytes, &source.header().clone(), 1 << 20).unwrap();
    let mapping = |start: u64, kind: MappingKind, file: Option<FileIdentity>| {
        let protection = Protection { read: true, write: true, execute: false };
        Event::Map(Mapping { protection, kind, file, ..Mapping::anonymous(VirtAddr(start), 0x4000) })
    };
    let program = FileIdentity { path: "/bin/no such prog".to_owned(), offset: 0, build_id: None };
    writer.on_event(RefIndex(0), &mapping(0x5000_0000, MappingKind::Heap, None));
    writer.on_event(RefIndex(0), &mapping(0x1000_0000, MappingKind::File, Some(program)));
    while let Some(item) = source.next_item().unwrap() {
        item.play(&mut writer);
    }
    writer.finish().unwrap();
    bytes
}

#[test]
fn samples_stand_next_to_a_stream_of_the_same_program() {
    let place = with_samples();
    place.write("t.pwt", trace());
    let result = place.good(&["samples", "perf.data", "--with", "t.pwt", "--json"]).json();
    let stream = &result["stream"];
    assert_eq!(stream["references"], 5);
    let shares = |name: &str| {
        let all = stream["mappings"].as_array().unwrap();
        let one = all.iter().find(|one| one["name"] == name).expect(name);
        ["sampled_share", "referenced_share"].map(|key| one[key].as_f64().unwrap())
    };
    assert_eq!(shares("[heap]"), [3.0 / 64.0, 0.8]);
    assert_eq!(shares("/bin/no such prog"), [1.0 / 64.0, 0.2]);
    assert_eq!(shares("[anonymous]"), [60.0 / 64.0, 0.0]);
    assert_eq!(stream["mappings"][0]["name"], "[anonymous]", "the largest difference comes first");
    // Samples: 2, 1 and 1; references: 3, 1 and 1.
    assert_eq!((&stream["page_correlation"], &stream["pages"]), (&1.0.into(), &3.into()));
    assert_eq!(stream["mapping_correlation"], -0.5, "ranks 3, 2, 1 and 1, 3, 2");
    let text = place.good(&["samples", "perf.data", "--with", "t.pwt"]).stdout;
    assert!(text.contains("rank correlation -0.50 over mappings, 1.00 over 3 pages"), "{text}");
}

#[test]
fn what_cannot_be_read_is_named() {
    let place = with_samples();
    let samples = |more: &[&str]| -> Outcome { place.run(&[&["samples"], more].concat()) };
    samples(&["none"]).refuses(BAD_INPUT, &["none", "perf record -d"]);
    place.write("a.txt", "some text\n");
    samples(&["a.txt"])
        .refuses(BAD_INPUT, &["a.txt: the file is neither perf.data nor a text of perf script"]);
    place.write("cut.data", &perf_data()[..300]);
    samples(&["cut.data"]).refuses(BAD_INPUT, &["cut.data: the file ends before its section"]);
    place.write("faults", "p 1/1 1.5: page-faults: 7000 401000 f (/bin/p)\n");
    place.write("probe.json", probe());
    let advise = ["advise", "--samples", "faults", "--probe", "probe.json"];
    place.run(&advise).refuses(BAD_INPUT, &["no sample says that its translation walked", "perf mem record"]);
    place.run(&["advise", "--samples", "faults", "--pid", "1"]).refuses(USAGE, &["--samples"]);
}
