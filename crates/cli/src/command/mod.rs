//! One file per command.

pub mod cores;
pub mod doctor;
pub mod generate;
pub mod interleaved;
pub mod machines;
pub mod profile;
pub mod record;
pub mod report;
pub mod simulate;
pub mod sweep;
pub mod trace;
