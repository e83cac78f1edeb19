//! Caches of designs that differ in their walks alone.
//!
//! Below a first level that they share, such designs see the same lines at the same moments, and their own walks. Parts
//! of a hierarchy share no line ([`Parts`]): those that no walk has read from are alike in all designs, and simulated
//! once for all. At its first walk a part becomes each design's own.

use crate::caches::MemoryCaches;
use crate::waiting_walks::{PassedAt, WaitingWalks};
use pagewalk_cache::Parts;

/// What passed a first level during a part of a batch.
pub(crate) struct Passage {
    pub passed: Vec<PassedAt>,
    /// By design, for all that take what passed.
    pub walks: Vec<(usize, WaitingWalks)>,
}

/// All cohorts of a pass.
#[derive(Default)]
pub(crate) struct Cohorts(Vec<Cohort>);

/// A design and its caches.
type Member = (usize, Box<MemoryCaches>);

/// Designs of the same caches.
#[derive(Default)]
struct Cohort {
    members: Vec<Member>,
    /// Once it has several members, if their caches have parts.
    common: Option<Common>,
}

/// What the members' caches hold alike, and its counts that the members do not have yet.
struct Common {
    memory: MemoryCaches,
    parts: Parts,
    /// By part: whether each member has its own.
    is_own: Vec<bool>,
}

impl Cohorts {
    /// Gives the caches of a design to the cohort with this number.
    pub fn add(&mut self, cohort: usize, design: usize, memory: Box<MemoryCaches>) {
        self.0.resize_with(self.0.len().max(cohort + 1), Cohort::default);
        self.0[cohort].add((design, memory));
    }

    /// Lets what passed go on to the designs that take it.
    pub fn take(&mut self, passages: &[Passage]) {
        for cohort in &mut self.0 {
            passages.iter().for_each(|passage| cohort.take(passage));
        }
    }

    /// Gives all caches back, by design.
    pub fn give_back(&mut self) -> Vec<Member> {
        std::mem::take(&mut self.0).into_iter().flat_map(Cohort::give_back).collect()
    }
}

impl Cohort {
    fn add(&mut self, new: Member) {
        let Cohort { members, common } = self;
        if let Some(common) = common {
            common.settle(members);
            common.compare(&new.1, members);
        } else if let Some((_, first)) = members.first() {
            *common = Common::of(first, &new.1);
        }
        members.push(new);
    }

    fn take(&mut self, passage: &Passage) {
        let Cohort { members, common } = self;
        let of = |design: usize| passage.walks.iter().find(|(own, _)| *own == design).map(|(_, walks)| walks);
        let walks: Vec<&WaitingWalks> = members.iter().filter_map(|&(design, _)| of(design)).collect();
        if walks.is_empty() {
            // It has another first level.
            return;
        }
        assert_eq!(walks.len(), members.len(), "designs that give up are taken back before");
        let own;
        let mut passed = &passage.passed;
        if let Some(common) = common {
            for &entry in walks.iter().flat_map(|walks| walks.all_entries()) {
                common.divide(common.parts.of(entry), members);
            }
            own = common.take(passed);
            passed = &own;
        }
        for ((_, memory), walks) in members.iter_mut().zip(walks) {
            memory.take_passed::<false>(passed, walks, |_, _| {}, |_, _| {});
        }
    }

    fn give_back(self) -> Vec<Member> {
        let Cohort { mut members, common } = self;
        if let Some(mut common) = common {
            common.settle(&mut members);
            members.iter_mut().for_each(|(_, memory)| common.complete(memory));
        }
        members
    }
}

impl Common {
    /// What two designs' caches hold alike, if they have parts.
    fn of(one: &MemoryCaches, other: &MemoryCaches) -> Option<Common> {
        let parts = one.hierarchy.parts()?;
        let is_own = |part| !one.hierarchy.has_part_of(&other.hierarchy, part, parts);
        let mut memory = one.clone();
        memory.clear_counts();
        Some(Common { memory, parts, is_own: (0..parts.count()).map(is_own).collect() })
    }

    /// Gives the members of old their own parts where a new one differs.
    fn compare(&mut self, new: &MemoryCaches, members: &mut [Member]) {
        for part in 0..self.parts.count() {
            if !self.is_own[part] && !self.memory.hierarchy.has_part_of(&new.hierarchy, part, self.parts) {
                self.divide(part, members);
            }
        }
    }

    /// Gives each member its own copy of a part.
    fn divide(&mut self, part: usize, members: &mut [Member]) {
        if !std::mem::replace(&mut self.is_own[part], true) {
            for (_, memory) in members {
                memory.hierarchy.copy_part(&self.memory.hierarchy, part, self.parts);
            }
        }
    }

    /// Takes the lines of its parts; returns the others.
    fn take(&mut self, passed: &[PassedAt]) -> Vec<PassedAt> {
        let is_own = |passed: &&PassedAt| self.is_own[self.parts.of(passed.line.address().physical)];
        let (own, alike): (Vec<PassedAt>, Vec<PassedAt>) = passed.iter().partition(is_own);
        self.memory.take_passed::<false>(&alike, &WaitingWalks::default(), |_, _| {}, |_, _| {});
        own
    }

    /// Adds its counts to those of the members.
    fn settle(&mut self, members: &mut [Member]) {
        for (_, memory) in members {
            memory.add_counts(&self.memory);
        }
        self.memory.clear_counts();
    }

    /// Makes the contents of a member's caches whole.
    fn complete(&self, member: &mut MemoryCaches) {
        for part in (0..self.parts.count()).filter(|&part| !self.is_own[part]) {
            member.hierarchy.copy_part(&self.memory.hierarchy, part, self.parts);
        }
    }
}
