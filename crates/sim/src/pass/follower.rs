//! Policies that have no design of their own yet.

use pagewalk_mm::PageSizePolicy;
use std::sync::Arc;

/// A policy for which the first design stands as long as it decides the same.
pub(crate) struct Follower {
    pub name: String,
    pub policy: Arc<dyn PageSizePolicy>,
    /// One of its own, once it has decided otherwise.
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
