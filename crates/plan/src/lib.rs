//! Plans: which ranges of a program's memory are to be on huge pages ([`PlanRange`]), where its shared objects are to
//! lie ([`Layout`]), or both.
//!
//! [`Plan::read`] reads and checks a plan. It reads [`SCHEMA`] and the two formats before it, [`PAGES_SCHEMA`] and
//! [`LAYOUT_SCHEMA`].

mod error;
mod layout;
mod ranges;
mod text;
mod values;

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

pub use error::PlanError;
pub use layout::{Layout, Place};
pub use ranges::{Caller, Gain, PlanRange, RangePart, What};
pub use text::number_of;
pub use values::is_build_id;

/// The schema that this version writes.
pub const SCHEMA: &str = "pagewalk.plan/2";
/// The former schema of plans of huge pages; it is still read.
pub const PAGES_SCHEMA: &str = "pagewalk.plan/1";
/// The former schema of plans of libraries; it is still read.
pub const LAYOUT_SCHEMA: &str = "pagewalk.layout/1";

/// The end of what a program on x86-64 can address: no range reaches beyond it.
pub const ADDRESS_LIMIT: u64 = 1 << 47;
/// Ranges that a plan may have.
pub const RANGES_MAX: usize = 1024;
/// The sizes of pages that a range may ask for.
pub const PAGES: [&str; 1] = ["2M"];

/// The default arena: 32 GiB. Programs at fixed addresses, their heaps and mappings below 4 GiB lie below it; Linux
/// puts everything else far above.
pub const DEFAULT_ARENA: u64 = 0x8_0000_0000;
/// The lowest arena: 4 GiB.
pub const ARENA_MIN: u64 = 0x1_0000_0000;
/// No object reaches beyond it: 64 GiB, as Valgrind gives its clients addresses below.
pub const ARENA_LIMIT: u64 = 0x10_0000_0000;
/// An arena slides by multiples of it: 1 GiB, which no set index sees.
pub const SLIDE_BYTES: u64 = 1 << 30;

/// A plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The program it was made for.
    pub program: Program,
    /// Where the forecast was made; information.
    pub host: Option<ForecastHost>,
    /// What the whole plan should bring; none in plans by hand.
    pub forecast: Option<Forecast>,
    /// What is to be on huge pages, in any order.
    pub ranges: Vec<PlanRange>,
    /// Where shared objects are to lie.
    pub layout: Option<Layout>,
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
    /// The arguments that the plan was made with; information.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
}

/// The host where a forecast was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForecastHost {
    /// The kernel's release.
    pub kernel: String,
    /// The mode of transparent huge pages: `always`, `madvise` or `never`.
    pub thp: String,
}

/// What a plan should bring.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forecast {
    /// Processor time of a run without the plan, in user mode and in the kernel, measured, in seconds.
    pub seconds_now: f64,
    /// The same of a run with it, modelled.
    pub seconds: f64,
    /// The lower end of the 90 % interval of `seconds`.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Memory that the plan adds, in MiB.
    pub memory_mib: f64,
}

impl Forecast {
    fn check(&self) -> Result<(), PlanError> {
        let Forecast { seconds_now, seconds, low, high, memory_mib } = *self;
        let figures = [
            ("seconds_now", seconds_now),
            ("seconds", seconds),
            ("low", low),
            ("high", high),
            ("memory_mib", memory_mib),
        ];
        let fault =
            |key, value, fault| PlanError::Figure { key, value, of: "the forecast".to_owned(), fault };
        for (key, value) in figures {
            if !(value.is_finite() && value >= 0.0) {
                return Err(fault(key, value, "not a number from 0 up"));
            }
        }
        if seconds_now == 0.0 {
            return Err(fault("seconds_now", seconds_now, "no time, of which nothing can be saved"));
        }
        if low > seconds {
            return Err(fault("low", low, "more than seconds"));
        }
        if high < seconds {
            return Err(fault("high", high, "less than seconds"));
        }
        Ok(())
    }
}

impl Plan {
    /// A plan for `program` that asks for nothing yet.
    pub fn of(program: Program) -> Plan {
        Plan { program, host: None, forecast: None, ranges: Vec::new(), layout: None }
    }

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

    /// Whether the plan contradicts itself.
    ///
    /// # Errors
    /// The first fault: of the program and the forecast, then of ranges, then of places.
    pub fn check(&self) -> Result<(), PlanError> {
        values::build_id(self.program.build_id.as_deref(), "the program")?;
        self.forecast.iter().try_for_each(Forecast::check)?;
        ranges::check(&self.ranges)?;
        self.layout.iter().try_for_each(Layout::check)
    }
}

#[cfg(test)]
mod tests;
