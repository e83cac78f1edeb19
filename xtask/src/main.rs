//! Project chores: `cargo xtask tidy`, `cargo xtask docs`, `cargo xtask package`.

mod docs;
mod markdown;
mod package;
mod tidy;

use std::path::Path;
use std::process::ExitCode;
use tidy::Finding;

const USAGE: &str = "\
usage: cargo xtask tidy            check the project's own rules
       cargo xtask docs            write the generated pages of docs/reference
       cargo xtask docs --check    check that they are current, and what the other pages name
       cargo xtask package         make a .deb of a release build, or with --static an archive of a static one

`docs` builds pagewalk, or takes the one of `--program PATH`, which comes last.";

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository's root");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => run_tidy(root),
        ["docs", options @ ..] => match *options {
            [] => write_docs(root, None),
            ["--program", path] => write_docs(root, Some(Path::new(path))),
            ["--check"] => check_docs(root, None),
            ["--check", "--program", path] => check_docs(root, Some(Path::new(path))),
            _ => return wrong_usage(),
        },
        ["package", options @ ..] => run_package(root, options),
        _ => return wrong_usage(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("xtask: {error}");
        ExitCode::FAILURE
    })
}

fn run_tidy(root: &Path) -> Result<ExitCode, String> {
    let tree = tidy::Tree::read(root).map_err(|error| format!("cannot read {}: {error}", root.display()))?;
    println!("tidy: {} files", tree.len());
    Ok(told("tidy", &tidy::check(&tree)))
}

fn run_package(root: &Path, arguments: &[&str]) -> Result<ExitCode, String> {
    let package = package::make(root, &package::Options::parse(arguments)?)?;
    println!("{}", package.display());
    Ok(ExitCode::SUCCESS)
}

fn wrong_usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn check_docs(root: &Path, program: Option<&Path>) -> Result<ExitCode, String> {
    docs::check(root, program).map(|findings| told("docs", &findings))
}

fn write_docs(root: &Path, program: Option<&Path>) -> Result<ExitCode, String> {
    for path in docs::write(root, program)? {
        println!("docs: {path} written");
    }
    Ok(ExitCode::SUCCESS)
}

fn told(chore: &str, findings: &[Finding]) -> ExitCode {
    for finding in findings {
        println!("{finding}");
    }
    println!("{chore}: {} findings", findings.len());
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
