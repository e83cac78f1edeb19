//! `pagewalk doctor`: what this host supports, and how to enable the rest.

use crate::arguments::Doctor as Arguments;
use crate::exit;
use crate::exit::ExitCode;
use crate::output::print;
use crate::terminal::Terminal;
use pagewalk::doctor::Doctor;
use pagewalk::report::documents;
use pagewalk::{Error, Fault};

pub fn run(arguments: Arguments) -> Result<ExitCode, Error> {
    let doctor = Doctor::examine(&Terminal { quiet: false });
    print(&if arguments.json { documents::text(&doctor.document()) } else { doctor.text() })?;
    Ok(if doctor.lacks() { exit::by(Fault::HostCannot) } else { ExitCode::SUCCESS })
}
