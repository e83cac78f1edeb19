//! The seccomp filter: selects the system calls that stop the program; all others run at full speed.
//!
//! It stops calls that create, move, drop, lock or seal memory that may be taken over; that copy the address space;
//! that query or set the processors, which pagewalk has chosen; lock operations that the kernel performs in memory
//! without waiting for a fault; and calls by which a program begins to trace another. The agent's own calls pass,
//! identified by the address of its code.
//!
//! Uninteresting calls pass by their number alone, before anything else is checked: only then does the kernel find out
//! in advance, and skip the filter for them.

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
const AND: u16 = 0x54;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const TRACE: u32 = 0x7ff0_0000;
/// The call waits for the filter's listener. Takes precedence over [`TRACE`].
const NOTIFY: u32 = 0x7fc0_0000;
/// As on kernels without that call.
const NOT_THERE: u32 = 0x0005_0000 | 38;
/// Reports success without doing anything.
const PRETEND: u32 = 0x0005_0000;
const X86_64: u32 = 0xc000_003e;

// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const INSTRUCTION_LOW: u32 = 8;
const INSTRUCTION_HIGH: u32 = 12;
/// The lower half of an argument.
const fn argument(position: u32) -> u32 {
    16 + 8 * position
}

/// Advice that affects private memory differently from shared memory.
#[allow(missing_docs)]
pub mod advice {
    pub const DONTNEED: u64 = 4;
    pub const FREE: u64 = 8;
    pub const REMOVE: u64 = 9;
    pub const WIPE_ON_FORK: u64 = 18;
    pub const POPULATE_READ: u64 = 22;
    pub const POPULATE_WRITE: u64 = 23;
    pub const DONTNEED_LOCKED: u64 = 24;
    pub const COLLAPSE: u64 = 25;
    pub const GUARD_INSTALL: u64 = 102;
    pub const GUARD_REMOVE: u64 = 103;
}
const ADVICE: [u64; 10] = [
    advice::DONTNEED,
    advice::FREE,
    advice::REMOVE,
    advice::WIPE_ON_FORK,
    advice::POPULATE_READ,
    advice::POPULATE_WRITE,
    advice::DONTNEED_LOCKED,
    advice::COLLAPSE,
    advice::GUARD_INSTALL,
    advice::GUARD_REMOVE,
];
/// The operation of `futex`, without flags.
pub const FUTEX_OPERATION: u64 = 0x7f;
/// Operations in which the kernel changes a word without waiting for its fault.
pub mod futex {
    /// They change the first word: `LOCK_PI`, `UNLOCK_PI`, `TRYLOCK_PI`, `LOCK_PI2`.
    pub const FIRST: [u64; 4] = [6, 7, 8, 13];
    /// They change the second: `WAKE_OP`, `WAIT_REQUEUE_PI`, `CMP_REQUEUE_PI`.
    pub const SECOND: [u64; 3] = [5, 11, 12];
}
/// `PR_SET_CHILD_SUBREAPER`.
const ADOPT_ORPHANS: u64 = 36;
/// `UFFDIO_REGISTER`: the program wants to serve faults itself.
pub const UFFDIO_REGISTER: u32 = 0xc020_aa00;
/// `CLONE_VM`.
pub const CLONE_VM: u32 = 0x100;
/// `CLONE_UNTRACED`: the new task asks not to be traced.
pub const CLONE_UNTRACED: u32 = 0x80_0000;
/// Requests of `ptrace` that start tracing.
pub mod trace {
    /// The caller, by its parent.
    pub const ME: u64 = 0;
    /// Another process, which is stopped.
    pub const ATTACH: u64 = 16;
    /// Another process, which keeps running.
    pub const SEIZE: u64 = 0x4206;
}

const fn load(value: u32) -> Instruction {
    Instruction { code: LOAD, when_true: 0, when_false: 0, value }
}

const fn verdict(value: u32) -> Instruction {
    Instruction { code: RETURN, when_true: 0, when_false: 0, value }
}

const fn test(code: u16, value: u32, when_true: u8, when_false: u8) -> Instruction {
    Instruction { code, when_true, when_false, value }
}

/// Returns a verdict if an argument, masked, has one of these values; otherwise the call passes.
fn where_argument(position: u32, mask: u64, values: &[u64], then: u32) -> Vec<Instruction> {
    let mut tests = vec![load(argument(position)), test(AND, mask as u32, 0, 0)];
    for (before, &value) in values.iter().enumerate() {
        tests.push(test(IF_EQUAL, value as u32, (values.len() - before) as u8, 0));
    }
    tests.extend([verdict(ALLOW), verdict(then)]);
    tests
}

/// The calls of interest. The tests of each end in a verdict, so that none falls into the next.
fn cases() -> Vec<(u64, Vec<Instruction>)> {
    const ALL: u64 = u32::MAX as u64;
    let at_fixed_place_or_private_and_either_anonymous_or_writable = vec![
        load(argument(3)),
        test(IF_ANY_BIT, map::FIXED as u32, 4, 0),
        test(IF_ANY_BIT, map::PRIVATE as u32, 0, 4),
        test(IF_ANY_BIT, map::ANONYMOUS as u32, 2, 0),
        load(argument(2)),
        test(IF_ANY_BIT, map::WRITE as u32, 0, 1),
        verdict(TRACE),
        verdict(ALLOW),
    ];
    // Querying the end of the heap changes nothing.
    let not_zero = vec![
        load(argument(0)),
        test(IF_EQUAL, 0, 0, 3),
        load(argument(0) + 4),
        test(IF_EQUAL, 0, 0, 1),
        verdict(ALLOW),
        verdict(TRACE),
    ];
    let copies_memory_or_hides = vec![
        load(argument(0)),
        test(IF_ANY_BIT, CLONE_UNTRACED, 1, 0),
        test(IF_ANY_BIT, CLONE_VM, 1, 0),
        verdict(TRACE),
        verdict(ALLOW),
    ];
    let traces = [trace::ME, trace::ATTACH, trace::SEIZE];
    let locks = [&futex::FIRST[..], &futex::SECOND].concat();
    let always = vec![verdict(TRACE)];
    vec![
        (number::IOCTL, where_argument(1, ALL, &[UFFDIO_REGISTER.into()], TRACE)),
        (number::MADVISE, where_argument(2, ALL, &ADVICE, TRACE)),
        (number::FUTEX, where_argument(1, FUTEX_OPERATION, &locks, TRACE)),
        (number::MMAP, at_fixed_place_or_private_and_either_anonymous_or_writable),
        (number::BRK, not_zero),
        (number::CLONE, copies_memory_or_hides),
        (number::PTRACE, where_argument(0, ALL, &traces, TRACE)),
        (number::MUNMAP, always.clone()),
        (number::MREMAP, always.clone()),
        (number::FORK, always.clone()),
        (number::CLONE3, always.clone()),
        (number::SET_TID_ADDRESS, always.clone()),
        (number::MLOCK, always.clone()),
        (number::MLOCK2, always.clone()),
        (number::MUNLOCK, always.clone()),
        (number::MLOCKALL, always.clone()),
        (number::MUNLOCKALL, always.clone()),
        (number::MSEAL, always.clone()),
        (number::SCHED_GETAFFINITY, always.clone()),
        (number::SCHED_SETAFFINITY, always),
        // The kernel writes to a thread's rseq area after each task switch, and every fault causes one: the area's page
        // would be referenced far more often than the program does. Libraries work without it.
        (number::RSEQ, vec![verdict(NOT_THERE)]),
        // Since Linux 6.13 it equals `madvise` if a process applies it to itself.
        (number::PROCESS_MADVISE, where_argument(3, ALL, &ADVICE, NOT_THERE)),
        // A program that adopts orphans would adopt its agent and wait for it. Orphans come to pagewalk anyway.
        (number::PRCTL, where_argument(0, ALL, &[ADOPT_ORPHANS], PRETEND)),
    ]
}

/// The filter's instructions, in order.
fn instructions() -> Vec<Instruction> {
    let cases = cases();
    let mut out = vec![load(ARCHITECTURE), test(IF_EQUAL, X86_64, 1, 0), verdict(ALLOW), load(NUMBER)];
    for (before, (call, _)) in cases.iter().enumerate() {
        out.push(test(IF_EQUAL, *call as u32, (cases.len() - before) as u8, 0));
    }
    out.extend([
        verdict(ALLOW),
        // The agent's own calls.
        load(INSTRUCTION_HIGH),
        test(IF_EQUAL, (TEXT_BASE >> 32) as u32, 0, 4),
        load(INSTRUCTION_LOW),
        test(IF_AT_LEAST, TEXT_BASE as u32, 0, 2),
        test(IF_AT_LEAST, (TEXT_BASE + TEXT_BYTES) as u32, 1, 0),
        verdict(ALLOW),
        load(NUMBER),
    ]);
    for (call, tests) in cases {
        out.push(test(IF_EQUAL, call as u32, 0, tests.len() as u8));
        out.extend(tests);
    }
    out.push(verdict(ALLOW));
    out
}

/// A filter for a process that is no longer traced: its first filter would make its calls fail without a tracer, and
/// cannot be removed. With this one they wait for the listener, which lets them pass.
///
/// In the kernel's format for this address: the program, followed by its instructions.
pub fn passing(address: u64) -> Vec<u8> {
    let filter: Vec<Instruction> = instructions()
        .into_iter()
        .map(|it| if it == verdict(TRACE) { verdict(NOTIFY) } else { it })
        .collect();
    let head = [filter.len() as u64, address + 16];
    let words = head.map(u64::to_le_bytes).concat();
    let instructions = filter.iter().flat_map(|it| {
        let [low, high] = it.code.to_le_bytes();
        let [a, b, c, d] = it.value.to_le_bytes();
        [low, high, it.when_true, it.when_false, a, b, c, d]
    });
    words.into_iter().chain(instructions).collect()
}

/// The filter, built before its process exists because building allocates.
pub struct Filter(Vec<Instruction>);

impl Filter {
    /// Makes it.
    pub fn new() -> Filter {
        Filter(instructions())
    }

    /// Installs it on this thread and everything it will start. Allocates nothing.
    pub fn install(&self) -> io::Result<()> {
        const SET_NO_NEW_PRIVS: u64 = 38;
        const MODE_FILTER: u64 = 1;
        let program = Program { length: self.0.len() as u16, instructions: self.0.as_ptr() };
        let arguments = [MODE_FILTER, 0, &raw const program as u64, 0, 0, 0];
        // SAFETY: the kernel copies the program, which lives until the end of this function.
        let install = || unsafe { sys::call(number::SECCOMP, arguments) };
        // Without root, a filter requires giving up new privileges, which tracing prevents anyway.
        // SAFETY: no pointers.
        let give_up_hope = || unsafe { sys::call(number::PRCTL, [SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0]) };
        install().or_else(|_| give_up_hope().and_then(|_| install())).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's action on a call, and whether its number alone decides: a slow twin of its interpreter.
    fn run(call: u64, arguments: [u64; 6], instruction: u64) -> (u32, bool) {
        let mut data = [0u8; 64];
        data[0..4].copy_from_slice(&(call as u32).to_le_bytes());
        data[4..8].copy_from_slice(&X86_64.to_le_bytes());
        data[8..16].copy_from_slice(&instruction.to_le_bytes());
        for (position, argument) in arguments.iter().enumerate() {
            data[16 + 8 * position..][..8].copy_from_slice(&argument.to_le_bytes());
        }
        let (program, mut at, mut held, mut by_number) = (instructions(), 0, 0u32, true);
        loop {
            let Instruction { code, when_true, when_false, value } = program[at];
            at += 1;
            let jump = |holds: bool| usize::from(if holds { when_true } else { when_false });
            match code {
                LOAD => {
                    held = u32::from_le_bytes(data[value as usize..][..4].try_into().unwrap());
                    by_number &= value == NUMBER || value == ARCHITECTURE;
                }
                AND => held &= value,
                IF_EQUAL => at += jump(held == value),
                IF_ANY_BIT => at += jump(held & value != 0),
                IF_AT_LEAST => at += jump(held >= value),
                RETURN => return (value, by_number),
                other => panic!("{other:#x}"),
            }
        }
    }

    fn stops(call: u64, arguments: [u64; 6], instruction: u64) -> bool {
        run(call, arguments, instruction).0 == TRACE
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
        for advice in [0, 3, 14] {
            assert!(!stops(number::MADVISE, [0, 0, advice, 0, 0, 0], at), "{advice}");
        }
        const PRIVATE: u64 = 128;
        for operation in [5, 6, 7, 8, 11, 12, 13] {
            assert!(stops(number::FUTEX, [0, operation, 0, 0, 0, 0], at), "{operation}");
            assert!(stops(number::FUTEX, [0, operation | PRIVATE, 0, 0, 0, 0], at), "{operation}");
        }
        for operation in [0, 1, 9 | PRIVATE | 256] {
            assert!(!stops(number::FUTEX, [0, operation, 0, 0, 0, 0], at), "{operation}");
        }
        assert!(stops(number::CLONE, [17, 0, 0, 0, 0, 0], at), "fork");
        assert!(!stops(number::CLONE, [0x3d0f00, 0, 0, 0, 0, 0], at), "a thread");
        assert!(stops(number::CLONE, [0xbd0f00, 0, 0, 0, 0, 0], at), "one that nobody is to follow");
        for request in [trace::ME, trace::ATTACH, trace::SEIZE] {
            assert!(stops(number::PTRACE, [request, 7, 0, 0, 0, 0], at), "{request}");
        }
        assert!(!stops(number::PTRACE, [7, 7, 0, 0, 0, 0], at), "PTRACE_CONT");
        assert!(stops(number::IOCTL, [3, UFFDIO_REGISTER.into(), 0, 0, 0, 0], at));
        assert!(!stops(number::IOCTL, [3, 0x5401, 0, 0, 0, 0], at));
    }

    #[test]
    fn some_calls_are_answered_without_being_made() {
        let at = 0x7f00_0000_1000;
        let verdict = |call, arguments| run(call, arguments, at).0;
        assert_eq!(verdict(number::RSEQ, [0; 6]), NOT_THERE);
        assert_eq!(verdict(number::PROCESS_MADVISE, [3, 0, 1, advice::DONTNEED, 0, 0]), NOT_THERE);
        assert_eq!(verdict(number::PROCESS_MADVISE, [3, 0, 1, 20, 0, 0]), ALLOW, "MADV_COLD");
        assert_eq!(verdict(number::PRCTL, [36, 1, 0, 0, 0, 0]), PRETEND);
        assert_eq!(verdict(number::PRCTL, [15, 0, 0, 0, 0, 0]), ALLOW);
    }

    /// At installation the kernel finds such calls and later skips the filter for them.
    #[test]
    fn calls_of_no_interest_pass_by_their_number() {
        let of_interest: Vec<u64> = cases().into_iter().map(|(call, _)| call).collect();
        for call in 0..512 {
            let by_number = run(call, [0; 6], 0) == (ALLOW, true);
            assert_eq!(by_number, !of_interest.contains(&call), "{call}");
        }
    }

    /// In a detached process, what stops a traced one waits for the listener; and the filter fits its place.
    #[test]
    fn the_filter_that_passes_has_the_same_calls() {
        let (own, passing) = (instructions(), passing(0x1000));
        assert_eq!(passing.len(), 16 + 8 * own.len());
        assert!(passing.len() < 0xe00, "{}", passing.len());
        assert_eq!(passing[..8], (own.len() as u64).to_le_bytes());
        assert_eq!(passing[8..16], 0x1010_u64.to_le_bytes());
        for (at, instruction) in own.iter().enumerate() {
            let value = passing[16 + 8 * at + 4..][..4].try_into().map(u32::from_le_bytes).unwrap();
            let is_verdict = *instruction == verdict(TRACE);
            assert_eq!(value, if is_verdict { NOTIFY } else { instruction.value }, "{at}");
        }
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
