//! All renderers on one made-up result.

use super::schema::*;
use super::*;
use crate::TextOptions;
use hostile::{assert_harmless, hostile};

#[path = "../../tests/report/hostile/mod.rs"]
mod hostile;
#[path = "../../tests/report/page/mod.rs"]
mod page;

fn figure(name: &str, value: Option<f64>) -> Figure {
    Figure {
        name: name.to_owned(),
        title: format!("what <{name}> is"),
        unit: "ns".to_owned(),
        class: "measured".to_owned(),
        repeats: 9,
        value,
        low: value.map(|value| value * 0.9),
        high: value.map(|value| value * 1.1),
        cycles: value.map(|value| value * 2.0),
        refused: value.is_none().then(|| "the noise hides it".to_owned()),
    }
}

fn curve(name: &str, at_unit: &str) -> Curve {
    let point = |bit: u32| {
        let value = f64::from(bit) * 2.5;
        Point { at: 1 << bit, value, low: value * 0.9, high: value * 1.5 }
    };
    Curve {
        name: name.to_owned(),
        title: name.to_owned(),
        at_unit: at_unit.to_owned(),
        unit: "ns".to_owned(),
        points: (2..14).map(point).collect(),
    }
}

fn result() -> ProbeResult {
    let tlb = |level, entries| TlbLevel {
        page: "4K".to_owned(),
        level,
        entries,
        ways: entries.map(|_| 6),
        between: [1722, 2435],
        refused: entries.is_none().then(|| "not sharp".to_owned()),
        conflicts: vec![StrideConflict { stride: 16, hits: 6 }],
        replacement: Some(ReplacementFinding {
            policy: entries.map(|_| "not-mru".to_owned()),
            ways: entries.map(|_| 6),
            off: entries.map(|_| 0.034),
            next: entries.map(|_| "random".to_owned()),
            next_off: entries.map(|_| 0.21),
            undecided: entries.is_none().then(|| "lru and fifo are too near".to_owned()),
        }),
        assumed: AssumedArray { entries: 2048, ways: 16 },
        machine_entries: Some(1536),
    };
    ProbeResult {
        schema: PROBE_SCHEMA.to_owned(),
        version: "1".to_owned(),
        host: crate::schema::Host {
            cpu: "A <CPU>".to_owned(),
            kernel: "6.1".to_owned(),
            thp: "madvise".to_owned(),
        },
        surroundings: ProbeConditions {
            cpu: 1,
            cpus_allowed: vec![0, 1],
            hypervisor: true,
            reports_free_pages: false,
            tsc_ghz: 2.0,
            tsc_constant: true,
            available_bytes: 1 << 30,
            load: Some(0.5),
        },
        quick: true,
        seconds: 1.5,
        tlbs: vec![tlb(1, Some(96)), tlb(2, None)],
        figures: vec![
            figure("fault.anonymous_4k", Some(520.0)),
            figure("collapse.2m", None),
            figure("shootdown.4k", None),
        ],
        curves: vec![curve("tlb.4k", "pages"), curve("walks.4k.chains_1", "bytes"), curve("caches", "bytes")],
        notes: vec!["no hardware counters".to_owned()],
    }
}

#[test]
fn json_comes_back_as_it_went() {
    assert_eq!(from_json(&to_json(&result())).unwrap(), result());
    assert!(from_json("{\"schema\": \"pagewalk.result/1\"}").is_err());
}

/// Probes of earlier versions do not tell whether free memory returns to the hypervisor.
#[test]
fn an_older_probe_is_read() {
    let json = to_json(&result());
    let older: String = json.lines().filter(|line| !line.contains("reports_free_pages")).collect();
    assert!(older.len() < json.len() && from_json(&older).unwrap() == result());
}

#[test]
fn a_guest_that_gives_its_memory_back_is_told_of() {
    let around = ProbeConditions { reports_free_pages: true, ..result().surroundings };
    let giving = ProbeResult { surroundings: around, ..result() };
    assert!(
        where_measured(&giving).contains("1 of a virtual machine that gives its free memory back, Linux")
    );
    assert!(where_measured(&result()).contains("1 of a virtual machine, Linux"));
}

#[test]
fn the_text_names_what_is_refused() {
    let text = render_text(&result(), &TextOptions { width: 100, color: false, verbose: false });
    for part in [
        "1,722 to 2,435",
        "not-mru",
        "undecided",
        "takes 2,048 of 16 ways",
        "collapse.2m, shootdown.4k: the noise hides it",
        "1,040",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert!(text.contains("quick look") && text.contains("virtual machine"), "{text}");
}

#[test]
fn how_sure_a_policy_is_stands_beside_it() {
    let verbose = render_text(&result(), &TextOptions { width: 120, color: false, verbose: true });
    for shown in [verbose, render_html(&result())] {
        assert!(
            shown.contains("not-mru of 6 ways is off by 3 % of the step; the next, random, by 21 %"),
            "{shown}"
        );
        assert!(shown.contains("replacement undecided: lru and fifo are too near"), "{shown}");
    }
}

#[test]
fn the_page_is_whole_and_nothing_becomes_markup() {
    let page = render_html(&result());
    assert!(!page.contains("{{") && page.contains("pagewalk-probe"), "all is filled");
    assert!(!page.contains("<CPU>") && page.contains("A &lt;CPU&gt;"));
    assert_eq!(page.matches("<svg").count(), 3);
    // Rendering works without 2 MB pages and without curves.
    let bare = ProbeResult { curves: Vec::new(), tlbs: Vec::new(), figures: Vec::new(), ..result() };
    assert_eq!(render_html(&bare).matches("<svg").count(), 0);
    assert!(!render_text(&bare, &TextOptions { width: 64, color: false, verbose: true }).is_empty());
}

/// The page looks figures and curves up by name.
#[test]
fn no_text_of_a_file_becomes_markup() {
    for kept in [&["schema"][..], &["schema", "name", "page"]] {
        assert_harmless(&render_html(&from_json(&hostile(&to_json(&result()), kept)).unwrap()));
    }
}

#[test]
fn quantities_have_three_digits() {
    let words = [0.0, 1.96, 45.67, 520.4, 45_670.0, 2.5e6].map(|ns| quantity(ns, "ns"));
    assert_eq!(words, ["0.00 ns", "1.96 ns", "45.7 ns", "520 ns", "45.7 µs", "2.50 ms"]);
}
