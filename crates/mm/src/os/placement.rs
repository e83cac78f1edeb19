//! The `placement` and `recoloring` tables of a kernel: where pages lie, and which move.

use super::OsError;
use super::keys::{KeyReader, Keys};
use crate::migration::{
    Active, ActiveSettings, Beside, Capped, Cml, CmlBuffer, CmlSettings, CopyCap, Periodic, PeriodicChoice,
    PeriodicSettings, Sites, SitesSettings, Snapshot, SnapshotSettings, SpaceSaving, TargetRule, Touching,
};
use crate::placement::{BinHopping, Careful, PageColoring, Placement, RandomColors};
use crate::promotion::{Footprint, Policy};
use toml::Value;

/// A placement of the list, made with a seed.
type PlacementEntry = (&'static str, fn(u64) -> Box<dyn Placement>);

/// All placements: one line each.
const PLACEMENTS: &[PlacementEntry] = &[
    ("page-coloring", |_| Box::new(PageColoring)),
    ("bin-hopping", |_| Box::new(BinHopping::default())),
    ("random", |seed| Box::new(RandomColors::new(seed))),
    ("careful", |_| Box::new(Careful::default())),
];

/// A recoloring policy of the list.
pub(super) type RecoloringEntry = KeyReader<Box<dyn Policy>>;

/// All recoloring policies: one line each.
pub(super) const RECOLORINGS: &[RecoloringEntry] = &[
    ("cml", cml),
    ("space-saving", space_saving),
    ("sites", sites),
    ("snapshot-miss", |keys| snapshot(keys, SnapshotSettings::MISS)),
    ("snapshot-delay", |keys| snapshot(keys, SnapshotSettings::DELAY)),
    ("snapshot", |keys| snapshot(keys, SnapshotSettings::SNAPSHOT)),
    ("periodic-random", |keys| periodic(keys, PeriodicChoice::Random)),
    ("periodic-color", |keys| periodic(keys, PeriodicChoice::Competing)),
    ("active-naive", |keys| active(keys, ActiveSettings { misses: 1, interval: 0 })),
    ("active-delay", |keys| active(keys, ActiveSettings { misses: 100, interval: 0 })),
    ("active-throttle", |keys| active(keys, ActiveSettings { misses: 100, interval: 1_000_000 })),
];

/// A kernel's placement and the cache whose colors count, if it places pages.
pub(super) type PlacementChoice = Option<(Box<dyn Placement>, Option<String>)>;

const PLACEMENT: &str = "the color of a page's frame at its first touch; without it and `recoloring`, caches see \
                         virtual addresses, or the frames of `memory`";
const CACHE: &str = "the cache whose colors count: the last physically indexed level by default";

const PERIOD: &str = "cycles from one snapshot or move to the next; for `snapshot-miss`: misses of the cache; for \
                      `sites`: those from one sample to the next, on average";
const ABOVE: &str = "misses of a page above which it competes; 0: its lines and 4 more, but below `interrupt_at`. For \
                     `sites`: samples; 0: one in `period` of those misses";
const SEED: &str = "the seed of random choices";

/// The placement, and the policy beside its recoloring policy, if the keys ask for them.
pub(super) fn placed(
    keys: &mut Keys,
    policy: Box<dyn Policy>,
) -> Result<(Box<dyn Policy>, PlacementChoice), OsError> {
    let own = keys.table("placement", PLACEMENT, false)?;
    let whole = "pages that compete for a cache move to other colors";
    let recolors = match keys.table("recoloring", whole, false)? {
        Some(of) => Some(recoloring(of)?),
        None => None,
    };
    let placement = match own {
        Some(of) => Some(placement(of)?),
        None => recolors.as_ref().map(|_| (Box::new(PageColoring) as Box<dyn Placement>, None)),
    };
    let policy = match recolors {
        Some(recolors) => Box::new(Beside { promotes: policy, recolors }),
        None => policy,
    };
    Ok((policy, placement))
}

fn placement(mut of: Keys) -> Result<(Box<dyn Placement>, Option<String>), OsError> {
    let make = one_of(&mut of, "how the color is chosen", PLACEMENTS)?;
    let seed = of.count("seed", "the seed of `random`", 0, 0..=u64::MAX)?;
    of.document("cache", CACHE, "none", "a cache of the machine file");
    let cache = match of.take("cache") {
        None => None,
        Some(Value::String(name)) => Some(name),
        Some(other) => {
            let (key, expected) = ("os.placement.cache".to_owned(), "the name of a cache".to_owned());
            return Err(OsError::Value { key, given: other.to_string(), expected });
        }
    };
    of.finish()?;
    Ok((make(seed), cache))
}

fn recoloring(mut of: Keys) -> Result<Box<dyn Policy>, OsError> {
    let make = one_of(&mut of, "which pages move, and when (Romer 1998, chapters 4 and 5)", RECOLORINGS)?;
    if of.is_documented() {
        of.document_each(RECOLORINGS)?;
        return wrapped(&mut of, Box::new(Sites::new(SitesSettings::default())));
    }
    let policy = make(&mut of)?;
    let policy = wrapped(&mut of, policy)?;
    of.finish()?;
    Ok(policy)
}

/// The policy with what every recoloring policy can have.
fn wrapped(of: &mut Keys, policy: Box<dyn Policy>) -> Result<Box<dyn Policy>, OsError> {
    let policy = capped(of, policy)?;
    touching(of, policy)
}

/// The policy, with code and data of its own in the caches if it has some.
fn touching(of: &mut Keys, policy: Box<dyn Policy>) -> Result<Box<dyn Policy>, OsError> {
    let code = "bytes of the policy's code, which its work fetches through the caches: 4 in each cycle of its price at \
                most; 0: none";
    let data = "the same of its data, which its work loads";
    let footprint = Footprint {
        code: of.count("code_bytes", code, 0, 0..=Footprint::MAX)?,
        data: of.count("data_bytes", data, 0, 0..=Footprint::MAX)?,
    };
    let touches = footprint != Footprint::default();
    Ok(if touches { Box::new(Touching::new(policy, footprint)) } else { policy })
}

/// The policy, under the cap on copying if there is one.
fn capped(of: &mut Keys, policy: Box<dyn Policy>) -> Result<Box<dyn Policy>, OsError> {
    let copies = "pages moved in each `copies_cycles` at most; 0: no limit";
    let of_page =
        "moves of each page in each `copies_cycles` at most, against pages that move to and fro; 0: no limit";
    let limit = |count: u64| if count == 0 { u64::MAX } else { count };
    let cap = CopyCap {
        copies: limit(of.count("copies_max", copies, 0, 0..=u64::MAX)?),
        copies_of_page: limit(of.count("copies_max_of_page", of_page, 0, 0..=u64::MAX)?),
        cycles: of.count("copies_cycles", "cycles that those limits hold for", 10_000_000, 1..=u64::MAX)?,
    };
    let is_capped = cap.copies.min(cap.copies_of_page) < u64::MAX;
    Ok(if is_capped { Box::new(Capped::new(policy, cap)) } else { policy })
}

/// The entry that the key `policy` names; the first by default.
fn one_of<T: Copy>(
    of: &mut Keys,
    meaning: &'static str,
    entries: &[(&'static str, T)],
) -> Result<T, OsError> {
    let names: Vec<&str> = entries.iter().map(|(name, _)| *name).collect();
    let at = |name: &str| names.iter().position(|&entry| entry == name);
    Ok(entries[of.name("policy", meaning, 0, at, &names.join(", "))?].1)
}

/// Large enough for any hardware.
const ENTRIES_MAX: u64 = 65_536;

fn cml(keys: &mut Keys) -> Result<Box<dyn Policy>, OsError> {
    let recent = "entries of the buffer's LRU segment";
    let hot = "entries of the buffer's HOT segment, which the pages with most misses stay in";
    let recent_entries = keys.count("lru", recent, 16, 1..=ENTRIES_MAX)?;
    let hot_entries = keys.count("hot", hot, 16, 0..=ENTRIES_MAX)?;
    let buffer = CmlBuffer::new(recent_entries as usize, hot_entries as usize);
    Ok(Box::new(Cml::new(cml_settings(keys)?, buffer)))
}

fn space_saving(keys: &mut Keys) -> Result<Box<dyn Policy>, OsError> {
    let entries = "entries of the buffer; 25 with two counters each cost as many bits as CML's 16 and 16";
    let entries = keys.count("entries", entries, 25, 1..=ENTRIES_MAX)?;
    Ok(Box::new(Cml::new(cml_settings(keys)?, SpaceSaving::new(entries as usize))))
}

fn cml_settings(keys: &mut Keys) -> Result<CmlSettings, OsError> {
    let usual = CmlSettings::default();
    let interrupt = "misses of a page that make the kernel read the buffer; 0: 60 more than `recolor_above`";
    let work = "cycles to deliver an interrupt, read the buffer and analyse it";
    let settings = CmlSettings {
        recolor_above: above(keys)?,
        interrupt_at: some(keys.count("interrupt_at", interrupt, 0, 0..=u64::MAX)?),
        clear_cycles: keys.count(
            "clear_cycles",
            "cycles between clears",
            usual.clear_cycles,
            1..=u64::MAX,
        )?,
        target: target(keys)?,
        interrupt_cycles: keys.count("interrupt_cycles", work, usual.interrupt_cycles, 0..=u64::MAX)?,
    };
    if let (Some(above), Some(interrupt)) = (settings.recolor_above, settings.interrupt_at)
        && interrupt <= above
    {
        let why = format!(
            "os.recoloring: interrupt_at = {interrupt} with recolor_above = {above}: no page would compete when the \
             buffer interrupts; choose more than {above}"
        );
        return Err(OsError::Policy(why));
    }
    Ok(settings)
}

fn sites(keys: &mut Keys) -> Result<Box<dyn Policy>, OsError> {
    let usual = SitesSettings::default();
    let (sample, analyse) =
        ("cycles of an interrupt and the record of a sample", "cycles to analyse `samples`");
    let settings = SitesSettings {
        period: keys.count("period", PERIOD, usual.period, 1..=1_000_000_000)?,
        samples: keys.count("samples", "samples between looks at them", usual.samples, 2..=ENTRIES_MAX)?,
        recolor_above: above(keys)?,
        target: target(keys)?,
        seed: keys.count("seed", SEED, usual.seed, 0..=u64::MAX)?,
        sample_cycles: keys.count("sample_cycles", sample, usual.sample_cycles, 0..=u64::MAX)?,
        analyse_cycles: keys.count("analyse_cycles", analyse, usual.analyse_cycles, 0..=u64::MAX)?,
    };
    Ok(Box::new(Sites::new(settings)))
}

/// A number of which 0 stands for the usual one.
fn some(count: u64) -> Option<u64> {
    (count > 0).then_some(count)
}

fn above(keys: &mut Keys) -> Result<Option<u64>, OsError> {
    Ok(some(keys.count("recolor_above", ABOVE, 0, 0..=u64::MAX)?))
}

fn target(keys: &mut Keys) -> Result<TargetRule, OsError> {
    let rule = |name: &str| match name {
        "sequential" => Some(TargetRule::Sequential),
        "coldest-miss" => Some(TargetRule::ColdestMiss),
        "coldest-ref" => Some(TargetRule::ColdestReference),
        "random" => Some(TargetRule::Random),
        _ => None,
    };
    let meaning = "the color that a page moves to: in turn, with the fewest counted misses, with the fewest references \
                   of the cache, or any";
    let names = "sequential, coldest-miss, coldest-ref, random";
    keys.name("target", meaning, TargetRule::default(), rule, names)
}

fn snapshot(keys: &mut Keys, usual: SnapshotSettings) -> Result<Box<dyn Policy>, OsError> {
    let delay = "cycles, or misses, from a snapshot to the one that confirms it";
    let length = "cycles, or misses, that a snapshot lasts at most";
    let pages = "different pages that end a snapshot before";
    let settings = SnapshotSettings {
        period: keys.count("period", PERIOD, usual.period, 1..=u64::MAX)?,
        delay: match usual.delay {
            Some(usual) => Some(keys.count("delay", delay, usual, 0..=u64::MAX)?),
            None => None,
        },
        length: keys.count("length", length, usual.length, 1..=u64::MAX)?,
        pages: keys.count("pages", pages, usual.pages as u64, 2..=65_536)? as usize,
        ..usual
    };
    Ok(Box::new(Snapshot::new(settings)))
}

fn periodic(keys: &mut Keys, choice: PeriodicChoice) -> Result<Box<dyn Policy>, OsError> {
    let period = keys.count("period", PERIOD, 2_000_000, 1..=u64::MAX)?;
    let seed = keys.count("seed", SEED, 0, 0..=u64::MAX)?;
    Ok(Box::new(Periodic::new(PeriodicSettings { choice, period, seed })))
}

fn active(keys: &mut Keys, usual: ActiveSettings) -> Result<Box<dyn Policy>, OsError> {
    let misses = "TLB misses of a color, with a competing page in the TLB, that move a page";
    let interval = "cycles in which at most one page moves; 0: no limit";
    Ok(Box::new(Active::new(ActiveSettings {
        misses: keys.count("misses", misses, usual.misses, 1..=u64::MAX)?,
        interval: keys.count("interval", interval, usual.interval, 0..=u64::MAX)?,
    })))
}
