//! A plan and a stream together: what is where, and whether that can be.

use crate::objects::{Owner, OwnerId, OwnerKind, Owners};
use crate::plan::{Place, Plan};
use pagewalk_trace::{Event, StreamHeader};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Why a stream cannot be as planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RebaseError {
    /// Another build of the file was recorded.
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
    /// Something that does not move lies in the object's place.
    #[error("{file}: its place {:#x}-{:#x} has {other} at {:#x}-{:#x}",
            .place.start, .place.end, .there.start, .there.end)]
    Taken {
        /// The object.
        file: String,
        /// Its planned place.
        place: Range<u64>,
        /// What is there: a file, or a kind of memory in brackets.
        other: String,
        /// Where that is.
        there: Range<u64>,
    },
    /// The program moves the object's memory itself.
    #[error("{file}: the program moves parts of it itself (mremap), so it has no one base")]
    Remapped {
        /// The object.
        file: String,
    },
}

/// A base for each planned object of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    pub(super) places: FxHashMap<String, BoundPlace>,
    absent: Vec<String>,
}

/// Where an object is to lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BoundPlace {
    pub base: u64,
    pub size: u64,
}

impl Bound {
    /// Binds `plan` to a stream that has this header and these events; with each, whether some code had run before it.
    ///
    /// # Errors
    /// If an object is of another build or larger than planned, if its place is taken, or if the program moves it.
    pub fn new<'a>(
        plan: &Plan,
        header: &StreamHeader,
        events: impl Iterator<Item = (bool, &'a Event)> + Clone,
    ) -> Result<Bound, RebaseError> {
        let mut owners = Owners::new(header);
        for (running, event) in events.clone() {
            follow(&mut owners, running, event);
        }
        let mut bound = Bound::default();
        for place in &plan.places {
            let mut found = false;
            for (_, owner) in owners.objects().filter(|(_, owner)| is_of(place, owner)) {
                found = true;
                check(place, owner)?;
                let file = owner.file.clone().unwrap_or_default();
                let place = BoundPlace { base: plan.base(place), size: place.size };
                bound.places.insert(file, place);
            }
            if !found {
                bound.absent.push(place.file.clone());
            }
        }
        Collisions { bound: &bound, owners: Owners::new(header), moved: Vec::new() }.look(events)?;
        Ok(bound)
    }

    /// Planned files that are no shared object of the stream: nothing of them can move.
    pub fn absent(&self) -> &[String] {
        &self.absent
    }

    /// How many files have a place.
    pub fn files(&self) -> usize {
        self.places.len()
    }

    /// How far a byte of `owner` moves, as an addition that wraps; 0 for what stays.
    pub fn delta_at(&self, owner: &Owner, address: u64) -> u64 {
        self.delta(owner).filter(|(_, range)| range.contains(&address)).map_or(0, |(delta, _)| delta)
    }

    /// How far memory of `owner` moves, as an addition that wraps, and which.
    pub(super) fn delta(&self, owner: &Owner) -> Option<(u64, Range<u64>)> {
        if owner.kind != OwnerKind::Object {
            return None;
        }
        let place = self.places.get(owner.file.as_ref()?)?;
        let delta = place.base.wrapping_sub(owner.base);
        // Of a child of `fork`, memory that follows on an object may not be its own.
        let end = owner.base.saturating_add(owner.bytes.min(place.size));
        (delta != 0).then_some((delta, owner.base..end))
    }
}

/// Takes an event into account.
pub(super) fn follow(owners: &mut Owners, running: bool, event: &Event) {
    if running {
        owners.start_running();
    }
    owners.apply(event);
}

/// Whether a plan's place is of this object: by its path, another name of it on this host, or its build.
fn is_of(place: &Place, owner: &Owner) -> bool {
    let same_build = || place.build_id.is_some() && same(&place.build_id, &owner.build_id);
    let same_file = || {
        let path = std::fs::canonicalize(&place.file).ok();
        path.is_some_and(|path| owner.file.as_deref().is_some_and(|file| path.as_os_str() == file))
    };
    owner.file.as_ref() == Some(&place.file) || same_build() || same_file()
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

/// What is mapped while objects lie in their places.
struct Collisions<'a> {
    bound: &'a Bound,
    owners: Owners,
    /// Objects that lie elsewhere than recorded, with their places.
    moved: Vec<(OwnerId, Range<u64>)>,
}

impl Collisions<'_> {
    fn look<'a>(mut self, events: impl Iterator<Item = (bool, &'a Event)>) -> Result<(), RebaseError> {
        for (running, event) in events {
            let known = self.owners.iter().count();
            follow(&mut self.owners, running, event);
            let owners = &self.owners;
            self.moved.retain(|(id, _)| owners.get(*id).gone.is_none());
            let new: Vec<OwnerId> = self.owners.iter().skip(known).map(|(id, _)| id).collect();
            for id in new {
                self.settle(id)?;
            }
            if let Some(range) = mapped(event) {
                self.check_fixed(range)?;
            }
        }
        Ok(())
    }

    /// A new object goes to its place, where nothing may be.
    fn settle(&mut self, id: OwnerId) -> Result<(), RebaseError> {
        let owner = self.owners.get(id);
        let Some((delta, _)) = self.bound.delta(owner) else { return Ok(()) };
        let base = owner.base.wrapping_add(delta);
        let size = owner.file.as_ref().and_then(|file| self.bound.places.get(file)).map_or(0, |at| at.size);
        let place = base..base.saturating_add(size);
        self.moved.push((id, place.clone()));
        let twin = self.moved.iter().find(|(other, there)| *other != id && overlap(there, &place));
        if let Some((other, there)) = twin {
            return Err(self.taken(id, &place, *other, there.clone()));
        }
        self.check_fixed(place)
    }

    /// What does not move in `range` lies in no object's place.
    fn check_fixed(&self, range: Range<u64>) -> Result<(), RebaseError> {
        for (there, other) in self.owners.within(range) {
            if self.moved.iter().any(|(id, _)| *id == other) {
                continue;
            }
            if let Some((id, place)) = self.moved.iter().find(|(_, place)| overlap(place, &there)) {
                return Err(self.taken(*id, place, other, there));
            }
        }
        Ok(())
    }

    fn taken(&self, id: OwnerId, place: &Range<u64>, other: OwnerId, there: Range<u64>) -> RebaseError {
        let (file, other) = (self.owners.get(id).name(), self.owners.get(other).name());
        RebaseError::Taken { file, place: place.clone(), other, there }
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
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
