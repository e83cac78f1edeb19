//! One `[[cache]]` of a machine file.

use super::{FileReplacement, replacement};
use crate::MachineError;
use pagewalk_cache::{AddressUsed, CacheFills, CacheSpec, Requester, StoreRule};
use pagewalk_setassoc::Geometry;
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
        if !(1..=4).contains(&self.level) {
            return Err(format!("level = {}: choose 1 to 4", self.level));
        }
        if self.serves.is_empty() {
            return Err("serves = []: choose from fetch, load, store, walk".to_owned());
        }
        if !self.line.is_power_of_two() || !(8..=4096).contains(&self.line) {
            return Err(format!("line = {}: choose a power of two from 8 to 4096", self.line));
        }
        let bytes = bytes(&self.size).ok_or_else(|| {
            format!("size = \"{}\": expected bytes, or a number with K, M or G, such as 48K", self.size)
        })?;
        let lines = bytes / u64::from(self.line);
        let entries = u32::try_from(lines).ok().filter(|_| lines * u64::from(self.line) == bytes);
        let entries = entries.ok_or_else(|| {
            format!("size = \"{}\" is no number of lines of {} bytes", self.size, self.line)
        })?;
        let geometry = Geometry::new(entries, self.ways).map_err(|why| why.to_string())?;
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
            replacement: replacement(self.replacement, self.seed, geometry)?,
            latency: self.latency,
            shared: self.shared,
            stores: match self.stores {
                FileStores::Back => StoreRule::Back,
                FileStores::Through => StoreRule::Through,
            },
            address: match self.address {
                FileAddress::Physical => AddressUsed::Physical,
                FileAddress::Virtual => AddressUsed::Virtual,
            },
            fills: match self.fills {
                FileFills::Misses => CacheFills::Misses,
                FileFills::Victims => CacheFills::Victims,
            },
        })
    }
}

/// The bytes of a text such as `48K`.
fn bytes(text: &str) -> Option<u64> {
    let (digits, scale) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 10),
        b'M' | b'm' => (&text[..text.len() - 1], 20),
        b'G' | b'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << scale)
}
