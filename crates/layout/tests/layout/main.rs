//! All tests of this crate in one binary, so that shared code is built once.

mod calls;
mod children;
mod common;
mod evictions;
mod konireddygari_targets;
mod rebase;
mod splits;
