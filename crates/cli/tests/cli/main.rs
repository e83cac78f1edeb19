//! The command from end to end: real programs, real files, exit codes and messages.

mod advising;
mod against_others;
mod as_data;
mod bad_arguments;
mod bad_machines;
mod bad_outputs;
mod bad_runs;
mod bad_traces;
mod contiguity;
mod data_sides;
mod exactness;
mod goldens;
mod grains;
mod harness;
mod layout_studies;
mod layouts;
mod offline;
mod placing;
mod planning;
mod probing;
mod promoting;
mod signals;
mod software_tlbs;
mod surface;
mod sweeps;
mod trapping;
