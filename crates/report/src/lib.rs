//! Results as data, and their renderers. Runs no simulation and reads no trace.

pub mod schema;
