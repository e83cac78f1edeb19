//! Writes the page of a fixture result, or of several side by side, to look at it in a browser:
//! `cargo run -p pagewalk-report --example render_fixture -- cpython > page.html`

#[path = "../tests/fixtures/mod.rs"]
mod fixtures;

use pagewalk_report::schema::RunResult;
use pagewalk_report::{Run, render_runs_html};

fn fixture(name: &str) -> Option<RunResult> {
    Some(match name {
        "cpython" => fixtures::cpython(),
        "random-access" => fixtures::random_access(),
        "no-walks" => fixtures::no_walks(),
        "many-processes" => fixtures::many_processes(),
        "hostile" => fixtures::hostile(),
        "kernels" => fixtures::kernels(),
        "sides" => fixtures::sides(),
        "software" => fixtures::software(),
        _ => return None,
    })
}

fn main() -> std::process::ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let results: Option<Vec<RunResult>> = names.iter().map(|name| fixture(name)).collect();
    let results = results.unwrap_or_default();
    let runs = names.iter().zip(&results).map(|(file, result)| Run { file, result });
    let runs: Vec<Run> = runs.collect();
    let [first, others @ ..] = runs.as_slice() else {
        eprintln!(
            "which fixtures: cpython, random-access, no-walks, many-processes, hostile, kernels, sides or software"
        );
        return std::process::ExitCode::from(2);
    };
    print!("{}", render_runs_html(*first, others));
    std::process::ExitCode::SUCCESS
}
