//! Runs the scripts of pages with all controls, light and dark: there must be no console output.
//! `crates/report/tests/page/run.mjs` does it, in Node.js on jsdom.

use crate::{conflicts, fixtures};
use pagewalk_report::schema::RunResult;
use pagewalk_report::{ReportedRun, render_html, render_runs_html};
use run::ran;
use serde_json::Value;

#[path = "../page/run.rs"]
mod run;

const SCHEMES: [&str; 2] = ["light", "dark"];

/// Runs the scripts with these colour schemes, and returns the content of each view.
fn check(name: &str, page: &str, schemes: &[&str]) -> Vec<Value> {
    let mut views = Vec::new();
    for scheme in schemes {
        let Some(mut ran) = ran(page, &[*scheme]) else { continue };
        let errors = ran["errors"].as_array().expect("a list");
        assert!(errors.is_empty(), "{name}, {scheme}: {errors:#?}");
        views = ran["views"].take().as_array().expect("a list").clone();
    }
    views
}

fn has(view: &Value, section: &str) -> bool {
    view["sections"].as_array().is_some_and(|sections| sections.iter().any(|name| name == section))
}

#[test]
fn scripts_of_every_fixture_run_without_an_error() {
    for (index, (name, result)) in fixtures::all().into_iter().enumerate() {
        check(name, &render_html(&result), &SCHEMES[index % 2..][..1]);
    }
}

/// Alternatives, kernels and charts of two processes, chosen one after the other, light and dark.
#[test]
fn processes_can_be_chosen() {
    let mut result = fixtures::cpython();
    result.processes.push(fixtures::kernels().processes.remove(0));
    let views = check("two processes", &render_html(&result), &SCHEMES);
    let Some(first) = views.first() else { return };
    assert!(has(first, "what-if") && has(first, "time") && !has(first, "kernels"), "{first}");
    assert_eq!(first["charts"], 2, "reach and heat");
    let other = views.iter().find(|view| has(view, "kernels")).expect("the other process");
    assert!(other["charts"].as_u64() > Some(10) && !has(other, "what-if"), "{other}");
    let [.., back, _] = views.as_slice() else { panic!("several views") };
    assert_eq!(back["sections"], first["sections"]);
}

/// A program that ended before anything was recorded is a run, too.
#[test]
fn runs_without_a_process_can_be_chosen() {
    let full = fixtures::cpython();
    let empty = RunResult { processes: Vec::new(), ..full.clone() };
    for results in [[&full, &empty], [&empty, &full]] {
        let runs =
            [0, 1].map(|index| ReportedRun { file: ["a.json", "b.json"][index], result: results[index] });
        check("an empty run", &render_runs_html(runs[0], &runs[1..]), &SCHEMES[..1]);
    }
}

#[test]
fn runs_can_be_chosen() {
    let results: [RunResult; 2] = [fixtures::cpython(), fixtures::many_processes()];
    let runs = [0, 1].map(|index| ReportedRun { file: ["a.json", "b.json"][index], result: &results[index] });
    let views = check("two runs", &render_runs_html(runs[0], &runs[1..]), &SCHEMES[1..]);
    let told: Vec<&str> = views.iter().filter_map(|view| view["headline"].as_str()).collect();
    if let [first, ..] = told.as_slice() {
        assert!(first.starts_with("python3.11 spends"));
        assert!(told.iter().any(|headline| headline.starts_with("cc1 spends")), "{told:#?}");
    }
}

#[test]
fn sets_can_be_chosen() {
    check("sets", &pagewalk_report::conflicts::render_html(&conflicts::result()), &SCHEMES);
}

/// Maximum processor time in milliseconds until everything is drawn. jsdom takes about 1,700. Headless Chromium on two
/// cores shows the page after 0.4 s and finishes after 0.9 s, half of that for decompressing the heat map data.
const OPENS_IN: u64 = 5000;

#[test]
fn a_page_of_400_processes_opens_at_once() {
    let Some(ran) = ran(&render_html(&fixtures::build(400)), &["light", "open"]) else { return };
    assert!(ran["errors"].as_array().is_some_and(Vec::is_empty), "{ran:#}");
    println!("scripts took {} ms", ran["opened_ms"]);
    assert!(ran["opened_ms"].as_u64() < Some(OPENS_IN), "{} ms", ran["opened_ms"]);
}
