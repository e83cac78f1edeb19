//! Completions and manual pages, generated from the command line's definition.

use crate::arguments::{Completions, Man, command_line};
use crate::exit::ExitCode;
use crate::output::print;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use clap_complete::Shell;
use pagewalk::machines::HOST;
use pagewalk::mm::OsSpec;
use pagewalk::sim::{Library, Structures};
use pagewalk::units::names::choice;
use pagewalk::{Error, Fault};
use std::iter;

pub fn completions(arguments: Completions) -> Result<ExitCode, Error> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut with_names(command_line()), "pagewalk", &mut script);
    let script = String::from_utf8_lossy(&script);
    let script = names_of_files()
        .iter()
        .fold(script.into_owned(), |script, names| or_files(arguments.shell, &script, names));
    print(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// The command line with completions for names. Arguments still accept other values: file names, and policies with
/// keys.
fn with_names(command: Command) -> Command {
    let named = |argument: Arg| match names(argument.get_id().as_str()) {
        Some(names) => argument.value_parser(PossibleValuesParser::new(names)),
        None => argument,
    };
    command.mut_args(named).mut_subcommands(with_names)
}

/// The names that the argument `id` accepts, if there is a list.
fn names(id: &str) -> Option<Vec<&'static str>> {
    match id {
        "machine" | "machines" => Some(machines()),
        "structure" => Some(Structures::names().collect()),
        "kernels" => Some(OsSpec::policies().map(|(name, _)| name).chain(["offline"]).collect()),
        _ => None,
    }
}

fn machines() -> Vec<&'static str> {
    iter::once(HOST).chain(Library::names()).collect()
}

/// Names of library files, in whose place a path may stand.
fn names_of_files() -> [Vec<&'static str>; 2] {
    [machines(), Structures::names().collect()]
}

/// The script, extended to offer files as well as `names`. Bash scripts offer files when no name fits; shells not
/// handled here offer no values.
fn or_files(shell: Shell, script: &str, names: &[&str]) -> String {
    match shell {
        Shell::Zsh => {
            let names = names.join(" ");
            let either = format!(":{{compadd \"$expl[@]\" -- {names}; _files}}'");
            script.replace(&format!(":({names})'"), &either)
        }
        Shell::Fish => {
            let names: Vec<String> = names.iter().map(|name| format!("{name}\\t''")).collect();
            let names = names.join("\n");
            script.replace(&format!("-r -f -a \"{names}\""), &format!("-r -F -a \"{names}\""))
        }
        _ => script.to_owned(),
    }
}

pub fn man(arguments: Man) -> Result<ExitCode, Error> {
    let mut command = command_line();
    // Gives every subcommand its full name.
    command.build();
    for name in &arguments.command {
        command = subcommand(&command, name)?;
    }
    if let (None, Some(codes)) = (command.get_after_help(), command_line().get_after_help()) {
        command = command.after_help(codes.clone());
    }
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(command).render(&mut page);
    rendered.map_err(|e| Error::new(Fault::Failed, format!("making the manual page: {e}")))?;
    print(&String::from_utf8_lossy(&page))?;
    Ok(ExitCode::SUCCESS)
}

fn subcommand(command: &Command, name: &str) -> Result<Command, Error> {
    command.find_subcommand(name).cloned().ok_or_else(|| {
        let error = Error::new(Fault::Usage, format!("no command `{name}` of {}", command.get_name()));
        let known =
            command.get_subcommands().filter(|known| !known.is_hide_set() && known.get_name() != "help");
        let known: Vec<&str> = known.map(Command::get_name).collect();
        if known.is_empty() { error } else { error.or(choice(name, &known)) }
    })
}
