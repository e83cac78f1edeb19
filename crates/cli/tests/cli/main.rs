//! The command from end to end: real programs, real files, exit codes and messages.

mod against_others;
mod bad_input;
mod bad_runs;
mod exactness;
mod goldens;
mod harness;
mod surface;
mod sweeps;
