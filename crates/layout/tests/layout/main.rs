//! All tests of this crate, in one binary: what they share is built once.

mod calls;
mod children;
mod common;
mod evictions;
mod konireddygari_targets;
mod rebase;
mod splits;
