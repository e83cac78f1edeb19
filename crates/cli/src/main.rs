//! The `pagewalk` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    pagewalk::own_process::settle();
    ExitCode::from(pagewalk_cli::main(std::env::args_os().collect(), None))
}
