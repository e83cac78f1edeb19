//! The commands, parsed from their help texts, and the page that lists them.

use crate::markdown::wrapped;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Every command, in the order of the program's help.
pub struct Commands {
    /// The help of the program itself.
    pub root: Help,
    /// All commands, each with its heading in the program's help; subcommands follow their command.
    pub all: Vec<(String, Help)>,
}

/// The help of one command.
pub struct Help {
    /// Its name, such as `trace import`; empty for the program itself.
    pub name: String,
    /// The help text.
    pub text: String,
}

impl Commands {
    /// Reads the help of each command that a help text lists.
    pub fn read(says: impl Fn(&[&str]) -> Result<String, String>) -> Result<Commands, String> {
        let help = |name: &str| {
            let words: Vec<&str> = name.split_whitespace().chain(["--help"]).collect();
            says(&words).map(|text| Help { name: name.to_owned(), text })
        };
        let root = help("")?;
        let mut all: Vec<(String, Help)> = Vec::new();
        // A stack: the next command is the last.
        let mut waiting = root.listed();
        waiting.reverse();
        while let Some((heading, name)) = waiting.pop() {
            let of = help(&name)?;
            let below =
                of.listed().into_iter().map(|(_, below)| (heading.clone(), format!("{name} {below}")));
            waiting.extend(below.rev());
            all.push((heading, of));
        }
        if all.is_empty() {
            return Err("`pagewalk --help` lists no command".to_owned());
        }
        Ok(Commands { root, all })
    }

    /// The help of the command with this name.
    pub fn named(&self, name: &str) -> Option<&Help> {
        self.all.iter().map(|(_, help)| help).find(|help| help.name == name)
    }

    /// Whether the name of some command begins with these words.
    pub fn has_below(&self, name: &str) -> bool {
        let prefix = format!("{name} ");
        self.all.iter().any(|(_, help)| help.name.starts_with(&prefix))
    }

    /// The options that may follow a command: its own, those of its subcommands, and the program's.
    pub fn options(&self, name: &str) -> BTreeSet<&str> {
        let prefix = format!("{name} ");
        let is_of = |help: &&Help| help.name == name || help.name.starts_with(&prefix);
        let helps = self.all.iter().map(|(_, help)| help).filter(is_of);
        helps.chain([&self.root]).flat_map(Help::options).collect()
    }

    /// The text of `docs/reference/commands.md`.
    pub fn page(&self) -> String {
        let mut page = "# Commands\n\n`pagewalk COMMAND --help` prints what stands here.\n".to_owned();
        let codes = self.root.text.find("\nExit codes:").map(|at| self.root.text[at..].trim());
        if let Some(codes) = codes.and_then(|codes| codes.strip_prefix("Exit codes:")) {
            let codes = codes.split("\n\n").next().unwrap_or_default();
            let _ = write!(page, "\n## Exit codes\n\n{}", wrapped("", codes));
        }
        let grouped = self.all.iter().any(|(heading, _)| *heading != self.all[0].0);
        let mut group = "";
        for (heading, help) in &self.all {
            if grouped && heading != group {
                let _ = write!(page, "\n## {heading}\n");
                group = heading;
            }
            let below = help.name.rsplit_once(' ').is_some_and(|(above, _)| self.named(above).is_some());
            let level = 2 + usize::from(grouped) + usize::from(below);
            let (about, rest) = help.text.split_once("\n\nUsage:").unwrap_or(("", &help.text));
            let rest: Vec<&str> = rest.lines().map(str::trim_end).collect();
            let _ = write!(
                page,
                "\n{} {}\n\n{}\n```text\nUsage:{}\n```\n",
                "#".repeat(level),
                help.name,
                wrapped("", about),
                rest.join("\n").trim_end()
            );
        }
        page
    }
}

impl Help {
    /// The commands that it lists, without `help`, each with the heading above it.
    fn listed(&self) -> Vec<(String, String)> {
        let mut heading = "";
        let mut listed = Vec::new();
        for line in self.text.lines() {
            if let Some(head) = line.strip_suffix(':').filter(|_| !line.starts_with(' ')) {
                heading = head;
            }
            let Some(entry) = line.strip_prefix("  ") else { continue };
            let name = entry.split("  ").next().unwrap_or_default().trim_end();
            if name.split(' ').all(is_name) && name != "help" {
                listed.push((heading.to_owned(), name.to_owned()));
            }
        }
        listed
    }

    /// Its options, long and short, with their aliases.
    fn options(&self) -> impl Iterator<Item = &str> {
        let usual = ["--help", "-h"];
        let lines = self.text.lines().map(str::trim);
        let told = lines.filter(|line| line.starts_with('-') || line.contains("[alias"));
        // After two spaces comes the description, which may name other options.
        let defined = told.flat_map(|line| match line.split_once("[alias") {
            Some((head, others)) => [head.split("  ").next().unwrap_or_default(), others],
            None => [line.split("  ").next().unwrap_or_default(), ""],
        });
        let separated = |c: char| " ,=[]<>:".contains(c);
        defined.flat_map(move |part| part.split(separated)).filter(|word| is_option(word)).chain(usual)
    }
}

/// Whether a word could be the name of a command.
pub fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// Whether a word could be an option, without a value.
pub fn is_option(word: &str) -> bool {
    match word.strip_prefix("--") {
        Some(long) => is_name(long),
        None => word.len() == 2 && word.starts_with('-') && word.ends_with(|c: char| c.is_ascii_alphabetic()),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    const ROOT: &str = "\
See costs

Usage: pagewalk <COMMAND>

See:
  profile       Run a program,
                and wait
  layout run    Run it

Research:
  trace         Look at traces
  help          Help

Options:
  -q, --quiet  Say nothing, like --silent

Exit codes: 0 done,
1 failed.
";
    const PROFILE: &str = "\
Run a program

Usage: pagewalk profile [OPTIONS]

Options:
  -o, --output <FILE>
          Write here   \n
          [aliases: --out, --to]
      --thp[=<MODE>]  Mode; see --os
";
    const TRACE: &str =
        "Look at traces\n\nUsage: pagewalk trace <COMMAND>\n\nCommands:\n  info  Tell\n  help  Help\n";

    /// A program of four commands.
    pub fn commands() -> Commands {
        let says = |words: &[&str]| {
            Ok(match words {
                ["--help"] => ROOT,
                ["profile", ..] => PROFILE,
                ["trace", "--help"] => TRACE,
                _ => "Tell\n\nUsage: pagewalk trace info <T.pwt>\n\nOptions:\n      --json  Print JSON\n",
            }
            .to_owned())
        };
        Commands::read(says).unwrap()
    }

    #[test]
    fn commands_are_those_that_help_lists() {
        let commands = commands();
        let all: Vec<(&str, &str)> =
            commands.all.iter().map(|(group, help)| (&group[..], &help.name[..])).collect();
        assert_eq!(
            all,
            [("See", "profile"), ("See", "layout run"), ("Research", "trace"), ("Research", "trace info")]
        );
        assert!(
            commands.has_below("layout") && commands.has_below("trace") && !commands.has_below("profile")
        );
        assert!(Commands::read(|_| Ok("nothing".to_owned())).is_err());
    }

    #[test]
    fn options_are_those_that_are_defined() {
        let commands = commands();
        let of: Vec<&str> = commands.options("profile").into_iter().collect();
        let all = ["--help", "--out", "--output", "--quiet", "--thp", "--to", "-h", "-o", "-q"];
        assert_eq!(of, all);
        assert!(commands.options("trace").contains("--json"));
    }

    #[test]
    fn each_command_has_a_heading_that_links_find() {
        let page = commands().page();
        for part in [
            "# Commands\n",
            "\n## Exit codes\n\n0 done, 1 failed.\n",
            "\n## See\n\n### profile\n\nRun a program\n\n```text\nUsage: pagewalk profile",
            "\n          Write here\n",
            "\n### layout run\n",
            "\n### trace\n",
            "\n#### trace info\n",
        ] {
            assert!(page.contains(part), "{part:?} in {page}");
        }
    }
}
