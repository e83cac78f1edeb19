//! One `[[cache]]` of a machine file.

use super::{FileReplacement, replacement};
use crate::MachineError;
use pagewalk_cache::{
    AddressUsed, CacheFills, CacheOrganisation, CacheSpec, LEVELS, Requester, StoreRule, WriteBufferSpec,
};
use pagewalk_setassoc::Geometry;
use pagewalk_units::quantities::bytes;
use serde::Deserialize;

// Many fields: one per key of the table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileCacheOfMemory {
    name: String,
    level: u8,
    serves: Vec<FileRequester>,
    size: String,
    #[serde(default = "usual_line")]
    line: u32,
    ways: Option<u32>,
    latency: u64,
    #[serde(default)]
    replacement: FileReplacement,
    seed: Option<u64>,
    #[serde(default)]
    shared: bool,
    #[serde(default)]
    stores: FileStores,
    #[serde(default)]
    address: FileAddress,
    #[serde(default)]
    fills: FileFills,
    #[serde(default)]
    inclusive: bool,
    #[serde(default)]
    organisation: FileOrganisation,
    slow_latency: Option<u64>,
    write_buffer: Option<u32>,
    drain: Option<u64>,
    slices: Option<u32>,
    slice_hash: Option<FileSliceHash>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileOrganisation {
    #[default]
    Sets,
    Column,
    Pseudo,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileSliceHash {
    Unknown,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileFills {
    #[default]
    Misses,
    Victims,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileStores {
    #[default]
    Back,
    Through,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileAddress {
    #[default]
    Physical,
    Virtual,
}

fn usual_line() -> u32 {
    64
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileRequester {
    Fetch,
    Load,
    Store,
    Walk,
}

impl FileCacheOfMemory {
    pub(super) fn check(self, file: &str) -> Result<CacheSpec, MachineError> {
        let name = self.name.clone();
        self.spec().map_err(|why| MachineError::Rule {
            file: file.to_owned(),
            why: format!("cache `{name}`: {why}"),
        })
    }

    fn spec(self) -> Result<CacheSpec, String> {
        if !(1..=LEVELS).contains(&self.level.into()) {
            return Err(format!("level = {}: choose 1 to {LEVELS}", self.level));
        }
        if self.serves.is_empty() {
            return Err("serves = []: choose from fetch, load, store, walk".to_owned());
        }
        if !self.line.is_power_of_two() || !(8..=4096).contains(&self.line) {
            return Err(format!("line = {}: choose a power of two from 8 to 4096", self.line));
        }
        let slices = self.slices()?;
        let (write_buffer, organisation) = (self.write_buffer()?, self.organisation()?);
        let geometry = self.slice_geometry(slices)?;
        let serves = self.serves.iter().map(|requester| match requester {
            FileRequester::Fetch => Requester::Fetch,
            FileRequester::Load => Requester::Load,
            FileRequester::Store => Requester::Store,
            FileRequester::Walk => Requester::Walk,
        });
        Ok(CacheSpec {
            name: self.name,
            level: self.level,
            serves: serves.collect(),
            line_shift: self.line.trailing_zeros(),
            geometry,
            slices,
            replacement: replacement(self.replacement, self.seed, geometry)?,
            latency: self.latency,
            shared: self.shared,
            stores: match self.stores {
                FileStores::Back => StoreRule::Back,
                FileStores::Through => StoreRule::Through,
            },
            organisation,
            write_buffer,
            address: match self.address {
                FileAddress::Physical => AddressUsed::Physical,
                FileAddress::Virtual => AddressUsed::Virtual,
            },
            fills: match self.fills {
                FileFills::Misses => CacheFills::Misses,
                FileFills::Victims => CacheFills::Victims,
            },
            inclusive: self.inclusive,
        })
    }
}

impl FileCacheOfMemory {
    fn write_buffer(&self) -> Result<Option<WriteBufferSpec>, String> {
        match (self.write_buffer, self.drain) {
            (None, None) => Ok(None),
            (Some(entries), Some(drain)) => Ok(Some(WriteBufferSpec { entries, drain })),
            (Some(_), None) => Err("write_buffer: missing key `drain`: cycles of each entry".to_owned()),
            (None, Some(_)) => Err("drain: missing key `write_buffer`: how many entries drain".to_owned()),
        }
    }

    fn organisation(&self) -> Result<CacheOrganisation, String> {
        match (self.organisation, self.slow_latency) {
            (FileOrganisation::Sets, None) => Ok(CacheOrganisation::Sets),
            (FileOrganisation::Sets, Some(_)) => {
                Err("slow_latency is of hits under organisation = \"column\" or \"pseudo\": leave it out"
                    .to_owned())
            }
            (FileOrganisation::Column, Some(slow_latency)) => Ok(CacheOrganisation::Column { slow_latency }),
            (FileOrganisation::Pseudo, Some(slow_latency)) => Ok(CacheOrganisation::Pseudo { slow_latency }),
            (_, None) => {
                Err("organisation: missing key `slow_latency`: cycles of a hit in the other place".to_owned())
            }
        }
    }

    /// How many slices there are.
    fn slices(&self) -> Result<u32, String> {
        match (self.slices, self.slice_hash) {
            (None, None) => Ok(1),
            (None, Some(_)) => {
                Err("slice_hash picks among slices: give `slices`, or leave it out".to_owned())
            }
            (Some(slices), Some(FileSliceHash::Unknown)) if (2..=SLICES_MAX).contains(&slices) => Ok(slices),
            (Some(slices), Some(_)) => Err(format!("slices = {slices}: choose 2 to {SLICES_MAX}")),
            (Some(slices), None) => Err(format!(
                "slices = {slices}: missing key `slice_hash`, which can only be \"unknown\": a hash that stands for any"
            )),
        }
    }

    /// The shape of each slice.
    fn slice_geometry(&self, slices: u32) -> Result<Geometry, String> {
        let (size, line) = (&self.size, u64::from(self.line));
        let bytes = bytes(size).ok_or_else(|| {
            format!("size = \"{size}\": expected bytes, or a number with K, M or G, such as 48K")
        })?;
        if self.ways == Some(0) {
            return Err(
                "ways = 0: choose at least 1, or leave it out for a fully associative cache".to_owned()
            );
        }
        let ways = self.ways.map_or(1, u64::from);
        let unit = line * ways * u64::from(slices);
        let units = bytes / unit;
        let fits = units * unit == bytes && units > 0 && (self.ways.is_none() || units.is_power_of_two());
        if !fits {
            let factors = match (self.ways, slices) {
                (None, 1) => format!("lines of {line} bytes"),
                (None, slices) => format!("{slices} slices of lines of {line} bytes"),
                (Some(ways), 1) => {
                    format!("ways = {ways} lines of {line} bytes, times a power of two of sets")
                }
                (Some(ways), slices) => {
                    format!(
                        "{slices} slices of ways = {ways} lines of {line} bytes, times a power of two of sets"
                    )
                }
            };
            let nearest = size_text(unit * nearest(bytes, unit, self.ways.is_some()));
            return Err(format!("size = \"{size}\" is no number of {factors}: the nearest is \"{nearest}\""));
        }
        let entries = u32::try_from(units * ways).unwrap_or(u32::MAX);
        Geometry::new(entries, self.ways).map_err(|why| format!("size = \"{size}\": {why}"))
    }
}

/// The most slices: more than any processor has.
const SLICES_MAX: u32 = 256;

/// How many units come nearest to some bytes: at least one, or a power of two.
fn nearest(bytes: u64, unit: u64, powers: bool) -> u64 {
    let units = (bytes / unit).max(1);
    let lower = if powers { 1 << units.ilog2() } else { units };
    let upper = if powers { lower.saturating_mul(2) } else { units + 1 };
    let is_upper = unit.saturating_mul(upper).abs_diff(bytes) < (unit * lower).abs_diff(bytes);
    if is_upper { upper } else { lower }
}

/// Bytes as a machine file has them.
fn size_text(bytes: u64) -> String {
    let scales = [(30, "G"), (20, "M"), (10, "K")];
    let fits = scales.into_iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    fits.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}
