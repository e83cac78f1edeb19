//! Pages that the command writes: their scripts run, light and dark, on all controls, and nothing ends up on the console.

use crate::harness::Place;
use run::ran;
use serde_json::Value;

#[path = "../../../report/tests/page/run.rs"]
mod run;

/// What each view of the page had.
fn views(place: &Place, page: &str) -> Vec<Value> {
    let page = String::from_utf8(place.read(page)).expect("text");
    let mut views = Vec::new();
    for scheme in ["light", "dark"] {
        let Some(mut ran) = ran(&page, &[scheme]) else { continue };
        assert!(ran["errors"].as_array().is_some_and(Vec::is_empty), "{scheme}: {:#}", ran["errors"]);
        views = ran["views"].take().as_array().expect("a list").clone();
    }
    views
}

#[test]
fn scripts_of_reports_of_several_processes_run_without_an_error() {
    let place = Place::new();
    place.good(&["record", "-q", "-o", "t.pwt", "--", "sh", "-c", "ls -R /usr/include >/dev/null; :"]);
    place.good(&["simulate", "-q", "--what-if", "-o", "w.html", "t.pwt"]);
    let kernels = ["--os", "linux", "--os", "asap", "-m", "zen4", "-m", "romer_1998"];
    place.good(&[&["simulate", "-q", "-o", "k.html"][..], &kernels, &["t.pwt"]].concat());
    for (page, section, charts) in [("w.html", "what-if", 2), ("k.html", "kernels", 4)] {
        let views = views(&place, page);
        let Some(first) = views.first() else { return };
        let sections = first["sections"].as_array().expect("a list");
        assert!(sections.iter().any(|name| name == section), "{first:#}");
        assert!(first["charts"].as_u64() >= Some(charts), "{first:#}");
        let headlines = views.iter().map(|view| &view["headline"]);
        assert!(
            headlines.clone().any(|headline| *headline != first["headline"]),
            "another process was chosen"
        );
    }
}
