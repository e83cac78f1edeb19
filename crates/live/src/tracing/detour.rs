//! Injects system calls into a process, at the beginning or the end of one of its own.
//!
//! The process jumps to a few bytes of code in unused room, which make the call, restore all registers and return:
//! nothing is lost if we are killed at any moment, whether or not the call was made. A call that was about to begin is
//! skipped, and restarted at the end.

use super::sys::{self, Pid, Registers};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// `syscall`; then pop rdi, rsi, rdx, r10, r8, r9, rax, and the return address into rcx. `lea rsp, [rsp + 128]; jmp
/// rcx`. As after a system call, only rcx and r11 have changed.
const CODE: [u8; 23] = [
    0x0f, 0x05, 0x5f, 0x5e, 0x5a, 0x41, 0x5a, 0x41, 0x58, 0x41, 0x59, 0x58, 0x59, 0x48, 0x8d, 0xa4, 0x24,
    0x80, 0, 0, 0, 0xff, 0xe1,
];
/// Leaf functions may use this much below the stack pointer.
const RED_ZONE: u64 = 128;
/// Bytes of the instruction `syscall`.
const CALL_BYTES: u64 = 2;

/// Where a process is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// At the beginning of a system call; restart it at this address, with its number in rax.
    Beginning(u64),
    /// At the end of a system call.
    End,
}

/// A process with a detour.
pub struct Detour {
    room: u64,
    /// Registers for injected calls, except number and arguments.
    registers: Registers,
    /// The number of the current injected call, and whether its beginning was seen.
    call: Option<(u64, bool)>,
}

impl Detour {
    /// Writes the code; nothing jumps there yet. `room` has [`super::image::ROOM_BYTES`].
    ///
    /// # Errors
    /// If the process cannot be written to.
    pub fn prepare(pid: Pid, memory: &File, room: u64, stop: Stop) -> io::Result<Detour> {
        let now = sys::registers(pid)?;
        let (back, rax) = match stop {
            Stop::Beginning(site) => (site, now.orig_rax),
            Stop::End => (now.rip, now.rax),
        };
        let words = [now.rdi, now.rsi, now.rdx, now.r10, now.r8, now.r9, rax, back];
        let frame = now.rsp.wrapping_sub(RED_ZONE + size_of_val(&words) as u64);
        memory.write_all_at(&words.map(u64::to_le_bytes).concat(), frame)?;
        memory.write_all_at(&CODE, room)?;
        // Prevents restarting a system call.
        let registers = Registers { rip: room, rsp: frame, orig_rax: u64::MAX, ..now };
        Ok(Detour { room, registers, call: None })
    }

    /// Sets the process to make this call when it resumes.
    ///
    /// # Errors
    /// If its registers cannot be set.
    pub fn call(&mut self, pid: Pid, number: u64, [a, b, c, d, e, f]: [u64; 6]) -> io::Result<()> {
        let registers =
            Registers { rax: number, rdi: a, rsi: b, rdx: c, r10: d, r8: e, r9: f, ..self.registers };
        self.call = Some((number, false));
        sys::set_registers(pid, &registers)
    }

    /// The call's result, at the beginning or the end of a system call; none if this is not its end.
    ///
    /// # Errors
    /// If the registers cannot be read.
    pub fn result(&mut self, pid: Pid) -> io::Result<Option<u64>> {
        let now = sys::registers(pid)?;
        let Some((number, begun)) = &mut self.call else { return Ok(None) };
        // Otherwise the call is a signal handler's.
        if now.rip != self.room + CALL_BYTES || now.orig_rax != *number {
            return Ok(None);
        }
        Ok(std::mem::replace(begun, true).then_some(now.rax))
    }
}

/// A system call result as an error, if it is one.
pub fn failure(result: u64) -> Option<io::Error> {
    const ERRORS: std::ops::Range<i64> = -4095..0;
    let result = result as i64;
    ERRORS.contains(&result).then(|| io::Error::from_raw_os_error(-result as i32))
}
