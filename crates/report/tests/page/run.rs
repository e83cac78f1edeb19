//! Runs the scripts of a page with `run.mjs`; for the tests of this crate and of the command.

use pagewalk_skip::{Need, skip};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The result of running a page's scripts; `None` if the host cannot run them.
pub fn ran(page: &str, arguments: &[&str]) -> Option<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/tests/page");
    if Command::new("node").arg("--version").output().is_err() {
        skip(Need::Node, "there is no program `node`");
        return None;
    }
    if !folder.join("node_modules/jsdom").exists() {
        skip(Need::Node, format_args!("`npm ci` was not run in {}", folder.display()));
        return None;
    }
    let place = tempfile::tempdir().expect("a folder");
    let file = place.path().join("report.html");
    std::fs::write(&file, page).expect("a page");
    let output = Command::new("node")
        .arg(folder.join("run.mjs"))
        .arg(&file)
        .args(arguments)
        .output()
        .expect("it starts");
    let told = String::from_utf8_lossy(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    Some(serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}\n{told}\n{why}")))
}
