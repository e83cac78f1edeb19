//! `pagewalk --version`: this command, its engine, and how it was built.

use crate::exit::ExitCode;
use crate::output::print;
use pagewalk::Error;
use pagewalk::engine;

/// Prints it.
pub fn run() -> Result<ExitCode, Error> {
    let commit = option_env!("PAGEWALK_BUILD_COMMIT").map(|commit| format!("commit {commit}, "));
    print(&format!(
        "pagewalk {}\nengine: {}\nbuild: {}{}, {}\n",
        env!("CARGO_PKG_VERSION"),
        engine::state(),
        commit.unwrap_or_default(),
        env!("PAGEWALK_BUILD_TARGET"),
        env!("PAGEWALK_BUILD_PROFILE"),
    ))
    .map(|()| ExitCode::SUCCESS)
}
