//! The records of a file: numbers of `trace_entry.h` in DynamoRIO's `clients/drcachesim/common`.

/// Bytes of a record: a type, a size or sub-type, a value; packed, little-endian.
pub(crate) const RECORD_BYTES: usize = 12;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// A number of [`kind`].
    pub kind: u16,
    /// Bytes; for a marker, a number of [`marker`].
    pub size: u16,
    /// An address or another value.
    pub value: u64,
}

impl Record {
    #[inline(always)]
    pub fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Record {
        let [k0, k1, s0, s1, value @ ..] = *bytes;
        Record {
            kind: u16::from_le_bytes([k0, k1]),
            size: u16::from_le_bytes([s0, s1]),
            value: u64::from_le_bytes(value),
        }
    }

    pub fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..2].copy_from_slice(&self.kind.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.size.to_le_bytes());
        bytes[4..].copy_from_slice(&self.value.to_le_bytes());
        bytes
    }
}

/// Types of records (`trace_type_t`).
pub(crate) mod kind {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const PREFETCH: u16 = 2;
    pub const PREFETCH_LAST: u16 = 9;
    pub const INSTR: u16 = 10;
    pub const DIRECT_JUMP: u16 = 11;
    pub const INDIRECT_JUMP: u16 = 12;
    pub const CONDITIONAL_JUMP: u16 = 13;
    pub const DIRECT_CALL: u16 = 14;
    pub const INDIRECT_CALL: u16 = 15;
    pub const RETURN: u16 = 16;
    /// Only in streams between processes, never in files.
    pub const BUNDLE: u16 = 17;
    pub const FLUSH: u16 = 18;
    pub const FLUSH_LAST: u16 = 21;
    pub const THREAD: u16 = 22;
    pub const THREAD_EXIT: u16 = 23;
    pub const PID: u16 = 24;
    pub const HEADER: u16 = 25;
    pub const FOOTER: u16 = 26;
    pub const HARDWARE_PREFETCH: u16 = 27;
    pub const MARKER: u16 = 28;
    pub const NO_FETCH: u16 = 29;
    /// Only in streams between processes, never in files.
    pub const MAYBE_FETCH: u16 = 30;
    pub const SYSENTER: u16 = 31;
    pub const LATER_PREFETCH: u16 = 32;
    pub const LATER_PREFETCH_LAST: u16 = 46;
    pub const ENCODING: u16 = 47;
    pub const TAKEN_JUMP: u16 = 48;
    pub const UNTAKEN_JUMP: u16 = 49;
}

/// Sub-types of markers (`trace_marker_type_t`) that are told apart or written here.
pub(crate) mod marker {
    pub const KERNEL_EVENT: u16 = 0;
    pub const KERNEL_XFER: u16 = 1;
    pub const TIMESTAMP: u16 = 2;
    pub const CPU_ID: u16 = 3;
    pub const FUNC_ID: u16 = 4;
    pub const FUNC_RETVAL: u16 = 7;
    pub const FILETYPE: u16 = 9;
    pub const CACHE_LINE_SIZE: u16 = 10;
    pub const VERSION: u16 = 12;
    pub const WINDOW_ID: u16 = 14;
    pub const PHYSICAL_ADDRESS: u16 = 15;
    pub const VIRTUAL_ADDRESS: u16 = 17;
    pub const PAGE_SIZE: u16 = 18;
    pub const CHUNK_INSTR_COUNT: u16 = 20;
    pub const CHUNK_FOOTER: u16 = 21;
    pub const RECORD_ORDINAL: u16 = 22;
    pub const SYSCALL: u16 = 25;
    pub const SYSCALL_FAILED: u16 = 30;
    /// From here on, the program's own.
    pub const RESERVED_END: u16 = 100;
}

/// Bits of the marker `FILETYPE` (`offline_file_type_t`).
pub(crate) mod file_type {
    pub const INSTRUCTION_ONLY: u64 = 4;
    pub const X86_64: u64 = 0x40;
    pub const ARCHITECTURES: u64 = 0x78;
    /// Instructions have their bytes.
    pub const ENCODINGS: u64 = 0x200;
    pub const SYSCALL_NUMBERS: u64 = 0x400;
    /// By instructions' addresses, by data addresses, or by both.
    pub const FILTERED: u64 = 0x181;
}
