//! Specifications of structures in TOML. `docs/reference/structure-files.md` explains every key.

use super::class::ClassValues;
use super::layout::REGION_PAGES;
use pagewalk_units::names::with_closest;
use serde::Deserialize;

/// Why a file does not describe a structure. Each message names the place and the choices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StructureError {
    /// Not TOML, an unknown key, a missing key, or a value of the wrong type.
    #[error("{file}: {message}")]
    Syntax {
        /// The file's name.
        file: String,
        /// What and where, with the line shown.
        message: String,
    },
    /// A value out of range.
    #[error("{file}: {key} = {given}: expected {expected}")]
    Value {
        /// The file's name.
        file: String,
        /// The key with its tables.
        key: String,
        /// The value given.
        given: String,
        /// The allowed values.
        expected: String,
    },
}

/// An operating system's structure.
#[derive(Clone, Debug, PartialEq)]
pub struct StructureSpec {
    /// Its short name.
    pub name: String,
    /// Its title for people.
    pub title: String,
    /// The seed of random numbers.
    pub seed: u64,
    /// The kernel.
    pub kernel: KernelSpec,
    /// The servers, in the order of a call.
    pub servers: Vec<ServerSpec>,
}

/// The kernel's own references.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelSpec {
    /// References to kernel data per call, and per tick of the clock.
    pub touches: ClassValues<u32>,
    /// The share of those references to unmapped memory, which no TLB translates.
    #[serde(default)]
    pub unmapped: f64,
    /// The working set of mapped data.
    pub data: WorkingSet,
    /// Regions of 4 MiB for the mapped data.
    #[serde(default = "one")]
    pub regions: u32,
    /// The share of stores among data references, including servers'.
    pub stores: f64,
    /// Mapped pages of message buffers, used round robin.
    #[serde(default)]
    pub message_pages: u32,
    /// Instructions of the program between ticks of the clock; 0: no ticks.
    #[serde(default)]
    pub tick_instructions: u64,
}

/// A server in its own address space.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    /// Its name.
    pub name: String,
    /// The share of calls to it.
    pub share: ClassValues<f64>,
    /// Its code.
    pub text: SegmentSpec,
    /// Its data.
    pub data: SegmentSpec,
    /// Its stacks.
    pub stack: SegmentSpec,
    /// The share of these references that it repeats after another server's answer.
    #[serde(default)]
    pub resumes: f64,
    /// The kernel's references to mapped data on the server's behalf, per visit.
    #[serde(default)]
    pub kernel_touches: u32,
    /// References to message buffers per message; a request and its answer are two messages.
    #[serde(default)]
    pub message_touches: u32,
}

/// One segment of a server.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentSpec {
    /// References per visit.
    pub touches: u32,
    /// Pages of its working set.
    pub pages: u32,
    /// The number of first pages that are hot: referenced more often.
    #[serde(default)]
    pub hot: u32,
    /// The share of references to hot pages.
    #[serde(default)]
    pub hot_share: f64,
}

impl SegmentSpec {
    pub(super) fn set(&self) -> WorkingSet {
        WorkingSet { pages: self.pages, hot: self.hot, hot_share: self.hot_share }
    }
}

/// Pages that references are drawn from, all equally likely except the hot ones.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkingSet {
    /// All pages.
    pub pages: u32,
    /// The number of first pages that are hot: referenced more often.
    #[serde(default)]
    pub hot: u32,
    /// The share of references to hot pages.
    #[serde(default)]
    pub hot_share: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: u32,
    name: String,
    title: Option<String>,
    #[serde(default)]
    seed: u64,
    kernel: KernelSpec,
    #[serde(default)]
    server: Vec<ServerSpec>,
}

fn one() -> u32 {
    1
}

/// Most touches of each kind per call.
const TOUCHES_MAX: u32 = 100_000;
/// Most regions of kernel data: 4 GiB.
const REGIONS_MAX: u32 = 1024;

impl StructureSpec {
    /// Most servers.
    pub const SERVERS_MAX: usize = 8;

    /// Reads a description from TOML text; `file` is its name for messages.
    pub fn from_toml(file: &str, text: &str) -> Result<StructureSpec, StructureError> {
        let syntax = |message: String| StructureError::Syntax { file: file.to_owned(), message };
        let parsed: File =
            toml::from_str(text).map_err(|e| syntax(with_closest(e.to_string().trim_end())))?;
        let checks = Checks { file };
        if parsed.schema != 1 {
            return Err(checks.wrong("schema", parsed.schema, "1: this version reads no other"));
        }
        if parsed.name.is_empty() {
            return Err(checks.wrong("name", "\"\"", "a short name such as mach3"));
        }
        checks.kernel(&parsed.kernel)?;
        if parsed.server.len() > Self::SERVERS_MAX {
            let expected = format!("at most {} [[server]]", Self::SERVERS_MAX);
            return Err(checks.wrong("[[server]]", parsed.server.len(), &expected));
        }
        for (index, server) in parsed.server.iter().enumerate() {
            checks.server(server, &parsed.kernel)?;
            if parsed.server[..index].iter().any(|other| other.name == server.name) {
                return Err(checks.wrong("server.name", &server.name, "a name that no other server has"));
            }
        }
        Ok(StructureSpec {
            title: parsed.title.unwrap_or_else(|| parsed.name.clone()),
            name: parsed.name,
            seed: parsed.seed,
            kernel: parsed.kernel,
            servers: parsed.server,
        })
    }
}

/// Checks ranges of values.
struct Checks<'a> {
    file: &'a str,
}

impl Checks<'_> {
    fn wrong(&self, key: &str, given: impl std::fmt::Display, expected: &str) -> StructureError {
        let (file, given) = (self.file.to_owned(), given.to_string());
        StructureError::Value { file, key: key.to_owned(), given, expected: expected.to_owned() }
    }

    fn share(&self, key: &str, share: f64) -> Result<(), StructureError> {
        if (0.0..=1.0).contains(&share) {
            return Ok(());
        }
        Err(self.wrong(key, share, "a share from 0.0 to 1.0"))
    }

    fn at_most(&self, key: &str, value: u32, most: u64) -> Result<(), StructureError> {
        if u64::from(value) <= most {
            return Ok(());
        }
        Err(self.wrong(key, value, &format!("at most {most}")))
    }

    /// Checks a working set. `touched`: whether references are drawn from it.
    fn set(&self, key: &str, set: &WorkingSet, most: u64, touched: bool) -> Result<(), StructureError> {
        self.at_most(&format!("{key}.pages"), set.pages, most)?;
        self.at_most(&format!("{key}.hot"), set.hot, set.pages.into())?;
        self.share(&format!("{key}.hot_share"), set.hot_share)?;
        if set.hot == 0 && set.hot_share > 0.0 {
            return Err(self.wrong(&format!("{key}.hot"), 0, "1 or more where hot_share is above 0.0"));
        }
        if set.pages == 0 && touched {
            return Err(self.wrong(&format!("{key}.pages"), 0, "1 or more where references touch them"));
        }
        Ok(())
    }

    fn kernel(&self, kernel: &KernelSpec) -> Result<(), StructureError> {
        for (class, touches) in kernel.touches.named() {
            self.at_most(&format!("kernel.touches.{class}"), touches, TOUCHES_MAX.into())?;
        }
        self.share("kernel.unmapped", kernel.unmapped)?;
        self.share("kernel.stores", kernel.stores)?;
        if !(1..=REGIONS_MAX).contains(&kernel.regions) {
            let expected = format!("from 1 to {REGIONS_MAX}");
            return Err(self.wrong("kernel.regions", kernel.regions, &expected));
        }
        let room = u64::from(kernel.regions) * REGION_PAGES;
        let touched = kernel.unmapped < 1.0 && kernel.touches.named().iter().any(|&(_, touches)| touches > 0);
        self.set("kernel.data", &kernel.data, room, touched)?;
        self.at_most("kernel.message_pages", kernel.message_pages, room - u64::from(kernel.data.pages))
    }

    fn server(&self, server: &ServerSpec, kernel: &KernelSpec) -> Result<(), StructureError> {
        let key = |key: &str| format!("server `{}`: {key}", server.name);
        for (class, share) in server.share.named() {
            self.share(&key(&format!("share.{class}")), share)?;
        }
        let segments = [("text", &server.text), ("data", &server.data), ("stack", &server.stack)];
        for (name, segment) in segments {
            self.at_most(&key(&format!("{name}.touches")), segment.touches, TOUCHES_MAX.into())?;
            self.set(&key(name), &segment.set(), REGION_PAGES, segment.touches > 0)?;
        }
        self.share(&key("resumes"), server.resumes)?;
        self.at_most(&key("kernel_touches"), server.kernel_touches, TOUCHES_MAX.into())?;
        self.at_most(&key("message_touches"), server.message_touches, TOUCHES_MAX.into())?;
        if server.kernel_touches > 0 && kernel.data.pages == 0 {
            let expected = "0 where kernel.data.pages is 0";
            return Err(self.wrong(&key("kernel_touches"), server.kernel_touches, expected));
        }
        if server.message_touches > 0 && kernel.message_pages == 0 {
            let expected = "0 where kernel.message_pages is 0";
            return Err(self.wrong(&key("message_touches"), server.message_touches, expected));
        }
        Ok(())
    }
}
