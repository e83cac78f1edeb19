//! The `pagewalk` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    pagewalk::heap::return_large_blocks();
    ExitCode::from(pagewalk_cli::main(std::env::args_os().collect(), None))
}
