//! The report as one HTML file: opens from disk, asks for nothing from the network, carries the result as
//! data.
//!
//! The page is readable without scripts: `summary` writes the finding, the figures, the alternatives and the
//! TLBs of the process shown first, and the run's facts. Scripts add the pictures, the sortable tables and
//! the other processes; they read nothing but the JSON island, which is the `--json` text with `<` written as
//! an escape. Several runs have one each, and stand side by side above the one that is shown (`runs`).

mod classes;
mod differences;
mod escape;
mod kernels;
mod runs;
mod sections;
mod summary;

use crate::figures::{base_name, costliest};
use crate::schema::{ProcessResult, RunResult};
pub(crate) use escape::{escape, escape_json};

/// What every page begins with, up to the links in its bar.
const TOP: &str = include_str!("top.html");
const PAGE: &str = include_str!("page.html");
pub(crate) const STYLE: &str = include_str!("style.css");
const GLOSSARY: &str = include_str!("glossary.html");

/// In this order: each may use what the ones before it define.
const SCRIPTS: [&str; 13] = [
    include_str!("js/numbers.js"),
    include_str!("js/dom.js"),
    include_str!("js/figures.js"),
    include_str!("js/kernels.js"),
    include_str!("js/classes.js"),
    include_str!("js/summary.js"),
    include_str!("js/tables.js"),
    include_str!("js/heat.js"),
    include_str!("js/reach.js"),
    include_str!("js/tradeoff.js"),
    include_str!("js/memory.js"),
    include_str!("js/runs.js"),
    include_str!("js/main.js"),
];

/// A result, and the file that it was read from.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// The file's name.
    pub file: &'a str,
    /// What is in it.
    pub result: &'a RunResult,
}

/// The result as a self-contained page.
pub fn render_html(result: &RunResult) -> String {
    render_runs_html(Run { file: "", result }, &[])
}

/// Results as one page: side by side, then the first as a page of its own has it, or with scripts any. Without others,
/// that page.
pub fn render_runs_html(first: Run<'_>, others: &[Run<'_>]) -> String {
    let runs = [&[first], others].concat();
    let result = first.result;
    let shown = costliest(result).map(|index| &result.processes[index]);
    let part = |render: fn(&RunResult, &ProcessResult) -> String| {
        shown.map_or(String::new(), |process| render(result, process))
    };
    let several = result.processes.len() > 1;
    let kernels = shown.is_some_and(|process| !process.kernels.is_empty());
    let hidden_if = |hidden: bool| if hidden { " hidden" } else { "" }.to_owned();
    let title = match shown {
        _ if runs.len() > 1 => format!("pagewalk: {} runs side by side", runs.len()),
        Some(process) => format!("pagewalk: {}", escape(base_name(&process.program))),
        None => "pagewalk".to_owned(),
    };
    let top = Top { title, style: format!("{STYLE}{}", runs::style(&runs)), is_scripted: true };
    page(top, PAGE, |name| match name {
        "runs_link" => runs::link(&runs).to_owned(),
        "run_chooser" => runs::chooser(&runs),
        "runs" => runs::section(&runs),
        "cut" => part(summary::cut_short),
        "command" => part(summary::command),
        "headline" => shown.map_or("No process was recorded.".to_owned(), summary::headline),
        "advice" => part(summary::advice),
        "losses" => part(summary::losses),
        "cards" => part(summary::cards),
        "what_if_lead_hidden" => hidden_if(kernels),
        "kernels_lead_hidden" => hidden_if(!kernels),
        "what_if" => part(if kernels { kernels::table } else { summary::what_if }),
        "sections" => sections::all(&runs),
        "tlbs" => part(summary::tlbs),
        "processes_hidden" => hidden_if(!several),
        "processes_title" => format!("{} process images ran", result.processes.len()),
        "processes" => {
            if several {
                summary::processes(result)
            } else {
                String::new()
            }
        }
        "about" => format!("{}{GLOSSARY}", runs::about(&runs)),
        "islands" => runs::islands(&runs),
        "script" => SCRIPTS.join("\n"),
        other => unreachable!("page.html names {other}, which nothing fills"),
    })
}

/// What pages differ in before the links in their bar.
pub(crate) struct Top {
    pub title: String,
    pub style: String,
    /// Whether scripts in the page may run. Nothing comes from the network either way.
    pub is_scripted: bool,
}

/// A page: what every one begins with, then the template with each `{{name}}` replaced.
pub(crate) fn page(top: Top, template: &str, value: impl Fn(&str) -> String) -> String {
    let top = fill(TOP, |name| match name {
        "title" => top.title.clone(),
        "style" => top.style.clone(),
        "scripts" if top.is_scripted => "; script-src 'unsafe-inline'".to_owned(),
        "scripts" => String::new(),
        other => unreachable!("top.html names {other}, which nothing fills"),
    });
    top + &fill(template, value)
}

/// The template with each `{{name}}` replaced, in one pass: what is filled in is never searched again.
pub(crate) fn fill(template: &str, value: impl Fn(&str) -> String) -> String {
    let mut page = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").expect("every placeholder is closed");
        page.push_str(before);
        page.push_str(&value(name));
        rest = after;
    }
    page.push_str(rest);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_in_is_not_filled_again() {
        let filled =
            fill("<a>{{x}}</a>{{y}}", |name| if name == "x" { "{{y}}".to_owned() } else { "Y".to_owned() });
        assert_eq!(filled, "<a>{{y}}</a>Y");
    }

    #[test]
    fn scripts_and_styles_cannot_end_their_elements() {
        for script in SCRIPTS {
            assert!(!script.contains("</script") && !script.contains("<!--"));
        }
        assert!(!STYLE.contains("</style"));
    }
}
