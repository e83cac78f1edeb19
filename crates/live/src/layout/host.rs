//! Whether this host permits placing libraries, and which setting would enable it.

use crate::tracing::follower::end_unbegun;
use crate::tracing::launch::{LaunchError, launch};
use crate::tracing::maps;
use crate::tracing::sys::{self, Pid, option};
use std::io;
use std::os::unix::fs::FileExt;

/// What this host does not permit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Not x86-64 Linux.
    #[error("libraries are placed on x86-64 Linux only; this is {0}")]
    Host(String),
    /// No tracing.
    #[error("this host forbids tracing one's own programs: {0}")]
    NoPtrace(LaunchError),
    /// No changing of code.
    #[error("this host forbids changing the code of one's own programs: {0}")]
    NoChange(io::Error),
}

impl HostError {
    /// How to enable it.
    pub fn enable(&self) -> &'static str {
        match self {
            HostError::Host(_) => "an x86-64 machine with Linux",
            HostError::NoPtrace(_) => {
                "sysctl kernel.yama.ptrace_scope=1 (3 stays until the host restarts); in a container, a seccomp \
                 profile that allows ptrace; and no debugger or strace around pagewalk"
            }
            HostError::NoChange(_) => "a kernel that starts without proc_mem.force_override=never",
        }
    }
}

/// Checks whether libraries can be placed here, by trying it on a program that never starts.
pub fn check_host() -> Result<(), HostError> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err(HostError::Host(format!("{} {}", std::env::consts::ARCH, std::env::consts::OS)));
    }
    let options = option::CALLS_APART | option::EXEC;
    let pid = launch(&["/proc/self/exe".into()], None, options).map_err(HostError::NoPtrace)?;
    let changed = change_code(pid);
    end_unbegun(pid);
    changed.map_err(HostError::NoChange)
}

/// Overwrites code with itself.
fn change_code(pid: Pid) -> io::Result<()> {
    let memory = maps::memory(pid)?;
    let at = sys::registers(pid)?.rip;
    let mut byte = [0];
    memory.read_exact_at(&mut byte, at)?;
    memory.write_all_at(&byte, at)
}
