//! The TLBs that a kernel's policy watches.
//!
//! For each kind of references, a watched TLB has the arrays of the last level that walks fill, whatever page sizes
//! they hold. It also has the arrays further down, which take victims, and all arrays that give them victims. Data and
//! fetches share a TLB if they share an array of it. So do cores; their TLB holds what any core's part holds.

use crate::classes::{CLASSES, FETCH, KINDS, LOAD, STORE};
use pagewalk_translate::{Fills, MachineSpec};
use pagewalk_units::Kind;
use std::collections::BTreeSet;

/// A watched TLB as one core sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchedTlb {
    /// The policy's number for it.
    pub number: usize,
    /// Its arrays, as the machine numbers them.
    pub arrays: Vec<usize>,
    /// Whether cores share it, but not all of its arrays.
    pub is_partly_shared: bool,
}

/// The watched TLBs of one core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchedTlbs {
    /// Data first, fetches last.
    tlbs: Vec<WatchedTlb>,
    /// The index of each class's TLB.
    of_class: [usize; CLASSES],
    /// Whether a hit below the first level may move an entry into one of them, or out of it.
    pub moves_on_hits: bool,
}

/// The arrays of the watched TLB of some classes.
fn arrays_of(machine: &MachineSpec, classes: &[usize]) -> Vec<usize> {
    let of_kind = |kind: Kind| {
        let serving = || machine.tlbs.iter().filter(move |tlb| tlb.serves.has(kind));
        let filled = serving().filter(|tlb| tlb.fills == Fills::Walks).map(|tlb| tlb.level);
        let last = filled.max().unwrap_or(1);
        let indices = 0..machine.tlbs.len();
        indices.filter(move |&at| machine.tlbs[at].serves.has(kind) && machine.tlbs[at].level >= last)
    };
    let mut arrays: BTreeSet<usize> = classes.iter().flat_map(|&class| of_kind(KINDS[class])).collect();
    loop {
        let gives = |from: &usize| arrays.iter().any(|&to| machine.gives_victims(*from, to));
        let givers: Vec<usize> = (0..machine.tlbs.len()).filter(gives).collect();
        let before = arrays.len();
        arrays.extend(givers);
        if arrays.len() == before {
            return arrays.into_iter().collect();
        }
    }
}

impl WatchedTlbs {
    /// The watched TLBs of each of `cores` cores, and by number their entries.
    pub fn of_cores(machine: &MachineSpec, cores: usize) -> (Vec<WatchedTlbs>, Vec<u64>) {
        let mut groups = vec![arrays_of(machine, &[LOAD, STORE]), arrays_of(machine, &[FETCH])];
        if groups[1].is_empty() || groups[1].iter().any(|index| groups[0].contains(index)) {
            groups = vec![arrays_of(machine, &[FETCH, LOAD, STORE])];
        }
        let mut of_class = [0; CLASSES];
        of_class[FETCH] = groups.len() - 1;
        let is_shared = |index: &usize| machine.tlbs[*index].shared;
        let mut entries: Vec<u64> = Vec::new();
        let mut numbers = vec![Vec::new(); groups.len()];
        let shared_by_cores = |group: &Vec<usize>| group.iter().any(is_shared);
        for core in 0..cores.max(1) {
            for (group, numbers) in groups.iter().zip(&mut numbers) {
                let is_counted = core > 0 && shared_by_cores(group);
                numbers.push(if is_counted { numbers[0] } else { entries.len() });
                if !is_counted {
                    entries.push(0);
                }
                let new = group.iter().filter(|index| core == 0 || !is_shared(index));
                let sum: u64 = new.map(|&index| machine.tlbs[index].geometry.entries() as u64).sum();
                entries[numbers[core]] += sum;
            }
        }
        let is_last = |&index: &usize| {
            let tlb = &machine.tlbs[index];
            tlb.level == machine.last_level() && tlb.fills == Fills::Walks
        };
        let moves_on_hits = !groups.iter().flatten().all(is_last);
        let of_core = |core: usize| {
            let tlb = |(arrays, numbers): (&Vec<usize>, &Vec<usize>)| WatchedTlb {
                number: numbers[core],
                arrays: arrays.clone(),
                is_partly_shared: shared_by_cores(arrays) && !arrays.iter().all(is_shared),
            };
            WatchedTlbs { tlbs: groups.iter().zip(&numbers).map(tlb).collect(), of_class, moves_on_hits }
        };
        ((0..cores.max(1)).map(of_core).collect(), entries)
    }

    /// The TLBs.
    pub fn all(&self) -> &[WatchedTlb] {
        &self.tlbs
    }

    /// The TLB of a class.
    pub fn of(&self, class: usize) -> &WatchedTlb {
        &self.tlbs[self.of_class[class]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(arrays: &[(u8, &str, &str)]) -> MachineSpec {
        let array = |(index, &(level, serves, more)): (usize, &(u8, &str, &str))| {
            format!(
                "[[tlb]]\nname = \"t{index}\"\nlevel = {level}\nserves = [{serves}]\npage_sizes = [\"4K\"]\n\
                 entries = {}\nways = 4\n{more}\n",
                4 << index
            )
        };
        let arrays: String = arrays.iter().enumerate().map(array).collect();
        let rest = "[walker]\nkind = \"radix\"\nlevels = 4\n[cost]\nwalk_reference = 20\n";
        let text = format!("schema = 1\nname = \"m\"\n{arrays}{rest}");
        MachineSpec::from_toml("m.toml", &text).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Arrays and numbers of one core's TLBs.
    fn told(tlbs: &WatchedTlbs) -> Vec<(usize, Vec<usize>)> {
        tlbs.all().iter().map(|tlb| (tlb.number, tlb.arrays.clone())).collect()
    }

    const DATA: &str = "\"load\", \"store\"";
    const ALL: &str = "\"fetch\", \"load\", \"store\"";

    #[test]
    fn each_kind_has_the_last_level_that_walks_fill_and_its_victims() {
        let one = |arrays: &[(u8, &str, &str)]| {
            let (cores, entries) = WatchedTlbs::of_cores(&machine(arrays), 1);
            (told(&cores[0]), entries)
        };
        let fetches = (1, "\"fetch\"", "");
        assert_eq!(one(&[fetches, (1, DATA, ""), (2, ALL, "")]), (vec![(0, vec![2])], vec![16]));
        let split = one(&[fetches, (1, DATA, ""), (2, DATA, "")]);
        assert_eq!(split, (vec![(0, vec![2]), (1, vec![0])], vec![16, 4]));
        let victims = (2, ALL, "fills = \"victims\"");
        assert_eq!(one(&[fetches, (1, DATA, ""), victims]), (vec![(0, vec![0, 1, 2])], vec![28]));
        let both = one(&[fetches, (1, DATA, ""), (2, DATA, "fills = \"victims\""), (3, DATA, "")]);
        assert_eq!(both, (vec![(0, vec![3]), (1, vec![0])], vec![32, 4]));
    }

    #[test]
    fn cores_share_a_tlb_if_they_share_an_array_of_it() {
        let arrays = [(1, "\"fetch\"", ""), (1, DATA, ""), (2, DATA, "fills = \"victims\"\nshared = true")];
        let (cores, entries) = WatchedTlbs::of_cores(&machine(&arrays), 3);
        assert_eq!(told(&cores[0]), [(0, vec![1, 2]), (1, vec![0])]);
        assert_eq!(told(&cores[2]), [(0, vec![1, 2]), (3, vec![0])]);
        assert_eq!(entries, [3 * 8 + 16, 4, 4, 4]);
        assert!(cores[1].of(LOAD).is_partly_shared && !cores[1].of(FETCH).is_partly_shared);
    }
}
