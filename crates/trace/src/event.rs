//! Rare events and the stream's header. All of it is serialisable, as events are stored as JSON in files.

use crate::Grain;
use pagewalk_units::{PAGE_BYTES, ThreadId, VirtAddr};
use serde::{Deserialize, Serialize};

/// Access rights of a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Protection {
    /// May be read.
    pub read: bool,
    /// May be written.
    pub write: bool,
    /// May be executed.
    pub execute: bool,
}

impl Protection {
    /// Whether it allows any use at all.
    pub fn allows_some(self) -> bool {
        self.read || self.write || self.execute
    }
}

/// The file behind a mapping.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Path as the traced program's kernel names it.
    pub path: String,
    /// Offset in the file of the mapping's first byte.
    pub offset: u64,
    /// GNU build-id in lower-case hex, where the file is an ELF object that has one.
    pub build_id: Option<String>,
}

/// What a mapping is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MappingKind {
    /// Private anonymous memory.
    Anonymous,
    /// Shared anonymous memory or shared memory segments.
    SharedAnonymous,
    /// The program break.
    Heap,
    /// The first thread's stack.
    Stack,
    /// Private mapping of a file.
    File,
    /// Shared mapping of a file.
    SharedFile,
    /// Provided by the kernel (vdso, vvar, vsyscall).
    Kernel,
}

/// A range of virtual addresses and what backs it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mapping {
    /// First byte, a multiple of `page_bytes`.
    #[serde(with = "address")]
    pub start: VirtAddr,
    /// Length in bytes, a multiple of `page_bytes`.
    pub bytes: u64,
    /// Access rights.
    pub protection: Protection,
    /// What it is made of.
    pub kind: MappingKind,
    /// The file, for file mappings.
    pub file: Option<FileIdentity>,
    /// Bytes of the pages that back it, a power of two: 4096, and more where the program has it from hugetlb
    /// (`MAP_HUGETLB` and its like). Left out of files where it is 4096.
    #[serde(
        default = "page_bytes::usual",
        deserialize_with = "page_bytes::deserialize",
        skip_serializing_if = "page_bytes::is_usual"
    )]
    pub page_bytes: u64,
}

impl Mapping {
    /// Largest page that a mapping can have: what one entry of the highest level of x86-64's page tables maps.
    pub const PAGE_BYTES_MAX: u64 = 1 << 39;

    /// Whether mappings can have pages of so many bytes.
    pub fn may_have_pages_of(bytes: u64) -> bool {
        bytes.is_power_of_two() && (PAGE_BYTES..=Mapping::PAGE_BYTES_MAX).contains(&bytes)
    }
}

/// What a process forbids the kernel of transparent huge pages (`prctl(PR_SET_THP_DISABLE)`). Children inherit it,
/// and so
/// do programs that it becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThpDisable {
    /// Nothing.
    #[default]
    Off,
    /// All of them.
    All,
    /// All but those that `madvise` asks for (`PR_THP_DISABLE_EXCEPT_ADVISED`, Linux 6.18).
    ExceptAdvised,
}

impl ThpDisable {
    /// The one with this number in the engine's stream; others are `None`.
    pub fn from_code(code: u64) -> Option<ThpDisable> {
        [ThpDisable::Off, ThpDisable::All, ThpDisable::ExceptAdvised]
            .get(usize::try_from(code).ok()?)
            .copied()
    }
}

/// Something rare, at its exact place in the stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// Memory was mapped (replacing whatever was there), or was there when the program started.
    Map(Mapping),
    /// A range was unmapped.
    Unmap {
        /// First byte.
        #[serde(with = "address")]
        start: VirtAddr,
        /// Length in bytes.
        bytes: u64,
    },
    /// A range moved or changed its size. The old range is gone unless the two overlap.
    Remap {
        /// Old first byte.
        #[serde(with = "address")]
        old_start: VirtAddr,
        /// Old length in bytes.
        old_bytes: u64,
        /// New first byte.
        #[serde(with = "address")]
        new_start: VirtAddr,
        /// New length in bytes.
        new_bytes: u64,
    },
    /// The program break moved.
    Break {
        /// Break before, rounded up to a page.
        #[serde(with = "address")]
        old_end: VirtAddr,
        /// Break after, rounded up to a page.
        #[serde(with = "address")]
        new_end: VirtAddr,
    },
    /// Access rights changed.
    Protect {
        /// First byte.
        #[serde(with = "address")]
        start: VirtAddr,
        /// Length in bytes.
        bytes: u64,
        /// The new rights.
        protection: Protection,
    },
    /// `madvise` succeeded.
    Advise {
        /// First byte.
        #[serde(with = "address")]
        start: VirtAddr,
        /// Length in bytes.
        bytes: u64,
        /// The kernel's number of the advice (`MADV_HUGEPAGE` is 14).
        advice: i32,
    },
    /// A thread came to be.
    ThreadStart {
        /// The new thread.
        thread: u32,
        /// The thread that made it.
        parent: u32,
    },
    /// A thread ended.
    ThreadEnd {
        /// The thread.
        thread: u32,
    },
    /// From here on another thread runs.
    Switch {
        /// The thread that runs from here on.
        thread: u32,
    },
    /// The process forked; the child has a stream of its own.
    Fork {
        /// The child's process id.
        child: u32,
    },
    /// The process is about to become another program, in a stream of its own (if the call succeeds).
    Exec {
        /// The program named in the call.
        path: String,
    },
    /// A system call returned.
    Syscall {
        /// Its number (x86-64 Linux).
        number: u32,
        /// Its result; negative values are `-errno`.
        result: i64,
    },
    /// The program passed a marker (a Valgrind client request).
    Marker {
        /// The marker's number.
        id: u64,
    },
    /// The stream ended in good order.
    Exit {
        /// The process's exit status.
        status: i32,
    },
    /// Something was lost at this place; the text says what and why.
    Lost {
        /// What was lost.
        what: String,
    },
    /// From here on the process forbids transparent huge pages otherwise than before.
    ThpDisable {
        /// What it forbids.
        mode: ThpDisable,
    },
    /// No thread of the process ran for a while here: all slept.
    Idle {
        /// How long, in nanoseconds.
        nanoseconds: u64,
    },
    /// So many of the instructions executed just before were a thread waiting by spinning.
    Spin {
        /// Instructions.
        instructions: u64,
    },
}

impl Event {
    /// Whether it says what is mapped where.
    pub fn moves_memory(&self) -> bool {
        matches!(self, Event::Map(_) | Event::Unmap { .. } | Event::Remap { .. } | Event::Break { .. })
    }

    /// The thread that runs after this event, where the event changes it.
    pub fn switches_to(&self) -> Option<ThreadId> {
        match self {
            Event::Switch { thread } => Some(ThreadId(*thread)),
            _ => None,
        }
    }
}

/// How a process image came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The command given by the user.
    Start,
    /// `fork` (or `vfork`, `clone`) by its parent.
    Fork,
    /// `exec` in a process that was traced before.
    Exec,
    /// Read from another tool's file.
    Import,
}

/// What is known of a stream before its first item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamHeader {
    /// Process id, 0 where unknown.
    pub pid: u32,
    /// Parent's process id, 0 where unknown.
    pub parent: u32,
    /// How the process image came to be.
    pub origin: Origin,
    /// The program's path.
    pub program: String,
    /// The command line, program first.
    pub arguments: Vec<String>,
    /// The engine with its version.
    pub engine: String,
    /// Transparent huge page mode of the recording host: `always`, `madvise`, `never` or `unknown`.
    pub thp: String,
    /// CPU model of the recording host.
    pub cpu: String,
    /// Kernel release of the recording host.
    pub kernel: String,
    /// What is kept of the addresses of data references; left out of files where that is all.
    #[serde(default, skip_serializing_if = "Grain::is_byte")]
    pub grain: Grain,
}

impl StreamHeader {
    /// The header of a stream of which only this is known.
    pub fn unknown(origin: Origin) -> StreamHeader {
        let unknown = || "unknown".to_owned();
        StreamHeader {
            pid: 0,
            parent: 0,
            origin,
            program: unknown(),
            arguments: Vec::new(),
            engine: unknown(),
            thp: unknown(),
            cpu: unknown(),
            kernel: unknown(),
            grain: Grain::Byte,
        }
    }
}

mod address {
    use pagewalk_units::VirtAddr;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(address: &VirtAddr, to: S) -> Result<S::Ok, S::Error> {
        address.0.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<VirtAddr, D::Error> {
        u64::deserialize(from).map(VirtAddr)
    }
}

mod page_bytes {
    use super::Mapping;
    use pagewalk_units::PAGE_BYTES;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer};

    pub fn usual() -> u64 {
        PAGE_BYTES
    }

    pub fn is_usual(bytes: &u64) -> bool {
        *bytes == PAGE_BYTES
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let bytes = u64::deserialize(from)?;
        let wrong = || format!("page_bytes is {bytes}: expected a power of two from 4096 to 2^39");
        if Mapping::may_have_pages_of(bytes) { Ok(bytes) } else { Err(D::Error::custom(wrong())) }
    }
}
