//! Commands grouped by purpose, as `pagewalk --help` shows them.

use clap::Command;
use std::fmt::Write;

/// Commands for one purpose.
struct Group {
    heading: &'static str,
    /// Full names, such as `trace import`. Their descriptions stand with their definitions.
    commands: &'static [&'static str],
}

const GROUPS: [Group; 6] = [
    Group {
        heading: "See what address translation costs",
        commands: &["profile", "record", "simulate", "trap", "contiguity", "samples", "report"],
    },
    Group { heading: "Explain where the cost comes from", commands: &["layout analyze"] },
    Group { heading: "Decide what to change", commands: &["advise", "probe", "layout plan"] },
    Group { heading: "Act on the decision", commands: &["apply", "verify", "undo", "promote", "layout run"] },
    Group {
        heading: "Research with many machines and traces",
        commands: &["sweep", "machines", "trace", "schema"],
    },
    Group { heading: "Set up pagewalk", commands: &["doctor", "completions", "man", "help"] },
];

/// Description of `help`, which clap adds itself.
const HELP_ABOUT: &str = "Print this message, or the help of a command";

/// The help template of `line`, with commands in groups.
pub fn template(line: &Command) -> String {
    let header = line.get_styles().get_header();
    let commands = groups(line);
    let usage = "{about-with-newline}\n{usage-heading} {usage}\n\n";
    format!("{usage}{commands}{header}Options:{header:#}\n{{options}}{{after-help}}")
}

/// All groups. Clap aligns and wraps the commands as if they belonged to one command.
fn groups(line: &Command) -> String {
    let header = line.get_styles().get_header();
    let help = list(line).render_help();
    let (plain, styled) = (help.to_string(), help.ansi().to_string());
    let mut text = String::new();
    for (plain, styled) in plain.lines().zip(styled.lines()).filter(|(plain, _)| !plain.is_empty()) {
        let starts = |group: &&Group| plain.starts_with(&format!("  {} ", group.commands[0]));
        if let Some(Group { heading, .. }) = GROUPS.iter().find(starts) {
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}{header}{heading}:{header:#}");
        }
        text += styled;
        text.push('\n');
    }
    text + "\n"
}

/// A command with the subcommands of all groups, in order.
fn list(line: &Command) -> Command {
    let names = GROUPS.iter().flat_map(|group| group.commands);
    let listed = names.enumerate().map(|(order, name)| {
        let known = find(line, name).and_then(Command::get_about).cloned();
        Command::new(*name).about(known.unwrap_or_else(|| HELP_ABOUT.into())).display_order(order)
    });
    let list = Command::new("list").subcommands(listed).help_template("{subcommands}");
    list.disable_help_subcommand(true).styles(line.get_styles().clone()).max_term_width(super::WIDEST)
}

/// The command below `line` with this full name.
fn find<'a>(line: &'a Command, name: &str) -> Option<&'a Command> {
    name.split(' ').try_fold(line, |command, word| command.find_subcommand(word))
}

#[cfg(test)]
mod tests {
    use super::super::command_line;
    use super::*;
    use std::collections::BTreeSet;

    /// A command whose subcommands are grouped is in no group itself.
    #[test]
    fn each_command_is_in_exactly_one_group() {
        let line = command_line();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|group| group.commands).copied().collect();
        let once: BTreeSet<&str> = grouped.iter().copied().collect();
        assert_eq!(grouped.len(), once.len(), "a command is in two groups");
        let visible = |command: &Command| -> Vec<String> {
            let known = command.get_subcommands().filter(|known| !known.is_hide_set());
            known.map(|known| known.get_name().to_owned()).collect()
        };
        let mut known = vec!["help".to_owned()];
        for name in visible(&line) {
            let below = visible(find(&line, &name).expect("a command"));
            let below: Vec<String> = below.iter().map(|below| format!("{name} {below}")).collect();
            if below.iter().any(|below| once.contains(&below[..])) {
                known.extend(below);
            } else {
                known.push(name);
            }
        }
        let known: BTreeSet<&str> = known.iter().map(String::as_str).collect();
        assert_eq!(once, known);
    }

    #[test]
    fn help_has_each_group_with_its_commands() {
        let help = command_line().render_help().to_string();
        for group in &GROUPS {
            let (_, below) = help.split_once(&format!("\n{}:\n", group.heading)).expect(group.heading);
            let below = below.split_once("\n\n").expect("a blank line").0;
            let place =
                |name: &&str| below.find(&format!("  {name} ")).unwrap_or_else(|| panic!("{name}: {help}"));
            let places: Vec<usize> = group.commands.iter().map(place).collect();
            assert!(places.is_sorted(), "{below}");
        }
        for option in ["-q, --quiet", "-v, --verbose", "--json", "-V, --version"] {
            assert!(help.contains(option), "{option}: {help}");
        }
    }
}
