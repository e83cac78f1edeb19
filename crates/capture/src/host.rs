//! Describes the recording host.

use std::fs;

/// The recording host, for readers of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDescription {
    /// CPU model name; `unknown` if the kernel does not say.
    pub cpu: String,
    /// Kernel release.
    pub kernel: String,
    /// Transparent huge page mode: `always`, `madvise`, `never` or `unknown`.
    pub thp: String,
}

impl HostDescription {
    /// This host.
    pub fn detect() -> HostDescription {
        let unknown = || "unknown".to_owned();
        let read = |path| fs::read_to_string(path).ok();
        HostDescription {
            cpu: read("/proc/cpuinfo").as_deref().and_then(cpu_model).unwrap_or_else(unknown),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            thp: read("/sys/kernel/mm/transparent_hugepage/enabled")
                .as_deref()
                .and_then(chosen)
                .unwrap_or_else(unknown),
        }
    }
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The word in brackets of a line such as `always [madvise] never`.
fn chosen(line: &str) -> Option<String> {
    Some(line.split_once('[')?.1.split_once(']')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_texts() {
        assert_eq!(chosen("always [madvise] never\n").as_deref(), Some("madvise"));
        assert_eq!(chosen("always madvise never\n"), None);
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2.00GHz\nmodel name\t: other\n";
        assert_eq!(cpu_model(cpuinfo).as_deref(), Some("Some CPU @ 2.00GHz"));
        assert_eq!(cpu_model("processor : 0\n"), None);
    }
}
