//! Checks the dependencies between crates, and that the code map lists all crates.

use super::{Finding, Tree, numbered};
use std::collections::BTreeSet;

/// For each crate the crates it may depend on. An arrow that is not here is a decision about the design:
/// change `ARCHITECTURE.md` with it.
const ARROWS: [(&str, &[&str]); 22] = [
    ("units", &[]),
    ("trace", &["units"]),
    ("capture", &["units", "trace"]),
    ("setassoc", &["units"]),
    ("cache", &["setassoc"]),
    ("translate", &["units", "setassoc", "cache"]),
    ("mm", &["units", "trace"]),
    ("cost", &["units"]),
    ("sim", &["units", "trace", "setassoc", "cache", "translate", "mm", "cost"]),
    ("forecast", &["units", "trace", "mm", "translate", "sim"]),
    ("reuse", &["units", "trace"]),
    ("symbols", &["units"]),
    ("plan", &["units"]),
    ("layout", &["units", "plan", "trace", "setassoc", "translate", "mm", "sim", "symbols"]),
    ("live", &["units", "plan", "setassoc", "translate", "layout"]),
    ("report", &[]),
    ("sweep", &["units", "plan", "trace", "mm", "translate", "cost", "sim", "layout", "reuse", "report"]),
    (
        "pagewalk",
        &[
            "units",
            "trace",
            "capture",
            "cache",
            "setassoc",
            "mm",
            "translate",
            "sim",
            "forecast",
            "plan",
            "layout",
            "live",
            "symbols",
            "report",
            "sweep",
        ],
    ),
    ("cli", &["pagewalk"]),
    ("python", &["pagewalk", "cli"]),
    // The reference models share no code with what they check, and only tests use them.
    ("oracle", &["units"]),
    // Reports tests that a host cannot run.
    ("skip", &[]),
];

/// Checks that dependencies (and build-dependencies) between crates follow [`ARROWS`]. Dev-dependencies are not
/// restricted.
pub fn layering(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in tree.files(|path| crate_of_manifest(path).is_some()) {
        let name = crate_of_manifest(path).expect("filtered");
        let mut report = |line, message| {
            findings.push(Finding { path: path.to_owned(), line, rule: "layering", message });
        };
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            report(1, format!("crate `{name}` has no row in xtask's table of arrows"));
            continue;
        };
        let manifest = match text.parse::<toml::Table>() {
            Ok(manifest) => manifest,
            Err(error) => {
                report(1, format!("not TOML: {error}"));
                continue;
            }
        };
        for dependency in dependencies(&manifest) {
            let Some(target) = crate_of_package(&dependency) else { continue };
            if !allowed.contains(&target) {
                let line = numbered(text).find(|(_, line)| line.contains(&dependency)).map_or(1, |(n, _)| n);
                report(line, format!("`{name}` may depend on {allowed:?}, not on `{target}`"));
            }
        }
    }
}

/// Names under `[dependencies]` and `[build-dependencies]`, for any target.
fn dependencies(manifest: &toml::Table) -> BTreeSet<String> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let tables = targets.into_iter().flat_map(|targets| targets.values().filter_map(toml::Value::as_table));
    std::iter::once(manifest)
        .chain(tables)
        .flat_map(|table| ["dependencies", "build-dependencies"].map(|key| table.get(key)))
        .flatten()
        .filter_map(toml::Value::as_table)
        .flat_map(|table| table.keys().cloned())
        .collect()
}

/// `sim` for the package `pagewalk-sim`; the package `pagewalk` is the command, so the library is `pagewalk-lib`.
fn crate_of_package(package: &str) -> Option<&str> {
    if package == "pagewalk" {
        return Some("cli");
    }
    match package.strip_prefix("pagewalk-")? {
        "lib" => Some("pagewalk"),
        name => Some(name),
    }
}

/// `sim` for `crates/sim/Cargo.toml`.
fn crate_of_manifest(path: &str) -> Option<&str> {
    let name = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
    (!name.contains('/')).then_some(name)
}

/// Checks that the code map of `ARCHITECTURE.md` names every crate, and no other.
pub fn architecture_names(tree: &Tree, findings: &mut Vec<Finding>) {
    const MAP: &str = "ARCHITECTURE.md";
    let mut report = |line, message| {
        findings.push(Finding { path: MAP.to_owned(), line, rule: "architecture-names", message });
    };
    let Some(text) = tree.text(MAP) else {
        return report(1, "there is no architecture page".to_owned());
    };
    let mut crates: BTreeSet<&str> =
        tree.files(|_| true).filter_map(|(path, _)| crate_of_manifest(path)).collect();
    if tree.holds("xtask/Cargo.toml") {
        crates.insert("xtask");
    }
    let mut named = BTreeSet::new();
    for (line, name) in code_map(text) {
        if !crates.contains(name) {
            report(line, format!("names the crate `{name}`, which does not exist"));
        }
        named.insert(name);
    }
    for missing in crates.difference(&named) {
        report(1, format!("the code map does not name the crate `{missing}`"));
    }
}

/// The names in the first column of the table headed `crate`.
fn code_map(text: &str) -> impl Iterator<Item = (usize, &str)> {
    numbered(text)
        .skip_while(|(_, line)| !line.starts_with("| crate |"))
        .take_while(|(_, line)| line.starts_with('|'))
        .filter_map(|(number, line)| Some((number, line.strip_prefix("| `")?.split('`').next()?)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn an_arrow_upwards_is_found_where_it_stands() {
        let trace = "[package]\nname = \"pagewalk-trace\"\n\n[dependencies]\n\
                     pagewalk-units.workspace = true\n\
                     pagewalk-sim = { workspace = true }\n";
        assert_eq!(places(layering, &[("crates/trace/Cargo.toml", trace)]), ["crates/trace/Cargo.toml:6"]);
    }

    #[test]
    fn the_oracle_is_for_tests_only() {
        let dev = "[dev-dependencies]\npagewalk-oracle.workspace = true\n";
        assert!(places(layering, &[("crates/sim/Cargo.toml", dev)]).is_empty());
        for table in ["dependencies", "build-dependencies", "target.'cfg(unix)'.dependencies"] {
            let wrong = format!("[{table}]\npagewalk-oracle.workspace = true\n");
            let place = ["crates/sim/Cargo.toml:2"];
            assert_eq!(places(layering, &[("crates/sim/Cargo.toml", &wrong)]), place, "{table}");
        }
    }

    #[test]
    fn the_command_knows_the_library_alone() {
        let cli = "[dependencies]\npagewalk-lib.workspace = true\npagewalk-sim.workspace = true\n";
        assert_eq!(places(layering, &[("crates/cli/Cargo.toml", cli)]), ["crates/cli/Cargo.toml:3"]);
    }

    #[test]
    fn the_report_runs_without_a_trace() {
        for other in ["sim", "trace", "capture"] {
            let wrong = format!("[dependencies]\nserde = \"1\"\npagewalk-{other}.workspace = true\n");
            let place = ["crates/report/Cargo.toml:3"];
            assert_eq!(places(layering, &[("crates/report/Cargo.toml", &wrong)]), place, "{other}");
        }
    }

    #[test]
    fn a_new_crate_needs_a_row() {
        assert_eq!(places(layering, &[("crates/novel/Cargo.toml", "")]), ["crates/novel/Cargo.toml:1"]);
    }

    #[test]
    fn arrows_have_no_cycle() {
        // Each row comes after the rows of the crates that it may depend on.
        for (position, (name, allowed)) in ARROWS.iter().enumerate() {
            for target in *allowed {
                let found = ARROWS.iter().position(|(known, _)| known == target);
                assert!(found.is_some_and(|found| found < position), "{name} -> {target}");
            }
        }
    }

    #[test]
    fn the_map_names_every_crate_and_none_that_is_gone() {
        let map = "# Map\n\n`prose` is not a row.\n\n\
                   | crate | holds |\n|---|---|\n| `units` | a |\n| `gone` | b |\n\n\
                   | other | table |\n|---|---|\n| `value` | c |\n";
        let units = ("crates/units/Cargo.toml", "");
        assert_eq!(places(architecture_names, &[("ARCHITECTURE.md", map), units]), ["ARCHITECTURE.md:8"]);
        let unnamed =
            [("ARCHITECTURE.md", map), units, ("crates/gone/Cargo.toml", ""), ("xtask/Cargo.toml", "")];
        assert_eq!(places(architecture_names, &unnamed), ["ARCHITECTURE.md:1"]);
        assert_eq!(places(architecture_names, &[units]), ["ARCHITECTURE.md:1"]);
    }
}
