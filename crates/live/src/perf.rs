//! Events of the processor's counters: `perf_event_open`.

use crate::tracing::sys::{self, Pid};
use rustix::fd::{FromRawFd, OwnedFd};
use std::io;

const PERF_EVENT_OPEN: u64 = 298;
/// Bytes of the description, of its first version.
const SIZE: u32 = 64;
const CLOSE_ON_EXEC: u64 = 8;
/// A flag: not in the kernel, not in the hypervisor.
pub const USER_ONLY: u64 = 1 << 5 | 1 << 6;

/// What an event is of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Event {
    /// Type of event.
    pub kind: u32,
    /// Which of that type.
    pub config: u64,
    /// One sample for so many; 0: none.
    pub period: u64,
    /// What samples have.
    pub sample_type: u64,
    /// Bits between `read_format` and `wakeup_events`.
    pub flags: u64,
}

/// `struct perf_event_attr`, its first version.
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
    /// Begins to count or sample a thread (0: this one) on every processor.
    ///
    /// # Errors
    /// The kernel's: it does not permit it, or the processor (or its hypervisor) has no such event.
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
