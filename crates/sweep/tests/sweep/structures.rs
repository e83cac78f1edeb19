//! Operating systems as a dimension of a study: cells equal direct simulation, units are kept by structure, mistakes
//! are named.

use crate::common::{Silent, alone, counted, program, study, sweep};
use pagewalk_report::TextOptions;
use pagewalk_report::sweep::{from_json, render_html, render_text, to_json};
use pagewalk_sweep::Study;

const STUDY: &str = r#"
thp = "never"
traces = ["a.pwt"]
machines = ["mips_r2000", "k8"]
structures = ["none", "osf1", "mach3"]

[[compare]]
title = "A server's pages"
source = "nobody"
said = "nothing"
upper = { machine = "mips_r2000", structure = "mach3", metric = "server_references" }
lower = { machine = "mips_r2000", structure = "osf1", metric = "kernel_references" }
least = 0
on = "all"
"#;

#[test]
fn cells_are_what_direct_simulation_counts() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(7, 4000);
    program.write(&folder.path().join("a.pwt"));
    let study = study(folder.path(), STUDY);
    let result = sweep(&study, folder.path(), 2, "t").run(&Silent).unwrap();
    let cells: Vec<_> = result
        .machines
        .iter()
        .map(|cell| (cell.machine.as_str(), cell.structure.as_deref().unwrap()))
        .collect();
    let structures = ["none", "osf1", "mach3"];
    let expected: Vec<_> =
        ["mips_r2000", "k8"].iter().flat_map(|&machine| structures.map(|name| (machine, name))).collect();
    assert_eq!(cells, expected);
    for cell in &result.machines {
        let mut system = alone(cell);
        program.play(&mut system);
        assert_eq!(cell.metrics, counted(&mut system), "{} in {:?}", cell.machine, cell.structure);
    }
    assert!(result.comparisons[0].found.len() == 1);
    let text = render_text(&result, &TextOptions { width: 120, color: false, verbose: false });
    assert!(text.contains("structure") && text.contains("mach3"), "{text}");
    assert!(render_html(&result).contains("<td>mach3</td>"));
    assert_eq!(from_json(&to_json(&result)).unwrap(), result);
    // All of it is kept.
    assert!(sweep(&study, folder.path(), 1, "t").remaining()[0].tasks.is_empty());
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let read = |structures: &str, more: &str| {
        let text = format!(
            "schema = 1\nname = \"s\"\ntraces = [\"a.pwt\"]\nmachines = [\"k8\"]\nstructures = {structures}\n{more}"
        );
        Study::from_toml("s.toml", &text, folder.path()).unwrap_err().to_string()
    };
    let compare = |structure: &str| {
        format!(
            "[[compare]]\ntitle = \"t\"\nsource = \"s\"\nsaid = \"x\"\nupper = {{ machine = \"k8\", structure = \
             \"{structure}\" }}\nlower = {{ number = 1 }}\nleast = 1\non = \"all\"\n"
        )
    };
    let bad = folder.path().join("bad.toml");
    std::fs::write(bad, "schema = 1\nname = \"bad\"\n[kernel]\nstores = 0.1\ntouches = { fil = 1 }\n")
        .unwrap();
    let cases = [
        (read("[\"nonesuch\"]", ""), ["structures: no structure `nonesuch`", "`none`"]),
        (read("[\"osf1\", \"osf1\"]", ""), ["structures: \"osf1\"", "already"]),
        (read("[\"./absent.toml\"]", ""), ["structures: \"./absent.toml\"", "No such file"]),
        (read("[\"./bad.toml\"]", ""), ["./bad.toml", "unknown field `fil`"]),
        (read("[\"osf1\"]", &compare("mach3")), ["structure = \"mach3\"", "choose from osf1"]),
        (read("[\"osf1\", \"none\"]", &compare("absent")), ["structure = \"absent\"", "osf1, none"]),
    ];
    for (why, parts) in cases {
        assert!(why.starts_with("s.toml: "), "{why}");
        parts.iter().for_each(|part| assert!(why.contains(part), "{part}: {why}"));
    }
}
