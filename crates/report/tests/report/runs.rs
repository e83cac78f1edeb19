//! Several runs in one page: side by side with their differences, and each in full.

use crate::fixtures;
use crate::hostile::{assert_harmless, hostile};
use crate::page::without_scripts;
use pagewalk_report::schema::{MachineResult, Number, RunResult};
use pagewalk_report::{ReportedRun, from_json, render_html, render_runs_html, to_json};

/// The page of `a.json`, `b.json` and so on.
fn page(results: &[RunResult]) -> String {
    let files = ["a.json", "b.json", "c.json"];
    let runs: Vec<ReportedRun> =
        files.iter().zip(results).map(|(file, result)| ReportedRun { file, result }).collect();
    render_runs_html(runs[0], &runs[1..])
}

/// What a browser without scripts shows.
fn shown(results: &[RunResult]) -> String {
    without_scripts(&page(results))
}

/// The sentences about differences that make the runs hard to compare.
fn differences(results: &[RunResult]) -> Vec<String> {
    let page = shown(results);
    let (_, list) = page.split_once("<h3>What makes them hard to compare</h3>").unwrap();
    let (list, _) = list.split_once("What follows").unwrap();
    list.split("<li>").skip(1).map(|item| item.split_once("</li>").unwrap().0.to_owned()).collect()
}

/// The same run with a tenth of the walk cycles.
fn cheaper() -> RunResult {
    let mut result = fixtures::cpython();
    let metrics = &mut result.machines[0].metrics;
    let cycles = metrics["walk_cycles"].as_f64() as u64;
    metrics.insert("walk_cycles".to_owned(), Number::Count(cycles / 10));
    result
}

#[test]
fn one_run_has_the_page_of_one() {
    for (_, result) in fixtures::all() {
        let page = render_html(&result);
        assert!(page == render_runs_html(ReportedRun { file: "r.json", result: &result }, &[]));
        assert!(!page.contains("id=\"runs\"") && !page.contains("id=\"run\""));
    }
}

#[test]
fn runs_stand_side_by_side_with_the_first_in_full() {
    let shown = shown(&[fixtures::cpython(), cheaper()]);
    for text in [
        "<title>pagewalk: 2 runs side by side</title>",
        "<a href=\"#runs\">Runs</a>",
        "<option value=\"0\">a.json</option><option value=\"1\">b.json</option>",
        "<tbody data-run=\"0\"><tr><td class=\"name\" rowspan=\"1\">a.json<span class=\"sub\">python3.11</span></td>\
         <td>intel-skylake</td><td class=\"picture\"><div class=\"bar\"><i class=\"baseline\" \
         style=\"width:100.00%\"></i></div></td><td class=\"number\">46.9 M</td><td class=\"number\">–</td>\
         <td class=\"number\">6.83 %</td><td class=\"number\">1.96 M</td><td class=\"number\">3.25</td>\
         <td class=\"number\">602 M</td></tr></tbody>",
        "<i class=\"\" style=\"width:10.00%\"></i></div></td><td class=\"number\">4.69 M</td>\
         <td class=\"number\">−90.0 %</td>",
        "What follows is of <code id=\"run-shown\">a.json</code>",
        "python3.11 spends 6.83 % of its modelled cycles on page walks",
        "<h2>About a.json</h2>",
        "in this file as <code>#pagewalk-result-2</code>",
    ] {
        assert!(shown.contains(text), "missing: {text}");
    }
}

#[test]
fn the_data_of_each_run_equals_its_json() {
    let results = [fixtures::cpython(), fixtures::hostile(), fixtures::many_processes()];
    let page = page(&results);
    for (id, result) in ["pagewalk-result", "pagewalk-result-2", "pagewalk-result-3"].iter().zip(&results) {
        let (_, data) = page.split_once(&format!("id=\"{id}\">")).unwrap();
        let (data, _) = data.split_once("</script>").unwrap();
        assert_eq!(data.replace("\\u003c", "<"), to_json(result));
    }
}

#[test]
fn machines_are_compared_by_their_names() {
    let two = |first: &str, second: &str| {
        let mut result = fixtures::cpython();
        result.machines[0].name = first.to_owned();
        let metrics = cheaper().machines.remove(0).metrics;
        result.machines.push(MachineResult::new(second, metrics));
        result
    };
    let page = shown(&[two("zen4", "skylake"), two("skylake", "la464")]);
    let (_, second) = page.split_once("<tbody data-run=\"1\">").unwrap();
    assert!(page.contains("<td class=\"name\" rowspan=\"2\">a.json"));
    // Ten times the second machine of the first run, and a tenth of the first.
    assert!(second.contains("<td class=\"number\">+900 %</td>"), "{second}");
    assert!(
        second.contains("<td class=\"number\">−90.0 %<span class=\"sub\">to zen4</span></td>"),
        "{second}"
    );
}

#[test]
fn runs_that_differ_in_nothing_else_say_so() {
    let alike = [fixtures::cpython(), cheaper()];
    assert!(differences(&alike).is_empty());
    assert!(shown(&alike).contains("Nothing that the results tell"));
}

#[test]
fn what_runs_differ_in_is_told() {
    type Change = fn(&mut RunResult);
    let own = |options: &'static str| {
        move |result: &mut RunResult| {
            let line = &mut result.tool.command_line;
            line.splice(2..2, options.split(' ').map(str::to_owned));
        }
    };
    let changes: [(Change, &str); 7] = [
        (
            |result| result.processes[0].program = "/opt/python3.11".to_owned(),
            "They did not run the same: /usr/bin/python3.11 -c d={i*7919%1000003:str(i) for i in range(400000)}; \
             print(len(d)) (a.json); /opt/python3.11 -c d=",
        ),
        (
            |result| result.host.thp = "always".to_owned(),
            "Their modes of transparent huge pages differ: madvise (a.json); always (b.json).",
        ),
        (|result| result.host.cpu = "EPYC".to_owned(), "; EPYC (b.json)."),
        (
            |result| result.tool.engine = "t.pwt".to_owned(),
            "files: valgrind 3.19.0 (a.json); t.pwt (b.json).",
        ),
        (|result| result.tool.version = "9".to_owned(), "of pagewalk: 0.1.0 (a.json); 9 (b.json)."),
        (
            |result| result.descriptions[0].tlbs[4].entries = 2048,
            "Machine intel-skylake is described in different ways: one in a.json; another one in b.json.",
        ),
        (|result| result.processes.clear(), "; nothing (b.json)."),
    ];
    let told = |change: &dyn Fn(&mut RunResult)| {
        let mut other = fixtures::cpython();
        change(&mut other);
        let told = differences(&[fixtures::cpython(), other]);
        assert_eq!(told.len(), 1, "{told:?}");
        told[0].clone()
    };
    for (change, expected) in changes {
        assert!(told(&change).contains(expected), "{}\n{expected}", told(&change));
    }
    for (options, expected) in [
        ("--skip 100", "Their regions of interest differ: the whole run (a.json); --skip 100 (b.json)."),
        ("--to-marker=2 --from-marker=1", "(a.json); --from-marker 1 --to-marker 2 (b.json)."),
        ("--thp never", "huge pages differ: madvise (a.json); never (b.json)."),
        ("--quantum 5000", "in different ways: as recorded (a.json); --quantum 5000 (b.json)."),
    ] {
        assert!(told(&own(options)).contains(expected), "{}\n{expected}", told(&own(options)));
    }
}

#[test]
fn files_that_agree_are_named_together() {
    let mut other = fixtures::cpython();
    other.host.thp = "never".to_owned();
    let told = differences(&[fixtures::cpython(), other, fixtures::cpython()]);
    assert_eq!(
        told,
        ["Their modes of transparent huge pages differ: madvise (a.json, c.json); never (b.json)."]
    );
}

#[test]
fn no_name_of_a_file_and_no_text_in_it_becomes_markup() {
    let spoilt = from_json(&hostile(&to_json(&fixtures::cpython()), &["schema"])).unwrap();
    let file = "<meta http-equiv=refresh content='0;url=x'>\"'&";
    for (first, other) in [(&spoilt, &fixtures::cpython()), (&fixtures::cpython(), &spoilt)] {
        let runs = [first, other].map(|result| ReportedRun { file, result });
        assert_harmless(&render_runs_html(runs[0], &runs[1..]));
    }
}

#[test]
fn runs_without_machines_or_processes_have_a_row() {
    let mut nothing = fixtures::no_walks();
    nothing.processes.clear();
    nothing.machines.clear();
    let page = shown(&[fixtures::cpython(), nothing.clone()]);
    assert!(page.contains(
        "b.json<span class=\"sub\">no process</span></td><td colspan=\"8\">No machine was simulated."
    ));
    assert!(shown(&[nothing, fixtures::cpython()]).contains("No process was recorded."));
}
