//! Completions and manual pages, generated from the command line's definition.

use crate::arguments::{Arguments, Completions, Man};
use crate::error::{CliError, Code};
use crate::output::print;
use clap::CommandFactory;
use std::process::ExitCode;

pub fn completions(arguments: Completions) -> Result<ExitCode, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "pagewalk", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

pub fn man(arguments: Man) -> Result<ExitCode, CliError> {
    let mut command = Arguments::command();
    // Gives every subcommand its full name.
    command.build();
    for name in &arguments.command {
        command = subcommand(&command, name)?;
    }
    if let (None, Some(codes)) = (command.get_after_help(), Arguments::command().get_after_help()) {
        command = command.after_help(codes.clone());
    }
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(command).render(&mut page);
    rendered.map_err(|e| CliError::new(Code::Failed, format!("making the manual page: {e}")))?;
    print(&String::from_utf8_lossy(&page))?;
    Ok(ExitCode::SUCCESS)
}

fn subcommand(command: &clap::Command, name: &str) -> Result<clap::Command, CliError> {
    command.find_subcommand(name).cloned().ok_or_else(|| {
        let error = CliError::new(Code::Usage, format!("no command `{name}` of {}", command.get_name()));
        let known =
            command.get_subcommands().filter(|known| !known.is_hide_set() && known.get_name() != "help");
        let known: Vec<&str> = known.map(clap::Command::get_name).collect();
        if known.is_empty() { error } else { error.or(format!("it is one of {}", known.join(", "))) }
    })
}
