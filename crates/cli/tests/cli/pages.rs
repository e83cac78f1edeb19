//! Pages that the command writes: their scripts run, one light, one dark, on all controls, and leave nothing on the
//! console.

use crate::harness::Place;
use run::ran;
use serde_json::Value;

#[path = "../../../report/tests/page/run.rs"]
mod run;

/// What each view of the page had; none if the host cannot run scripts.
fn views(place: &Place, page: &str, scheme: &str) -> Vec<Value> {
    let page = String::from_utf8(place.read(page)).expect("text");
    let Some(mut ran) = ran(&page, &[scheme]) else { return Vec::new() };
    assert!(ran["errors"].as_array().is_some_and(Vec::is_empty), "{scheme}: {:#}", ran["errors"]);
    ran["views"].take().as_array().expect("a list").clone()
}

#[test]
fn scripts_of_reports_of_several_processes_and_runs_run_without_an_error() {
    let place = Place::new();
    let shell = ["sh", "-c", "ls -R /usr/include >/dev/null; :"];
    place.good(&[&["profile", "-q", "-o", "w.html", "-o", "w.json", "--"][..], &shell].concat());
    place.good(&["record", "-q", "-o", "t.pwt", "--", "true"]);
    let kernels = ["--os", "linux", "--os", "asap", "-m", "zen4", "-m", "skylake_sp"];
    place.good(&[&["simulate", "-q", "-o", "k.json"][..], &kernels, &["t.pwt"]].concat());
    place.good(&["report", "-o", "both.html", "w.json", "k.json"]);
    for (page, section, scheme) in [("w.html", "what-if", "light"), ("both.html", "kernels", "dark")] {
        let views = views(&place, page, scheme);
        let Some(first) = views.first() else { return };
        let has = |view: &Value| view["sections"].as_array().is_some_and(|all| all.contains(&section.into()));
        assert!(views.iter().any(has), "{section}: {views:#?}");
        let mut headlines = views.iter().map(|view| &view["headline"]);
        assert!(headlines.any(|headline| *headline != first["headline"]), "another process was chosen");
    }
}
