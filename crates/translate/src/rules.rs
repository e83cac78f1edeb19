//! Rules that relate several keys of a machine.

use crate::{Coalesce, Fills, MachineSpec, NestedSpec, TlbSpec, WalkerSpec, requests_caches};
use pagewalk_setassoc::{RelevantHits, Replacement, SetIndex};
use pagewalk_units::{Kind, PageSize};
use std::collections::BTreeSet;

impl MachineSpec {
    /// Checks the rules; the error names the broken rule and the choices.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.tlbs.is_empty() {
            return Err("no [[tlb]]: a machine needs at least one array of level 1".to_owned());
        }
        self.check_names()?;
        let cpi = self.cost.cycles_per_instruction;
        if !(cpi > 0.0 && cpi <= 1e6) {
            return Err(format!(
                "cost.cycles_per_instruction = {cpi}: must be a number above 0, up to 1000000"
            ));
        }
        self.check_sizes()?;
        self.check_levels()?;
        self.check_first_level()?;
        self.check_pages_per_entry()?;
        self.check_organisations()?;
        self.check_victims()?;
        self.check_prefetching()?;
        self.check_overlaps()?;
        self.check_data_side()
    }

    /// First levels see no repetitions, so replacement that needs them is allowed only further down.
    fn check_first_level(&self) -> Result<(), String> {
        let needs_repeats = |tlb: &&TlbSpec| tlb.level == 1 && tlb.relevant_hits() == RelevantHits::Each;
        match self.tlbs.iter().find(needs_repeats) {
            Some(TlbSpec { name, replacement, .. }) => {
                let others = Replacement::NAMES.into_iter().filter(|name| {
                    Replacement::from_name(name, 0)
                        .is_some_and(|other| other.relevant_hits() != RelevantHits::Each)
                });
                Err(format!(
                    "tlb `{name}`: replacement = \"{}\" depends on each repeated reference to a \
                     page, which is not simulated at level 1: choose {}, or level 2 or 3",
                    replacement.name(),
                    others.collect::<Vec<_>>().join(", ")
                ))
            }
            None => Ok(()),
        }
    }

    /// Names of arrays are parts of metric names, so they must be unique.
    fn check_names(&self) -> Result<(), String> {
        check_name("name =", requests_caches(&self.name).0)?;
        for cache in &self.caches {
            check_name("cache name", &cache.name)?;
        }
        let ranges = self.data_side.iter().flat_map(|side| &side.range_tlbs);
        let ranges = ranges.map(|ranges| ("range_tlb name", &ranges.name));
        let mut names = BTreeSet::new();
        for (key, name) in self.tlbs.iter().map(|tlb| ("tlb name", &tlb.name)).chain(ranges) {
            check_name(key, name)?;
            if !names.insert(name) {
                return Err(format!("two arrays are named `{name}`: names must differ"));
            }
        }
        let is_level = |tlb: &&TlbSpec| ["level1", "level2", "level3"].contains(&tlb.name.as_str());
        if let Some(TlbSpec { name, .. }) = self.tlbs.iter().find(is_level) {
            return Err(format!(
                "tlb name \"{name}\": `tlb.{name}.misses` counts all arrays of a level: choose another name"
            ));
        }
        let priced = self.data_side.as_deref().is_some_and(|side| side.energy.is_some());
        let walk_caches = if priced { self.walker.caches() } else { Vec::new() };
        match walk_caches.iter().find(|(name, _)| names.contains(name)) {
            Some((name, _)) => Err(format!(
                "an array and a page-walk cache are both named `{name}`, but `energy_pj.{name}` can be about only one: \
                 choose another name"
            )),
            None => Ok(()),
        }
    }

    /// Arrays may only hold page sizes that the walker can map.
    fn check_sizes(&self) -> Result<(), String> {
        let base = self.paging.base();
        for tlb in &self.tlbs {
            for &size in &tlb.page_sizes {
                let why = match &self.walker {
                    WalkerSpec::Radix(radix) | WalkerSpec::Nested(NestedSpec { guest: radix, .. }) => {
                        let sizes = radix.format.page_sizes(radix.levels);
                        let names: Vec<String> = sizes.iter().map(PageSize::to_string).collect();
                        (!sizes.contains(&size)).then(|| {
                            let names = names.join(", ");
                            format!(
                                "a walker of format `{}` cannot map it: choose from {names}",
                                radix.format
                            )
                        })
                    }
                    WalkerSpec::Hashed(_) | WalkerSpec::Software | WalkerSpec::Mapped(_) => (size < base)
                        .then(|| format!("smaller than the base page: choose from {base} upwards")),
                };
                if let Some(why) = why {
                    return Err(format!("tlb `{}`: page_sizes: {size}: {why}", tlb.name));
                }
            }
        }
        Ok(())
    }

    fn check_levels(&self) -> Result<(), String> {
        let last = self.last_level();
        for level in 1..=last {
            if self.level(level).next().is_none() {
                return Err(format!(
                    "no array has level {level}, but some have level {last}: leave none out"
                ));
            }
        }
        let base = self.paging.base();
        for &kind in self.kinds() {
            if !self.tlbs.iter().any(|tlb| tlb.serves.has(kind) && tlb.holds(base)) {
                let kind = format!("{kind:?}").to_lowercase();
                return Err(format!(
                    "no array serves `{kind}` for {base} pages, the machine's base page: an array that has \
                     \"{kind}\" in `serves` must have \"{base}\" in `page_sizes`"
                ));
            }
        }
        Ok(())
    }

    /// Arrays whose entries map several pages must lie below the first level, and neither give nor take victims.
    fn check_pages_per_entry(&self) -> Result<(), String> {
        for tlb in self.tlbs.iter().filter(|tlb| tlb.pages_per_entry != 1) {
            let wrong = |why: String| {
                Err(format!("tlb `{}`: pages_per_entry = {}: {why}", tlb.name, tlb.pages_per_entry))
            };
            if !tlb.pages_per_entry.is_power_of_two() {
                return wrong("choose 1 or another power of two".to_owned());
            }
            if tlb.level == 1 {
                return wrong("only arrays of level 2 and 3 can have more than 1".to_owned());
            }
            if let Some(victims) = self.tlbs.iter().find(|other| other.fills == Fills::Victims) {
                return wrong(format!(
                    "not in a machine with fills = \"victims\", which tlb `{}` has",
                    victims.name
                ));
            }
        }
        Ok(())
    }

    /// Each array's organisation must fit its shape.
    fn check_organisations(&self) -> Result<(), String> {
        self.tlbs.iter().try_for_each(|tlb| match tlb.try_array() {
            Ok(_) => Ok(()),
            Err(why) => Err(format!("tlb `{}`: {why}", tlb.name)),
        })
    }

    /// An array for victims needs an array above that gives them.
    fn check_victims(&self) -> Result<(), String> {
        for tlb in self.tlbs.iter().filter(|tlb| tlb.fills == Fills::Victims) {
            let above: Vec<&TlbSpec> = self.tlbs.iter().filter(|above| above.level < tlb.level).collect();
            let gives = |&&size: &&PageSize| {
                Kind::ALL
                    .into_iter()
                    .any(|kind| tlb.takes(kind, size) && above.iter().any(|above| above.takes(kind, size)))
            };
            if !tlb.page_sizes.iter().any(|size| gives(&size)) {
                let names: Vec<&str> = above.iter().map(|above| above.name.as_str()).collect();
                return Err(format!(
                    "tlb `{}`: fills = \"victims\", but no array above it ({}) shares a kind and a page size with it: \
                     change `serves` or `page_sizes`, or take fills = \"walks\"",
                    tlb.name,
                    names.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// Only the last level may have prefetch buffers.
    fn check_prefetching(&self) -> Result<(), String> {
        let last = self.last_level();
        match self.tlbs.iter().find(|tlb| tlb.prefetch.is_some() && tlb.level != last) {
            Some(tlb) => Err(format!(
                "tlb `{}`: prefetch: it has level {}, and only arrays of the last level, {last}, may prefetch",
                tlb.name, tlb.level
            )),
            None => Ok(()),
        }
    }

    /// Keys that data sides do not support, and keys that only they support.
    fn check_data_side(&self) -> Result<(), String> {
        let Some(side) = &self.data_side else {
            return match self.tlbs.iter().find(|tlb| tlb.coalesce.is_some()) {
                Some(tlb) => {
                    Err(format!("tlb `{}`: coalesce is for machines with side = \"data\"", tlb.name))
                }
                None => Ok(()),
            };
        };
        for tlb in &self.tlbs {
            let wrong = |why: &str| Err(format!("tlb `{}`: with side = \"data\" {why}", tlb.name));
            if tlb.level > 2 {
                return wrong("level is 1 or 2");
            }
            if tlb.serves.has(Kind::Fetch) || !tlb.serves.has(Kind::Load) || !tlb.serves.has(Kind::Store) {
                return wrong("serves = [\"load\", \"store\"]");
            }
            if tlb.replacement != Replacement::Lru || !tlb.filled_by_misses() {
                return wrong("arrays have replacement = \"lru\", fills = \"walks\" and no `prefetch`");
            }
            if tlb.index.sets().is_none() {
                return wrong("all arrays have sets: leave out `index`, or choose modulo, xor-fold or xor-N");
            }
            if tlb.pages_per_entry != 1 || tlb.reserved != 0 {
                return wrong("leave out `pages_per_entry` (there is `coalesce`) and `reserved`");
            }
            let whole = matches!(tlb.coalesce, None | Some(Coalesce::Aligned(_)));
            if tlb.index != SetIndex::Modulo && !(tlb.level == 2 && whole) {
                return wrong(
                    "the low bits choose the set of level-1 arrays and of those that coalesce by other rules than \
                     \"aligned\": leave out `index`",
                );
            }
            if let Some(rule) = tlb.coalesce {
                let pages = rule.pages();
                let most = rule.pages_max();
                if !pages.is_power_of_two() || !(2..=most).contains(&pages) {
                    return wrong(&format!(
                        "coalesce.pages = {pages}: choose a power of two from 2 to {most}"
                    ));
                }
                if !matches!(rule, Coalesce::Aligned(_)) {
                    if tlb.level == 1 {
                        return wrong("level 1 coalesces by rule = \"aligned\" alone");
                    }
                    let alone = !matches!(rule, Coalesce::Anchor(_));
                    if alone && tlb.page_sizes != [self.paging.base()] {
                        let name = rule.name();
                        return wrong(&format!("an array that coalesces by \"{name}\" has base pages alone"));
                    }
                }
            }
        }
        if !matches!(self.walker, WalkerSpec::Radix(_)) {
            return Err("side = \"data\": the walker has kind = \"radix\"".to_owned());
        }
        side.check(&self.tlbs, self.last_level(), !self.caches.is_empty())
    }

    fn check_overlaps(&self) -> Result<(), String> {
        for (i, a) in self.tlbs.iter().enumerate() {
            for b in &self.tlbs[i + 1..] {
                let kind = Kind::ALL.into_iter().find(|&k| a.serves.has(k) && b.serves.has(k));
                let size = a.page_sizes.iter().find(|&&size| b.holds(size));
                if let (true, Some(kind), Some(size)) = (a.level == b.level, kind, size) {
                    let kind = format!("{kind:?}").to_lowercase();
                    return Err(format!(
                        "`{}` and `{}` of level {} both hold {size} pages for `{kind}`: only one array per level may",
                        a.name, b.name, a.level
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Dots separate the parts of metric names, so names may not contain one.
fn check_name(key: &str, name: &str) -> Result<(), String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name.is_empty() || !name.bytes().all(fits) {
        return Err(format!("{key} \"{name}\": use letters, digits, `_` and `-`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a priced data side after this change.
    fn wrong(from: &str, to: &str) -> String {
        let text = include_str!("../../../machines/karakostas_rmm_lite.toml");
        assert!(text.contains(from), "{from}");
        MachineSpec::from_toml("m.toml", &text.replace(from, to)).unwrap_err().to_string()
    }

    #[test]
    fn names_that_metrics_could_not_tell_apart_are_refused() {
        for (from, to, parts) in [
            ("\"l2_range\"", "\"\"", ["range_tlb name \"\"", "letters, digits"]),
            ("\"l2_range\"", "\"a.hits\"", ["range_tlb name \"a.hits\"", "letters, digits"]),
            ("\"l2_range\"", "\"l1_4k\"", ["two arrays are named `l1_4k`", "must differ"]),
            ("\"l2_4k\"", "\"level2\"", ["tlb name \"level2\"", "`tlb.level2.misses`"]),
            ("\"l2_4k\"", "\"pde\"", ["`pde`", "`energy_pj.pde`"]),
            ("\"l1_range\"", "\"pml4\"", ["`pml4`", "`energy_pj.pml4`"]),
        ] {
            let why = wrong(from, to);
            assert!(parts.iter().all(|part| why.contains(part)), "{to}: {why}");
        }
    }

    /// Arm's page-walk caches may have names of TLBs: without energy no metric would contain both.
    #[test]
    fn arrays_without_energy_may_be_named_as_page_walk_caches_are() {
        let text = include_str!("../../../machines/neoverse_v2_contiguous.toml");
        let machine = MachineSpec::from_toml("m.toml", text).unwrap();
        let caches = machine.walker.caches();
        assert!(machine.tlbs.iter().any(|tlb| caches.iter().any(|(name, _)| *name == tlb.name)));
    }
}
