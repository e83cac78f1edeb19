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
    if let Some(name) = &arguments.command {
        let known: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
        let found = command.find_subcommand(name).cloned();
        command = found.ok_or_else(|| {
            CliError::new(Code::Usage, format!("no command `{name}`")).or(format!("it is one of {}", known.join(", ")))
        })?;
    }
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(command).render(&mut page);
    rendered.map_err(|e| CliError::new(Code::Failed, format!("making the manual page: {e}")))?;
    print(&String::from_utf8_lossy(&page))?;
    Ok(ExitCode::SUCCESS)
}
