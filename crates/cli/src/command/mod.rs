//! One file per command; a folder for a command with subcommands.

pub mod advise;
pub mod contiguity;
pub mod doctor;
pub mod generate;
pub mod layout;
pub mod machines;
pub mod plans;
pub mod probe;
pub mod profile;
pub mod promote;
pub mod record;
pub mod report;
pub mod samples;
pub mod schema;
pub mod simulate;
pub mod start;
pub mod sweep;
pub mod trace;
pub mod trap;
pub mod version;
