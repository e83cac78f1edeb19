//! Errors for the user: whose fault, what went wrong, what to do next.

use pagewalk_units::names::{closest, meant};
use std::fmt;
use std::path::Path;

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The work failed.
    Failed,
    /// What was asked for is wrong.
    Usage,
    /// An input file is wrong.
    BadInput,
    /// This host cannot do it.
    HostCannot,
    /// A plan had no effect.
    NotInEffect,
}

/// A message for people: what went wrong, and what to do next.
#[derive(Debug)]
pub struct Error {
    /// Whose fault it is.
    pub fault: Fault,
    message: String,
    next: Option<String>,
}

impl Error {
    /// Creates an error.
    pub fn new(fault: Fault, message: impl fmt::Display) -> Error {
        Error { fault, message: message.to_string(), next: None }
    }

    /// An error about an input file. If there is none, it names the closest files of the folder.
    pub(crate) fn of_file(path: &Path, message: impl fmt::Display) -> Error {
        let wrong = Error::new(Fault::BadInput, message);
        match similar(path) {
            Some(names) => wrong.or(names),
            None => wrong,
        }
    }

    /// Whether the program could still run without the plan: the plan or the host is at fault.
    pub fn can_run_without(&self) -> bool {
        self.fault != Fault::Usage && self.fault != Fault::Failed
    }

    /// What went wrong, without the advice.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Adds advice on what to do next.
    pub fn or(self, next: impl fmt::Display) -> Error {
        Error { next: Some(next.to_string()), ..self }
    }
}

/// Which files of its folder a path that leads nowhere may mean.
fn similar(path: &Path) -> Option<String> {
    if path.exists() {
        return None;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = folder.read_dir().ok()?.flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    // That two names end alike says nothing; that they do not says much.
    let ending = path.extension().and_then(|ending| ending.to_str()).map(|ending| format!(".{ending}"));
    let ending = ending.unwrap_or_default();
    let (alike, others): (Vec<&str>, Vec<&str>) =
        names.iter().map(String::as_str).partition(|name| name.ends_with(&ending));
    let stem = |name: &str| name.strip_suffix(&*ending).unwrap_or(name).to_owned();
    let asked = path.file_name()?.to_str()?;
    let stems: Vec<String> = alike.iter().map(|name| stem(name)).collect();
    let near = closest(&stem(asked), stems.iter().map(String::as_str));
    let mut near: Vec<String> = near.into_iter().map(|stem| format!("{stem}{ending}")).collect();
    if alike.is_empty() {
        near = closest(asked, others).into_iter().map(str::to_owned).collect();
    }
    let near: Vec<String> = near.iter().map(|name| path.with_file_name(name).display().to_string()).collect();
    meant(&near.iter().map(String::as_str).collect::<Vec<_>>())
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        self.next.iter().try_for_each(|next| write!(f, "\n  {next}"))
    }
}
