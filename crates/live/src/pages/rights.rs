//! Whether this host and user can change the memory of other processes, as far as can be told without one.

use super::host::{is_since, kernel};
use crate::tracing::maps::proc_text;
use crate::tracing::sys::Pid;
use std::fs;

/// The Linux version that has `PAGEMAP_SCAN`, which distinguishes huge pages from small ones. Everything else needed is
/// older: `process_madvise(MADV_COLLAPSE)` came in 6.1.
const SCAN_SINCE: (u32, u32) = (6, 7);
/// `CAP_SYS_NICE` in the mask of effective capabilities.
const SYS_NICE: u64 = 1 << 23;
/// The initial user namespace: its number is the kernel's `PROC_USER_INIT_INO`.
const FIRST_NAMESPACE: &str = "user:[4026531837]";

/// The kernel is too old.
#[derive(Debug, thiserror::Error)]
#[error("Linux {kernel} has no PAGEMAP_SCAN, which Linux {}.{} and later have", SCAN_SINCE.0, SCAN_SINCE.1)]
pub struct OldKernel {
    kernel: String,
}

/// What this host does not permit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The kernel is too old.
    #[error(transparent)]
    Kernel(#[from] OldKernel),
    /// Not permitted.
    #[error("this user may not change the memory of other processes: no CAP_SYS_NICE")]
    NoRight,
    /// A capability in another user namespace has no effect here.
    #[error(
        "this user has CAP_SYS_NICE in a user namespace only, and the kernel asks for it outside of all such"
    )]
    Namespace,
}

impl HostError {
    /// How to enable it.
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

/// Whether this kernel can show and change the page sizes of another process's memory.
///
/// # Errors
/// If it cannot.
pub fn check_kernel() -> Result<(), OldKernel> {
    let kernel = kernel();
    if is_since(&kernel, SCAN_SINCE) { Ok(()) } else { Err(OldKernel { kernel }) }
}

/// Whether this host and user can change the memory of processes, at least of this user's.
///
/// # Errors
/// If they cannot.
pub fn check_host() -> Result<(), HostError> {
    check_kernel()?;
    let status = proc_text(std::process::id() as Pid, "status").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/user").unwrap_or_default();
    check_right(&status, &namespace.to_string_lossy())
}

/// From `/proc/PID/status` and the link `/proc/PID/ns/user`, which a kernel without namespaces lacks.
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
    use crate::pages::ProcessHandle;
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

    /// The answer without a process agrees with the kernel's for one.
    #[test]
    fn the_kernel_agrees() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let permitted = ProcessHandle::open(child.id() as Pid).and_then(|handle| handle.permits());
        drop(child.stdin.take());
        child.wait().unwrap();
        match check_host() {
            // System call filters, as in containers, may forbid more.
            Ok(()) => {
                assert!(permitted.is_ok() || filters(std::process::id() as Pid).unwrap() > 0, "{permitted:?}")
            }
            Err(HostError::Kernel(_)) => {}
            Err(error) => assert!(permitted.is_err(), "{error}"),
        }
    }
}
