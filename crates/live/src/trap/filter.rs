//! The seccomp filter: which system calls stop the program, so that all others run at full speed.
//!
//! It stops calls that make, move or drop memory that may be taken over, that copy the address space, and that ask or
//! choose the processors, which pagewalk has chosen. The agent's own calls pass: its code lies where nothing else does.

use super::shared::{TEXT_BASE, TEXT_BYTES};
use crate::tracing::sys::{self, map, number};
use std::io;

/// One instruction of the classic packet filter.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u16,
    when_true: u8,
    when_false: u8,
    value: u32,
}

#[repr(C)]
struct Program {
    length: u16,
    instructions: *const Instruction,
}

const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_ANY_BIT: u16 = 0x45;
const IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const TRACE: u32 = 0x7ff0_0000;
/// As in kernels without that call.
const NOT_THERE: u32 = 0x0005_0000 | 38;
const X86_64: u32 = 0xc000_003e;

// Where the parts of a call stand in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const INSTRUCTION_LOW: u32 = 8;
const INSTRUCTION_HIGH: u32 = 12;
/// The lower half of an argument.
const fn argument(position: u32) -> u32 {
    16 + 8 * position
}

/// Advice to `madvise` that private memory takes otherwise than shared memory.
#[allow(missing_docs)]
pub mod advice {
    pub const DONTNEED: u64 = 4;
    pub const FREE: u64 = 8;
    pub const WIPE_ON_FORK: u64 = 18;
    pub const DONTNEED_LOCKED: u64 = 24;
}
const ADVICE: [u64; 4] = [advice::DONTNEED, advice::FREE, advice::WIPE_ON_FORK, advice::DONTNEED_LOCKED];
/// `UFFDIO_REGISTER`: the program wants to serve faults itself.
pub const UFFDIO_REGISTER: u32 = 0xc020_aa00;
/// `CLONE_VM`.
pub const CLONE_VM: u32 = 0x100;

/// The filter, in order of its tests. Every test of a call ends in a verdict, so that none falls into the next.
fn instructions() -> Vec<Instruction> {
    let load = |value| Instruction { code: LOAD, when_true: 0, when_false: 0, value };
    let verdict = |value| Instruction { code: RETURN, when_true: 0, when_false: 0, value };
    let test = |code, value, when_true, when_false| Instruction { code, when_true, when_false, value };
    let mut out = vec![
        load(ARCHITECTURE),
        test(IF_EQUAL, X86_64, 1, 0),
        verdict(ALLOW),
        // The agent's own calls.
        load(INSTRUCTION_HIGH),
        test(IF_EQUAL, (TEXT_BASE >> 32) as u32, 0, 4),
        load(INSTRUCTION_LOW),
        test(IF_AT_LEAST, TEXT_BASE as u32, 0, 2),
        test(IF_AT_LEAST, (TEXT_BASE + TEXT_BYTES) as u32, 1, 0),
        verdict(ALLOW),
        load(NUMBER),
    ];
    let mut when = |call: u64, tests: Vec<Instruction>| {
        out.push(test(IF_EQUAL, call as u32, 0, tests.len() as u8));
        out.extend(tests);
    };
    for always in [
        number::MUNMAP,
        number::MREMAP,
        number::FORK,
        number::CLONE3,
        number::SET_TID_ADDRESS,
        number::SCHED_GETAFFINITY,
        number::SCHED_SETAFFINITY,
    ] {
        when(always, vec![verdict(TRACE)]);
    }
    // The kernel writes to a thread's area of restartable sequences after each switch of tasks, and every fault is one:
    // the area's page would be referenced far more often than the program does. Libraries do without.
    when(number::RSEQ, vec![verdict(NOT_THERE)]);
    // At a fixed place, or private and either anonymous or writable.
    when(
        number::MMAP,
        vec![
            load(argument(3)),
            test(IF_ANY_BIT, map::FIXED as u32, 4, 0),
            test(IF_ANY_BIT, map::PRIVATE as u32, 0, 4),
            test(IF_ANY_BIT, map::ANONYMOUS as u32, 2, 0),
            load(argument(2)),
            test(IF_ANY_BIT, map::WRITE as u32, 0, 1),
            verdict(TRACE),
            verdict(ALLOW),
        ],
    );
    // To ask where the heap ends changes nothing.
    when(
        number::BRK,
        vec![
            load(argument(0)),
            test(IF_EQUAL, 0, 0, 3),
            load(argument(0) + 4),
            test(IF_EQUAL, 0, 0, 1),
            verdict(ALLOW),
            verdict(TRACE),
        ],
    );
    let mut tests = vec![load(argument(2))];
    for (position, value) in ADVICE.into_iter().enumerate() {
        tests.push(test(IF_EQUAL, value as u32, (ADVICE.len() - position) as u8, 0));
    }
    tests.extend([verdict(ALLOW), verdict(TRACE)]);
    when(number::MADVISE, tests);
    when(
        number::CLONE,
        vec![load(argument(0)), test(IF_ANY_BIT, CLONE_VM, 1, 0), verdict(TRACE), verdict(ALLOW)],
    );
    when(
        number::IOCTL,
        vec![load(argument(1)), test(IF_EQUAL, UFFDIO_REGISTER, 0, 1), verdict(TRACE), verdict(ALLOW)],
    );
    out.push(verdict(ALLOW));
    out
}

/// The filter, made before the process that is to have it: making it allocates.
pub struct Filter(Vec<Instruction>);

impl Filter {
    /// Makes it.
    pub fn new() -> Filter {
        Filter(instructions())
    }

    /// Puts it on this thread and all that it will start. Allocates nothing.
    pub fn install(&self) -> io::Result<()> {
        const SET_NO_NEW_PRIVS: u64 = 38;
        const MODE_FILTER: u64 = 1;
        let program = Program { length: self.0.len() as u16, instructions: self.0.as_ptr() };
        let arguments = [MODE_FILTER, 0, &raw const program as u64, 0, 0, 0];
        // SAFETY: the kernel copies the program, which lives until the end of this function.
        let install = || unsafe { sys::call(number::SECCOMP, arguments) };
        // Who is not root may have a filter only without hope of new privileges, which tracing denies anyway.
        // SAFETY: no pointers.
        let give_up_hope = || unsafe { sys::call(number::PRCTL, [SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0]) };
        install().or_else(|_| give_up_hope().and_then(|_| install())).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel would do with a call: a slow twin of its interpreter.
    fn stops(call: u64, arguments: [u64; 6], instruction: u64) -> bool {
        let mut data = [0u8; 64];
        data[0..4].copy_from_slice(&(call as u32).to_le_bytes());
        data[4..8].copy_from_slice(&X86_64.to_le_bytes());
        data[8..16].copy_from_slice(&instruction.to_le_bytes());
        for (position, argument) in arguments.iter().enumerate() {
            data[16 + 8 * position..][..8].copy_from_slice(&argument.to_le_bytes());
        }
        let (program, mut at, mut held) = (instructions(), 0, 0u32);
        loop {
            let Instruction { code, when_true, when_false, value } = program[at];
            at += 1;
            let jump = |holds: bool| usize::from(if holds { when_true } else { when_false });
            match code {
                LOAD => {
                    held = u32::from_le_bytes(data[value as usize..][..4].try_into().unwrap());
                }
                IF_EQUAL => at += jump(held == value),
                IF_ANY_BIT => at += jump(held & value != 0),
                IF_AT_LEAST => at += jump(held >= value),
                RETURN => return value == TRACE,
                other => panic!("{other:#x}"),
            }
        }
    }

    #[test]
    fn calls_that_change_memory_stop_and_others_do_not() {
        let at = 0x7f00_0000_1000;
        let mmap = |protection, flags| stops(number::MMAP, [0, 4096, protection, flags, 0, 0], at);
        assert!(mmap(map::READ | map::WRITE, map::PRIVATE | map::ANONYMOUS));
        assert!(mmap(0, map::PRIVATE | map::ANONYMOUS | map::NORESERVE), "a reservation");
        assert!(mmap(map::READ | map::WRITE, map::PRIVATE), "data of a file");
        assert!(mmap(map::READ, map::SHARED | map::FIXED), "may replace what was taken over");
        assert!(!mmap(map::READ | map::EXEC, map::PRIVATE), "code of a file");
        assert!(!mmap(map::READ | map::WRITE, map::SHARED));
        for call in [number::MUNMAP, number::MREMAP, number::FORK, number::CLONE3] {
            assert!(stops(call, [0; 6], at), "{call}");
        }
        for call in [0, 1, number::MPROTECT, number::WAIT4] {
            assert!(!stops(call, [0; 6], at), "{call}");
        }
        assert!(!stops(number::BRK, [0; 6], at));
        assert!(stops(number::BRK, [0x1000, 0, 0, 0, 0, 0], at));
        assert!(stops(number::BRK, [1 << 40, 0, 0, 0, 0, 0], at));
        for advice in ADVICE {
            assert!(stops(number::MADVISE, [0, 0, advice, 0, 0, 0], at), "{advice}");
        }
        for advice in [0, 3, 14, 25] {
            assert!(!stops(number::MADVISE, [0, 0, advice, 0, 0, 0], at), "{advice}");
        }
        assert!(stops(number::CLONE, [17, 0, 0, 0, 0, 0], at), "fork");
        assert!(!stops(number::CLONE, [0x3d0f00, 0, 0, 0, 0, 0], at), "a thread");
        assert!(stops(number::IOCTL, [3, UFFDIO_REGISTER.into(), 0, 0, 0, 0], at));
        assert!(!stops(number::IOCTL, [3, 0x5401, 0, 0, 0, 0], at));
    }

    #[test]
    fn the_agents_own_calls_pass() {
        for at in [TEXT_BASE, TEXT_BASE + TEXT_BYTES - 1] {
            assert!(!stops(number::MUNMAP, [0; 6], at));
        }
        for at in [TEXT_BASE - 1, TEXT_BASE + TEXT_BYTES] {
            assert!(stops(number::MUNMAP, [0; 6], at));
        }
    }
}
