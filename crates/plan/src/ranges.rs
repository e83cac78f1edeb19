//! Ranges of memory that are to be on huge pages.
//!
//! A range is named by what stays the same from run to run: the heap by bytes from its beginning, anonymous memory by
//! the size and the order of its mapping, files by offsets.

use crate::values::{absolute, aligned};
use crate::{ADDRESS_LIMIT, PlanError, RANGES_MAX};

/// A range of memory that is to be on huge pages.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanRange {
    /// Which memory.
    pub what: What,
    /// Who asked for it, as `build (graph.c:13)`; information.
    pub made_by: Option<String>,
    /// The forecast for it alone.
    pub gain: Gain,
}

impl PlanRange {
    /// This memory, with nothing else known.
    pub fn of(what: What) -> PlanRange {
        PlanRange { what, made_by: None, gain: Gain::default() }
    }
}

/// For people: who asked for it, and what it is.
impl std::fmt::Display for PlanRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.made_by.iter().try_for_each(|maker| write!(f, "{maker}: "))?;
        write!(f, "{}", self.what)
    }
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
    /// Memory that it adds, in MiB.
    pub memory_mib: Option<f64>,
}

/// A part of something: bytes from its beginning, `[from, to)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangePart {
    /// The first byte.
    pub from: u64,
    /// The first byte after it.
    pub to: u64,
}

impl RangePart {
    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.to - self.from
    }
}

/// An instruction by a name that every run shares: `libc.so.6+0x9d2f1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The name of its file, without folders.
    pub file: String,
    /// The return address, relative to the file's first byte in memory.
    pub offset: u64,
}

/// Memory that a plan names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The program break, in bytes from its beginning.
    Heap(RangePart),
    /// Memory from `mmap`.
    Anonymous {
        /// The length of the mapping, in whole pages.
        bytes: u64,
        /// Which mapping of this length of a process image, after its loader is done, from 1 on.
        nth: u32,
        /// Where `mmap` was called from.
        by: Option<Caller>,
        /// The part of it; the whole if not given.
        part: Option<RangePart>,
    },
    /// Memory that a file is mapped to; for programs and libraries also `.bss` behind it.
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
    pub fn part(&self) -> RangePart {
        match self {
            What::Heap(part) | What::Anonymous { part: Some(part), .. } => *part,
            What::Anonymous { bytes, part: None, .. } => RangePart { from: 0, to: *bytes },
            What::File { offset, bytes, .. } => {
                RangePart { from: *offset, to: offset.saturating_add(*bytes) }
            }
        }
    }
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RangePart { from, to } = self.part();
        match self {
            What::Heap(_) => write!(f, "heap {from:#x}-{to:#x}"),
            What::Anonymous { bytes, nth, .. } if (from, to) == (0, *bytes) => {
                write!(f, "anonymous {bytes:#x} number {nth}")
            }
            What::Anonymous { bytes, nth, .. } => {
                write!(f, "anonymous {bytes:#x} number {nth} {from:#x}-{to:#x}")
            }
            What::File { file, .. } => write!(f, "file {file} {from:#x}-{to:#x}"),
        }
    }
}

/// Whether the ranges contradict themselves or each other.
pub(crate) fn check(ranges: &[PlanRange]) -> Result<(), PlanError> {
    if ranges.len() > RANGES_MAX {
        return Err(PlanError::TooMany(ranges.len()));
    }
    ranges.iter().zip(1..).try_for_each(|(found, number)| range(found, number))?;
    overlaps(ranges)
}

fn range(range: &PlanRange, number: usize) -> Result<(), PlanError> {
    gain(&range.gain, number)?;
    let RangePart { from, to } = range.what.part();
    let end = match &range.what {
        What::Heap(_) | What::File { .. } => ADDRESS_LIMIT,
        What::Anonymous { bytes, .. } => *bytes,
    };
    let of = format!("range {number}");
    match &range.what {
        What::File { file, offset, bytes } => {
            absolute(file, &of)?;
            aligned("offset", *offset, &of)?;
            aligned("bytes", *bytes, &of)?;
        }
        What::Anonymous { bytes, nth, .. } => {
            aligned("bytes", *bytes, &of)?;
            if *nth == 0 {
                return Err(PlanError::Zeroth { range: number });
            }
        }
        What::Heap(_) => {}
    }
    aligned("from", from, &of)?;
    aligned("to", to, &of)?;
    if from >= to || to > end || end > ADDRESS_LIMIT {
        return Err(PlanError::Part { from, to, end: end.min(ADDRESS_LIMIT), range: number });
    }
    Ok(())
}

fn gain(gain: &Gain, number: usize) -> Result<(), PlanError> {
    let Gain { seconds_saved, low, high, memory_mib } = *gain;
    let figures =
        [("seconds_saved", seconds_saved), ("low", low), ("high", high), ("memory_mib", memory_mib)];
    let fault = |key, value, fault| PlanError::Figure { key, value, of: format!("range {number}"), fault };
    for (key, value) in figures {
        if let Some(value) = value.filter(|value| !value.is_finite()) {
            return Err(fault(key, value, "not a number"));
        }
    }
    match (low, high) {
        (Some(low), Some(high)) if low > high => Err(fault("low", low, "more than high")),
        _ => Ok(()),
    }
}

/// The parts of one heap, one mapping or one file must not share bytes.
fn overlaps(ranges: &[PlanRange]) -> Result<(), PlanError> {
    let key = |what: &What| match what {
        What::Heap(_) => (0, 0, 0, String::new()),
        What::Anonymous { bytes, nth, .. } => (1, *bytes, *nth, String::new()),
        What::File { file, .. } => (2, 0, 0, file.clone()),
    };
    let numbered = ranges.iter().zip(1..);
    let mut sorted: Vec<_> =
        numbered.map(|(range, number)| (key(&range.what), range.what.part(), number)).collect();
    sorted.sort_by(|a, b| (&a.0, a.1.from).cmp(&(&b.0, b.1.from)));
    // No part is empty, so of those that overlap two neighbours do.
    for [(key, part, first), (next_key, next, second)] in sorted.array_windows() {
        if key == next_key && part.to > next.from {
            let what = ranges[second - 1].what.to_string();
            return Err(PlanError::Overlap { first: *first, second: *second, what });
        }
    }
    Ok(())
}
