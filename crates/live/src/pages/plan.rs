//! The plan of huge pages: which ranges of a program's memory are to be on them, and what was forecast of that.
//!
//! A range is named by what stays the same from run to run: the heap by bytes from its beginning, anonymous memory by
//! the size and the order of its mapping, files by offsets.

mod check;
mod text;

use std::fs;
use std::io;
use std::path::Path;

/// The schema that this version reads and writes.
pub const SCHEMA: &str = "pagewalk.plan/1";
/// Addresses and sizes are multiples of it.
pub const PAGE_BYTES: u64 = 4096;
/// No range may reach beyond it: what a program on x86-64 can address.
pub const LIMIT: u64 = 1 << 47;
/// Ranges that a plan may have.
pub const RANGES_MAX: usize = 1024;
/// The sizes of pages that a range may ask for.
pub const PAGES: [&str; 1] = ["2M"];

/// A plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What it was made for.
    pub program: Program,
    /// Where the forecast was made; information.
    pub host: Option<Host>,
    /// What all ranges together should bring; none of plans by hand.
    pub forecast: Option<Forecast>,
    /// The ranges, in any order.
    pub ranges: Vec<Range>,
}

/// The program of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its path.
    pub path: String,
    /// Its GNU build-id in hexadecimal.
    pub build_id: Option<String>,
    /// The arguments that the plan was made with; information.
    pub arguments: Vec<String>,
}

/// The host where a forecast was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The kernel's release.
    pub kernel: String,
    /// The mode of transparent huge pages: `always`, `madvise` or `never`.
    pub thp: String,
}

/// What a plan should bring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Processor time of a run without the plan, in user mode and in the kernel, measured, in seconds.
    pub seconds_now: f64,
    /// The same of a run with it, modelled.
    pub seconds: f64,
    /// The lower end of the 90 % interval of `seconds`.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Memory that it takes more, in MiB.
    pub memory_mib: f64,
}

/// A range of memory that is to be on huge pages.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// Which memory.
    pub what: What,
    /// What was forecast of it alone.
    pub gain: Gain,
}

/// What a range alone should bring; each may be unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gain {
    /// Run time saved, in seconds.
    pub seconds_saved: Option<f64>,
    /// The lower end of its 90 % interval.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// Memory that it takes more, in MiB.
    pub memory_mib: Option<f64>,
}

/// A part of something: bytes from its beginning, `[from, to)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first byte.
    pub from: u64,
    /// Behind the last.
    pub to: u64,
}

impl Part {
    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.to - self.from
    }
}

/// An instruction, so that it is the same in each run: `libc.so.6+0x9d2f1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The name of its file, without folders.
    pub file: String,
    /// The return address, from where the file's first byte lies in memory.
    pub offset: u64,
}

/// Memory that a plan names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The program break, in bytes from its beginning.
    Heap(Part),
    /// Memory from `mmap`.
    Anonymous {
        /// The length of the mapping, in whole pages.
        bytes: u64,
        /// Which mapping of this length of a process image, after its loader is done, from 1 on.
        nth: u32,
        /// Where `mmap` was called from.
        by: Option<Caller>,
        /// The part of it; the whole if not given.
        part: Option<Part>,
    },
    /// Memory that a file is mapped to, and for programs and libraries what lies behind it.
    File {
        /// The file's absolute path.
        file: String,
        /// Where in the file.
        offset: u64,
        /// How much.
        bytes: u64,
    },
}

impl What {
    /// The planned part, in bytes from the beginning of the heap, of the mapping or of the file.
    pub fn part(&self) -> Part {
        match self {
            What::Heap(part) | What::Anonymous { part: Some(part), .. } => *part,
            What::Anonymous { bytes, part: None, .. } => Part { from: 0, to: *bytes },
            What::File { offset, bytes, .. } => Part { from: *offset, to: offset.saturating_add(*bytes) },
        }
    }
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Part { from, to } = self.part();
        match self {
            What::Heap(_) => write!(f, "heap {from:#x}-{to:#x}"),
            What::Anonymous { bytes, nth, part: None, .. } => write!(f, "anonymous {bytes:#x} number {nth}"),
            What::Anonymous { bytes, nth, .. } => {
                write!(f, "anonymous {bytes:#x} number {nth} {from:#x}-{to:#x}")
            }
            What::File { file, .. } => write!(f, "file {file} {from:#x}-{to:#x}"),
        }
    }
}

/// What is wrong with a plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The file cannot be read.
    #[error("cannot read the plan {path}: {error}")]
    Read {
        /// Its path.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write the plan {path}: {error}")]
    Write {
        /// Its path.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// The text of this name has this fault.
    #[error("{name}: {error}")]
    In {
        /// The plan's name.
        name: String,
        /// The fault.
        error: Box<PlanError>,
    },
    /// Not TOML, or a key is missing, unknown or of another type.
    #[error("{0}")]
    Syntax(String),
    /// Not a plan, or of another version.
    #[error("schema = \"{0}\"; this version reads \"{SCHEMA}\"")]
    Schema(String),
    /// A range that is none of those known.
    #[error("what = \"{text}\" of range {range}: it is \"heap\", \"anonymous\" or \"file\"")]
    What {
        /// Its value.
        text: String,
        /// The range, from 1.
        range: usize,
    },
    /// A key that such a range needs.
    #[error("range {range} ({what}) has no {key}")]
    Missing {
        /// The key.
        key: &'static str,
        /// What the range is.
        what: String,
        /// The range, from 1.
        range: usize,
    },
    /// A key that such a range has not.
    #[error("{key} of range {range}: a range that is \"{what}\" has no such key; it has {has}")]
    Needless {
        /// The key.
        key: &'static str,
        /// What the range is.
        what: String,
        /// The keys that it may have.
        has: &'static str,
        /// The range, from 1.
        range: usize,
    },
    /// Pages of a size that is not known.
    #[error("pages = \"{text}\" of range {range}: it is \"{}\"", PAGES[0])]
    Pages {
        /// Its value.
        text: String,
        /// The range, from 1.
        range: usize,
    },
    /// Not a number.
    #[error("{key} = \"{text}\" of range {range}: not a hexadecimal number such as \"0x1e1000\"")]
    Number {
        /// The key.
        key: &'static str,
        /// Its value.
        text: String,
        /// The range, from 1.
        range: usize,
    },
    /// Not whole pages.
    #[error("{key} = \"{value:#x}\" of range {range}: not a multiple of {PAGE_BYTES}")]
    Unaligned {
        /// The key.
        key: &'static str,
        /// Its value.
        value: u64,
        /// The range, from 1.
        range: usize,
    },
    /// No bytes, or none within what it is a part of.
    #[error("{from:#x} to {to:#x} of range {range}: not a part of what ends at {end:#x}")]
    Part {
        /// The first byte.
        from: u64,
        /// Behind the last.
        to: u64,
        /// The end of the whole.
        end: u64,
        /// The range, from 1.
        range: usize,
    },
    /// Counted from 1.
    #[error("nth = 0 of range {range}: mappings are counted from 1")]
    Zeroth {
        /// The range, from 1.
        range: usize,
    },
    /// A call that is none.
    #[error("by = \"{text}\" of range {range}: not a file name and an offset such as \"libc.so.6+0x9d2f1\"")]
    Caller {
        /// Its value.
        text: String,
        /// The range, from 1.
        range: usize,
    },
    /// A path from nowhere.
    #[error("file = \"{file}\" of range {range}: not an absolute path")]
    Relative {
        /// The path.
        file: String,
        /// The range, from 1.
        range: usize,
    },
    /// A build-id that is none.
    #[error("build_id = \"{0}\" of the program: not pairs of hexadecimal digits")]
    BuildId(String),
    /// A figure that cannot be.
    #[error("{key} = {value} of {of}: {fault}")]
    Figure {
        /// The key.
        key: &'static str,
        /// Its value.
        value: f64,
        /// The forecast, or the range.
        of: String,
        /// What is wrong.
        fault: &'static str,
    },
    /// Two ranges in one place.
    #[error("ranges {first} and {second} overlap: {what}")]
    Overlap {
        /// One range, from 1.
        first: usize,
        /// The other.
        second: usize,
        /// What the second is.
        what: String,
    },
    /// More than the table in the program holds.
    #[error("{0} ranges: a plan has at most {RANGES_MAX}")]
    TooMany(usize),
}

impl Plan {
    /// Reads and checks the plan at `path`.
    ///
    /// # Errors
    /// If it cannot be read, or as [`Plan::parse`].
    pub fn read(path: &Path) -> Result<Plan, PlanError> {
        let name = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| PlanError::Read { path: name.clone(), error })?;
        Plan::parse(&text, &name)
    }

    /// Reads and checks a plan's text; errors begin with `name`.
    ///
    /// # Errors
    /// If it is no TOML, has other keys than a plan's, or does not pass [`Plan::check`].
    pub fn parse(text: &str, name: &str) -> Result<Plan, PlanError> {
        let plan = text::parsed(text).and_then(|plan| plan.check().map(|()| plan));
        plan.map_err(|error| PlanError::In { name: name.to_owned(), error: Box::new(error) })
    }

    /// Writes the plan to `path`, after a check.
    ///
    /// # Errors
    /// If it does not pass [`Plan::check`], or the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), PlanError> {
        self.check()?;
        fs::write(path, self.to_toml())
            .map_err(|error| PlanError::Write { path: path.display().to_string(), error })
    }

    /// The plan as text.
    pub fn to_toml(&self) -> String {
        text::written(self)
    }

    /// Whether the plan can be applied as far as it tells by itself.
    ///
    /// # Errors
    /// The first fault: of single values, then of ranges that overlap.
    pub fn check(&self) -> Result<(), PlanError> {
        check::check(self)
    }
}

#[cfg(test)]
mod tests;
