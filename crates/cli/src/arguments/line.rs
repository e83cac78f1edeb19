//! Parses the command line: shared options may stand before or after the command, and errors suggest what was meant.

use super::{Arguments, Command, groups};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, CommandFactory, Error, FromArgMatches};
use pagewalk::units::names::closest;
use std::ffi::{OsStr, OsString};

/// A parsed command line.
pub enum Request {
    /// Nothing at all.
    Nothing,
    /// The version, in full.
    Version,
    /// A command.
    Command(Box<Command>),
}

/// An option that all or several commands share, allowed before the command too.
struct Shared {
    long: &'static str,
    short: Option<char>,
    help: &'static str,
}

const SHARED: [Shared; 3] = [
    Shared { long: "quiet", short: Some('q'), help: "Say nothing but the results and errors" },
    Shared { long: "verbose", short: Some('v'), help: "Say more" },
    Shared { long: "json", short: None, help: "Print JSON instead of text" },
];

impl Shared {
    fn argument(&self) -> Arg {
        let argument = Arg::new(self.long).long(self.long).action(ArgAction::SetTrue).help(self.help);
        match self.short {
            Some(short) => argument.short(short),
            None => argument,
        }
    }

    fn is(&self, word: &str) -> bool {
        let short = |word: &str| self.short.is_some_and(|short| word == format!("-{short}"));
        word.strip_prefix("--") == Some(self.long) || short(word)
    }

    fn is_of(&self, command: &clap::Command) -> bool {
        command.get_arguments().any(|argument| argument.get_long() == Some(self.long))
    }
}

/// The definition of the command line, with grouped help and shared options.
pub fn command_line() -> clap::Command {
    let line = Arguments::command().args(SHARED.iter().map(Shared::argument));
    let template = groups::template(&line);
    line.help_template(template)
}

/// Parses the command line; `words` begin with the program's name.
///
/// # Errors
/// A usage error, or a requested text such as the help.
pub fn read(words: Vec<OsString>) -> Result<Request, Error> {
    let line = command_line();
    let arranged = CommandLine::of(words, &line);
    if arranged.words.len() == 1 {
        return Ok(Request::Nothing);
    }
    if let Some(word) = arranged.early.iter().find(|word| !arranged.takes(word)) {
        return Err(arranged.lacks(word, &line));
    }
    let whole = arranged.words.iter().any(|word| word == "--version");
    let matches = line.clone().try_get_matches_from(&arranged.words);
    let read = matches.and_then(|matches| Arguments::from_arg_matches(&matches));
    match read {
        Ok(arguments) => Ok(Request::Command(Box::new(arguments.command))),
        Err(error) if error.kind() == ErrorKind::DisplayVersion && whole => Ok(Request::Version),
        Err(error) => match named(&error, ContextKind::InvalidArg).filter(|word| is_shared(word)) {
            Some(word) if error.kind() == ErrorKind::UnknownArgument => Err(arranged.lacks(word, &line)),
            _ => Err(with_meant(error, &arranged, &line)),
        },
    }
}

/// A command line with its shared options moved to where the command takes them.
struct CommandLine {
    words: Vec<OsString>,
    /// Shared options that stood before the command.
    early: Vec<OsString>,
    /// The deepest command found, without its subcommands.
    command: clap::Command,
    /// Its full name.
    name: String,
}

impl CommandLine {
    fn of(words: Vec<OsString>, line: &clap::Command) -> CommandLine {
        let (mut command, mut names) = (line, Vec::new());
        let mut early = Vec::new();
        let mut arranged: Vec<OsString> = words.first().cloned().into_iter().collect();
        let mut rest = words.into_iter().skip(1).peekable();
        while command.has_subcommands() {
            if let Some(shared) = rest.peek().and_then(|word| word.to_str()).and_then(split_flags) {
                early.extend(shared);
                rest.next();
                continue;
            }
            let below = rest.peek().and_then(|word| command.find_subcommand(word));
            let Some(below) = below else { break };
            command = below;
            names.push(below.get_name());
            arranged.extend(rest.next());
        }
        // If no command was found, report that first.
        if command.has_subcommands() {
            early.clear();
        }
        arranged.extend(early.iter().cloned());
        arranged.extend(rest);
        CommandLine { words: arranged, early, command: command.clone(), name: names.join(" ") }
    }

    /// Whether the command runs a program, whose words follow `--`.
    fn runs_a_program(&self) -> bool {
        self.command.get_positionals().any(Arg::is_last_set)
    }

    fn takes(&self, word: &OsStr) -> bool {
        SHARED
            .iter()
            .any(|shared| word.to_str().is_some_and(|word| shared.is(word)) && shared.is_of(&self.command))
    }

    /// The error for a shared option that the command does not take.
    fn lacks(&self, word: impl AsRef<OsStr>, line: &clap::Command) -> Error {
        let word = word.as_ref().to_string_lossy();
        let shared = SHARED.iter().find(|shared| shared.is(&word)).expect("a shared option");
        let takers: Vec<String> = takers(line, shared, "");
        let message = format!(
            "`pagewalk {}` takes no `{word}`; commands that take it: {}",
            self.name,
            takers.join(", ")
        );
        self.usage(line).error(ErrorKind::UnknownArgument, message)
    }

    /// The built command, for its usage line.
    fn usage(&self, line: &clap::Command) -> clap::Command {
        let mut line = line.clone();
        line.build();
        self.name
            .split(' ')
            .fold(line, |command, name| command.find_subcommand(name).cloned().unwrap_or(command))
    }
}

fn is_shared(word: &str) -> bool {
    SHARED.iter().any(|shared| shared.is(word))
}

/// Splits a word into shared options: `--json`, `-q`, or several at once, `-qv`.
fn split_flags(word: &str) -> Option<Vec<OsString>> {
    if is_shared(word) {
        return Some(vec![word.into()]);
    }
    let letters = word.strip_prefix('-').filter(|letters| !letters.is_empty())?;
    let all: Vec<String> = letters.chars().map(|letter| format!("-{letter}")).collect();
    all.iter().all(|word| is_shared(word)).then(|| all.into_iter().map(OsString::from).collect())
}

/// Commands at and below `command` that take the option; `above` is the prefix of their names.
fn takers(command: &clap::Command, shared: &Shared, above: &str) -> Vec<String> {
    let below = command.get_subcommands().flat_map(|below| {
        let name = format!("{above}{}", below.get_name());
        let own = shared.is_of(below).then(|| name.clone());
        own.into_iter().chain(takers(below, shared, &format!("{name} ")))
    });
    below.collect()
}

/// What an error is about.
fn named(error: &Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(name)) => Some(name),
        _ => None,
    }
}

/// Adds the closest names to the error. Clap knows only similar options and values, and no command inside another
/// command.
fn with_meant(mut error: Error, arranged: &CommandLine, line: &clap::Command) -> Error {
    let (wrong, proposed) = match error.kind() {
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        ErrorKind::InvalidValue => (ContextKind::InvalidValue, ContextKind::SuggestedValue),
        _ => return error,
    };
    let is_told = proposed != ContextKind::SuggestedSubcommand && error.get(proposed).is_some();
    let Some(word) = named(&error, wrong).map(str::to_owned).filter(|_| !is_told) else { return error };
    if error.kind() == ErrorKind::UnknownArgument && !word.starts_with('-') && arranged.runs_a_program() {
        let tip = format!("the program goes behind `--`: pagewalk {} -- {word}", arranged.name);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        return error;
    }
    let meant: Vec<String> = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let near = nearest(&word, all_commands(&arranged.command, ""));
            let elsewhere = || nearest(&word, all_commands(line, "")).into_iter();
            if near.is_empty() { elsewhere().map(|name| format!("pagewalk {name}")).collect() } else { near }
        }
        ErrorKind::UnknownArgument => {
            let options = arranged.command.get_arguments().filter_map(Arg::get_long);
            nearest(&word, options.map(|long| format!("--{long}")).collect())
        }
        _ => match error.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(known)) => nearest(&word, known.clone()),
            _ => Vec::new(),
        },
    };
    if let Some(first) = meant.first().cloned() {
        let is_command = proposed == ContextKind::SuggestedSubcommand;
        let value = if is_command { ContextValue::Strings(meant) } else { ContextValue::String(first) };
        error.insert(proposed, value);
    }
    error
}

fn nearest(word: &str, known: Vec<String>) -> Vec<String> {
    closest(word, known.iter().map(String::as_str)).into_iter().map(str::to_owned).collect()
}

/// All commands by full name.
fn all_commands(command: &clap::Command, above: &str) -> Vec<String> {
    let below = command.get_subcommands().flat_map(|below| {
        let name = format!("{above}{}", below.get_name());
        let deeper = all_commands(below, &format!("{name} "));
        std::iter::once(name).chain(deeper)
    });
    below.collect()
}
