//! Policies without a design of their own yet.

use pagewalk_mm::PageSizePolicy;
use std::sync::Arc;

/// A policy that the first design stands for as long as both decide the same.
pub(crate) struct Follower {
    pub name: String,
    pub policy: Arc<dyn PageSizePolicy>,
    /// Its own design, once it has decided differently.
    pub design: Option<usize>,
}

impl Follower {
    pub fn new(name: String, policy: Arc<dyn PageSizePolicy>) -> Follower {
        Follower { name, policy, design: None }
    }

    /// The design that stands for it.
    pub fn design(&self) -> usize {
        self.design.unwrap_or(0)
    }
}
