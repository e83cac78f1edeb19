//! Whether this host and user can work on the memory of other processes, as far as that can be told without one.

use super::host::{is_since, kernel};
use crate::tracing::maps::proc_text;
use crate::tracing::sys::Pid;
use std::fs;

/// The version that has `PAGEMAP_SCAN`, which tells huge pages from small ones. All else is older:
/// `process_madvise(MADV_COLLAPSE)` is there from 6.1 on.
const SCAN_SINCE: (u32, u32) = (6, 7);
/// `CAP_SYS_NICE` among effective capabilities.
const SYS_NICE: u64 = 1 << 23;
/// The user namespace that a host begins with: its number is the kernel's `PROC_USER_INIT_INO`.
const FIRST_NAMESPACE: &str = "user:[4026531837]";

/// This kernel is too old.
#[derive(Debug, thiserror::Error)]
#[error("Linux {kernel} has no PAGEMAP_SCAN, which Linux {}.{} and later have", SCAN_SINCE.0, SCAN_SINCE.1)]
pub struct OldKernel {
    kernel: String,
}

/// What this host does not permit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Too old.
    #[error(transparent)]
    Kernel(#[from] OldKernel),
    /// No right.
    #[error("this user may not change the memory of other processes: no CAP_SYS_NICE")]
    NoRight,
    /// The right in a namespace of one's own, which is none.
    #[error(
        "this user has CAP_SYS_NICE in a user namespace only, and the kernel asks for it outside of all such"
    )]
    Namespace,
}

impl HostError {
    /// What would make it possible.
    pub fn enable(&self) -> &'static str {
        match self {
            HostError::Kernel(_) => "a newer kernel",
            HostError::NoRight => {
                "be root, or have the capability CAP_SYS_NICE; for processes of other users CAP_SYS_PTRACE, too"
            }
            HostError::Namespace => {
                "run pagewalk outside of the container, or in one without a user namespace that has CAP_SYS_NICE"
            }
        }
    }
}

/// Whether this kernel can tell and change on what pages the memory of another process is.
///
/// # Errors
/// If it cannot.
pub fn check_kernel() -> Result<(), OldKernel> {
    let kernel = kernel();
    if is_since(&kernel, SCAN_SINCE) { Ok(()) } else { Err(OldKernel { kernel }) }
}

/// Whether this host and user can change the memory of processes, of this user at least.
///
/// # Errors
/// If they cannot.
pub fn check_host() -> Result<(), HostError> {
    check_kernel()?;
    let status = proc_text(std::process::id() as Pid, "status").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/user").unwrap_or_default();
    check_right(&status, &namespace.to_string_lossy())
}

/// By `/proc/PID/status`, and by where `/proc/PID/ns/user` leads to: nowhere in a kernel without namespaces.
fn check_right(status: &str, namespace: &str) -> Result<(), HostError> {
    let value = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let rights = value.and_then(|value| u64::from_str_radix(value.trim(), 16).ok()).unwrap_or(0);
    if rights & SYS_NICE == 0 {
        Err(HostError::NoRight)
    } else if !namespace.is_empty() && namespace != FIRST_NAMESPACE {
        Err(HostError::Namespace)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::Handle;
    use crate::tracing::maps::filters;
    use std::process::{Command, Stdio};

    #[test]
    fn the_right_is_one_of_the_host_itself() {
        let all = "Name:\tx\nCapPrm:\t0\nCapEff:\t000001fffeffffff\n";
        assert!(check_right(all, FIRST_NAMESPACE).is_ok() && check_right(all, "").is_ok());
        assert!(matches!(check_right(all, "user:[4026532178]"), Err(HostError::Namespace)));
        for none in
            ["CapEff:\t0000000000000000\n", "CapPrm:\t000001ffffffffff\nCapEff:\t000001ffff7fffff\n", ""]
        {
            assert!(matches!(check_right(none, FIRST_NAMESPACE), Err(HostError::NoRight)), "{none}");
        }
    }

    /// What is told without a process is what the kernel says of one.
    #[test]
    fn the_kernel_agrees() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let permitted = Handle::open(child.id() as Pid).and_then(|handle| handle.permits());
        drop(child.stdin.take());
        child.wait().unwrap();
        match check_host() {
            // Filters on calls, as of containers, may forbid more.
            Ok(()) => {
                assert!(permitted.is_ok() || filters(std::process::id() as Pid).unwrap() > 0, "{permitted:?}")
            }
            Err(HostError::Kernel(_)) => {}
            Err(error) => assert!(permitted.is_err(), "{error}"),
        }
    }
}
