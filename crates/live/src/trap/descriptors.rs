//! Raises the limit on open files: each process image needs three, so a program of many processes needs more than the
//! default.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Keeps the limit on open files at its maximum until dropped.
pub struct RaisedLimit(Rlimit);

impl RaisedLimit {
    /// Raises it.
    pub fn raise() -> RaisedLimit {
        let before = getrlimit(Resource::Nofile);
        set(Rlimit { current: before.maximum, maximum: before.maximum });
        RaisedLimit(before)
    }

    /// Restores the user's limit in a process that is about to become the program. Only makes a system call.
    pub fn lower(&self) {
        set(Rlimit { current: self.0.current, maximum: self.0.maximum });
    }
}

impl Drop for RaisedLimit {
    fn drop(&mut self) {
        self.lower();
    }
}

/// A failure does not matter.
fn set(limit: Rlimit) {
    let _ = setrlimit(Resource::Nofile, limit);
}
