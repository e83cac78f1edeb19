//! Hardware counter events: `perf_event_open`.

use crate::tracing::sys::{self, Pid};
use rustix::fd::{FromRawFd, OwnedFd};
use std::io;

const PERF_EVENT_OPEN: u64 = 298;
/// Size of `struct perf_event_attr`, first version.
const SIZE: u32 = 64;
const CLOSE_ON_EXEC: u64 = 8;
/// Flags: exclude kernel and hypervisor.
pub const USER_ONLY: u64 = 1 << 5 | 1 << 6;

/// A counter event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Event {
    /// Type of event.
    pub kind: u32,
    /// The event within the type.
    pub config: u64,
    /// Events per sample; 0: no samples.
    pub period: u64,
    /// Contents of samples.
    pub sample_type: u64,
    /// Flag bits between `read_format` and `wakeup_events`.
    pub flags: u64,
}

/// `struct perf_event_attr`, first version.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_kind: u32,
    breakpoint: u64,
}

impl Event {
    /// Starts counting or sampling a thread (0: this one) on every processor.
    ///
    /// # Errors
    /// The kernel's: not permitted, or the processor (or its hypervisor) has no such event.
    pub fn open(self, thread: Pid) -> io::Result<OwnedFd> {
        let Event { kind, config, period, sample_type, flags } = self;
        let attributes = Attributes {
            kind,
            size: SIZE,
            config,
            period,
            sample_type,
            read_format: 0,
            flags,
            wakeup: 0,
            breakpoint_kind: 0,
            breakpoint: 0,
        };
        let (every_cpu, no_group) = (u64::MAX, u64::MAX);
        let description = (&raw const attributes).addr() as u64;
        let arguments = [description, thread as u64, every_cpu, no_group, CLOSE_ON_EXEC, 0];
        // SAFETY: the kernel reads `attributes`, as long as it says it is.
        let descriptor = unsafe { sys::call(PERF_EVENT_OPEN, arguments) }?;
        // SAFETY: the call made the descriptor for us.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
    }
}
