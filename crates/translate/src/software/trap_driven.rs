//! Trap-driven simulation of a software-managed TLB, as Tapeworm does it: the simulator sees nothing but the misses of
//! the TLB that the program really runs on (the *host's*), and keeps a simulated TLB beside it.
//!
//! The host's TLB holds only what the simulated one holds too. So whatever misses there misses here, and the simulator
//! hears of it. At a host miss it looks the entry up: what the simulated TLB has is refilled in silence; what it lacks
//! is a simulated miss, is counted and put into the simulated TLB, and what it replaces there is dropped from the
//! host's too. The simulated TLB may be larger, smaller or less associative than the host's.
//!
//! A host miss that the simulated TLB would not have had still runs a handler, whose load of a page-table entry may
//! miss in its turn: a miss that no simulated machine takes ([`NestedMisses`]).
//!
//! Replacement that depends on hits cannot be simulated, as hits do not trap.
//!
//! Source: Uhlig et al. 1994, sections 3.2 and 5.2.1. What becomes of nested misses is not said there.

use super::mmu::{Entry, RefillRequest, SoftwareCounts};
use super::slots::{Part, Slots};
use super::spec::SoftwareSpec;
use pagewalk_setassoc::{RelevantHits, Replacement};

/// What becomes of a nested miss whose parent only the host's TLB missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NestedMisses {
    /// It shares its parent's fate: neither counted nor filled anywhere. Then counts are those of the simulated TLB.
    #[default]
    WithParent,
    /// It is taken for a miss of its own: what a simulator does that does not know of it.
    Counted,
}

/// Why a TLB cannot be simulated by traps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrapError {
    /// The policy is told of hits.
    #[error(
        "replacement \"{0}\" depends on hits, and hits do not trap: only fifo and random can be simulated by traps"
    )]
    Hits(&'static str),
}

impl TrapError {
    /// Refuses what depends on hits.
    pub fn check(replacement: Replacement) -> Result<(), TrapError> {
        match replacement.relevant_hits() {
            RelevantHits::Nothing => Ok(()),
            RelevantHits::LastUse(_) | RelevantHits::Changes | RelevantHits::Each => {
                Err(TrapError::Hits(replacement.name()))
            }
        }
    }
}

/// The two TLBs, and what was counted.
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
    /// Simulates a TLB on a fully associative host of `host` slots with random replacement, as that of the R2000.
    pub fn new(simulated: &SoftwareSpec, host: u32, nested: NestedMisses) -> Result<TrapDriven, TrapError> {
        TrapError::check(simulated.lower_replacement)?;
        TrapError::check(simulated.upper_replacement)?;
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

    /// The program references a page: most often the host's TLB has it, and nobody hears of it. Says whether it
    /// trapped.
    pub fn reference(&mut self, page: RefillRequest) -> bool {
        let traps = !self.host.contains(page.key);
        if traps {
            self.trap(page.into(), true);
        }
        traps
    }

    /// The host missed an entry. `heard`: whether its parent, if it has one, was a simulated miss.
    fn trap(&mut self, entry: Entry, heard: bool) {
        self.host_misses += 1;
        if !heard && self.nested == NestedMisses::WithParent {
            // Served beside the TLBs.
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
        // A nested miss that is counted for its own may have displaced it.
        if self.slots.contains(entry.key) {
            self.host.insert(Part::Upper, entry.number, entry.key);
        }
    }

    /// The page is no longer mapped.
    pub fn remove(&mut self, key: u64) {
        self.slots.remove(key);
        self.host.remove(key);
    }

    /// Whether the host's TLB holds nothing that the simulated one does not.
    pub fn is_included(&self) -> bool {
        self.host.keys().all(|key| self.slots.contains(key))
    }

    /// Misses of the simulated TLB.
    pub fn counts(&self) -> &SoftwareCounts {
        &self.counts
    }

    /// Misses of the host's, each a trap.
    pub fn host_misses(&self) -> u64 {
        self.host_misses
    }
}

/// Where the random numbers of a host's TLB begin. They decide how often it traps, not what is counted.
const HOST_SEED: u64 = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uhlig_1994_policies_that_see_hits_are_refused() {
        for name in Replacement::NAMES {
            let replacement = Replacement::from_name(name, 1).unwrap();
            let refused = TrapError::check(replacement).is_err();
            assert_eq!(refused, !matches!(name, "fifo" | "random"), "{name}");
        }
        let why = TrapError::check(Replacement::Lru).unwrap_err().to_string();
        assert!(why.contains("hits do not trap") && why.contains("fifo and random"), "{why}");
    }
}
