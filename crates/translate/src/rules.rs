//! The rules between several keys of a machine.

use crate::MachineSpec;
use pagewalk_units::{Kind, PageSize};
use std::collections::BTreeSet;

impl MachineSpec {
    /// What breaks a rule, with the choices.
    pub(crate) fn check(&self) -> Result<(), String> {
        let name_ok = |name: &str| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        };
        if !name_ok(&self.name) {
            return Err(format!("name = \"{}\": use letters, digits, `_` and `-`", self.name));
        }
        if self.tlbs.is_empty() {
            return Err("no [[tlb]]: a machine needs at least one array of level 1".to_owned());
        }
        let mut names = BTreeSet::new();
        for tlb in &self.tlbs {
            if !name_ok(&tlb.name) {
                return Err(format!("tlb name \"{}\": use letters, digits, `_` and `-`", tlb.name));
            }
            if !names.insert(&tlb.name) {
                return Err(format!("two arrays are named `{}`: names must differ", tlb.name));
            }
        }
        let cpi = self.cost.cycles_per_instruction;
        if !(cpi.is_finite() && cpi > 0.0) {
            return Err(format!("cost.cycles_per_instruction = {cpi}: must be a number above 0"));
        }
        self.check_levels()?;
        self.check_overlaps()
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
        for kind in [Kind::Fetch, Kind::Load, Kind::Store] {
            if !self.tlbs.iter().any(|tlb| tlb.serves.has(kind) && tlb.holds(PageSize::FOUR_KIB)) {
                let kind = format!("{kind:?}").to_lowercase();
                return Err(format!("no array serves `{kind}` for 4K pages: add it to some `serves`"));
            }
        }
        Ok(())
    }

    fn check_overlaps(&self) -> Result<(), String> {
        for (i, a) in self.tlbs.iter().enumerate() {
            for b in &self.tlbs[i + 1..] {
                let kind = Kind::ALL.into_iter().find(|&k| a.serves.has(k) && b.serves.has(k));
                let size = a.page_sizes.iter().find(|&&size| b.holds(size));
                if let (true, Some(kind), Some(size)) = (a.level == b.level, kind, size) {
                    let kind = format!("{kind:?}").to_lowercase();
                    return Err(format!(
                        "`{}` and `{}` of level {} both hold {size} pages for `{kind}`: one of a level must",
                        a.name, b.name, a.level
                    ));
                }
            }
        }
        Ok(())
    }
}
