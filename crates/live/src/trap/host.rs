//! Whether this host lets us serve a program's faults, and which setting would enable it.

use crate::tracing::sys;
use rustix::process::{Resource, getrlimit};
use std::io;
use std::path::Path;

/// What this host does not permit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Not x86-64 Linux.
    #[error("live simulation runs on x86-64 Linux only; this is {0}")]
    Host(String),
    /// No userfaultfd.
    #[error("this kernel has no userfaultfd (CONFIG_USERFAULTFD)")]
    NoUserfaultfd,
    /// Not permitted to this user.
    #[error(
        "this user may not serve the faults that the kernel takes on a program's behalf (userfaultfd: {0})"
    )]
    Forbidden(io::Error),
    /// The kernel is too old.
    #[error("this kernel has no minor faults of shared memory in userfaultfd; Linux 5.14 and later have")]
    NoMinorFaults,
    /// No stopping filters.
    #[error("this kernel has no seccomp filters that stop a program for its tracer")]
    NoSeccomp,
    /// Tracing is forbidden.
    #[error("this host forbids tracing (kernel.yama.ptrace_scope = 3)")]
    NoPtrace,
    /// A file size limit.
    #[error("no file may be longer than {0} bytes here, and the one that holds a program's memory is")]
    FileLimit(u64),
    /// Anything else.
    #[error("userfaultfd: {0}")]
    Io(io::Error),
}

impl HostError {
    /// How to enable it.
    pub fn enable(&self) -> &'static str {
        match self {
            HostError::Host(_) => "an x86-64 machine with Linux",
            HostError::Forbidden(_) => {
                "one of: sysctl vm.unprivileged_userfaultfd=1; read and write rights on /dev/userfaultfd (Linux 6.1 \
                 and later); the capability CAP_SYS_PTRACE, as root has"
            }
            HostError::NoUserfaultfd | HostError::NoMinorFaults => {
                "Linux 5.14 or later with CONFIG_USERFAULTFD; in a container, a seccomp profile that allows userfaultfd"
            }
            HostError::FileLimit(_) => "a shell without that limit (ulimit -f unlimited)",
            HostError::NoSeccomp => "a kernel with CONFIG_SECCOMP_FILTER",
            HostError::NoPtrace => {
                "sysctl kernel.yama.ptrace_scope=1 (or 2 as root), after a restart of the host"
            }
            HostError::Io(_) => "no limit on open files or memory in the way",
        }
    }
}

const CLOEXEC_NONBLOCK: i32 = 0o2000000 | 0o4000;
const EPERM: i32 = 1;
const ENOSYS: i32 = 38;
const EINVAL: i32 = 22;

/// Whether faults can be served here.
pub fn check_host() -> Result<(), HostError> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err(HostError::Host(format!("{} {}", std::env::consts::ARCH, std::env::consts::OS)));
    }
    let actions = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    if !actions.split_whitespace().any(|action| action == "trace") {
        return Err(HostError::NoSeccomp);
    }
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if scope.trim() == "3" {
        return Err(HostError::NoPtrace);
    }
    if let Some(bytes) = getrlimit(Resource::Fsize).current {
        return Err(HostError::FileLimit(bytes));
    }
    let file = open_userfaultfd()?;
    #[repr(C)]
    struct Api {
        api: u64,
        features: u64,
        ioctls: u64,
    }
    const UFFDIO_API: u64 = 0xc018_aa3f;
    /// `UFFD_FEATURE_MISSING_SHMEM`, `UFFD_FEATURE_MINOR_SHMEM`.
    const FEATURES: u64 = 1 << 5 | 1 << 10;
    let mut api = Api { api: 0xaa, features: FEATURES, ioctls: 0 };
    match sys::ioctl(&file, UFFDIO_API, &mut api) {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(EINVAL) => Err(HostError::NoMinorFaults),
        Err(error) => Err(HostError::Io(error)),
    }
}

/// As the agent does: by the system call, else by the device.
fn open_userfaultfd() -> Result<std::os::fd::OwnedFd, HostError> {
    let error = match sys::try_userfaultfd(CLOEXEC_NONBLOCK) {
        Ok(file) => return Ok(file),
        Err(error) => error,
    };
    if error.raw_os_error() == Some(ENOSYS) {
        return Err(HostError::NoUserfaultfd);
    }
    let device = Path::new("/dev/userfaultfd");
    if let Ok(opened) = std::fs::OpenOptions::new().read(true).write(true).open(device)
        && let Ok(file) = sys::new_userfaultfd(&opened, CLOEXEC_NONBLOCK)
    {
        return Ok(file);
    }
    Err(if error.raw_os_error() == Some(EPERM) { HostError::Forbidden(error) } else { HostError::Io(error) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_is_told_every_setting_that_would_help() {
        let error = HostError::Forbidden(io::Error::from_raw_os_error(EPERM));
        for setting in ["vm.unprivileged_userfaultfd", "/dev/userfaultfd", "CAP_SYS_PTRACE"] {
            assert!(error.enable().contains(setting), "{setting}");
        }
    }
}
