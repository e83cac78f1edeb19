//! Project chores: `cargo xtask tidy`, `cargo xtask docs`.

mod docs;
mod markdown;
mod tidy;

use std::path::Path;
use std::process::ExitCode;
use tidy::Finding;

const USAGE: &str = "\
usage: cargo xtask tidy            check the project's own rules
       cargo xtask docs            write the generated pages of docs/reference
       cargo xtask docs --check    check that they are current, and what the other pages name";

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository's root");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => run_tidy(root),
        ["docs"] => write_docs(root),
        ["docs", "--check"] => docs::check(root).map(|findings| told("docs", &findings)),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
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

fn write_docs(root: &Path) -> Result<ExitCode, String> {
    for path in docs::write(root)? {
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
