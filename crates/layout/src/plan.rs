//! The plan of a layout: for each shared object where it is to lie.
//!
//! A plan is relative to its arena, a range of addresses that is free both natively and under Valgrind. Who applies it
//! may slide the arena by multiples of [`SLIDE_BYTES`] if something is in the way: the sets of any TLB's pages stay.

use pagewalk_units::names::with_closest;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

/// The schema that this version reads and writes.
pub const SCHEMA: &str = "pagewalk.layout/1";
/// Where offsets count from if the plan does not say: 32 GiB. Above programs that are not position-independent, their
/// heaps and what is mapped below 4 GiB; below where Linux puts all else.
pub const DEFAULT_ARENA: u64 = 0x8_0000_0000;
/// The lowest arena: 4 GiB.
pub const ARENA_MIN: u64 = 0x1_0000_0000;
/// No object may reach beyond it: 64 GiB, as Valgrind gives its clients addresses below.
pub const LIMIT: u64 = 0x10_0000_0000;
/// An arena may slide by multiples of it: 1 GiB, which no set index sees.
pub const SLIDE_BYTES: u64 = 1 << 30;
/// Offsets and sizes are multiples of it.
pub const PAGE_BYTES: u64 = 4096;

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What made it: `callgraph`, `hand`, … Told in reports.
    pub planner: String,
    /// Names of the machines it was made for; may be empty.
    pub machines: Vec<String>,
    /// The address that offsets count from.
    pub arena: u64,
    /// The program it was made for.
    pub program: Program,
    /// One place for each object, in any order; [`Plan::to_toml`] sorts them by file.
    pub places: Vec<Place>,
}

/// The program of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its path.
    pub path: String,
    /// Its GNU build-id in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
}

/// Where one shared object is to lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The object's absolute path; any name of the file.
    pub file: String,
    /// Its GNU build-id in hexadecimal; if present, no other build is placed.
    pub build_id: Option<String>,
    /// Bytes from the arena to its first mapped byte.
    pub offset: u64,
    /// Bytes from its first to behind its last mapped byte, in whole pages.
    pub size: u64,
}

impl Place {
    /// Behind its last byte, from the arena on.
    fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.size)
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
    /// Not a number.
    #[error("{key} = \"{text}\" of {of}: not a hexadecimal number such as \"0x1e1000\"")]
    Number {
        /// The key.
        key: &'static str,
        /// Its value.
        text: String,
        /// The file, or the plan.
        of: String,
    },
    /// Not whole pages.
    #[error("{key} = \"{value:#x}\" of {of}: not a multiple of {PAGE_BYTES}")]
    Unaligned {
        /// The key.
        key: &'static str,
        /// Its value.
        value: u64,
        /// The file, or the plan.
        of: String,
    },
    /// An object without bytes.
    #[error("size = \"0x0\" of {file}: an object has at least one page")]
    Empty {
        /// Its file.
        file: String,
    },
    /// A path from nowhere.
    #[error("file = \"{file}\": not an absolute path")]
    Relative {
        /// The path.
        file: String,
    },
    /// A build-id that is none.
    #[error("build_id = \"{text}\" of {of}: not pairs of hexadecimal digits")]
    BuildId {
        /// Its text.
        text: String,
        /// The file.
        of: String,
    },
    /// The arena is among programs.
    #[error("arena = \"{0:#x}\": below {ARENA_MIN:#x}, where programs lie")]
    ArenaTooLow(u64),
    /// Out of what Valgrind gives to clients.
    #[error(
        "{file} would end {offset:#x} + {size:#x} bytes behind the arena {arena:#x}: the limit is {LIMIT:#x}"
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
    /// Two objects in one place.
    #[error("{first} (up to offset {end:#x}) and {second} (from offset {start:#x}) overlap")]
    Overlap {
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

/// The text of a plan, as TOML has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    schema: String,
    planner: String,
    #[serde(default)]
    machines: Vec<String>,
    arena: Option<String>,
    program: Program,
    #[serde(default, rename = "place", skip_serializing_if = "Vec::is_empty")]
    places: Vec<TextPlace>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TextPlace {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    build_id: Option<String>,
    offset: String,
    size: String,
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
        let plan = parsed(text).and_then(|plan| plan.check().map(|()| plan));
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

    /// The plan as text, its places sorted by file.
    pub fn to_toml(&self) -> String {
        let hexadecimal = |number: u64| format!("{number:#x}");
        let mut places: Vec<TextPlace> = self
            .places
            .iter()
            .map(|place| TextPlace {
                file: place.file.clone(),
                build_id: place.build_id.clone(),
                offset: hexadecimal(place.offset),
                size: hexadecimal(place.size),
            })
            .collect();
        places.sort_by(|a, b| a.file.cmp(&b.file));
        let text = Text {
            schema: SCHEMA.to_owned(),
            planner: self.planner.clone(),
            machines: self.machines.clone(),
            arena: Some(hexadecimal(self.arena)),
            program: self.program.clone(),
            places,
        };
        toml::to_string(&text).expect("a plan's text is strings and tables, which TOML has")
    }

    /// Whether the plan can be applied as far as it tells by itself.
    ///
    /// # Errors
    /// The first fault: of single values, then of files twice, then of places that overlap.
    pub fn check(&self) -> Result<(), PlanError> {
        aligned("arena", self.arena, "the plan")?;
        if self.arena < ARENA_MIN {
            return Err(PlanError::ArenaTooLow(self.arena));
        }
        check_build_id(self.program.build_id.as_deref(), &self.program.path)?;
        self.places.iter().try_for_each(|place| self.check_place(place))?;
        self.check_twice()?;
        self.check_overlaps()
    }

    /// The address where an object of this plan is to lie.
    pub fn base(&self, place: &Place) -> u64 {
        self.arena.saturating_add(place.offset)
    }

    fn check_place(&self, place: &Place) -> Result<(), PlanError> {
        let Place { file, build_id, offset, size } = place;
        if !file.starts_with('/') {
            return Err(PlanError::Relative { file: file.clone() });
        }
        check_build_id(build_id.as_deref(), file)?;
        aligned("offset", *offset, file)?;
        aligned("size", *size, file)?;
        if *size == 0 {
            return Err(PlanError::Empty { file: file.clone() });
        }
        let end = place.end().and_then(|end| end.checked_add(self.arena));
        if end.is_none_or(|end| end > LIMIT) {
            let (offset, size, arena) = (*offset, *size, self.arena);
            return Err(PlanError::AboveLimit { file: file.clone(), offset, size, arena });
        }
        Ok(())
    }

    fn check_twice(&self) -> Result<(), PlanError> {
        let mut places: Vec<&Place> = self.places.iter().collect();
        places.sort_by(|a, b| a.file.cmp(&b.file));
        match places.array_windows().find(|[a, b]| a.file == b.file) {
            Some([a, b]) => Err(PlanError::Twice { file: a.file.clone(), first: a.offset, second: b.offset }),
            None => Ok(()),
        }
    }

    fn check_overlaps(&self) -> Result<(), PlanError> {
        let mut places: Vec<&Place> = self.places.iter().collect();
        places.sort_by_key(|place| place.offset);
        // Sizes are not 0, so of those that overlap two neighbours do.
        for [first, second] in places.array_windows() {
            let end = first.end().unwrap_or(u64::MAX);
            if end > second.offset {
                return Err(PlanError::Overlap {
                    first: first.file.clone(),
                    end,
                    second: second.file.clone(),
                    start: second.offset,
                });
            }
        }
        Ok(())
    }
}

fn parsed(text: &str) -> Result<Plan, PlanError> {
    // The schema first: a plan of another version has other keys.
    let table: toml::Table = text.parse().map_err(syntax)?;
    if let Some(schema) = table.get("schema").and_then(toml::Value::as_str)
        && schema != SCHEMA
    {
        return Err(PlanError::Schema(schema.to_owned()));
    }
    let text: Text = toml::from_str(text).map_err(syntax)?;
    let place = |place: TextPlace| {
        let offset = hexadecimal("offset", &place.offset, &place.file)?;
        let size = hexadecimal("size", &place.size, &place.file)?;
        Ok(Place { file: place.file, build_id: place.build_id, offset, size })
    };
    Ok(Plan {
        planner: text.planner,
        machines: text.machines,
        arena: text.arena.map_or(Ok(DEFAULT_ARENA), |arena| hexadecimal("arena", &arena, "the plan"))?,
        program: text.program,
        places: text.places.into_iter().map(place).collect::<Result<_, PlanError>>()?,
    })
}

fn syntax(error: toml::de::Error) -> PlanError {
    PlanError::Syntax(with_closest(error.to_string().trim_end()))
}

/// The number that plans write as `text`: hexadecimal, such as `0x1e1000`.
pub fn number_of(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x")?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u64::from_str_radix(digits, 16).ok())?
}

/// Whether a text is a build-id: hexadecimal digits of whole bytes.
pub fn is_build_id(text: &str) -> bool {
    !text.is_empty() && text.len().is_multiple_of(2) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn hexadecimal(key: &'static str, text: &str, of: &str) -> Result<u64, PlanError> {
    number_of(text).ok_or_else(|| PlanError::Number { key, text: text.to_owned(), of: of.to_owned() })
}

fn aligned(key: &'static str, value: u64, of: &str) -> Result<(), PlanError> {
    if value.is_multiple_of(PAGE_BYTES) {
        return Ok(());
    }
    Err(PlanError::Unaligned { key, value, of: of.to_owned() })
}

fn check_build_id(build_id: Option<&str>, of: &str) -> Result<(), PlanError> {
    match build_id {
        Some(text) if !is_build_id(text) => {
            Err(PlanError::BuildId { text: text.to_owned(), of: of.to_owned() })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
