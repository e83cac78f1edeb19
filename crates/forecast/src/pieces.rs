//! Names memory so that another run of the program finds it: the heap, the nth mapping of a length, and the anonymous
//! memory after the program's data.

use pagewalk_trace::{Event, Mapping, MappingKind};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Kinds of pieces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PieceKind {
    /// The program break.
    Heap,
    /// The program's data that no file holds (`.bss`).
    Static {
        /// The program's file, as it is mapped.
        file: Arc<str>,
        /// The offset of its first byte, as if the file continued after its last mapping.
        offset: u64,
    },
    /// The `nth` private anonymous mapping of exactly this length, from 1, since the program's start.
    Anonymous {
        /// Its original length.
        bytes: u64,
        /// Its number among those of this length.
        nth: u32,
    },
}

/// The number of a piece: its index in [`Pieces::all`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PieceId(pub u32);

/// A piece of memory that can be on huge pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What it is.
    pub kind: PieceKind,
    /// Its length at its largest.
    pub bytes: u64,
}

impl Piece {
    /// The bytes that a plan can name: a mapping's original length, however it grew.
    pub fn named_bytes(&self) -> u64 {
        match self.kind {
            PieceKind::Anonymous { bytes, .. } => bytes,
            PieceKind::Heap | PieceKind::Static { .. } => self.bytes,
        }
    }
}

/// All pieces of a process, and their present addresses.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    all: Vec<Piece>,
    /// By first byte: the end, the piece, and the first byte's offset in it.
    spans: BTreeMap<u64, Span>,
    of_size: HashMap<u64, u32>,
    heap: Option<(PieceId, u64)>,
    /// The program's file, and the end of its last mapping: in memory, and in the file.
    program: Option<(Arc<str>, u64, u64)>,
    running: bool,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    end: u64,
    piece: PieceId,
    offset: u64,
}

impl Pieces {
    /// The program starts: later mappings are its own.
    pub fn start_running(&mut self) {
        self.running = true;
    }

    /// All pieces so far, in order of appearance.
    pub fn all(&self) -> &[Piece] {
        &self.all
    }

    /// The piece at an address, and the offset in it.
    pub fn at(&self, address: u64) -> Option<(PieceId, u64)> {
        let (&start, span) = self.spans.range(..=address).next_back()?;
        (address < span.end).then_some((span.piece, span.offset + (address - start)))
    }

    /// Applies an event.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Map(mapping) => {
                let (start, bytes) = (mapping.start.0, mapping.bytes);
                self.cut(start, start.saturating_add(bytes));
                if mapping.kind == MappingKind::Anonymous && self.running && bytes > 0 {
                    let nth = self.of_size.entry(bytes).or_insert(0);
                    *nth = nth.saturating_add(1);
                    let kind = PieceKind::Anonymous { bytes, nth: *nth };
                    self.add(kind, start, bytes);
                } else if !self.running {
                    self.load(mapping);
                }
            }
            Event::Unmap { start, bytes } => self.cut(start.0, start.0.saturating_add(*bytes)),
            Event::Remap { old_start, old_bytes, new_start, new_bytes } => {
                let found = self.at(old_start.0);
                self.cut(old_start.0, old_start.0.saturating_add(*old_bytes));
                let end = new_start.0.saturating_add(*new_bytes);
                self.cut(new_start.0, end);
                if let Some((piece, offset)) = found {
                    self.spans.insert(new_start.0, Span { end, piece, offset });
                    self.grow(piece, offset + new_bytes);
                }
            }
            Event::Break { old_end, new_end } => self.set_break(old_end.0, new_end.0),
            _ => {}
        }
    }

    /// A mapping before the program's start: the program first, then its loader.
    fn load(&mut self, mapping: &Mapping) {
        let (start, end) = (mapping.start.0, mapping.start.0.saturating_add(mapping.bytes));
        if let Some(file) = &mapping.file {
            let (program, at, offset) = self.program.get_or_insert_with(|| (file.path.as_str().into(), 0, 0));
            if **program == file.path {
                (*at, *offset) = (end, file.offset.saturating_add(mapping.bytes));
            }
        } else if let Some((program, at, offset)) = &self.program
            && (mapping.kind, start) == (MappingKind::Anonymous, *at)
        {
            let kind = PieceKind::Static { file: program.clone(), offset: *offset };
            self.add(kind, start, mapping.bytes);
        }
    }

    fn add(&mut self, kind: PieceKind, start: u64, bytes: u64) -> PieceId {
        let piece = PieceId(u32::try_from(self.all.len()).expect("fewer than 2^32 mappings"));
        self.all.push(Piece { kind, bytes });
        self.spans.insert(start, Span { end: start.saturating_add(bytes), piece, offset: 0 });
        piece
    }

    fn grow(&mut self, piece: PieceId, bytes: u64) {
        let known = &mut self.all[piece.0 as usize].bytes;
        *known = bytes.max(*known);
    }

    fn set_break(&mut self, old_end: u64, new_end: u64) {
        if new_end < old_end {
            return self.cut(new_end, old_end);
        }
        let (piece, beginning) = match self.heap {
            Some(heap) => heap,
            None => {
                let heap = (self.add(PieceKind::Heap, old_end, 0), old_end);
                *self.heap.insert(heap)
            }
        };
        self.cut(old_end, new_end);
        self.spans.insert(old_end, Span { end: new_end, piece, offset: old_end.saturating_sub(beginning) });
        self.grow(piece, new_end.saturating_sub(beginning));
    }

    /// Removes everything in a range.
    fn cut(&mut self, start: u64, end: u64) {
        if let Some((&first, &span)) = self.spans.range(..start).next_back()
            && span.end > start
        {
            self.spans.get_mut(&first).expect("just found").end = start;
            if span.end > end {
                let offset = span.offset + (end - first);
                self.spans.insert(end, Span { offset, ..span });
            }
        }
        while let Some((&first, &span)) = self.spans.range(start..end).next() {
            self.spans.remove(&first);
            if span.end > end {
                let offset = span.offset + (end - first);
                self.spans.insert(end, Span { offset, ..span });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_trace::{FileIdentity, Protection};
    use pagewalk_units::VirtAddr;

    fn anonymous(start: u64, bytes: u64) -> Event {
        let protection = Protection { read: true, write: true, execute: false };
        let (start, kind) = (VirtAddr(start), MappingKind::Anonymous);
        Event::Map(Mapping { start, bytes, protection, kind, file: None, page_bytes: 4096 })
    }

    #[test]
    fn mappings_are_counted_by_size_and_keep_their_names() {
        let mut pieces = Pieces::default();
        pieces.apply(&anonymous(0x1000, 0x4000));
        assert_eq!(pieces.at(0x1000), None, "the loader's");
        pieces.start_running();
        pieces.apply(&anonymous(0x10_0000, 0x4000));
        pieces.apply(&anonymous(0x20_0000, 0x8000));
        pieces.apply(&anonymous(0x30_0000, 0x4000));
        let kinds: Vec<PieceKind> = pieces.all().iter().map(|piece| piece.kind.clone()).collect();
        let size = |bytes, nth| PieceKind::Anonymous { bytes, nth };
        assert_eq!(kinds, [size(0x4000, 1), size(0x8000, 1), size(0x4000, 2)]);
        pieces.apply(&Event::Unmap { start: VirtAddr(0x20_2000), bytes: 0x1000 });
        assert_eq!(pieces.at(0x20_1fff), Some((PieceId(1), 0x1fff)));
        assert_eq!(pieces.at(0x20_2000), None);
        assert_eq!(pieces.at(0x20_3000), Some((PieceId(1), 0x3000)));
        let (old_start, new_start) = (VirtAddr(0x30_0000), VirtAddr(0x80_0000));
        pieces.apply(&Event::Remap { old_start, old_bytes: 0x4000, new_start, new_bytes: 0x10_0000 });
        assert_eq!((pieces.at(0x30_0000), pieces.at(0x80_5000)), (None, Some((PieceId(2), 0x5000))));
        assert_eq!(pieces.all()[2], Piece { kind: size(0x4000, 2), bytes: 0x10_0000 });
    }

    #[test]
    fn what_lies_behind_the_programs_data_goes_on_from_its_file() {
        let mapped = |start, bytes, path: &str, offset| {
            let Event::Map(mapping) = anonymous(start, bytes) else { unreachable!("it maps") };
            let file = FileIdentity { path: path.to_owned(), offset, build_id: None };
            Event::Map(Mapping { kind: MappingKind::File, file: Some(file), ..mapping })
        };
        let mut pieces = Pieces::default();
        pieces.apply(&anonymous(0x1000, 0x1000));
        pieces.apply(&mapped(0x10_0000, 0x3000, "/p", 0));
        pieces.apply(&mapped(0x10_3000, 0x2000, "/p", 0x2000));
        pieces.apply(&anonymous(0x10_5000, 0x80_0000));
        pieces.apply(&mapped(0x200_0000, 0x3000, "/ld.so", 0));
        pieces.apply(&anonymous(0x200_3000, 0x1000));
        pieces.start_running();
        let kind = PieceKind::Static { file: "/p".into(), offset: 0x4000 };
        assert_eq!(pieces.all(), [Piece { kind, bytes: 0x80_0000 }]);
        assert_eq!(pieces.at(0x10_6001), Some((PieceId(0), 0x1001)));
    }

    #[test]
    fn the_heap_is_one_piece_however_it_breathes() {
        let mut pieces = Pieces::default();
        let mut step = |old, new| {
            pieces.apply(&Event::Break { old_end: VirtAddr(old), new_end: VirtAddr(new) });
            (pieces.at(0x4_2000), pieces.all().len(), pieces.all()[0].bytes)
        };
        assert_eq!(step(0x4_0000, 0x4_1000), (None, 1, 0x1000));
        assert_eq!(step(0x4_1000, 0x4_8000), (Some((PieceId(0), 0x2000)), 1, 0x8000));
        assert_eq!(step(0x4_8000, 0x4_1000), (None, 1, 0x8000));
        assert_eq!(step(0x4_1000, 0x4_3000), (Some((PieceId(0), 0x2000)), 1, 0x8000));
    }
}
