//! Assigns memory to owners: the shared objects of a stream, and everything else by name.
//!
//! A loader first maps a shared object as a whole, from the file's beginning and as long as the object is in memory;
//! then it maps its parts over that, and its `.bss` as anonymous memory. So a mapping over an object from its own file,
//! or an anonymous one, is part of it; anything else replaces it. Mappings from before the program runs come from the
//! kernel: the program, its loader, and, for a forked child, its parent's objects in parts.

mod spans;

use pagewalk_trace::{Event, Mapping, MappingKind, Origin, StreamHeader};
use spans::Spans;
use std::ops::Range;

/// Kinds of owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnerKind {
    /// The main executable.
    Program,
    /// The loader.
    Loader,
    /// A shared object: the only movable kind.
    Object,
    /// Another file.
    File,
    /// The program break.
    Heap,
    /// The first thread's stack.
    Stack,
    /// Anonymous memory outside objects.
    Anonymous,
    /// The kernel's own: vdso, vvar.
    Kernel,
    /// No known mapping.
    Unknown,
}

impl OwnerKind {
    /// Its name as text, one word.
    pub fn name(self) -> &'static str {
        match self {
            OwnerKind::Program => "program",
            OwnerKind::Loader => "loader",
            OwnerKind::Object => "object",
            OwnerKind::File => "file",
            OwnerKind::Heap => "heap",
            OwnerKind::Stack => "stack",
            OwnerKind::Anonymous => "anonymous",
            OwnerKind::Kernel => "kernel",
            OwnerKind::Unknown => "unknown",
        }
    }
}

/// The number of an owner: see [`Owners::get`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub u32);

impl OwnerId {
    /// The owner of unmapped memory.
    pub const UNKNOWN: OwnerId = OwnerId(0);
    const HEAP: OwnerId = OwnerId(1);
    const STACK: OwnerId = OwnerId(2);
    const ANONYMOUS: OwnerId = OwnerId(3);
    const KERNEL: OwnerId = OwnerId(4);

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// An owner of memory. A file mapped again after unmapping is a new owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its kind.
    pub kind: OwnerKind,
    /// The path of its file, if it has one.
    pub file: Option<String>,
    /// The file's GNU build-id.
    pub build_id: Option<String>,
    /// Its first address; 0 without a file.
    pub base: u64,
    /// Its largest extent, in whole pages; 0 without a file.
    pub bytes: u64,
    /// The extent of the part that came from its file.
    pub file_bytes: u64,
    /// Whether it existed before the program ran.
    pub initial: bool,
    /// Whether `mremap` moved or grew some of it.
    pub remapped: bool,
    /// Number of the event that unmapped the last of it, if one did.
    pub gone: Option<usize>,
}

impl Owner {
    fn nameless(kind: OwnerKind) -> Owner {
        let (file, build_id) = (None, None);
        let (base, bytes, file_bytes) = (0, 0, 0);
        Owner { kind, file, build_id, base, bytes, file_bytes, initial: true, remapped: false, gone: None }
    }

    /// Its file's path, or its kind in brackets.
    pub fn name(&self) -> String {
        self.file.clone().unwrap_or_else(|| format!("[{}]", self.kind.name()))
    }
}

/// All owners of a stream, and their present memory.
#[derive(Clone, Debug)]
pub struct Owners {
    all: Vec<Owner>,
    spans: Spans,
    program: String,
    is_child: bool,
    running: bool,
    events: usize,
    generation: u64,
    changed: Vec<Range<u64>>,
}

impl Owners {
    /// For a stream at its beginning.
    pub fn new(header: &StreamHeader) -> Owners {
        use OwnerKind::*;
        Owners {
            all: [Unknown, Heap, Stack, Anonymous, Kernel].map(Owner::nameless).into(),
            spans: Spans::default(),
            program: header.program.clone(),
            is_child: header.origin == Origin::Fork,
            running: false,
            events: 0,
            generation: 0,
            changed: Vec::new(),
        }
    }

    /// The program starts: later mappings are its own.
    pub fn start_running(&mut self) {
        self.running = true;
    }

    /// An owner by number.
    pub fn get(&self, id: OwnerId) -> &Owner {
        &self.all[id.index()]
    }

    /// All owners so far, in order of appearance.
    pub fn iter(&self) -> impl Iterator<Item = (OwnerId, &Owner)> {
        (0..).map(OwnerId).zip(&self.all)
    }

    /// The shared objects so far.
    pub fn objects(&self) -> impl Iterator<Item = (OwnerId, &Owner)> {
        self.iter().filter(|(_, owner)| owner.kind == OwnerKind::Object)
    }

    /// The present owner of an address.
    pub fn at(&self, address: u64) -> OwnerId {
        self.spans.at(address).map_or(OwnerId::UNKNOWN, |(_, owner)| owner)
    }

    /// The file offset of the byte at an address, if it belongs to a file.
    pub fn file_offset(&self, address: u64) -> Option<u64> {
        self.spans.file_offset(address)
    }

    /// The mapped parts of a range, by ascending address.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, OwnerId)> {
        self.spans.within(range)
    }

    /// Increases whenever memory becomes or ceases to be a file's.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Where the last event changed whether memory is a file's.
    pub fn changed(&self) -> &[Range<u64>] {
        &self.changed
    }

    /// Applies an event.
    pub fn apply(&mut self, event: &Event) {
        self.changed.clear();
        match event {
            Event::Map(mapping) => self.map(mapping),
            Event::Unmap { start, bytes } => self.set(range(start.0, *bytes), None),
            Event::Remap { old_start, old_bytes, new_start, new_bytes } => {
                self.remap(range(old_start.0, *old_bytes), range(new_start.0, *new_bytes));
            }
            Event::Break { old_end, new_end } if new_end < old_end => self.set(new_end.0..old_end.0, None),
            Event::Break { old_end, new_end } => {
                self.set(old_end.0..new_end.0, Some((OwnerId::HEAP, None)));
            }
            _ => {}
        }
        self.events += 1;
    }

    fn map(&mut self, mapping: &Mapping) {
        let range = range(mapping.start.0, mapping.bytes);
        if range.is_empty() {
            return;
        }
        let id = self.owner_of(mapping, &range);
        let of_file = mapping.file.is_some();
        let owner = &mut self.all[id.index()];
        if owner.file.is_some() {
            let end = range.end.saturating_sub(owner.base);
            owner.bytes = owner.bytes.max(end);
            owner.file_bytes = if of_file { owner.file_bytes.max(end) } else { owner.file_bytes };
        }
        self.set(range, Some((id, mapping.file.as_ref().map(|file| file.offset))));
    }

    /// The owner of a new mapping.
    fn owner_of(&mut self, mapping: &Mapping, range: &Range<u64>) -> OwnerId {
        match (mapping.kind, &mapping.file) {
            (MappingKind::Heap, _) => OwnerId::HEAP,
            (MappingKind::Stack, _) => OwnerId::STACK,
            (MappingKind::Kernel, _) => OwnerId::KERNEL,
            (MappingKind::File, Some(file)) => {
                let part = self.around(range).or_else(|| self.before(range.start));
                let part = part.filter(|id| self.all[id.index()].file.as_ref() == Some(&file.path));
                match part.filter(|_| file.offset > 0) {
                    Some(id) => {
                        let kind = &mut self.all[id.index()].kind;
                        *kind = if *kind == OwnerKind::File { OwnerKind::Object } else { *kind };
                        id
                    }
                    None => self.add(mapping, self.kind_of(mapping)),
                }
            }
            (MappingKind::SharedFile, Some(_)) => self.add(mapping, OwnerKind::File),
            (MappingKind::Anonymous, _) => self.bss_of(range).unwrap_or(OwnerId::ANONYMOUS),
            _ => OwnerId::ANONYMOUS,
        }
    }

    /// The kind of a file mapped outside other owners.
    fn kind_of(&self, mapping: &Mapping) -> OwnerKind {
        let Some(file) = &mapping.file else { return OwnerKind::File };
        if file.path == self.program {
            return OwnerKind::Program;
        }
        let name = file.path.rsplit('/').next().unwrap_or_default();
        if !self.running && (name.starts_with("ld-") || name.starts_with("ld.so")) {
            return OwnerKind::Loader;
        }
        if !self.running && !self.is_child {
            // The kernel maps no other; the header's path may be another name of the file.
            return OwnerKind::Program;
        }
        let is_code = file.build_id.is_some() || mapping.protection.execute;
        if file.offset == 0 && is_code { OwnerKind::Object } else { OwnerKind::File }
    }

    /// The owner of anonymous memory that is part of a file's image.
    fn bss_of(&self, range: &Range<u64>) -> Option<OwnerId> {
        let is_image = |id: &OwnerId| {
            matches!(self.get(*id).kind, OwnerKind::Program | OwnerKind::Loader | OwnerKind::Object)
        };
        // In a mapping by the kernel or a parent, it follows data.
        let initial = || (!self.running).then(|| self.before(range.start)).flatten();
        self.around(range).or_else(initial).filter(is_image)
    }

    /// The only owner of a range, if there is just one.
    fn around(&self, range: &Range<u64>) -> Option<OwnerId> {
        let mut parts = self.spans.within(range.clone());
        let (first, owner) = parts.next()?;
        let end = parts.try_fold((first.start, first.end), |(start, end), (part, of)| {
            (part.start == end && of == owner).then_some((start, part.end))
        });
        (end == Some((range.start, range.end))).then_some(owner)
    }

    /// The owner of the byte before `start`.
    fn before(&self, start: u64) -> Option<OwnerId> {
        self.spans.at(start.checked_sub(1)?).map(|(_, owner)| owner)
    }

    fn add(&mut self, mapping: &Mapping, kind: OwnerKind) -> OwnerId {
        let id = OwnerId(u32::try_from(self.all.len()).expect("fewer than 2^32 mappings of files"));
        let file = mapping.file.as_ref();
        self.all.push(Owner {
            kind,
            file: file.map(|file| file.path.clone()),
            build_id: file.and_then(|file| file.build_id.clone()),
            base: mapping.start.0,
            initial: !self.running,
            ..Owner::nameless(kind)
        });
        id
    }

    fn remap(&mut self, old: Range<u64>, new: Range<u64>) {
        let Some((_, owner)) = self.spans.at(old.start) else { return };
        self.all[owner.index()].remapped = true;
        let offset = self.spans.file_offset(old.start);
        if old.start == new.start {
            let offset = offset.map(|offset| offset.wrapping_add(old.end - old.start));
            let more = (new.end > old.end).then_some((owner, offset));
            self.set(old.end.min(new.end)..old.end.max(new.end), more);
        } else {
            self.set(old, None);
            self.set(new, Some((owner, offset)));
        }
    }

    /// Assigns a range to an owner, with its file offset, or to nobody.
    fn set(&mut self, range: Range<u64>, owner: Option<(OwnerId, Option<u64>)>) {
        if range.is_empty() {
            return;
        }
        let mut lost = Vec::new();
        self.spans.set(range.clone(), owner, |id| lost.push(id));
        let owner = owner.map(|(id, _)| id);
        let mut changed = owner.is_some_and(|id| self.all[id.index()].file.is_some());
        for id in lost {
            let of_file = self.all[id.index()].file.is_some();
            changed |= of_file;
            if of_file && Some(id) != owner && !self.spans.has(id) {
                self.all[id.index()].gone = Some(self.events);
            }
        }
        if changed {
            self.generation += 1;
            self.changed.push(range);
        }
    }
}

/// A range, limited to the address space.
fn range(start: u64, bytes: u64) -> Range<u64> {
    start..start.saturating_add(bytes)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::header as header_for_tests;
