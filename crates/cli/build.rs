//! Tells the command what it is built as: the target, the profile, and for a release the commit.

use std::env;
use std::path::Path;
use std::process::Command;

/// The commit of a release that is built where there is no repository: packagers set it.
const COMMIT: &str = "PAGEWALK_COMMIT";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={COMMIT}");
    let profile = variable("PROFILE");
    println!("cargo::rustc-env=PAGEWALK_BUILD_TARGET={}", variable("TARGET"));
    println!("cargo::rustc-env=PAGEWALK_BUILD_PROFILE={profile}");
    // No commit names a build for development, and each would build it again.
    let of_repository = || (profile == "release").then(commit).flatten();
    if let Some(commit) = env::var(COMMIT).ok().or_else(of_repository) {
        println!("cargo::rustc-env=PAGEWALK_BUILD_COMMIT={commit}");
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// The commit of this repository, where git and the repository are here; cargo asks again when it changes.
fn commit() -> Option<String> {
    let root = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../..").canonicalize().ok()?;
    // A copy inside of another repository is not that one's.
    if Path::new(&git(&["rev-parse", "--show-toplevel"])?) != root {
        return None;
    }
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", file])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
