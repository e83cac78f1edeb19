//! Designs whose caches differ from those of the observed one in their walks alone.
//!
//! Below a first level that they share, such designs see the same lines at the same moments, and their own walks. Parts
//! of a hierarchy share no line ([`Parts`]): those that no walk has read from are alike in all designs, and simulated
//! once, as the observed one's. Before a walk first reads from a part, each design gets its own copy.

use crate::caches::waiting_walks::{PassedAt, WaitingWalks};
use crate::caches::{CacheUse, MemoryCaches};
use pagewalk_cache::{CacheSpec, PartLines, Parts};
use pagewalk_translate::MachineSpec;

/// What designs of one cohort have alike.
#[derive(Clone, PartialEq)]
struct Alike {
    /// The number of their first level.
    first: usize,
    /// All their caches.
    caches: Vec<CacheSpec>,
    memory_latency: u64,
}

impl Alike {
    fn of(first: usize, machine: &MachineSpec) -> Alike {
        Alike { first, caches: machine.caches.clone(), memory_latency: machine.cost.memory }
    }
}

/// The designs that follow the observed one. Their caches are out of date where all are alike.
pub(crate) struct Cohort {
    alike: Alike,
    parts: Parts,
    /// By part: whether each design has its own.
    is_own: Vec<bool>,
    /// By follower: what the observed one has counted for it.
    owed: Vec<(usize, CacheUse)>,
    /// A list, for its room.
    room: Vec<PassedAt>,
}

/// What passed a first level, divided.
pub(crate) struct Divided {
    /// Parts that each follower has of its own from now on.
    pub parts: Vec<PartLines>,
    /// For the observed design alone, which counts for all.
    pub alike: Vec<PassedAt>,
    /// For each design.
    pub own: Vec<PassedAt>,
}

impl Cohort {
    /// That of the observed design, with this first level; none if its caches have no parts.
    pub fn of(first: usize, machine: &MachineSpec, observed: &MemoryCaches) -> Option<Cohort> {
        let parts = observed.hierarchy.parts()?;
        let is_own = vec![false; parts.count()];
        let (owed, room) = (Vec::new(), Vec::new());
        Some(Cohort { alike: Alike::of(first, machine), parts, is_own, owed, room })
    }

    /// Whether a design of this first level may follow.
    pub fn admits(&self, first: usize, machine: &MachineSpec) -> bool {
        self.alike == Alike::of(first, machine)
    }

    /// Their first level.
    pub fn first(&self) -> usize {
        self.alike.first
    }

    /// The designs that follow, one bit each.
    pub fn followers(&self) -> u64 {
        self.owed.iter().map(|(design, _)| 1 << design).sum()
    }

    /// A design follows from now on. Where its caches differ from the observed ones, each design has its own part.
    /// Returns the parts that are new to the earlier followers.
    pub fn join(&mut self, design: usize, caches: &MemoryCaches, observed: &MemoryCaches) -> Vec<PartLines> {
        let differs = |part: &usize| {
            !self.is_own[*part] && !observed.hierarchy.has_part_of(&caches.hierarchy, *part, self.parts)
        };
        let differing: Vec<usize> = (0..self.parts.count()).filter(differs).collect();
        let parts = self.divide(differing.into_iter(), observed);
        self.owed.push((design, CacheUse::default()));
        parts
    }

    /// Divides what passed. `walks`: of all designs meanwhile. `observed`: the caches before.
    pub fn divide_passed<'a>(
        &mut self,
        passed: &[PassedAt],
        walks: impl Iterator<Item = &'a WaitingWalks>,
        observed: &MemoryCaches,
    ) -> Divided {
        let of = self.parts;
        let read = walks.flat_map(WaitingWalks::all_entries).map(|&entry| of.of(entry));
        let parts = self.divide(read, observed);
        let (mut alike, mut own) = (std::mem::take(&mut self.room), Vec::new());
        alike.clear();
        for &passed in passed {
            let is_own = self.is_own[of.of(passed.line.address().physical)];
            if is_own { own.push(passed) } else { alike.push(passed) }
        }
        Divided { parts, alike, own }
    }

    /// Takes a list back that [`Cohort::divide_passed`] gave, for its room.
    pub fn reuse(&mut self, alike: Vec<PassedAt>) {
        self.room = alike;
    }

    /// Each design has these parts of its own from now on. Returns those that were alike.
    fn divide(&mut self, parts: impl Iterator<Item = usize>, observed: &MemoryCaches) -> Vec<PartLines> {
        let is_new = |part: &usize| !std::mem::replace(&mut self.is_own[*part], true);
        parts.filter(is_new).map(|part| observed.hierarchy.part(part, self.parts)).collect()
    }

    /// The observed design has taken what is alike. It has counted that for all; `before`: what it had counted.
    pub fn count_for_all(&mut self, observed: &mut MemoryCaches, before: &CacheUse) {
        let counted = observed.take_counts();
        self.owed.iter_mut().for_each(|(_, owed)| owed.add(&counted));
        observed.add_counts(before);
        observed.add_counts(&counted);
    }

    /// Gives the caches of a follower that leaves what they lack.
    pub fn complete(&self, design: usize, caches: &mut MemoryCaches, observed: &MemoryCaches) {
        let Some((_, owed)) = self.owed.iter().find(|(follower, _)| *follower == design) else { return };
        caches.add_counts(owed);
        for part in (0..self.parts.count()).filter(|&part| !self.is_own[part]) {
            caches.hierarchy.set_part(&observed.hierarchy.part(part, self.parts));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Library;
    use crate::bits::bits;
    use crate::caches::passage::Nobody;
    use crate::caches::waiting_walks::WalkCause;
    use crate::moment::{CodePosition, Moment};
    use crate::pass::cache_worker::{CacheWorker, Passage};
    use pagewalk_cache::{CacheAddress, Hierarchy, Requester};
    use pagewalk_setassoc::Geometry;
    use proptest::prelude::*;

    /// The walks of a design: one entry each, and all at once.
    fn walks(entries: &[u64]) -> WaitingWalks {
        let mut walks = WaitingWalks::default();
        for (index, &entry) in entries.iter().enumerate() {
            walks.add(|list| {
                list.push(entry << 3);
                1
            });
            let at = CodePosition::Site(0);
            let cause = WalkCause { class: 0, page: 0, span: 0, at, instructions: 0 };
            // Some are ahead of need.
            walks.note(Moment::of_data(index * 3), (entry % 3 > 0).then_some(cause));
        }
        walks
    }

    fn take(caches: &mut MemoryCaches, passed: &[PassedAt], walks: &WaitingWalks) {
        caches.take_passed(passed, walks, &mut Nobody);
    }

    /// Designs of which the first is observed, the last is of other caches, and the others may follow.
    struct Designs {
        machines: Vec<MachineSpec>,
        caches: Vec<MemoryCaches>,
        worker: CacheWorker,
        cohort: Option<Cohort>,
    }

    impl Designs {
        fn new(machines: &[MachineSpec], caches: &[MemoryCaches], worker: CacheWorker) -> Designs {
            Designs { machines: machines.to_vec(), caches: caches.to_vec(), worker, cohort: None }
        }

        fn join(&mut self, design: usize) {
            let Designs { machines, caches, worker, cohort } = self;
            let own = caches[design].send_away();
            if cohort.is_none() {
                *cohort = Cohort::of(0, &machines[0], &caches[0]);
            }
            let cohort = cohort.as_mut().expect("the caches have parts");
            assert_eq!(cohort.admits(0, &machines[design]), design + 1 < caches.len());
            if cohort.admits(0, &machines[design]) {
                let earlier =
                    bits(cohort.followers()).map(|design| (design, WaitingWalks::default())).collect();
                let parts = cohort.join(design, &own, &caches[0]);
                worker.take(Passage { parts, passed: Vec::new(), walks: earlier });
            }
            worker.own(design, Box::new(own));
        }

        fn come_back(&mut self) {
            let cohort = self.cohort.take();
            for (design, mut back) in self.worker.give_back() {
                cohort.iter().for_each(|cohort| cohort.complete(design, &mut back, &self.caches[0]));
                self.caches[design].come_back(*back);
            }
        }

        fn take(&mut self, passed: &[PassedAt], all: &[WaitingWalks]) {
            let Designs { caches, worker, cohort, .. } = self;
            let followers = cohort.as_ref().map_or(0, Cohort::followers);
            let of = |designs: u64| bits(designs).map(|design| (design, all[design].clone())).collect();
            for design in bits(((1 << caches.len()) - 1) & !1 & !worker.owns) {
                take(&mut caches[design], passed, &all[design]);
            }
            let others = worker.owns & !followers;
            worker.take(Passage { parts: Vec::new(), passed: passed.to_vec(), walks: of(others) });
            let Some(cohort) = cohort else { return take(&mut caches[0], passed, &all[0]) };
            let meanwhile = bits(followers | 1).map(|design| &all[design]);
            let Divided { parts, alike, own } = cohort.divide_passed(passed, meanwhile, &caches[0]);
            let before = caches[0].take_counts();
            take(&mut caches[0], &alike, &WaitingWalks::default());
            cohort.count_for_all(&mut caches[0], &before);
            take(&mut caches[0], &own, &all[0]);
            worker.take(Passage { parts, passed: own, walks: of(followers) });
        }
    }

    proptest! {
        /// Caches of several designs below the first level, some of which come late, or are taken back and given away
        /// again: on the thread, here, and each alone.
        #[test]
        fn cohorts_count_as_each_design_alone(
            stretches in prop::collection::vec(
                (
                    prop::collection::vec(0..1_u64 << 11, 0..200),
                    prop::collection::vec(prop::collection::vec(0..1_u64 << 14, 0..3), 5),
                ),
                1..8,
            ),
            late in 0..6_usize,
            back in 0..6_usize,
            slices in prop::sample::select(vec![1_u32, 3]),
        ) {
            let mut machine = Library::get("zen4+caches").unwrap();
            // Few sets, so that lines leave all caches.
            for (cache, (entries, ways)) in machine.caches.iter_mut().zip([(64, 4), (64, 4), (64, 4), (512, 8)]) {
                cache.geometry = Geometry::new(entries, Some(ways)).unwrap();
            }
            machine.caches[3].slices = slices;
            let mut machines = vec![machine; 5];
            machines[4].cost.memory = 0;
            let empty = |machine: &MachineSpec| {
                let mut caches = MemoryCaches::of(machine).unwrap();
                caches.leave_first_level_to(0, machine, true);
                caches
            };
            let mut first = Hierarchy::first_level(&machines[0].caches, machines[0].cost.memory);
            let mut alone: Vec<MemoryCaches> = machines.iter().map(empty).collect();
            let mut placed = [CacheWorker::here(), CacheWorker::thread().unwrap()]
                .map(|worker| Designs::new(&machines, &alone, worker));
            for (number, (lines, entries)) in stretches.iter().enumerate() {
                let mut passed = Vec::new();
                for (index, line) in lines.iter().enumerate() {
                    let by = if line % 3 == 0 { Requester::Store } else { Requester::Load };
                    first.access(by, CacheAddress::same(line << 6));
                    let moment = Moment::of_data(index);
                    passed.extend(first.passed().iter().map(|&line| PassedAt { moment, line }));
                    first.clear_passed();
                }
                let all: Vec<WaitingWalks> = entries.iter().map(|entries| walks(entries)).collect();
                alone.iter_mut().zip(&all).for_each(|(caches, walks)| take(caches, &passed, walks));
                for designs in &mut placed {
                    if number == back {
                        designs.come_back();
                    }
                    for design in (1..5).filter(|design| *design != 2 || number >= late) {
                        if designs.worker.owns >> design & 1 == 0 {
                            designs.join(design);
                        }
                    }
                    designs.take(&passed, &all);
                }
            }
            for mut designs in placed {
                designs.come_back();
                for (design, (found, expected)) in designs.caches.iter_mut().zip(&alone).enumerate() {
                    prop_assert_eq!(found.counts, expected.counts, "design {}", design);
                    let waited = [&*found, expected].map(|memory| memory.clone().take_waited_cycles());
                    prop_assert_eq!(waited[0], waited[1], "design {}", design);
                    let parts = expected.hierarchy.parts().unwrap();
                    for part in 0..parts.count() {
                        let is_equal = found.hierarchy.has_part_of(&expected.hierarchy, part, parts);
                        prop_assert!(is_equal, "design {}, part {}", design, part);
                    }
                    for cache in 0..2 {
                        for by in Requester::ALL {
                            let [found, expected] =
                                [&*found, expected].map(|memory| memory.hierarchy.counts(cache, by));
                            prop_assert_eq!(found, expected, "design {}, cache {}, {:?}", design, cache, by);
                        }
                    }
                }
            }
        }
    }
}
