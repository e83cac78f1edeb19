//! Binds a plan to a stream: finds its objects, and checks that their places are free.

use crate::objects::{Owner, OwnerId, OwnerKind, Owners};
use pagewalk_plan::{Layout, Place};
use pagewalk_trace::{Event, StreamHeader};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::ops::Range;

/// Why a plan does not suit a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RebaseError {
    /// Another build was recorded.
    #[error("{file}: the plan is for build-id {planned}, the trace has {recorded}")]
    BuildId {
        /// The object.
        file: String,
        /// Its build-id in the plan.
        planned: String,
        /// Its build-id in the stream.
        recorded: String,
    },
    /// The object is larger than its place.
    #[error("{file}: {recorded:#x} bytes in the trace do not fit into a place of {planned:#x}")]
    TooLarge {
        /// The object.
        file: String,
        /// Its size in the plan.
        planned: u64,
        /// Its size in the stream.
        recorded: u64,
    },
    /// Immovable memory in the object's place.
    #[error("{file}: its place {:#x}-{:#x} has {other} at {:#x}-{:#x}",
            .place.start, .place.end, .there.start, .there.end)]
    Taken {
        /// The object.
        file: String,
        /// Its planned place.
        place: Range<u64>,
        /// The obstacle: a file, or a kind of memory in brackets.
        other: String,
        /// The obstacle's range.
        there: Range<u64>,
    },
    /// The program moves the object itself.
    #[error("{file}: the program moves parts of it itself (mremap), so it has no one base")]
    Remapped {
        /// The object.
        file: String,
    },
}

/// A base for each planned object of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanBinding {
    pub(super) places: FxHashMap<String, BoundPlace>,
    absent: Vec<String>,
}

/// An object's planned place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BoundPlace {
    pub base: u64,
    pub size: u64,
    /// Recorded bases of this file's objects. A file without a build-id shows only at its second mapping that it is an
    /// object, but must move from its first on.
    pub recorded: FxHashSet<u64>,
}

impl PlanBinding {
    /// Binds `layout` to a stream with this header and these events. Each event says whether code had run before it.
    ///
    /// # Errors
    /// If an object is of another build or larger than planned, its place is taken, or the program moves it.
    pub fn new<'a>(
        layout: &Layout,
        header: &StreamHeader,
        events: impl Iterator<Item = (bool, &'a Event)> + Clone,
    ) -> Result<PlanBinding, RebaseError> {
        let mut owners = Owners::new(header);
        for (running, event) in events.clone() {
            follow(&mut owners, running, event);
        }
        let named = ObjectsByName::new(&owners);
        let mut bound = PlanBinding::default();
        for place in &layout.places {
            let found = named.of(place);
            for owner in &found {
                check(place, owner)?;
                let file = owner.file.clone().unwrap_or_default();
                let new = || BoundPlace {
                    base: layout.base(place),
                    size: place.size,
                    recorded: FxHashSet::default(),
                };
                bound.places.entry(file).or_insert_with(new).recorded.insert(owner.base);
            }
            if found.is_empty() {
                bound.absent.push(place.file.clone());
            }
        }
        Collisions { bound: &bound, owners: Owners::new(header), moved: BTreeMap::new() }.look(events)?;
        Ok(bound)
    }

    /// Planned files that are no shared object of the stream.
    pub fn absent(&self) -> &[String] {
        &self.absent
    }

    /// How many files have a place.
    pub fn files(&self) -> usize {
        self.places.len()
    }

    /// The wrapping distance by which a byte of `owner` moves; 0 if it stays.
    pub fn delta_at(&self, owner: &Owner, address: u64) -> u64 {
        self.delta(owner).filter(|(_, range)| range.contains(&address)).map_or(0, |(delta, _)| delta)
    }

    /// The wrapping distance by which memory of `owner` moves, and which memory.
    pub(super) fn delta(&self, owner: &Owner) -> Option<(u64, Range<u64>)> {
        let place = self.places.get(owner.file.as_ref()?)?;
        match owner.kind {
            OwnerKind::Object => {}
            OwnerKind::File if place.recorded.contains(&owner.base) => {}
            _ => return None,
        }
        let delta = place.base.wrapping_sub(owner.base);
        // In a forked child, memory after an object may not belong to it.
        let end = owner.base.saturating_add(owner.bytes.min(place.size));
        (delta != 0).then_some((delta, owner.base..end))
    }
}

/// Applies an event.
pub(super) fn follow(owners: &mut Owners, running: bool, event: &Event) {
    if running {
        owners.start_running();
    }
    owners.apply(event);
}

/// A stream's shared objects by the names that plans may use.
struct ObjectsByName<'a> {
    by_file: FxHashMap<&'a str, Vec<&'a Owner>>,
    /// By lower-case build-id.
    by_build: FxHashMap<String, Vec<&'a Owner>>,
}

impl<'a> ObjectsByName<'a> {
    fn new(owners: &'a Owners) -> ObjectsByName<'a> {
        let mut named = ObjectsByName { by_file: FxHashMap::default(), by_build: FxHashMap::default() };
        for (_, owner) in owners.objects() {
            named.by_file.entry(owner.file.as_deref().unwrap_or_default()).or_default().push(owner);
            if let Some(build_id) = &owner.build_id {
                named.by_build.entry(build_id.to_ascii_lowercase()).or_default().push(owner);
            }
        }
        named
    }

    /// The objects of a place: by path, by another name on this host, or by build.
    fn of(&self, place: &Place) -> Vec<&'a Owner> {
        let other_name = std::fs::canonicalize(&place.file).ok();
        let other_name =
            other_name.as_deref().and_then(|path| path.to_str()).filter(|name| *name != place.file);
        let by_file =
            [Some(&*place.file), other_name].into_iter().flatten().map(|name| self.by_file.get(name));
        let build_id = place.build_id.as_ref().map(|build_id| build_id.to_ascii_lowercase());
        let by_build = build_id.map(|build_id| self.by_build.get(&build_id));
        by_file.chain(by_build).flatten().flatten().copied().collect()
    }
}

fn same(planned: &Option<String>, recorded: &Option<String>) -> bool {
    match (planned, recorded) {
        (Some(planned), Some(recorded)) => planned.eq_ignore_ascii_case(recorded),
        _ => true,
    }
}

fn check(place: &Place, owner: &Owner) -> Result<(), RebaseError> {
    let file = owner.name();
    if !same(&place.build_id, &owner.build_id) {
        let (planned, recorded) = (place.build_id.clone(), owner.build_id.clone());
        let (planned, recorded) = (planned.unwrap_or_default(), recorded.unwrap_or_default());
        return Err(RebaseError::BuildId { file, planned, recorded });
    }
    if owner.remapped {
        return Err(RebaseError::Remapped { file });
    }
    let recorded = if owner.initial { owner.file_bytes } else { owner.bytes };
    if recorded > place.size {
        return Err(RebaseError::TooLarge { file, planned: place.size, recorded });
    }
    Ok(())
}

/// Checks mappings while objects are at their places.
struct Collisions<'a> {
    bound: &'a PlanBinding,
    owners: Owners,
    /// By first address of their places: the last objects moved there, with the ends of their places. Places of
    /// different files do not overlap.
    moved: BTreeMap<u64, (u64, OwnerId)>,
}

impl Collisions<'_> {
    fn look<'a>(mut self, events: impl Iterator<Item = (bool, &'a Event)>) -> Result<(), RebaseError> {
        for (running, event) in events {
            follow(&mut self.owners, running, event);
            let Some(range) = mapped(event) else { continue };
            self.settle(self.owners.at(range.start))?;
            self.check_fixed(range)?;
        }
        Ok(())
    }

    /// Moves a new object to its place, which must be free.
    fn settle(&mut self, id: OwnerId) -> Result<(), RebaseError> {
        let Some(place) = self.place(id) else { return Ok(()) };
        match self.moved.insert(place.start, (place.end, id)) {
            Some((_, before)) if before == id => Ok(()),
            Some((_, before)) if self.owners.get(before).gone.is_none() => {
                Err(self.taken(id, &place, before, place.clone()))
            }
            _ => self.check_fixed(place),
        }
    }

    /// The planned place of an object recorded elsewhere.
    fn place(&self, id: OwnerId) -> Option<Range<u64>> {
        let owner = self.owners.get(id);
        self.bound.delta(owner)?;
        let BoundPlace { base, size, .. } = self.bound.places.get(owner.file.as_ref()?)?;
        Some(*base..base.saturating_add(*size))
    }

    /// Checks that immovable memory in `range` is in no object's place.
    fn check_fixed(&self, range: Range<u64>) -> Result<(), RebaseError> {
        for (there, other) in self.owners.within(range) {
            if self.place(other).is_some() {
                continue;
            }
            let before_end = self.moved.range(..there.end).rev();
            let mut overlapping = before_end.take_while(|(_, (end, _))| *end > there.start);
            let lives = |(_, (_, id)): &(&u64, &(u64, OwnerId))| self.owners.get(*id).gone.is_none();
            if let Some((&start, &(end, id))) = overlapping.find(lives) {
                return Err(self.taken(id, &(start..end), other, there));
            }
        }
        Ok(())
    }

    fn taken(&self, id: OwnerId, place: &Range<u64>, other: OwnerId, there: Range<u64>) -> RebaseError {
        let (file, other) = (self.owners.get(id).name(), self.owners.get(other).name());
        RebaseError::Taken { file, place: place.clone(), other, there }
    }
}

/// The range that an event maps.
fn mapped(event: &Event) -> Option<Range<u64>> {
    let (start, bytes) = match event {
        Event::Map(mapping) => (mapping.start.0, mapping.bytes),
        Event::Remap { new_start, new_bytes, .. } => (new_start.0, *new_bytes),
        Event::Break { old_end, new_end } => (old_end.0, new_end.0.saturating_sub(old_end.0)),
        _ => return None,
    };
    Some(start..start.saturating_add(bytes))
}
