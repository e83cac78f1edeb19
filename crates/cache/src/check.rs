//! The check that caches form a valid hierarchy.

use crate::path::path;
use crate::slices::Slices;
use crate::{AddressUsed, CacheFills, CacheOrganisation, CacheSpec, Requester, StoreRule};
use pagewalk_setassoc::{Geometry, Replacement};
use std::collections::BTreeSet;

/// Why caches do not form a valid hierarchy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// Two caches have the same name.
    #[error("two caches are named `{0}`: names must differ")]
    Name(String),
    /// The replacement policy does not support the geometry.
    #[error("cache `{0}`: replacement: {1}")]
    Replacement(String, String),
    /// No or too many slices.
    #[error("cache `{0}`: slices = {1}: choose at least 1, at most {max} lines in all", max = Geometry::ENTRIES_MAX)]
    Slices(String, u32),
    /// A cache that cannot be inclusive.
    #[error("cache `{0}` has inclusive = true, but {1}")]
    Inclusive(String, String),
    /// An organisation that does not suit the cache.
    #[error("cache `{0}`: organisation = \"{1}\": {2}")]
    Organisation(String, &'static str, String),
    /// A write buffer without stores to hold, or one that cannot drain.
    #[error("cache `{0}`: write_buffer: {1}")]
    WriteBuffer(String, &'static str),
    /// Lines that are shorter than those of the level above.
    #[error(
        "cache `{2}` has lines of {3} bytes and lies below `{0}` with lines of {1}: choose line = {1} or more for `{2}`"
    )]
    Lines(String, u64, String, u64),
    /// A victim cache with lines of another size than those that it takes.
    #[error(
        "cache `{0}` has fills = \"victims\" and lines of {1} bytes, but takes those of `{2}`: choose line = {3}"
    )]
    VictimsLines(String, u64, String, u64),
    /// Two caches of a level serve the same requester.
    #[error("caches `{0}` and `{1}` of level {2} both serve `{3}`: only one cache per level may serve it")]
    Overlap(String, String, u8, &'static str),
    /// A victim cache of level 1.
    #[error(
        "cache `{0}` of level 1 has fills = \"victims\": choose a level below the caches whose lines it takes"
    )]
    VictimsFirst(String),
    /// A victim cache below no cache.
    #[error(
        "cache `{name}` of level {level} has fills = \"victims\", but no cache of level {} serves any of {serves}",
        .level - 1
    )]
    VictimsOfNone {
        /// The cache.
        name: String,
        /// Its level.
        level: u8,
        /// Whom it serves.
        serves: String,
    },
    /// A victim cache that would take lines of a requester that never looks it up.
    #[error(
        "cache `{0}` has fills = \"victims\" and takes what `{1}` evicts, which also serves `{2}`: add `{2}` to the \
         `serves` of `{0}`"
    )]
    VictimsServe(String, String, &'static str),
    /// A victim cache with another rule for stores than a cache above.
    #[error(
        "cache `{0}` has fills = \"victims\" and takes what `{1}` evicts, which has stores = \"{2}\": choose the same \
         for `{0}`"
    )]
    VictimsStores(String, String, &'static str),
    /// Private caches below a shared one.
    #[error("cache `{1}` lies below `{0}`, which all cores share: give `{1}` shared = true too")]
    Shared(String, String),
    /// Virtual addresses below physical ones.
    #[error(
        "cache `{1}` has address = \"virtual\" and lies below `{0}`, whose addresses are translated already: choose \
         \"physical\""
    )]
    Address(String, String),
    /// A level that is faster than the one above it.
    #[error(
        "cache `{name}` of level {level} has latency = {latency}, less than the {above_latency} of `{above}` above it: \
         a latency counts from the start of the access, so choose at least {above_latency}"
    )]
    Latency {
        /// The cache.
        name: String,
        /// Its level.
        level: u8,
        /// Its cycles.
        latency: u64,
        /// The cache above it.
        above: String,
        /// Its cycles.
        above_latency: u64,
    },
    /// No cache serves page walks.
    #[error("no cache serves `walk`: add it to the `serves` of those that page walks look up")]
    NoWalks,
}

/// Checks that caches form a valid hierarchy. `walks`: for page walks too.
pub fn check(caches: &[CacheSpec], walks: bool) -> Result<(), CacheError> {
    let mut names = BTreeSet::new();
    if let Some(twice) = caches.iter().find(|cache| !names.insert(&cache.name)) {
        return Err(CacheError::Name(twice.name.clone()));
    }
    for (i, a) in caches.iter().enumerate() {
        let geometry = Slices::geometry(a).map_err(|_| CacheError::Slices(a.name.clone(), a.slices))?;
        if let Err(why) = a.replacement.serves(geometry.ways()) {
            return Err(CacheError::Replacement(a.name.clone(), why.to_string()));
        }
        check_write_buffer(a)?;
        check_organisation(a)?;
        for b in &caches[i + 1..] {
            let both = a.serves.iter().find(|&requester| b.serves.has(requester));
            if let (true, Some(both)) = (a.level == b.level, both) {
                return Err(CacheError::Overlap(a.name.clone(), b.name.clone(), a.level, both.name()));
            }
        }
    }
    for requester in Requester::ALL {
        for pair in path(caches, requester).windows(2) {
            check_pair(&caches[pair[0]], &caches[pair[1]])?;
        }
    }
    caches
        .iter()
        .filter(|cache| cache.fills == CacheFills::Victims)
        .try_for_each(|victims| check_victims(caches, victims))?;
    caches.iter().filter(|cache| cache.inclusive).try_for_each(|cache| check_inclusive(caches, cache))?;
    if walks && !caches.iter().any(|cache| cache.serves.has(Requester::Walk)) {
        return Err(CacheError::NoWalks);
    }
    Ok(())
}

fn check_organisation(cache: &CacheSpec) -> Result<(), CacheError> {
    let (name, ways) = match cache.organisation {
        CacheOrganisation::Sets => return Ok(()),
        CacheOrganisation::Column { .. } => ("column", 1),
        CacheOrganisation::Pseudo { .. } => ("pseudo", 2),
    };
    let refused = |why: String| Err(CacheError::Organisation(cache.name.clone(), name, why));
    if cache.geometry.ways() != ways {
        return refused(format!("choose ways = {ways}, not {}", cache.geometry.ways()));
    }
    if cache.geometry.entries() < 2 {
        return refused("each line has two places: choose a size of at least two lines".to_owned());
    }
    if cache.replacement != Replacement::Lru {
        return refused("it decides itself which line leaves: leave out `replacement`".to_owned());
    }
    if cache.slices > 1 {
        return refused("no slices can have it: leave out `slices`".to_owned());
    }
    match cache.slow_latency() {
        Some(slow) if slow < cache.latency => refused(format!(
            "slow_latency = {slow} is less than latency = {}: a slow hit takes at least as long as a fast one",
            cache.latency
        )),
        _ => Ok(()),
    }
}

fn check_write_buffer(cache: &CacheSpec) -> Result<(), CacheError> {
    let Some(buffer) = cache.write_buffer else { return Ok(()) };
    let refused = |why| Err(CacheError::WriteBuffer(cache.name.clone(), why));
    if !cache.passes_on(Requester::Store) || !cache.serves.has(Requester::Store) {
        return refused("it holds stores on their way: give stores = \"through\", and `store` in `serves`");
    }
    if cache.shared {
        return refused("each core has a clock of its own: leave out shared = true");
    }
    if !(1..=1024).contains(&buffer.entries) {
        return refused("choose 1 to 1024 entries");
    }
    if buffer.drain == 0 {
        return refused("drain = 0 never fills it: choose at least 1 cycle, or leave both keys out");
    }
    Ok(())
}

/// Checks a cache that a requester looks up, and the next one.
fn check_pair(above: &CacheSpec, below: &CacheSpec) -> Result<(), CacheError> {
    let names = || (above.name.clone(), below.name.clone());
    if above.shared && !below.shared {
        let (above, below) = names();
        return Err(CacheError::Shared(above, below));
    }
    if above.address == AddressUsed::Physical && below.address == AddressUsed::Virtual {
        let (above, below) = names();
        return Err(CacheError::Address(above, below));
    }
    if below.line_shift < above.line_shift {
        let (above_name, below_name) = names();
        return Err(CacheError::Lines(above_name, 1 << above.line_shift, below_name, 1 << below.line_shift));
    }
    if below.latency < above.latency {
        return Err(CacheError::Latency {
            name: below.name.clone(),
            level: below.level,
            latency: below.latency,
            above: above.name.clone(),
            above_latency: above.latency,
        });
    }
    Ok(())
}

/// Checks a victim cache against the caches of the level above that serve some of its requesters.
fn check_victims(caches: &[CacheSpec], victims: &CacheSpec) -> Result<(), CacheError> {
    let name = || victims.name.clone();
    if victims.level == 1 {
        return Err(CacheError::VictimsFirst(name()));
    }
    let mut above = caches.iter().filter(|cache| victims.takes_victims_of(cache)).peekable();
    if above.peek().is_none() {
        let serves: Vec<&str> = victims.serves.iter().map(Requester::name).collect();
        return Err(CacheError::VictimsOfNone {
            name: name(),
            level: victims.level,
            serves: serves.join(", "),
        });
    }
    above.try_for_each(|above| {
        if let Some(more) = above.serves.iter().find(|&requester| !victims.serves.has(requester)) {
            return Err(CacheError::VictimsServe(name(), above.name.clone(), more.name()));
        }
        if above.line_shift != victims.line_shift {
            let [own, theirs] = [1 << victims.line_shift, 1 << above.line_shift];
            return Err(CacheError::VictimsLines(name(), own, above.name.clone(), theirs));
        }
        if above.serves.has(Requester::Store) && above.stores != victims.stores {
            let stores = if above.stores == StoreRule::Back { "back" } else { "through" };
            return Err(CacheError::VictimsStores(name(), above.name.clone(), stores));
        }
        Ok(())
    })
}

/// Checks an inclusive cache against the caches above it.
fn check_inclusive(caches: &[CacheSpec], cache: &CacheSpec) -> Result<(), CacheError> {
    let refused = |why: String| Err(CacheError::Inclusive(cache.name.clone(), why));
    if cache.fills == CacheFills::Victims {
        return refused(
            "fills = \"victims\" makes it hold what the level above does not: leave out one".to_owned(),
        );
    }
    let mut above = caches.iter().filter(|above| cache.drops_from(above)).peekable();
    if above.peek().is_none() {
        return refused("no cache above it serves any of its requesters: leave it out".to_owned());
    }
    above.try_for_each(|above| {
        let name = &above.name;
        if above.address != cache.address {
            return refused(format!(
                "virtual addresses find lines of `{name}` above it, so physical ones cannot drop them there: leave it \
                 out, or choose address = \"physical\" for `{name}`"
            ));
        }
        if let Some(more) = above.serves.iter().find(|&requester| !cache.serves.has(requester)) {
            let more = more.name();
            return refused(format!("`{name}` above it also serves `{more}`: add `{more}` to its `serves`"));
        }
        if above.may_be_dirty() && !cache.may_be_dirty() {
            return refused(format!(
                "stores fill `{name}` above it and not itself: leave out stores = \"through\", or give it to `{name}`"
            ));
        }
        Ok(())
    })
}
