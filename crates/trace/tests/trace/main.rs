//! Tests of streams, files of them, and their checker.

mod check;
mod common;
mod pwt;
