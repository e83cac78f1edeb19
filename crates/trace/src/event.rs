//! Rare events and the stream's header. All of it is serialisable: files store events as JSON.

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
    /// Whether any access is allowed.
    pub fn allows_some(self) -> bool {
        self.read || self.write || self.execute
    }
}

/// The file behind a mapping.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Its path as the traced program's kernel names it.
    pub path: String,
    /// Offset in the file of the mapping's first byte.
    pub offset: u64,
    /// GNU build-id in lower-case hex, if it is an ELF file with one.
    pub build_id: Option<String>,
}

/// Kinds of mappings.
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
    /// Memory that the stream refers to, of whose mapping it says nothing: taken to be private and anonymous.
    Inferred,
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
    /// Its kind.
    pub kind: MappingKind,
    /// The file, for file mappings.
    pub file: Option<FileIdentity>,
    /// Page size in bytes, a power of two: 4096, or more from hugetlb (`MAP_HUGETLB` and similar). Omitted from files
    /// if it is 4096.
    #[serde(
        default = "page_bytes::usual",
        deserialize_with = "page_bytes::deserialize",
        skip_serializing_if = "page_bytes::is_usual"
    )]
    pub page_bytes: u64,
}

impl Mapping {
    /// Largest page of a mapping: what an entry of the top level of x86-64's page tables maps.
    pub const PAGE_BYTES_MAX: u64 = 1 << 39;

    /// Private memory that may be read and written, without a file, on base pages.
    pub fn anonymous(start: VirtAddr, bytes: u64) -> Mapping {
        Mapping {
            start,
            bytes,
            protection: Protection { read: true, write: true, execute: false },
            kind: MappingKind::Anonymous,
            file: None,
            page_bytes: PAGE_BYTES,
        }
    }

    /// Whether mappings can have this page size.
    pub fn may_have_pages_of(bytes: u64) -> bool {
        bytes.is_power_of_two() && (PAGE_BYTES..=Mapping::PAGE_BYTES_MAX).contains(&bytes)
    }
}

/// The transparent huge pages that a process forbids (`prctl(PR_SET_THP_DISABLE)`). Children inherit it, and so do
/// programs after exec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThpDisable {
    /// Nothing.
    #[default]
    Off,
    /// All of them.
    All,
    /// All except where `madvise` requests them (`PR_THP_DISABLE_EXCEPT_ADVISED`, Linux 6.18).
    ExceptAdvised,
}

impl ThpDisable {
    /// The mode with this number in the engine's stream; `None` for other numbers.
    pub fn from_code(code: u64) -> Option<ThpDisable> {
        [ThpDisable::Off, ThpDisable::All, ThpDisable::ExceptAdvised]
            .get(usize::try_from(code).ok()?)
            .copied()
    }
}

/// A rare event, at its exact place in the stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// Memory was mapped (replacing whatever was there), or existed at the program's start.
    Map(Mapping),
    /// A range was unmapped.
    Unmap {
        /// First byte.
        #[serde(with = "address")]
        start: VirtAddr,
        /// Length in bytes.
        bytes: u64,
    },
    /// A range moved or changed its size. The old range is unmapped unless the two overlap.
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
    /// A thread started.
    ThreadStart {
        /// The new thread.
        thread: u32,
        /// The thread that started it.
        parent: u32,
    },
    /// A thread ended.
    ThreadEnd {
        /// The thread.
        thread: u32,
    },
    /// Another thread runs from here on.
    Switch {
        /// The thread that runs now.
        thread: u32,
    },
    /// The process forked; the child has a stream of its own.
    Fork {
        /// The child's process id.
        child: u32,
    },
    /// The process is about to become another program, with its own stream (if the call succeeds).
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
    /// The stream ended properly.
    Exit {
        /// The process's exit status.
        status: i32,
    },
    /// Something was lost here.
    Lost {
        /// What was lost, and why.
        what: String,
    },
    /// The process changed which transparent huge pages it forbids.
    ThpDisable {
        /// The new mode.
        mode: ThpDisable,
    },
    /// All threads of the process slept here.
    Idle {
        /// For how long, in nanoseconds.
        nanoseconds: u64,
    },
    /// Some of the instructions just before were a thread waiting by spinning.
    Spin {
        /// Number of instructions.
        instructions: u64,
    },
    /// Outside the region of interest a system call, which does not count there, reported a child's end.
    Reaped {
        /// The child's process id.
        child: u32,
    },
    /// Another image has replaced this one of the process: its memory is gone.
    Replaced,
}

impl Event {
    /// `wait4` on x86-64, which implements `wait` and `waitpid`.
    pub(crate) const WAIT4: u32 = 61;

    /// The child whose end a system call reported, if it did.
    pub fn reaped(&self) -> Option<u32> {
        match *self {
            Event::Reaped { child } => Some(child),
            Event::Syscall { number: Event::WAIT4, result } => {
                u32::try_from(result).ok().filter(|&child| child > 0)
            }
            _ => None,
        }
    }

    /// Stands for what is left out.
    pub const NOTHING: Event = Event::Idle { nanoseconds: 0 };

    /// Whether it says nothing, so that nobody need hear of it.
    pub fn is_nothing(&self) -> bool {
        *self == Event::NOTHING
    }

    /// Whether it changes what is mapped where.
    pub fn moves_memory(&self) -> bool {
        matches!(self, Event::Map(_) | Event::Unmap { .. } | Event::Remap { .. } | Event::Break { .. })
    }

    /// The thread that runs after this event, if the event changes it.
    pub fn switches_to(&self) -> Option<ThreadId> {
        match self {
            Event::Switch { thread } => Some(ThreadId(*thread)),
            _ => None,
        }
    }
}

/// How a process image began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The command given by the user.
    Start,
    /// `fork` (or `vfork`, `clone`) by its parent.
    Fork,
    /// `exec` in a traced process.
    Exec,
    /// Read from another tool's file.
    Import,
}

/// A stream's properties, known before its first item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamHeader {
    /// Process id, 0 where unknown.
    pub pid: u32,
    /// Parent's process id, 0 where unknown.
    pub parent: u32,
    /// How the process image began.
    pub origin: Origin,
    /// The program's path.
    pub program: String,
    /// The command line, program first.
    pub arguments: Vec<String>,
    /// The engine's name and version.
    pub engine: String,
    /// Transparent huge page mode of the recording host: `always`, `madvise`, `never` or `unknown`.
    pub thp: String,
    /// CPU model of the recording host.
    pub cpu: String,
    /// Kernel release of the recording host.
    pub kernel: String,
    /// What is kept of data addresses; omitted from files if everything is.
    #[serde(default, skip_serializing_if = "Grain::is_byte")]
    pub grain: Grain,
    /// Where areas are inferred from references: the gap in bytes, up to which pages are surely in one area. Omitted
    /// from files if the stream's mappings are the program's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inferred_gap: Option<u64>,
}

impl StreamHeader {
    /// A header in which only the origin is known.
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
            inferred_gap: None,
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
