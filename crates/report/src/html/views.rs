//! The view of each process: the page shows one at first, the others on request.
//!
//! The page holds all views as compressed text, since a run may have hundreds of processes. Large runs have their data
//! compressed too.

use super::escape::{escape, escape_json};
use super::{ReportedRun, fill, sections, summary};
use crate::figures::{base_name, costliest};
use crate::json::to_json;
use crate::schema::{ProcessResult, RunResult};
use crate::sections::images;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// Bytes of a run's data above which it is compressed.
const LARGE: usize = 1 << 20;

/// The summary of a process.
pub(super) fn summary(result: &RunResult, process: &ProcessResult) -> String {
    fill(include_str!("summary.html"), |name| match name {
        "cut" => summary::cut_short(process),
        "command" => summary::command(process),
        "headline" => summary::headline(process),
        "advice" => summary::advice(process),
        "losses" => summary::losses(process),
        "cards" => summary::cards(result, process),
        other => unreachable!("summary.html names {other}, which nothing fills"),
    })
}

/// The summary of a run without a process.
pub(super) const NO_PROCESS: &str = "<h1>No process was recorded.</h1>";

/// Summary and sections of every process of every run, if there are several.
pub(super) fn all(runs: &[ReportedRun<'_>]) -> String {
    if runs.len() == 1 && runs[0].result.processes.len() < 2 {
        return String::new();
    }
    let view = |run: &ReportedRun<'_>| -> Vec<[String; 2]> {
        let of = |process| {
            [summary(run.result, process), sections::all(&sections::made(run.result, Some(process)))]
        };
        match run.result.processes.as_slice() {
            [] => vec![[NO_PROCESS.to_owned(), String::new()]],
            processes => processes.iter().map(of).collect(),
        }
    };
    let views: Vec<_> = runs.iter().map(view).collect();
    let views = serde_json::to_string(&views).expect("a list of texts is valid JSON");
    compressed("pagewalk-views", &views)
}

/// The data of each run, as `--json` has it.
pub(super) fn islands(runs: &[ReportedRun<'_>]) -> String {
    let island = |(index, run): (usize, &ReportedRun<'_>)| {
        let (id, data) = (island_id(index), to_json(run.result));
        if data.len() > LARGE {
            return compressed(&id, &data);
        }
        format!("<script type=\"application/json\" id=\"{id}\">{}</script>", escape_json(&data))
    };
    runs.iter().enumerate().map(island).collect::<Vec<_>>().join("\n")
}

/// The id of the element with a run's data.
pub(super) fn island_id(index: usize) -> String {
    match index {
        0 => "pagewalk-result".to_owned(),
        _ => format!("pagewalk-result-{}", index + 1),
    }
}

/// Text as gzip in base64.
fn compressed(id: &str, text: &str) -> String {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    let written = packed.write_all(text.as_bytes()).and_then(|()| packed.finish());
    let data = STANDARD.encode(written.expect("writes to memory succeed"));
    format!("<script type=\"application/gzip\" id=\"{id}\">{data}</script>\n")
}

/// The runs with several processes, with their indices.
fn of_several<'a>(runs: &'a [ReportedRun<'a>]) -> impl Iterator<Item = (usize, &'a ReportedRun<'a>)> {
    runs.iter().enumerate().filter(|(_, run)| run.result.processes.len() > 1)
}

/// Tables of process images, for runs that have several; all but the first are hidden.
pub(super) fn processes_of(runs: &[ReportedRun<'_>]) -> String {
    let one = |(index, run): (usize, &ReportedRun<'_>)| {
        let hidden = if index > 0 { " hidden" } else { "" };
        fill(include_str!("processes.html"), |name| match name {
            "run" => index.to_string(),
            "hidden" => hidden.to_owned(),
            "images" => run.result.processes.len().to_string(),
            "table" => sections::table(&images(run.result)),
            other => unreachable!("processes.html names {other}, which nothing fills"),
        })
    };
    of_several(runs).map(one).collect()
}

/// A chooser of process images for each such run.
pub(super) fn choosers(runs: &[ReportedRun<'_>]) -> String {
    let option = |(index, process): (usize, &ProcessResult)| {
        let (program, pid) = (escape(base_name(&process.program)), process.pid);
        format!("<option value=\"{index}\">{program} ({pid})</option>")
    };
    let one = |(index, run): (usize, &ReportedRun<'_>)| {
        let options: String = run.result.processes.iter().enumerate().map(option).collect();
        let hidden = if index > 0 { " hidden" } else { "" };
        format!(
            "<label class=\"scripted chooser\" data-run=\"{index}\"{hidden}>Process <select>{options}</select>\
             </label>\n    "
        )
    };
    of_several(runs).map(one).collect()
}

/// The costliest process of each run: the one shown first.
pub(super) fn costliest_of(runs: &[ReportedRun<'_>]) -> String {
    let of = |run: &ReportedRun<'_>| costliest(run.result).map_or(String::new(), |index| index.to_string());
    runs.iter().map(of).collect::<Vec<_>>().join(" ")
}
