//! What is wrong with a plan.

use crate::{ARENA_LIMIT, ARENA_MIN, LAYOUT_SCHEMA, PAGES, PAGES_SCHEMA, RANGES_MAX, SCHEMA};
use pagewalk_units::PAGE_BYTES;
use std::io;

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
    #[error("schema = \"{0}\"; this version reads \"{SCHEMA}\", \"{PAGES_SCHEMA}\" and \"{LAYOUT_SCHEMA}\"")]
    Schema(String),
    /// A range of an unknown kind.
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
    /// A key that such a range must not have.
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
    /// Pages of an unknown size.
    #[error("pages = \"{text}\" of range {range}: it is \"{}\"", PAGES[0])]
    Pages {
        /// Its value.
        text: String,
        /// The range, from 1.
        range: usize,
    },
    /// Not a number.
    #[error("{key} = \"{text}\" of {of}: not a hexadecimal number such as \"0x1e1000\"")]
    Number {
        /// The key.
        key: &'static str,
        /// Its value.
        text: String,
        /// The range, the file or the layout.
        of: String,
    },
    /// Not whole pages.
    #[error("{key} = \"{value:#x}\" of {of}: not a multiple of {PAGE_BYTES}")]
    Unaligned {
        /// The key.
        key: &'static str,
        /// Its value.
        value: u64,
        /// The range, the file or the layout.
        of: String,
    },
    /// An empty part, or one beyond the end of what it belongs to.
    #[error("{from:#x} to {to:#x} of range {range}: not a part of what ends at {end:#x}")]
    Part {
        /// The first byte.
        from: u64,
        /// The first byte after it.
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
    /// Not a caller.
    #[error("by = \"{text}\" of range {range}: not a file name and an offset such as \"libc.so.6+0x9d2f1\"")]
    Caller {
        /// Its value.
        text: String,
        /// The range, from 1.
        range: usize,
    },
    /// A path from nowhere.
    #[error("file = \"{file}\" of {of}: not an absolute path")]
    Relative {
        /// The path.
        file: String,
        /// The range or the place.
        of: String,
    },
    /// Not a build-id.
    #[error("build_id = \"{text}\" of {of}: not pairs of hexadecimal digits")]
    BuildId {
        /// Its text.
        text: String,
        /// The file, or the program.
        of: String,
    },
    /// An impossible figure.
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
    /// Two ranges share bytes.
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
    /// Places without an arena.
    #[error("[[place]] without [layout], which says who planned them and where their offsets count from")]
    NoLayout,
    /// An object without bytes.
    #[error("size = \"0x0\" of {file}: an object has at least one page")]
    Empty {
        /// Its file.
        file: String,
    },
    /// The arena lies among programs.
    #[error("arena = \"{0:#x}\": below {ARENA_MIN:#x}, where programs lie")]
    ArenaTooLow(u64),
    /// Beyond what Valgrind gives to its clients.
    #[error(
        "{file} would end {offset:#x} + {size:#x} bytes behind the arena {arena:#x}: the limit is {ARENA_LIMIT:#x}"
    )]
    AboveLimit {
        /// The object.
        file: String,
        /// Its offset.
        offset: u64,
        /// Its size.
        size: u64,
        /// The arena.
        arena: u64,
    },
    /// Two objects share bytes.
    #[error("{first} (up to offset {end:#x}) and {second} (from offset {start:#x}) overlap")]
    PlacesOverlap {
        /// The object with the lower offset.
        first: String,
        /// Where it ends.
        end: u64,
        /// The object with the higher offset.
        second: String,
        /// Where it starts.
        start: u64,
    },
    /// One object in two places.
    #[error("{file} has two places, at offsets {first:#x} and {second:#x}")]
    Twice {
        /// The object.
        file: String,
        /// One offset.
        first: u64,
        /// The other.
        second: u64,
    },
}
