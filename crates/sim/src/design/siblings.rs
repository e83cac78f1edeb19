//! Siblings: designs that differ only below the first level.
//!
//! Their first levels hold the same pages at all times, so one simulation serves them all; each has its own lower
//! levels, walker and counts. If the lower levels are one LRU array, they share that simulation too: see
//! [`crate::design::reach`].

use crate::caches::WalkCost;
use crate::classes::{CLASSES, KINDS};
use crate::counts::MissCounts;
use crate::design::reach::ReachFamily;
use crate::sizes::{in_pieces, sizes};
use crate::spec::DesignSpec;
use crate::store::entry::EntryId;
use pagewalk_setassoc::Geometry;
use pagewalk_translate::{ArrayCounts, Asid, LowerLevels, MachineSpec, TlbSpec, TranslationSource, Walker};
use pagewalk_units::{Kind, PageSize, VirtAddr};
use std::sync::Arc;

/// A first-level miss, for all siblings.
#[derive(Clone, Copy)]
pub(crate) struct Miss {
    pub class: usize,
    pub kind: Kind,
    pub held: EntryId,
    pub asid: Asid,
    /// The page number at its size.
    pub number: u64,
    pub size: PageSize,
    /// The size of the mapping page; a TLB may hold a piece of it.
    pub mapped: PageSize,
    pub address: VirtAddr,
}

/// One design's part below the first level.
#[derive(Clone, Debug)]
pub(crate) struct Sibling {
    pub name: String,
    pub machine: MachineSpec,
    /// Its own lower levels, unless the family stands for them.
    lower: Option<LowerLevels>,
    pub walker: Walker,
    /// Its counts, without first-level misses and crossings, which its design counts.
    pub counts: MissCounts,
}

/// Designs with one first level.
#[derive(Clone, Debug)]
pub(crate) struct Siblings {
    all: Vec<Sibling>,
    /// Index of each member of `family`.
    members: Vec<usize>,
    family: ReachFamily,
}

impl Default for Siblings {
    fn default() -> Siblings {
        Siblings { all: Vec::new(), members: Vec::new(), family: ReachFamily::new([]) }
    }
}

/// Specifications with one first level, which one design simulates.
pub(crate) struct Group<'a> {
    pub specs: Vec<&'a DesignSpec>,
    /// See [`Design::hollow`](crate::design::Design::hollow).
    pub hollow: bool,
}

impl<'a> Group<'a> {
    /// The siblings' specifications.
    pub fn siblings(&self) -> &[&'a DesignSpec] {
        if self.hollow { &self.specs } else { &self.specs[1..] }
    }
}

/// The groups of `specs`; and for each specification, in order, its group and its index among the siblings, or `None`
/// if it is the design itself.
pub(crate) fn groups(specs: &[DesignSpec]) -> (Vec<Group<'_>>, Vec<(usize, Option<usize>)>) {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut places = Vec::new();
    for spec in specs {
        let group = groups.iter().position(|group| alike(group.specs[0], spec)).unwrap_or(groups.len());
        if group == groups.len() {
            groups.push(Group { specs: Vec::new(), hollow: false });
        }
        places.push((group, groups[group].specs.len()));
        groups[group].specs.push(spec);
    }
    // The first design is observed and may be copied in mid-run, so it shares nothing.
    for group in groups.iter_mut().skip(1) {
        group.hollow = group.specs.len() > 1 && group.specs[0].reach.is_none();
    }
    let order = places
        .into_iter()
        .map(|(group, index)| (group, if groups[group].hollow { Some(index) } else { index.checked_sub(1) }));
    let order = order.collect();
    (groups, order)
}

/// Whether `other` can be a sibling of `first`.
pub(crate) fn alike(first: &DesignSpec, other: &DesignSpec) -> bool {
    // The sources of facts about an array do not affect its behaviour.
    let level = |spec: &DesignSpec| -> Vec<TlbSpec> {
        let unsourced = |tlb: &TlbSpec| TlbSpec { replacement_source: None, ..tlb.clone() };
        spec.machine.level(1).map(|(_, tlb)| unsourced(tlb)).collect()
    };
    Arc::ptr_eq(&first.policy, &other.policy)
        && other.reach.is_none()
        && [first, other].iter().all(|spec| spec.kernel.is_none())
        && first.machine.paging == other.machine.paging
        && [first, other].iter().all(|spec| spec.machine.caches.is_empty())
        && in_pieces(&first.machine) == in_pieces(&other.machine)
        && first.machine.has_huge_pages() == other.machine.has_huge_pages()
        && first.machine.asids == other.machine.asids
        && [first, other].iter().all(|spec| spec.machine.tlbs.iter().all(TlbSpec::filled_by_misses))
        && [first, other].iter().all(|spec| spec.machine.software().is_none())
        && level(first) == level(other)
}

/// The shape of the only lower array in use, if a family can stand for it.
fn family_shape(machine: &MachineSpec) -> Option<Geometry> {
    let sizes = sizes(machine);
    let used = |tlb: &&TlbSpec| tlb.level > 1 && sizes.iter().any(|&size| tlb.holds(size));
    let mut arrays = machine.tlbs.iter().filter(used);
    let (Some(array), None) = (arrays.next(), arrays.next()) else { return None };
    let all_kinds = KINDS.iter().all(|&kind| array.serves.has(kind));
    let all_sizes = sizes.iter().all(|&size| array.holds(size));
    let alone = array.level == 2 && machine.last_level() == 2 && !array.shared;
    (alone && all_kinds && all_sizes && ReachFamily::stands_for(array)).then_some(array.geometry)
}

impl Siblings {
    /// Adds a sibling.
    pub fn add(&mut self, spec: DesignSpec) {
        let index = self.all.len();
        let lower = match family_shape(&spec.machine) {
            Some(geometry) if self.members.len() < ReachFamily::MEMBERS_MAX => {
                self.members.push(index);
                self.family.add(geometry);
                None
            }
            _ => Some(LowerLevels::new(&spec.machine)),
        };
        self.all.push(Sibling {
            lower,
            walker: Walker::new(&spec.machine.walker),
            name: spec.name,
            machine: spec.machine,
            counts: MissCounts::default(),
        });
    }

    /// Whether there are no siblings.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The sibling with this index.
    pub fn get(&self, index: usize) -> &Sibling {
        &self.all[index]
    }

    /// Serves a first-level miss in all siblings.
    pub fn miss(&mut self, miss: Miss) {
        if !self.members.is_empty() {
            let missing = self.family.touch(miss.held, miss.number);
            for member in crate::bits::bits(missing) {
                self.all[self.members[member]].walk(miss);
            }
        }
        if self.members.len() < self.all.len() {
            self.all.iter_mut().for_each(|sibling| sibling.serve(miss));
        }
    }

    /// Drops a translation from all siblings.
    pub fn invalidate(&mut self, held: EntryId, asid: Asid, number: u64, size: PageSize) {
        self.family.invalidate(held, number);
        for sibling in &mut self.all {
            if let Some(lower) = &mut sibling.lower {
                lower.invalidate(asid, number, size);
            }
            sibling.walker.invalidate_page(asid, number, size);
        }
    }

    /// Switches to another address space.
    pub fn enter(&mut self, asid: Asid) {
        self.all.iter_mut().for_each(|sibling| sibling.walker.enter(asid));
    }

    /// Drops an address space; `gone` tells which entries belong to it.
    pub fn flush(&mut self, asid: Asid, gone: impl Fn(EntryId) -> bool) {
        self.family.flush(gone);
        for sibling in &mut self.all {
            sibling.walker.flush(asid);
            sibling.lower.iter_mut().for_each(|lower| lower.flush(asid));
        }
    }

    /// Hands the arrays that all cores share to another core's designs: see [`Design`](crate::design::Design).
    pub fn give_shared(&mut self, to: &mut Siblings) {
        for (own, other) in self.all.iter_mut().zip(&mut to.all) {
            if let (Some(own), Some(other)) = (&mut own.lower, &mut other.lower) {
                own.swap_shared(other);
            }
        }
    }

    /// Drops a range from walkers' caches.
    pub fn invalidate_walks(&mut self, start: VirtAddr, bytes: u64) {
        self.all.iter_mut().for_each(|sibling| sibling.walker.invalidate(start, bytes));
    }

    /// Lookups and hits of a sibling's lower arrays, by their index in its machine. `misses`: first-level misses by
    /// class.
    pub fn lower_counts(&self, index: usize, misses: [u64; CLASSES]) -> Vec<(usize, ArrayCounts)> {
        let sibling = &self.all[index];
        if let Some(lower) = &sibling.lower {
            return lower.counts().collect();
        }
        let below = sibling.machine.tlbs.iter().enumerate().filter(|(_, tlb)| tlb.level > 1);
        below
            .map(|(array, tlb)| {
                let classes = (0..CLASSES).filter(|&class| tlb.serves.has(KINDS[class]));
                let lookups = classes.map(|class| misses[class]).sum();
                let used = sizes(&sibling.machine).iter().any(|&size| tlb.holds(size));
                let hits = if used { lookups - sibling.counts.walks.iter().sum::<u64>() } else { 0 };
                (array, ArrayCounts { lookups, hits })
            })
            .collect()
    }

    /// How many of the first level's `misses` a sibling's lower levels served.
    pub fn lower_hits(&self, index: usize, misses: u64) -> u64 {
        misses - self.all[index].counts.walks.iter().sum::<u64>()
    }
}

impl Sibling {
    /// Serves a first-level miss in the sibling's own lower levels, if it has any.
    fn serve(&mut self, miss: Miss) {
        let Some(lower) = &mut self.lower else { return };
        let served = lower.look_up(miss.kind, miss.asid, miss.address, miss.size);
        lower.fill(miss.kind, miss.asid, miss.address, miss.size, served);
        if served == TranslationSource::Walk {
            self.walk(miss);
        }
    }

    fn walk(&mut self, miss: Miss) {
        let references = self.walker.walk(miss.address, miss.mapped);
        self.counts.charge(miss.class, WalkCost::flat(references, self.machine.cost.walk_reference));
    }
}
