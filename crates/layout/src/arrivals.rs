//! Checks from a run's own streams whether a plan's objects are at their places.

use crate::files::Object;
use pagewalk_trace::{Backlog, BatchRoom, Event, Item, MappingKind, Source, SourceError, StreamHeader};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// An object loaded elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedPlace {
    /// The object's file.
    pub file: String,
    /// Path of the process's program.
    pub program: String,
    /// Its planned address.
    pub planned: u64,
    /// Its actual address.
    pub actual: u64,
}

/// Where a plan's objects landed, over all streams of a run.
#[derive(Clone, Debug, Default)]
pub struct Landings {
    planned: Arc<HashMap<String, Object>>,
    seen: Arc<Mutex<Arrivals>>,
}

#[derive(Debug, Default)]
struct Arrivals {
    loaded: HashSet<String>,
    missed: Vec<MissedPlace>,
}

impl Landings {
    /// For these objects. An empty slice: nothing is planned.
    pub fn new(objects: &[Object]) -> Landings {
        let by_path = |object: &Object| (object.path.to_string_lossy().into_owned(), object.clone());
        Landings { planned: Arc::new(objects.iter().map(by_path).collect()), seen: Arc::default() }
    }

    /// Watches the mappings of `inner`.
    pub fn watch<S: Source>(&self, inner: S) -> MappingWatch<S> {
        let program = inner.header().program.clone();
        MappingWatch { inner, program, landings: self.clone() }
    }

    /// Objects loaded elsewhere, in order.
    pub fn missed(&self) -> Vec<MissedPlace> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).missed.clone()
    }

    /// Planned files that no process loaded, alphabetically.
    pub fn not_loaded(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let absent = self.planned.iter().filter(|(path, _)| !seen.loaded.contains(*path));
        let mut files: Vec<String> = absent.map(|(_, object)| object.file.clone()).collect();
        files.sort();
        files
    }

    /// Loaders first map an object as a whole, from its file's beginning.
    fn note(&self, event: &Event, program: &str) {
        let Event::Map(mapping) = event else { return };
        let Some(file) = mapping.file.as_ref().filter(|file| file.offset == 0) else { return };
        let Some(object) = self.planned.get(&file.path) else { return };
        if mapping.kind != MappingKind::File || mapping.bytes != object.bytes {
            return;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.loaded.insert(file.path.clone());
        if mapping.start.0 != object.base {
            seen.missed.push(MissedPlace {
                file: object.file.clone(),
                program: program.to_owned(),
                planned: object.base,
                actual: mapping.start.0,
            });
        }
    }
}

/// A source with watched mappings.
pub struct MappingWatch<S> {
    /// The source.
    pub inner: S,
    program: String,
    landings: Landings,
}

impl<S: Source> Source for MappingWatch<S> {
    fn header(&self) -> &StreamHeader {
        self.inner.header()
    }

    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
        let item = self.inner.next_item()?;
        if let Some(Item::Event { event, .. }) = &item {
            self.landings.note(event, &self.program);
        }
        Ok(item)
    }

    fn leave_batches_out(&mut self) {
        self.inner.leave_batches_out();
    }

    fn gives_rooms(&self) -> bool {
        self.inner.gives_rooms()
    }

    fn give_room(&mut self, for_another: &mut BatchRoom) {
        self.inner.give_room(for_another);
    }

    fn is_ready(&self) -> bool {
        self.inner.is_ready()
    }

    fn backlog(&self) -> Option<Arc<dyn Backlog>> {
        self.inner.backlog()
    }
}
