use super::*;
use pagewalk_units::PAGE_BYTES;
use proptest::prelude::*;

const EXAMPLE: &str = r#"schema = "pagewalk.plan/2"

[program]
path = "/usr/bin/sqlite3"
build_id = "00ffAA"
arguments = [":memory:"]

[host]
kernel = "6.18.0"
thp = "madvise"

[forecast]
seconds_now = 12.3
seconds = 9.1
low = 8.8
high = 9.5
memory_mib = 120.0

[[range]]
what = "heap"
from = "0x0"
to = "0x8000000"
seconds_saved = 2.5
low = 2.0
high = 3.0
memory_mib = 100.0

[[range]]
what = "anonymous"
made_by = "build (graph.c:13)"
bytes = "0x10000000"
nth = 1
by = "libc.so.6+0x9d2f1"
from = "0x200000"
to = "0x10000000"

[[range]]
what = "file"
file = "/usr/bin/x"
offset = "0x1000"
bytes = "0x400000"
"#;

fn example() -> Plan {
    Plan::parse(EXAMPLE, "example").unwrap()
}

/// The message of the example with `from` replaced by `to`.
fn refused(from: &str, to: &str) -> String {
    assert!(EXAMPLE.contains(from), "{from}");
    Plan::parse(&EXAMPLE.replacen(from, to, 1), "p.toml").unwrap_err().to_string()
}

#[test]
fn a_plan_reads_as_it_stands_and_writes_as_it_reads() {
    let plan = example();
    assert_eq!(plan.to_toml(), EXAMPLE);
    assert_eq!(plan.ranges[0].what, What::Heap(RangePart { from: 0, to: 0x800_0000 }));
    assert_eq!(plan.ranges[1].what.part().bytes(), 0xfe0_0000);
    let names: Vec<String> = plan.ranges.iter().map(|range| range.to_string()).collect();
    assert_eq!(
        names,
        [
            "heap 0x0-0x8000000",
            "build (graph.c:13): anonymous 0x10000000 number 1 0x200000-0x10000000",
            "file /usr/bin/x 0x1000-0x401000"
        ]
    );
}

#[test]
fn a_plan_by_hand_is_short() {
    // In the format of before.
    let text = "schema = \"pagewalk.plan/1\"\n[program]\npath = \"/bin/true\"\n[[range]]\nwhat = \"anonymous\"\n\
                bytes = \"0x400000\"\nnth = 2\npages = \"2M\"\n";
    let plan = Plan::parse(text, "short").unwrap();
    assert_eq!(plan.ranges[0].what.part(), RangePart { from: 0, to: 0x40_0000 });
    assert_eq!((plan.host.is_none(), plan.forecast), (true, None));
    assert_eq!(Plan::parse(&plan.to_toml(), "again").unwrap(), plan);
}

#[test]
fn files_are_written_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    example().write(&path).unwrap();
    assert_eq!(Plan::read(&path).unwrap(), example());
    let missing = Plan::read(&folder.path().join("none.toml")).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read the plan ") && missing.contains("none.toml"), "{missing}");
    let unwritable = example().write(folder.path()).unwrap_err().to_string();
    assert!(unwritable.starts_with("cannot write the plan "), "{unwritable}");
}

#[test]
fn each_fault_is_named_with_its_range_and_key() {
    let faults = [
        ("plan/2", "plan/3", "schema = \"pagewalk.plan/3\"; this version reads \"pagewalk.plan/2\""),
        ("what = \"heap\"", "what = \"stack\"", "what = \"stack\" of range 1: it is \"heap\", "),
        ("from = \"0x0\"", "", "range 1 (heap) has no from"),
        ("from = \"0x0\"", "from = \"0\"", "from = \"0\" of range 1: not a hexadecimal number"),
        ("from = \"0x0\"", "from = \"0x10\"", "from = \"0x10\" of range 1: not a multiple of 4096"),
        ("from = \"0x0\"", "from = \"0x0\"\nnth = 1", "nth of range 1: a range that is \"heap\" has no such"),
        ("from = \"0x0\"", "from = \"0x8000000\"", "0x8000000 to 0x8000000 of range 1: not a part"),
        ("from = \"0x0\"", "from = \"0x0\"\npages = \"1G\"", "pages = \"1G\" of range 1: it is \"2M\""),
        ("to = \"0x8000000\"", "to = \"0x1000000000000\"", "what ends at 0x800000000000"),
        ("nth = 1", "nth = 0", "nth = 0 of range 2: mappings are counted from 1"),
        ("nth = 1", "", "range 2 (anonymous) has no nth"),
        ("to = \"0x10000000\"", "to = \"0x10001000\"", "of range 2: not a part of what ends at 0x10000000"),
        ("to = \"0x10000000\"", "", "range 2 (anonymous) has no to"),
        ("bytes = \"0x10000000\"", "bytes = \"0x10000001\"", "bytes = \"0x10000001\" of range 2"),
        ("libc.so.6+0x9d2f1", "libc.so.6", "by = \"libc.so.6\" of range 2: not a file name and"),
        ("libc.so.6+0x9d2f1", "/lib/libc.so.6+0x1", "of range 2: not a file name and"),
        ("/usr/bin/x", "x", "file = \"x\" of range 3: not an absolute path"),
        ("offset = \"0x1000\"", "offset = \"0x1001\"", "offset = \"0x1001\" of range 3"),
        ("bytes = \"0x400000\"", "bytes = \"0xfffffffffffff000\"", "of range 3"),
        ("00ffAA", "00f", "build_id = \"00f\" of the program"),
        ("low = 8.8", "low = 9.2", "low = 9.2 of the forecast: more than seconds"),
        ("high = 9.5", "high = 9.0", "high = 9 of the forecast: less than seconds"),
        (
            "seconds_now = 12.3",
            "seconds_now = 0",
            "seconds_now = 0 of the forecast: no time, of which nothing",
        ),
        ("seconds = 9.1", "seconds = nan", "seconds = NaN of the forecast: not a number from 0 up"),
        ("low = 2.0", "low = 4.0", "low = 4 of range 1: more than high"),
        ("seconds_saved = 2.5", "seconds_saved = inf", "seconds_saved = inf of range 1: not a number"),
        ("seconds_saved", "secs", "unknown field `secs`"),
        ("[program]", "[programme]", "unknown field `programme`"),
    ];
    for (from, to, message) in faults {
        let told = refused(from, to);
        assert!(told.starts_with("p.toml: ") && told.contains(message), "{from} -> {to}: {told}");
    }
}

#[test]
fn ranges_must_not_overlap_and_are_not_too_many() {
    let heap = "[[range]]\nwhat = \"heap\"\nfrom = \"0x7fff000\"\nto = \"0x9000000\"\n";
    let told = Plan::parse(&format!("{EXAMPLE}{heap}"), "p").unwrap_err().to_string();
    assert!(told.contains("ranges 1 and 4 overlap: heap 0x7fff000-0x9000000"), "{told}");
    let other = EXAMPLE.replace("nth = 1", "nth = 2");
    let second = "[[range]]\nwhat = \"anonymous\"\nbytes = \"0x10000000\"\nnth = 1\n";
    Plan::parse(&format!("{other}{second}"), "p").unwrap();
    let mut many = example();
    many.ranges = (0..=RANGES_MAX as u32)
        .map(|nth| What::Anonymous { bytes: 4096, nth: nth + 1, by: None, part: None })
        .map(PlanRange::of)
        .collect();
    assert!(matches!(many.check(), Err(PlanError::TooMany(1025))));
}

fn any_range() -> impl Strategy<Value = PlanRange> {
    let pages = |range: std::ops::Range<u64>| range.prop_map(|pages| pages * PAGE_BYTES);
    let part =
        (pages(0..1 << 20), pages(1..1 << 20)).prop_map(|(from, bytes)| RangePart { from, to: from + bytes });
    let caller = ("[a-z+.0-9]{1,8}", any::<u64>()).prop_map(|(file, offset)| Caller { file, offset });
    let what = prop_oneof![
        part.clone().prop_map(What::Heap),
        (1..u32::MAX, proptest::option::of(caller), proptest::option::of(part.clone()))
            .prop_map(|(nth, by, part)| What::Anonymous { bytes: 1 << 40, nth, by, part }),
        ("/[ -~é]{0,8}", part).prop_map(|(file, part)| What::File {
            file,
            offset: part.from,
            bytes: part.bytes()
        }),
    ];
    let gain =
        proptest::option::of(-10.0..10.0).prop_map(|seconds_saved| Gain { seconds_saved, ..Gain::default() });
    (what, gain).prop_map(|(what, gain)| PlanRange { gain, ..PlanRange::of(what) })
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        range in any_range(),
        path in "[ -~é]*",
        build_id in proptest::option::of("([0-9a-f]{2}){1,9}"),
    ) {
        let program = Program { path, build_id, arguments: vec!["a \"b\"".into()] };
        let plan = Plan { program, host: None, forecast: None, ranges: vec![range], layout: None };
        prop_assert_eq!(Plan::parse(&plan.to_toml(), "again").unwrap(), plan);
    }

    #[test]
    fn no_text_is_too_strange(at in 0..EXAMPLE.len(), text in "[ -~\n]{0,6}") {
        // It is read or refused, whatever it is.
        let _ = Plan::parse(&format!("{}{text}{}", &EXAMPLE[..at], &EXAMPLE[at..]), "p");
    }
}
