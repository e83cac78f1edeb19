//! Project chores: `cargo xtask tidy`, `cargo xtask package`.

mod package;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => run_tidy(),
        ["package", rest @ ..] => run_package(rest),
        _ => {
            eprintln!("usage: cargo xtask tidy    check the project's own rules");
            eprintln!("       {}", package::USAGE);
            eprintln!(
                "                            make a .deb of a release build, or an archive of a static one"
            );
            ExitCode::from(2)
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository's root")
}

fn run_package(arguments: &[&str]) -> ExitCode {
    let made = package::Options::parse(arguments).and_then(|options| package::make(root(), &options));
    match made {
        Ok(package) => {
            println!("{}", package.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("package: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run_tidy() -> ExitCode {
    let root = root();
    let tree = match tidy::Tree::read(root) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("tidy: cannot read {}: {error}", root.display());
            return ExitCode::FAILURE;
        }
    };
    let findings = tidy::check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} files, {} findings", tree.len(), findings.len());
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
