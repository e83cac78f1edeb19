//! The report as one HTML file, which opens from disk, loads nothing from the network and carries the result as data.
//!
//! The page is readable without scripts: it has the finding, the figures and all tables of the first process, and the
//! run's facts. Scripts draw charts, sort and search tables, and show other processes (`views`); they compute no
//! figure. Several runs stand side by side above the one shown (`runs`).

mod differences;
mod escape;
mod runs;
mod sections;
mod summary;
mod views;

use crate::figures::{base_name, costliest};
use crate::schema::RunResult;
pub(crate) use escape::{escape, escape_json};
pub(crate) use sections::table;

/// The start of every page, up to the links in its bar.
const TOP: &str = include_str!("top.html");
const PAGE: &str = include_str!("page.html");
pub(crate) const STYLE: &str = include_str!("style.css");
const GLOSSARY: &str = include_str!("glossary.html");

/// Each script may use what the ones before it define.
const SCRIPTS: [&str; 6] = [
    include_str!("js/dom.js"),
    include_str!("js/tables.js"),
    include_str!("js/plot.js"),
    include_str!("js/heat.js"),
    include_str!("js/bars.js"),
    include_str!("js/main.js"),
];

/// A result, and the file that it was read from.
#[derive(Clone, Copy)]
pub struct ReportedRun<'a> {
    /// The file's name.
    pub file: &'a str,
    /// What is in it.
    pub result: &'a RunResult,
}

/// The result as a self-contained page.
pub fn render_html(result: &RunResult) -> String {
    render_runs_html(ReportedRun { file: "", result }, &[])
}

/// Results as one page: side by side, then the first in full; scripts can show any of them in full. Without `others`,
/// the first's own page.
pub fn render_runs_html(first: ReportedRun<'_>, others: &[ReportedRun<'_>]) -> String {
    let runs = [&[first], others].concat();
    let result = first.result;
    let shown = costliest(result).map(|index| &result.processes[index]);
    let made = sections::made(result, shown);
    let title = match shown {
        _ if runs.len() > 1 => format!("pagewalk: {} runs side by side", runs.len()),
        Some(process) => format!("pagewalk: {}", escape(base_name(&process.program))),
        None => "pagewalk".to_owned(),
    };
    let top = PageHead { title, style: format!("{STYLE}{}", runs::style(&runs)), is_scripted: true };
    page(top, PAGE, |name| match name {
        "runs_link" => runs::link(&runs).to_owned(),
        "links" => sections::links(&made),
        "run_chooser" => runs::chooser(&runs),
        "choosers" => views::choosers(&runs),
        "runs" => runs::section(&runs),
        "costliest" => views::costliest_of(&runs),
        "summary" => match shown {
            Some(process) => views::summary(result, process),
            None => views::NO_PROCESS.to_owned(),
        },
        "processes" => views::processes_of(&runs),
        "sections" => sections::all(&made),
        "about" => format!("{}{GLOSSARY}", runs::about(&runs)),
        "islands" => views::islands(&runs),
        "views" => views::all(&runs),
        "script" => SCRIPTS.join("\n"),
        other => unreachable!("page.html names {other}, which nothing fills"),
    })
}

/// The parts of a page's start that differ between pages.
pub(crate) struct PageHead {
    pub title: String,
    pub style: String,
    /// Whether scripts in the page may run. Nothing comes from the network either way.
    pub is_scripted: bool,
}

/// A page: the common start, then the template with each `{{name}}` replaced.
pub(crate) fn page(top: PageHead, template: &str, value: impl Fn(&str) -> String) -> String {
    let top = fill(TOP, |name| match name {
        "title" => top.title.clone(),
        "style" => top.style.clone(),
        "scripts" if top.is_scripted => "; script-src 'unsafe-inline'".to_owned(),
        "scripts" => String::new(),
        other => unreachable!("top.html names {other}, which nothing fills"),
    });
    top + &fill(template, value)
}

/// The template with each `{{name}}` replaced, in one pass: replacements are never searched.
pub(crate) fn fill(template: &str, value: impl Fn(&str) -> String) -> String {
    let mut page = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").expect("every placeholder ends in }}");
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
