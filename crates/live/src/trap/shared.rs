//! Definitions shared with the agent: `agent/shared.h` in Rust.

/// The address of the agent's code in every program.
pub const TEXT_BASE: u64 = 0x6a50_0000_0000;
/// Room for it.
pub const TEXT_BYTES: u64 = 0x4000;
/// Its stacks, with [`Start`] at their bottom.
pub const STACK_BASE: u64 = TEXT_BASE + TEXT_BYTES;
/// Room for them.
pub const STACK_BYTES: u64 = 0x8000;
/// Top of the starter task's stack.
pub const STARTER_STACK: u64 = STACK_BASE + 0x1000;
/// The end of the agent's address range.
pub const AGENT_END: u64 = TEXT_BASE + 0x2_0000_0000;
/// Bytes before the log in the control file.
pub const CONTROL_HEADER: usize = 4096;
/// No page: an empty way, or no victim.
pub const NO_PAGE: u64 = u64::MAX;

/// The agent's descriptors that pagewalk opens.
pub mod descriptor {
    /// The file that holds the program's memory.
    pub const MEMORY: u32 = 1;
    /// Counters and the log.
    pub const CONTROL: u32 = 2;
    /// Where commands are written.
    pub const COMMANDS_IN: u32 = 4;
    /// Where replies are read.
    pub const REPLIES_OUT: u32 = 5;
}

/// The agent's parameters, and the result of its start.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct Start {
    pub sets: u64,
    pub ways: u64,
    pub replacement: u64,
    pub seed: u64,
    pub index: u64,
    pub index_bits: u64,
    pub log_entries: u64,
    pub reserved: u64,
    pub agent: i32,
    pub ready: u32,
    pub failure: i64,
    pub step: i64,
}

impl Start {
    /// Its bytes, as in the program's memory.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: words without padding.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast::<u8>(), size_of::<Start>()) }
    }

    /// Its bytes, to read into.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: any bytes are such words.
        unsafe { std::slice::from_raw_parts_mut((&raw mut *self).cast::<u8>(), size_of::<Start>()) }
    }
}

/// [`Start::ready`] of an agent that works.
pub const READY: u32 = 1;

/// What a failed agent was doing.
pub fn step_name(step: i64) -> &'static str {
    match step {
        1 => "starting a task in the program's memory",
        2 => "userfaultfd",
        3 => "asking userfaultfd for minor faults of shared memory",
        4 => "making the file for its memory",
        5 => "making the control file",
        6 => "making pipes",
        7 => "making the array",
        _ => "its start, where somebody killed it",
    }
}

/// The agent's counters, at the start of the control file.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counters {
    pub misses: u64,
    pub evictions: u64,
    pub refills: u64,
    pub zeroed: u64,
    pub foreign: u64,
    pub forgotten: u64,
    pub log_head: u64,
    pub log_tail: u64,
}

/// One decision in the log.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct LogEntry {
    pub what_and_page: u64,
    pub victim: u64,
}

/// `enum decision`.
pub mod decision {
    /// A page came in, perhaps evicting another.
    pub const MISS: u64 = 1;
    /// A page left because its memory is gone.
    pub const FORGET: u64 = 2;
}

/// `struct command`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Command {
    pub what: u64,
    pub number: u64,
    pub arguments: [u64; 6],
}

/// `enum order`.
#[allow(missing_docs)]
pub mod order {
    pub const CALL: u64 = 1;
    pub const REGISTER: u64 = 2;
    pub const FORGET: u64 = 3;
    pub const FREEZE: u64 = 4;
    pub const THAW: u64 = 5;
    pub const KEEP: u64 = 6;
    pub const RELEASE: u64 = 7;
    pub const ATTACHED: u64 = 8;
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../../agent/shared.h");

    /// The number after `text` in the header.
    fn number_after(text: &str) -> u64 {
        let at = HEADER.find(text).unwrap_or_else(|| panic!("{text:?} is not in shared.h")) + text.len();
        let word = HEADER[at..].trim_start().split([',', '\n', ' ', ';', ')']).next().unwrap();
        let word = word.trim_end_matches("ul");
        let hexadecimal = word.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
        hexadecimal.unwrap_or_else(|| word.parse()).unwrap()
    }

    #[test]
    fn the_header_says_the_same() {
        assert_eq!(number_after("#define TEXT_BASE"), TEXT_BASE);
        assert_eq!(number_after("#define TEXT_BYTES"), TEXT_BYTES);
        assert_eq!(number_after("#define STACK_BYTES"), STACK_BYTES);
        assert_eq!(number_after("#define CONTROL_HEADER"), CONTROL_HEADER as u64);
        let orders = [
            ("CALL", order::CALL),
            ("REGISTER", order::REGISTER),
            ("FORGET", order::FORGET),
            ("FREEZE", order::FREEZE),
            ("THAW", order::THAW),
            ("KEEP", order::KEEP),
            ("RELEASE", order::RELEASE),
            ("ATTACHED", order::ATTACHED),
        ];
        for (name, value) in orders {
            assert_eq!(number_after(&format!("ORDER_{name} =")), value, "{name}");
        }
        assert_eq!(number_after("LOG_MISS ="), decision::MISS);
        assert_eq!(number_after("LOG_FORGET ="), decision::FORGET);
        for (name, value) in [
            ("MEMORY", descriptor::MEMORY),
            ("CONTROL", descriptor::CONTROL),
            ("COMMANDS_IN", descriptor::COMMANDS_IN),
            ("REPLIES_OUT", descriptor::REPLIES_OUT),
        ] {
            assert_eq!(number_after(&format!(" {name} =")), u64::from(value), "{name}");
        }
    }

    /// entry.S contains these as numbers.
    #[test]
    fn the_start_is_laid_out_as_the_assembler_has_it() {
        assert_eq!(std::mem::offset_of!(Start, agent), 64);
        assert_eq!(std::mem::offset_of!(Start, ready), 68);
        assert_eq!(std::mem::offset_of!(Start, failure), 72);
        assert_eq!(std::mem::offset_of!(Start, step), 80);
        assert_eq!(size_of::<Counters>(), 64);
        assert_eq!(size_of::<Command>(), 64);
    }
}
