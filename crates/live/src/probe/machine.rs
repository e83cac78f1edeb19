//! Writes a probe as a machine file: measured values, and comments on assumed ones.

use super::levels::{AssumedArray, Tlb};
use super::usual_figures::LAST_LEVEL_ENTRIES;
use super::{Figure, NearestPolicy, Probe, ProbedSize, ReplacementFinding};
use pagewalk_setassoc::Replacement;
use std::fmt::Write;

/// Arrays for fetches, which nothing here measures: Skylake's.
const FETCH: AssumedArray = AssumedArray { entries: 128, ways: 8 };
/// Data levels if no first level was seen, as on a busy host: Skylake's.
const LEVELS: [AssumedArray; 2] =
    [AssumedArray { entries: 64, ways: 4 }, AssumedArray { entries: LAST_LEVEL_ENTRIES, ways: 12 }];
/// Cycles assumed if none were measured, as in the library's files.
const L2_HIT: f64 = 7.0;
const WALK_REFERENCE: f64 = 20.0;

/// The machine file's text, which `pagewalk machines check` accepts. `cpu` and `kernel` are the host's names.
pub fn machine_file(probe: &Probe, cpu: &str, kernel: &str) -> String {
    let mut out = head(probe, cpu, kernel);
    let assumed = |array: &mut String, name, level, serves: &[&str], what, why: &str| {
        let unknown = ReplacementFinding::Undecided(why.to_owned());
        let basis = Basis { array: &format!("assumed: {why}"), replacement: &unknown };
        self::array(array, name, level, serves, &["4K", "2M"], what, &basis);
    };
    assumed(&mut out, "l1i", 1, FETCH_ALONE, FETCH, "fetches are not measured");
    match probe.tlb(ProbedSize::Base, 1) {
        Some(first) => {
            level(&mut out, "l1d", DATA, first, probe.tlb(ProbedSize::Huge, 1));
            if let Some(second) = probe.tlb(ProbedSize::Base, 2) {
                level(&mut out, "l2", ALL, second, probe.tlb(ProbedSize::Huge, 2));
            }
        }
        None => {
            let why = "no TLB for 4 KB pages was seen; probe again with nothing else running";
            let [first, last] = LEVELS;
            assumed(&mut out, "l1d", 1, DATA, first, why);
            assumed(&mut out, "l2", 2, ALL, last, why);
        }
    }
    out += "\n[walker]\nkind = \"radix\"\nlevels = 4\n";
    out += "# Not measured. Those of Sandy Bridge are taken, as for Intel's later cores.\n";
    out += "caches = { pde = { entries = 32, ways = 2 }, pdpte = { entries = 4 }, pml4 = { entries = 2 } }\n";
    costs(&mut out, probe);
    out
}

fn head(probe: &Probe, cpu: &str, kernel: &str) -> String {
    let title = format!("{cpu}, probed").replace(['"', '\\'], "").replace(char::is_control, " ");
    let around = if probe.surroundings.hypervisor {
        "# in a virtual machine: walks go through two tables, an entry stands for the smaller of both tables' pages\n"
    } else {
        ""
    };
    let quick = if probe.quick { "# a quick look: few repeats; do not rely on it\n" } else { "" };
    format!(
        "# Written by `pagewalk probe`: this host, by timing alone. How, and what is assumed:\n\
         # docs/explanation/probing.md\n\
         # {}, processor {}, Linux {}\n{around}{quick}schema = 1\nname = \"host\"\ntitle = \"{title}\"\n\
         asids = 6 # assumed: PCIDs, of which Linux gives six to user processes of a processor\n",
        cpu.replace(char::is_control, " "),
        probe.surroundings.cpu,
        kernel.replace(char::is_control, " "),
    )
}

const FETCH_ALONE: &[&str] = &["fetch"];
const DATA: &[&str] = &["load", "store"];
const ALL: &[&str] = &["fetch", "load", "store"];

/// The arrays of a level: one for both page sizes if their arrays are equal (all machines of the library share them
/// then) or if nothing is known of the larger pages; else one each.
fn level(out: &mut String, name: &str, serves: &[&str], base: &Tlb, huge: Option<&Tlb>) {
    let number = base.level;
    let mut put = |name: &str, pages: &[&str], tlb: &Tlb, besides: &str| {
        let basis = Basis { array: &(basis(tlb) + besides), replacement: &tlb.replacement };
        array(out, name, number, serves, pages, tlb.assumed, &basis);
    };
    match huge {
        Some(huge) if huge.assumed != base.assumed => {
            put(name, &["4K"], base, "");
            put(&format!("{name}_2m"), &["2M"], huge, "");
        }
        Some(_) => {
            put(name, &["4K", "2M"], base, "; 2 MB pages have the same, so both are assumed to share it");
        }
        None => put(name, &["4K", "2M"], base, "; that 2 MB pages share it is assumed"),
    }
}

fn basis(tlb: &Tlb) -> String {
    match &tlb.refused {
        None => "measured".to_owned(),
        Some(why) => {
            let [hits, misses] = tlb.between;
            format!("assumed: the cost rises between {hits} and {misses} pages; {why}")
        }
    }
}

/// The sources of an array's keys.
struct Basis<'a> {
    array: &'a str,
    replacement: &'a ReplacementFinding,
}

fn array(
    out: &mut String,
    name: &str,
    level: u32,
    serves: &[&str],
    pages: &[&str],
    array: AssumedArray,
    basis: &Basis<'_>,
) {
    let quoted =
        |words: &[&str]| words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
    let AssumedArray { entries, ways } = array;
    write!(
        out,
        "\n# {}\n[[tlb]]\nname = \"{name}\"\nlevel = {level}\nserves = [{}]\npage_sizes = [{}]\n\
         entries = {entries}\n",
        basis.array,
        quoted(serves),
        quoted(pages)
    )
    .expect("writing to a string");
    if ways < entries {
        writeln!(out, "ways = {ways}").expect("writing to a string");
    }
    let (policy, source) = replacement(basis.replacement, ways);
    writeln!(out, "replacement = \"{}\"\nreplacement_source = \"{source}\"", policy.name())
        .expect("writing to a string");
}

/// Longest reason in a machine file, in characters.
const REASON: usize = 200;

/// The replacement of an array with this many ways, and its source.
fn replacement(found: &ReplacementFinding, ways: u64) -> (Replacement, String) {
    let percent = |off: f64| format!("{:.0} %", 100.0 * off);
    let why = match found {
        ReplacementFinding::Nearest(nearest) if nearest.policy.serves(ways as usize).is_ok() => {
            let NearestPolicy { policy, off, next, .. } = nearest;
            let next = next.map_or(String::new(), |(policy, off)| {
                format!(", the next nearest, {}, by {}", policy.name(), percent(off))
            });
            let off = percent(*off);
            return (*policy, format!("measured by probe: off by {off} of the step{next}"));
        }
        ReplacementFinding::Nearest(nearest) => {
            format!("{} cannot replace in {ways} ways", nearest.policy.name())
        }
        ReplacementFinding::Undecided(why) => why.clone(),
    };
    let plain = why.replace(['"', '\\'], "").replace(char::is_control, " ");
    let short: String = plain.chars().take(REASON).collect();
    (Replacement::Lru, format!("assumed: LRU, as probe could not decide: {short}"))
}

fn costs(out: &mut String, probe: &Probe) {
    out.push_str("\n[cost]\n");
    let mut line = |key: &str, figure: Option<&Figure>, otherwise: f64, what: &str| {
        let (cycles, basis) = match figure {
            Some(Figure { cycles: Some(cycles), value: Some(ns), .. }) => {
                (*cycles, format!("measured: {ns:.1} ns, {what}"))
            }
            Some(Figure { value: Some(ns), .. }) => (
                ns * probe.surroundings.tsc_ghz,
                format!("measured: {ns:.1} ns, {what}; in ticks of the TSC"),
            ),
            _ => (otherwise, format!("assumed: {what} was not measured")),
        };
        writeln!(out, "{key} = {} # {basis}", cycles.round().max(1.0)).expect("writing to a string");
    };
    line(
        "l2_hit",
        probe.figure("tlb.4k.l2_hit_extra"),
        L2_HIT,
        "what a hit in the second level takes longer",
    );
    line(
        "walk_reference",
        probe.figure("tlb.4k.walk_extra"),
        WALK_REFERENCE,
        "a walk of neighbouring pages, which reads one entry in a cache",
    );
    out.push_str("# An assumption, not a measurement; it only turns cycles into a share of all cycles.\n");
    out.push_str("cycles_per_instruction = 1.0\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::figure::Samples;
    use crate::probe::host::ProbeConditions;
    use pagewalk_translate::MachineSpec;

    fn tlb(page: ProbedSize, level: u32, entries: u64, ways: u64) -> Tlb {
        Tlb {
            page,
            level,
            entries: Some(entries),
            ways: Some(ways),
            between: [entries, entries + 1],
            refused: None,
            conflicts: Vec::new(),
            replacement: ReplacementFinding::Undecided("for a \"test\"\n".to_owned()),
            assumed: AssumedArray { entries, ways },
        }
    }

    fn probe(tlbs: Vec<Tlb>) -> Probe {
        let surroundings = ProbeConditions {
            cpu: 0,
            cpus_allowed: vec![0],
            hypervisor: true,
            reports_free_pages: false,
            tsc_ghz: 2.0,
            tsc_constant: true,
            available_bytes: 0,
            load: None,
        };
        let samples: Samples = [3.0; 9].into_iter().collect();
        let mut hit = Figure::of("tlb.4k.l2_hit_extra", "", "ns", &samples);
        hit.cycles = Some(7.4);
        let walk = Figure::of("tlb.4k.walk_extra", "", "ns", &samples);
        let (curves, notes) = (Vec::new(), Vec::new());
        Probe { surroundings, quick: false, seconds: 1.0, tlbs, figures: vec![hit, walk], curves, notes }
    }

    fn read(probe: &Probe) -> MachineSpec {
        let text = machine_file(probe, "A \"CPU\"\n", "6.1");
        MachineSpec::from_toml("host.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn what_was_found_stands_in_the_file() {
        let levels = [
            (ProbedSize::Base, 1, 96, 6),
            (ProbedSize::Base, 2, 2048, 16),
            (ProbedSize::Huge, 1, 32, 4),
            (ProbedSize::Huge, 2, 1024, 8),
        ];
        let machine =
            read(&probe(levels.map(|(page, level, entries, ways)| tlb(page, level, entries, ways)).to_vec()));
        let shape = |name: &str| {
            let tlb = machine.tlbs.iter().find(|tlb| tlb.name == name).expect(name);
            (tlb.geometry.entries(), tlb.geometry.ways())
        };
        assert_eq!(["l1d", "l2", "l1d_2m", "l2_2m"].map(shape), [(96, 6), (2048, 16), (32, 4), (1024, 8)]);
        // In cycles if known, else in ticks of the counter.
        assert_eq!(machine.cost.l2_hit, 7);
        assert!(
            machine_file(&probe(vec![tlb(ProbedSize::Base, 1, 64, 4)]), "", "")
                .contains("walk_reference = 6 ")
        );
    }

    #[test]
    fn pages_that_have_the_same_share_an_array() {
        let levels = vec![
            tlb(ProbedSize::Base, 1, 72, 72),
            tlb(ProbedSize::Huge, 1, 72, 72),
            tlb(ProbedSize::Base, 2, 3072, 24),
        ];
        let machine = read(&probe(levels));
        assert_eq!(machine.tlbs.len(), 3);
        assert!(machine.has_huge_pages());
    }

    #[test]
    fn replacement_stands_in_the_file_where_it_was_decided() {
        let mut second = tlb(ProbedSize::Base, 2, 1024, 8);
        let next = Some((Replacement::Lru, 0.31));
        let policy = Replacement::NotMru { seed: 30 };
        second.replacement = ReplacementFinding::Nearest(NearestPolicy { policy, ways: 8, off: 0.034, next });
        let mut odd = tlb(ProbedSize::Base, 1, 96, 6);
        odd.replacement = ReplacementFinding::Nearest(NearestPolicy {
            policy: Replacement::TreePlru,
            ways: 8,
            off: 0.0,
            next: None,
        });
        let machine = read(&probe(vec![odd, second]));
        let source = |name: &str| {
            let tlb = machine.tlbs.iter().find(|tlb| tlb.name == name).expect(name);
            (tlb.replacement.name(), tlb.replacement_source.as_ref().expect("it says").to_string())
        };
        assert_eq!(
            source("l2"),
            (
                "not-mru",
                "measured by probe: off by 3 % of the step, the next nearest, lru, by 31 %".to_owned()
            )
        );
        let undecided = "assumed: LRU, as probe could not decide: ";
        assert_eq!(source("l1d"), ("lru", format!("{undecided}tree-plru cannot replace in 6 ways")));
        assert_eq!(source("l1i"), ("lru", format!("{undecided}fetches are not measured")));
    }

    #[test]
    fn where_nothing_was_found_the_file_says_what_is_assumed() {
        let nothing = probe(Vec::new());
        let machine = read(&nothing);
        assert_eq!((machine.tlbs.len(), machine.has_huge_pages()), (3, true));
        assert!(machine_file(&nothing, "", "").contains("# assumed: no TLB for 4 KB pages was seen"));
    }
}
