//! `pagewalk` without a command: where to begin.

use crate::exit;
use crate::exit::ExitCode;
use crate::output::print;
use pagewalk::{Error, Fault};
use std::fmt::Write;

/// The most useful commands, and what each is for.
const FIRST: [(&str, &str); 6] = [
    ("pagewalk profile -- ./app", "who pays for page walks, and what would help"),
    ("pagewalk record -o app.pwt -- ./app", "keep the program's memory references in a file"),
    ("pagewalk simulate -m zen4 app.pwt", "what another processor makes of them"),
    ("pagewalk advise -o plan.toml -- ./app", "which huge pages pay on this host, as a plan"),
    ("pagewalk apply plan.toml -- ./app", "run the unmodified program with the plan"),
    ("pagewalk verify plan.toml -- ./app", "measure what the plan brings"),
];

const NEXT: &str = "Next: pagewalk profile -- PROGRAM (no root, no rebuilt program, no machine file needed)
      pagewalk doctor shows what this host can do, pagewalk --help all commands
";

/// Prints them and fails as a usage error.
pub fn run() -> Result<ExitCode, Error> {
    print(&text())?;
    Ok(exit::by(Fault::Usage))
}

fn text() -> String {
    let mut text =
        "pagewalk shows where a program's address translation costs time, and what would change it.\n\n"
            .to_owned();
    let width = FIRST.iter().map(|(example, _)| example.len()).max().unwrap_or(0);
    for (example, what) in FIRST {
        let _ = writeln!(text, "  {example:width$}  {what}");
    }
    text + "\n" + NEXT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Request, read};

    #[test]
    fn every_example_is_a_command() {
        for (example, _) in FIRST {
            let words = example.split(' ').map(Into::into).collect();
            assert!(matches!(read(words), Ok(Request::Command(_))), "{example}");
        }
        assert!(text().lines().all(|line| line.len() <= 100), "{}", text());
    }
}
