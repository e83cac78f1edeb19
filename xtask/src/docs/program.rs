//! The `pagewalk` program that the pages describe.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A built `pagewalk`.
pub struct Program {
    path: PathBuf,
}

impl Program {
    /// Uses an existing program. The build for tests has other features than a separate build, so building again would
    /// take as long as the first time.
    pub fn built(path: &Path) -> Result<Program, String> {
        match path.canonicalize() {
            Ok(path) => Ok(Program { path }),
            Err(error) => Err(format!("no program {}: {error}; leave it out to build one", path.display())),
        }
    }

    /// Builds the program into the folder of this executable.
    pub fn build(root: &Path) -> Result<Program, String> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let arguments = ["build", "--quiet", "--locked", "--package", "pagewalk"];
        let status = Command::new(cargo).args(arguments).current_dir(root).status();
        match status {
            Ok(status) if status.success() => {}
            Ok(_) => return Err("pagewalk does not build: see above".to_owned()),
            Err(error) => return Err(format!("cannot start cargo to build pagewalk: {error}")),
        }
        let own = env::current_exe().map_err(|error| format!("cannot tell where xtask lies: {error}"))?;
        Ok(Program { path: own.with_file_name("pagewalk") })
    }

    /// The output of the program, in 100 columns and without colours, whatever the terminal.
    pub fn says(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.path);
        command.args(words).env("COLUMNS", "100").env("NO_COLOR", "1").stdin(Stdio::null());
        let called = || format!("{} {}", self.path.display(), words.join(" "));
        let output = command.output().map_err(|error| format!("cannot run {}: {error}", called()))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{} failed: {}", called(), why.trim_end()));
        }
        String::from_utf8(output.stdout).map_err(|error| format!("{}: {error}", called()))
    }
}
