//! The files that pagewalk holds open: three for each process image, so that a program of many processes needs more
//! than users are given.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit on open files is as high as it may be until this is dropped.
pub struct RaisedLimit(Rlimit);

impl RaisedLimit {
    /// Raises it.
    pub fn raise() -> RaisedLimit {
        let before = getrlimit(Resource::Nofile);
        set(Rlimit { current: before.maximum, maximum: before.maximum });
        RaisedLimit(before)
    }

    /// Gives this process, which is about to become the program, what the user has. Makes a system call only.
    pub fn lower(&self) {
        set(Rlimit { current: self.0.current, maximum: self.0.maximum });
    }
}

impl Drop for RaisedLimit {
    fn drop(&mut self) {
        self.lower();
    }
}

/// Nothing depends on its success.
fn set(limit: Rlimit) {
    let _ = setrlimit(Resource::Nofile, limit);
}
