//! The `pagewalk` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(pagewalk_cli::main(std::env::args_os().collect(), None))
}
