//! Writes the page of a fixture result, or of several side by side, to look at it in a browser:
//! `cargo run -p pagewalk-report --example render_fixture -- cpython > page.html`

#[path = "../tests/report/fixtures/mod.rs"]
mod fixtures;

use pagewalk_report::schema::RunResult;
use pagewalk_report::{ReportedRun, render_runs_html};

fn fixture(name: &str) -> Option<RunResult> {
    if name == "build" {
        return Some(fixtures::build(400));
    }
    fixtures::all().into_iter().find(|(known, _)| *known == name).map(|(_, result)| result)
}

fn main() -> std::process::ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let results: Option<Vec<RunResult>> = names.iter().map(|name| fixture(name)).collect();
    let results = results.unwrap_or_default();
    let runs = names.iter().zip(&results).map(|(file, result)| ReportedRun { file, result });
    let runs: Vec<ReportedRun> = runs.collect();
    let [first, others @ ..] = runs.as_slice() else {
        let known = fixtures::all().map(|(name, _)| name);
        eprintln!("which fixtures: {}, build", known.join(", "));
        return std::process::ExitCode::from(2);
    };
    print!("{}", render_runs_html(*first, others));
    std::process::ExitCode::SUCCESS
}
