//! The `placement` and `recoloring` tables of a kernel: where pages lie, and which move.

use super::OsError;
use super::keys::{KeyReader, Keys};
use crate::Kernel;
use crate::frames::Buddy;
use crate::migration::{
    Active, ActiveSettings, Beside, Capped, Cml, CmlBuffer, CmlSettings, CopyCap, Periodic, PeriodicChoice,
    PeriodicSettings, Sites, SitesSettings, Snapshot, SnapshotSettings, SpaceSaving, TargetRule, Touching,
};
use crate::placement::{BinHopping, Careful, FrameList, Listed, PageColoring, Placement, RandomColors};
use crate::promotion::{Footprint, Policy};
use pagewalk_units::names::closest;

/// All placements: one line each.
pub(super) const PLACEMENTS: &[KeyReader<Box<dyn Placement>>] = &[
    ("page-coloring", |_| Ok(Box::new(PageColoring))),
    ("bin-hopping", |_| Ok(Box::new(BinHopping::default()))),
    ("random", random),
    ("careful", |_| Ok(Box::new(Careful::default()))),
    ("listed", listed),
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

/// A kernel's placement.
pub(super) struct PlacementChoice {
    policy: Box<dyn Placement>,
    /// The cache whose colors count.
    cache: Option<String>,
    is_strict: bool,
}

impl PlacementChoice {
    /// The placement that recoloring policies have by default.
    fn usual() -> PlacementChoice {
        PlacementChoice { policy: Box::new(PageColoring), cache: None, is_strict: false }
    }

    /// The kernel with the placement; `memory` is the kernel's, if it is described.
    pub fn give(self, kernel: Kernel, memory: Option<&Buddy>) -> Result<Kernel, OsError> {
        let refused = |why: String| Err(OsError::Policy(format!("os.placement.{why}")));
        let frames = memory.map_or(u64::MAX, Buddy::frames);
        if let Some(line) = self.policy.list().and_then(|list| list.line_beyond(frames)) {
            let why = format!(
                "frames: line {line}: a frame beyond the {frames} of the memory: choose a larger memory.size, or leave \
                 memory out"
            );
            return refused(why);
        }
        if self.is_strict && memory.is_none() {
            let why = "strict without a memory, which has a free frame of every color: give memory.size";
            return refused(why.to_owned());
        }
        let kernel = kernel.with_placement(self.policy, self.cache);
        Ok(if self.is_strict { kernel.with_strict_colors() } else { kernel })
    }
}

const PLACEMENT: &str = "the color of a page's frame at its first touch; without it and `recoloring`, caches see \
                         virtual addresses, or the frames of `memory`";
const STRICT: &str = "with `memory`: a page whose color has no free frame evicts one of that color, instead of \
                      taking a frame of another";
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
) -> Result<(Box<dyn Policy>, Option<PlacementChoice>), OsError> {
    let own = keys.table_of("placement", PLACEMENT, |given| policy_meant(given, PLACEMENTS))?;
    let whole = "pages that compete for a cache move to other colors";
    let recolors = match keys.table_of("recoloring", whole, |given| policy_meant(given, RECOLORINGS))? {
        Some(of) => Some(recoloring(of)?),
        None => None,
    };
    let placement = match own {
        Some(of) => Some(placement(of)?),
        None => recolors.as_ref().map(|_| PlacementChoice::usual()),
    };
    let policy = match recolors {
        Some(recolors) => Box::new(Beside { promotes: policy, recolors }),
        None => policy,
    };
    Ok((policy, placement))
}

/// The key `policy` of a table, with the entry that is closest to a name given in place of the table.
fn policy_meant<T>(given: &str, entries: &[(&'static str, T)]) -> Option<String> {
    let names = closest(given, entries.iter().map(|(name, _)| *name));
    names.first().map(|name| format!("policy={name}"))
}

fn placement(mut of: Keys) -> Result<PlacementChoice, OsError> {
    let make = one_of(&mut of, "how the color is chosen", PLACEMENTS)?;
    let policy = match of.is_documented() {
        true => of.document_each(PLACEMENTS).map(|()| PlacementChoice::usual().policy)?,
        false => make(&mut of)?,
    };
    let is_strict = of.flag("strict", STRICT, false)?;
    let cache = of.text("cache", CACHE, "none", "a cache of the machine file")?;
    of.finish()?;
    Ok(PlacementChoice { policy, cache, is_strict })
}

fn random(keys: &mut Keys) -> Result<Box<dyn Placement>, OsError> {
    let seed = keys.count("seed", "the seed of `random`", 0, 0..=u64::MAX)?;
    Ok(Box::new(RandomColors::new(seed)))
}

fn listed(keys: &mut Keys) -> Result<Box<dyn Placement>, OsError> {
    let frames =
        "for `listed`: the frames of the first process's pages, as `contiguity --frames` writes them";
    let others = "for `listed`: the placement of pages that the list does not name, or whose frame is taken";
    let text = keys.text("frames", frames, "must be given", "a file, or its text")?;
    let is_other = |name: &&str| *name != "listed";
    let names: Vec<&str> = PLACEMENTS.iter().map(|(name, _)| *name).filter(is_other).collect();
    let at = |name: &str| names.iter().position(|&other| other == name);
    let other = keys.name("others", others, 0, at, &names.join(", "))?;
    if keys.is_documented() {
        return Ok(Box::new(PageColoring));
    }
    let wrong = |why: &dyn std::fmt::Display| OsError::Policy(format!("os.placement.frames: {why}"));
    let text = text.ok_or_else(|| {
        wrong(&"missing: `listed` needs a file of `pagewalk contiguity --frames FILE --pid PID`")
    })?;
    if !text.starts_with(FrameList::START) {
        return Err(wrong(&"the file was not read"));
    }
    let list: FrameList = text.parse().map_err(|error| wrong(&error))?;
    let base = keys.paging.base();
    if list.page != base {
        let why = format!(
            "frames of {}, and base pages of {base}: choose a machine with base pages of {}",
            list.page, list.page
        );
        return Err(wrong(&why));
    }
    Ok(Box::new(Listed::new(list, PLACEMENTS[other].1(keys)?)))
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
