use super::*;

const EXAMPLE: &str = r#"schema = "pagewalk.layout/1"
planner = "hand"
machines = ["amd_k8"]
arena = "0x800000000"

[program]
path = "/usr/bin/python3.11"

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
    assert_eq!((plan.planner.as_str(), plan.arena, plan.places.len()), ("hand", DEFAULT_ARENA, 2));
    assert_eq!(plan.program, Program { path: "/usr/bin/python3.11".into(), build_id: None });
    assert_eq!(plan.places[0].build_id.as_deref(), Some("00ffAA"));
    assert_eq!(plan.base(&plan.places[1]), 0x8_001e_1000);
    assert_eq!(plan.to_toml(), EXAMPLE);
    let mut other_way_round = plan.clone();
    other_way_round.places.reverse();
    assert_eq!(other_way_round.to_toml(), EXAMPLE, "sorted by file");
}

#[test]
fn a_plan_needs_no_arena_machines_or_places() {
    let text = "schema = \"pagewalk.layout/1\"\nplanner = \"\"\n[program]\npath = \"/bin/true\"\n";
    let plan = Plan::parse(text, "short").unwrap();
    assert_eq!((plan.arena, plan.machines.len(), plan.places.len()), (DEFAULT_ARENA, 0, 0));
    assert_eq!(Plan::parse(&plan.to_toml(), "again").unwrap(), plan);
}

#[test]
fn files_are_written_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    example().write(&path).unwrap();
    assert_eq!(Plan::read(&path).unwrap(), example());
    let missing = Plan::read(&folder.path().join("none.toml")).unwrap_err().to_string();
    assert!(missing.contains("none.toml"), "{missing}");
    let nowhere = folder.path().join("none/plan.toml");
    assert!(matches!(example().write(&nowhere), Err(PlanError::Write { .. })));
    let mut wrong = example();
    wrong.places[0].size = 0;
    assert!(matches!(wrong.write(&path), Err(PlanError::Empty { .. })));
    assert_eq!(Plan::read(&path).unwrap(), example(), "a wrong plan replaces nothing");
}

#[test]
fn wrong_plans_are_refused_by_name() {
    for (from, to, parts) in [
        ("layout/1", "layout/2", &["pagewalk.layout/2", SCHEMA][..]),
        ("schema = \"pagewalk.layout/1\"", "", &["schema"]),
        ("planner", "planer", &["planer", "line 2"]),
        ("planner = \"hand\"", "planner = 3", &["string"]),
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
        ("python3.11\"", "python3.11\"\nbuild_id = \"x\"", &["build_id", "python3.11"]),
        ("0x800000000", "0x800000800", &["arena", "4096"]),
        ("0x800000000", "0xffff0000", &["arena", "0x100000000"]),
        ("0x800000000", "0xfffffffffffff000", &["/lib/libc.so.6", "0x1000000000"]),
        ("0x800000000", "0xfffe1e000", &["/lib/libm.so.6", "0x1000000000", "0x2000"]),
        ("\"0x2000\"", "\"0xfffffffffffff000\"", &["/lib/libm.so.6", "0x1000000000"]),
        ("\"/lib/libm", "\"lib/libm", &["lib/libm.so.6", "absolute"]),
        ("libm", "libc", &["/lib/libc.so.6", "0x0", "0x1e1000"]),
        ("\"0x1e1000\"\nsize", "\"0x1e0000\"\nsize", &["libc", "libm", "0x1e1000", "0x1e0000"]),
        ("[program]", "[program", &["line 6"]),
    ] {
        let message = refused(from, to);
        assert!(message.starts_with("p.toml: "), "{message}");
        for part in parts {
            assert!(message.contains(part), "{from} -> {to}: no {part} in: {message}");
        }
    }
}

#[test]
fn the_limit_itself_may_be_reached() {
    let text = EXAMPLE.replace("0x800000000", "0xfffe1d000");
    let plan = Plan::parse(&text, "high").unwrap();
    assert_eq!(plan.base(&plan.places[1]) + plan.places[1].size, LIMIT);
}
