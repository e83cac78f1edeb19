use super::*;
use crate::{DEFAULT_ARENA, LAYOUT_SCHEMA, Plan, Program};

const EXAMPLE: &str = r#"schema = "pagewalk.plan/2"

[program]
path = "/usr/bin/python3.11"

[layout]
planner = "hand"
machines = ["amd_k8"]
arena = "0x800000000"

[[place]]
file = "/lib/libc.so.6"
build_id = "00ffAA"
offset = "0x0"
size = "0x1e1000"

[[place]]
file = "/lib/libm.so.6"
offset = "0x1e1000"
size = "0x2000"
"#;

/// The same as it was written before plans of pages and of libraries had one format.
fn old_example() -> String {
    let [before, after] = ["schema = \"pagewalk.plan/2\"\n\n[program]", "\n[layout]\nplanner"];
    let (program, rest) = EXAMPLE[before.len()..].split_once(after).unwrap();
    let (layout, places) = rest.split_once("\n\n").unwrap();
    format!("schema = \"{LAYOUT_SCHEMA}\"\nplanner{layout}\n\n[program]{program}\n{places}")
}

fn example() -> Plan {
    Plan::parse(EXAMPLE, "example").unwrap()
}

fn places(plan: &mut Plan) -> &mut Vec<Place> {
    &mut plan.layout.as_mut().unwrap().places
}

#[test]
fn a_layout_reads_as_it_stands_and_writes_as_it_reads() {
    let plan = example();
    let layout = plan.layout.clone().unwrap();
    assert_eq!((layout.planner.as_str(), layout.arena, layout.places.len()), ("hand", DEFAULT_ARENA, 2));
    let path = "/usr/bin/python3.11".into();
    assert_eq!(plan.program, Program { path, build_id: None, arguments: Vec::new() });
    assert_eq!(layout.places[0].build_id.as_deref(), Some("00ffAA"));
    assert_eq!(layout.base(&layout.places[1]), 0x8_001e_1000);
    assert_eq!(plan.to_toml(), EXAMPLE);
    let mut other_way_round = plan.clone();
    places(&mut other_way_round).reverse();
    assert_eq!(other_way_round.to_toml(), EXAMPLE, "sorted by file");
}

#[test]
fn the_format_of_before_is_read() {
    assert_eq!(Plan::parse(&old_example(), "old").unwrap(), example());
    let misspelt = Plan::parse(&old_example().replace("planner", "planer"), "old").unwrap_err().to_string();
    assert!(misspelt.contains("line 2") && misspelt.contains("planer"), "{misspelt}");
    let mixed = Plan::parse(&old_example().replace("layout/1", "plan/2"), "old").unwrap_err().to_string();
    assert!(mixed.contains("unknown field `arena`"), "{mixed}");
}

#[test]
fn a_layout_needs_no_arena_machines_or_places() {
    let text = "schema = \"pagewalk.plan/2\"\n[program]\npath = \"/bin/true\"\n[layout]\nplanner = \"\"\n";
    let plan = Plan::parse(text, "short").unwrap();
    let layout = plan.layout.as_ref().unwrap();
    assert_eq!((layout.arena, layout.machines.len(), layout.places.len()), (DEFAULT_ARENA, 0, 0));
    assert_eq!(Plan::parse(&plan.to_toml(), "again").unwrap(), plan);
}

#[test]
fn a_wrong_plan_replaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    example().write(&path).unwrap();
    let mut wrong = example();
    places(&mut wrong)[0].size = 0;
    assert!(matches!(wrong.write(&path), Err(PlanError::Empty { .. })));
    assert_eq!(Plan::read(&path).unwrap(), example());
}

#[test]
fn wrong_layouts_are_refused_by_name() {
    for (from, to, parts) in [
        ("plan/2", "plan/3", &["pagewalk.plan/3", "pagewalk.plan/2", LAYOUT_SCHEMA][..]),
        ("schema = \"pagewalk.plan/2\"", "", &["schema"]),
        ("planner", "planer", &["planer", "line 7"]),
        ("planner = \"hand\"", "planner = 3", &["string"]),
        ("[layout]\nplanner = \"hand\"\nmachines = [\"amd_k8\"]\narena = \"0x800000000\"", "", &["[layout]"]),
        ("size = \"0x2000\"", "size = \"0x2000\"\ncolour = 1", &["colour"]),
        ("size = \"0x2000\"", "", &["size"]),
        ("\"0x2000\"", "\"8192\"", &["size", "8192", "/lib/libm.so.6"]),
        ("\"0x2000\"", "\"0x\"", &["size", "hexadecimal"]),
        ("\"0x2000\"", "\"0x+2000\"", &["size", "hexadecimal"]),
        ("\"0x2000\"", "\"0x10000000000000000\"", &["size", "hexadecimal"]),
        ("\"0x2000\"", "\"0x2001\"", &["size", "0x2001", "4096"]),
        ("\"0x2000\"", "\"0x0\"", &["size", "/lib/libm.so.6"]),
        ("\"0x1e1000\"\nsize", "\"0x1e1800\"\nsize", &["offset", "0x1e1800", "/lib/libm.so.6"]),
        ("00ffAA", "00ffA", &["build_id", "00ffA", "/lib/libc.so.6"]),
        ("00ffAA", "00fg", &["build_id", "00fg"]),
        ("00ffAA", "", &["build_id"]),
        ("python3.11\"", "python3.11\"\nbuild_id = \"x\"", &["build_id", "of the program"]),
        ("0x800000000", "0x800000800", &["arena", "4096"]),
        ("0x800000000", "0xffff0000", &["arena", "0x100000000"]),
        ("0x800000000", "0xfffffffffffff000", &["/lib/libc.so.6", "0x1000000000"]),
        ("0x800000000", "0xfffe1e000", &["/lib/libm.so.6", "0x1000000000", "0x2000"]),
        ("\"0x2000\"", "\"0xfffffffffffff000\"", &["/lib/libm.so.6", "0x1000000000"]),
        ("\"/lib/libm", "\"lib/libm", &["lib/libm.so.6", "absolute"]),
        ("libm", "libc", &["/lib/libc.so.6", "0x0", "0x1e1000"]),
        ("\"0x1e1000\"\nsize", "\"0x1e0000\"\nsize", &["libc", "libm", "0x1e1000", "0x1e0000"]),
        ("[program]", "[program", &["line 3"]),
    ] {
        assert!(EXAMPLE.contains(from), "{from}");
        let message = Plan::parse(&EXAMPLE.replacen(from, to, 1), "p.toml").unwrap_err().to_string();
        assert!(message.starts_with("p.toml: "), "{message}");
        for part in parts {
            assert!(message.contains(part), "{from} -> {to}: no {part} in: {message}");
        }
    }
}

#[test]
fn the_limit_itself_may_be_reached() {
    let text = EXAMPLE.replace("0x800000000", "0xfffe1d000");
    let layout = Plan::parse(&text, "high").unwrap().layout.unwrap();
    assert_eq!(layout.base(&layout.places[1]) + layout.places[1].size, ARENA_LIMIT);
}
