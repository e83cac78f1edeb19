//! Trap-driven simulation of a software-managed TLB, as in Tapeworm: the simulator sees only the misses of the TLB that
//! the program runs on (the *host's*), and keeps a simulated TLB beside it.
//!
//! The host's TLB holds only entries that the simulated one holds too, so every simulated miss is a host miss. At a
//! host miss the simulator looks the entry up. If the simulated TLB holds it, it only refills the host's. If not, it
//! counts a simulated miss and fills the simulated TLB, and drops the victim from the host's TLB too. The simulated TLB
//! may be larger, smaller or less associative than the host's.
//!
//! A host miss that is no simulated miss still runs a handler, whose load of a page-table entry may miss too: a miss
//! that the simulated machine would not have ([`NestedMisses`]).
//!
//! Replacement that depends on hits cannot be simulated, because hits do not trap.
//!
//! Source: Uhlig et al. 1994, sections 3.2 and 5.2.1, which does not say what happens to nested misses.

use super::mmu::{Entry, RefillRequest, SoftwareCounts};
use super::slots::{Part, Slots};
use super::spec::SoftwareSpec;
use pagewalk_setassoc::{RelevantHits, Replacement};

/// The treatment of a nested miss whose parent is no simulated miss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NestedMisses {
    /// Neither counted nor filled, like its parent. Counts are then those of the simulated TLB.
    #[default]
    WithParent,
    /// Counted as a miss, as by a simulator that does not notice the nesting.
    Counted,
}

/// Why traps cannot simulate a TLB.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrapDrivenError {
    /// The replacement policy needs hits.
    #[error(
        "replacement \"{0}\" depends on hits, and hits do not trap: only fifo and random can be simulated by traps"
    )]
    Hits(&'static str),
}

impl TrapDrivenError {
    /// Refuses replacement that depends on hits.
    pub fn check(replacement: Replacement) -> Result<(), TrapDrivenError> {
        match replacement.relevant_hits() {
            RelevantHits::Nothing => Ok(()),
            RelevantHits::LastUse(_) | RelevantHits::Changes | RelevantHits::Each => {
                Err(TrapDrivenError::Hits(replacement.name()))
            }
        }
    }
}

/// The two TLBs and the counts.
#[derive(Clone, Debug)]
pub struct TrapDriven {
    simulated: SoftwareSpec,
    slots: Slots,
    host: Slots,
    nested: NestedMisses,
    counts: SoftwareCounts,
    host_misses: u64,
}

impl TrapDriven {
    /// Simulates a TLB on a fully associative host TLB of `host` slots with random replacement, like the R2000's.
    pub fn new(
        simulated: &SoftwareSpec,
        host: u32,
        nested: NestedMisses,
    ) -> Result<TrapDriven, TrapDrivenError> {
        TrapDrivenError::check(simulated.lower_replacement)?;
        TrapDrivenError::check(simulated.upper_replacement)?;
        let random = Replacement::Random { seed: HOST_SEED };
        Ok(TrapDriven {
            slots: simulated.slots(),
            simulated: simulated.clone(),
            host: Slots::new(host as usize, 0, None, [random; 2]),
            nested,
            counts: SoftwareCounts::default(),
            host_misses: 0,
        })
    }

    /// A reference to a page. If the host's TLB holds it, nothing happens. True if it traps.
    pub fn reference(&mut self, page: RefillRequest) -> bool {
        let traps = !self.host.contains(page.key);
        if traps {
            self.trap(page.into(), true);
        }
        traps
    }

    /// A host miss. `heard`: whether its parent, if it has one, is a simulated miss.
    fn trap(&mut self, entry: Entry, heard: bool) {
        self.host_misses += 1;
        if !heard && self.nested == NestedMisses::WithParent {
            // Served outside the TLBs.
            return;
        }
        let missed = !self.slots.contains(entry.key);
        if missed {
            self.counts.charge(&self.simulated, entry.class, 1);
        }
        if let Some(table) = entry.table(&self.simulated).filter(|table| !self.host.contains(table.key)) {
            self.trap(table, missed);
        }
        if missed {
            let part = entry.part(&self.simulated);
            if let Some(gone) = self.slots.insert(part, entry.number, entry.key) {
                self.host.remove(gone);
            }
        }
        // A nested miss that counts may have evicted it.
        if self.slots.contains(entry.key) {
            self.host.insert(Part::Upper, entry.number, entry.key);
        }
    }

    /// The page is no longer mapped.
    pub fn remove(&mut self, key: u64) {
        self.slots.remove(key);
        self.host.remove(key);
    }

    /// Drops pages, not those of tables, by their keys.
    pub fn remove_pages(&mut self, is_gone: impl Fn(u64) -> bool) {
        let gone: Vec<u64> = self.slots.keys().filter(|&key| Entry::is_page(key) && is_gone(key)).collect();
        gone.into_iter().for_each(|key| self.remove(key));
    }

    /// Whether the simulated TLB includes the host's.
    pub fn is_included(&self) -> bool {
        self.host.keys().all(|key| self.slots.contains(key))
    }

    /// Misses of the simulated TLB.
    pub fn counts(&self) -> &SoftwareCounts {
        &self.counts
    }

    /// Misses of the host's TLB; each is a trap.
    pub fn host_misses(&self) -> u64 {
        self.host_misses
    }
}

/// The seed of the host's TLB. It affects the number of traps, but no count.
const HOST_SEED: u64 = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uhlig_1994_policies_that_see_hits_are_refused() {
        for name in Replacement::NAMES {
            let replacement = Replacement::from_name(name, 1).unwrap();
            let refused = TrapDrivenError::check(replacement).is_err();
            assert_eq!(refused, !matches!(name, "fifo" | "random"), "{name}");
        }
        let why = TrapDrivenError::check(Replacement::Lru).unwrap_err().to_string();
        assert!(why.contains("hits do not trap") && why.contains("fifo and random"), "{why}");
    }
}
