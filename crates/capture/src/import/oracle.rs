//! libCacheSim's `oracleGeneral` traces: a record of 24 bytes for each request.
//!
//! ```text
//! 0 time in seconds, 4 object, 12 bytes of the object, 16 number of its next request, or -1
//! ```
//!
//! Numbers are little-endian. Source: `traceReader/customizedReader/oracle/oracleGeneralBin.h` of libCacheSim. What
//! memory a request touches depends on what its objects are, which the file does not say: each meaning is a format of
//! its own.

use super::assembler::{Assembler, Reference};
use super::notes::{NoteKind, Notes};
use super::places::{BLOCK_SHIFT, place};
use super::records::{Records, open_records};
use super::{Head, Importer, Opener};
use pagewalk_trace::{Grain, Ref, SourceError};
use pagewalk_units::{Kind, PAGE_BYTES, PAGE_SHIFT};
use rustc_hash::FxHashMap;
use std::ops::Range;

const RECORD_BYTES: usize = 24;
/// No request has a higher number.
const REQUESTS_MAX: i64 = 1 << 48;
/// Most bytes of an object that a request loads: few bytes of a file are not to make many references.
const LOADED_BYTES_MAX: u64 = 1 << 20;
/// What objects' places are multiples of, as `malloc` aligns.
const ALIGNMENT: u64 = 16;
/// Most different objects: bounds the memory, to about 3 GB.
const OBJECTS_MAX: usize = 1 << 26;

/// Objects are pages: their numbers count pages of 4 KiB.
pub(super) const PAGES: Importer = format::<Numbered<PAGE_SHIFT>>(
    "oracle-pages",
    "what libCacheSim writes as oracleGeneral, objects being numbers of 4 KiB pages",
);

/// Objects are blocks: their numbers count blocks of 64 bytes.
pub(super) const BLOCKS: Importer =
    format::<Numbered<BLOCK_SHIFT>>("oracle-blocks", "the same, objects being numbers of 64-byte blocks");

/// Objects have sizes and names: they lie one behind the other.
pub(super) const OBJECTS: Importer =
    format::<Placed>("oracle-objects", "the same, objects of their sizes lying one behind the other");

/// The format with a meaning of objects.
const fn format<M: Records + 'static>(name: &'static str, about: &'static str) -> Importer {
    Importer { name, about, recognises: are_requests, open: Opener::One(open_records::<M>) }
}

/// A request.
struct Request {
    time: u32,
    object: u64,
    bytes: u32,
    next: i64,
}

impl Request {
    fn read(bytes: &[u8]) -> Request {
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Request { time: half(0), object: word(4), bytes: half(12), next: word(16) as i64 }
    }
}

/// Whether a file begins with requests: times do not go back, and the next request of an object comes later.
fn are_requests(head: &Head<'_>) -> bool {
    let mut before = 0;
    let mut requests = (0i64..).zip(head.chunks_exact(RECORD_BYTES).map(Request::read));
    // One record could be anything.
    head.len() >= 2 * RECORD_BYTES
        && requests.all(|(number, request)| {
            let in_order = request.time >= before;
            before = request.time;
            in_order
                && (matches!(request.next, -1 | i64::MAX)
                    || (number + 1..REQUESTS_MAX).contains(&request.next))
        })
}

/// Objects that are numbers of pages or blocks.
#[derive(Default)]
pub(super) struct Numbered<const SHIFT: u32>;

impl<const SHIFT: u32> Records for Numbered<SHIFT> {
    const ENGINE: &'static str = "libCacheSim";
    const BYTES: usize = RECORD_BYTES;
    const GRAIN: Grain = if SHIFT == PAGE_SHIFT { Grain::Page } else { Grain::Byte };
    const FACTS: &'static [&'static str] = &[
        "each request is a load of one byte, the first of its page or block; there are no instructions, threads or \
         mappings, and times and sizes are passed over",
    ];

    fn take(&mut self, record: &[u8], to: &mut Assembler, _notes: &Notes) -> Result<bool, SourceError> {
        let object = Request::read(record).object;
        let address = place(object, SHIFT).map_err(|why| {
            to.malformed(&format!("{why}; --format oracle-objects gives any object a place"))
        })?;
        to.take(Reference { kind: Kind::Load, address, bytes: 1 })
    }
}

/// Indices in the [`Records::SORTS`] of [`Placed`].
const LARGE: usize = 0;
const EMPTY: usize = 1;

/// Objects one behind the other, in the order of their first requests.
#[derive(Default)]
pub(super) struct Placed {
    /// Where each object lies.
    places: FxHashMap<u64, Range<u64>>,
    /// The end of the last one.
    end: u64,
    /// What the present request has not loaded yet.
    rest: Option<Range<u64>>,
}

impl Placed {
    /// Where a request's object lies; or what is wrong, as a text that continues "record N".
    fn place(&mut self, Request { object, bytes, .. }: &Request) -> Result<Range<u64>, String> {
        if let Some(place) = self.places.get(object) {
            return Ok(place.clone());
        }
        if self.places.len() >= OBJECTS_MAX {
            return Err(format!("brings more than {OBJECTS_MAX} objects, and the place of each is kept"));
        }
        // The first page of memory is never mapped.
        let start = self.end.max(PAGE_BYTES);
        let place = start..start + u64::from(*bytes).max(1);
        self.end = place.end.next_multiple_of(ALIGNMENT);
        if self.end > Ref::ADDRESS_END {
            return Err("brings more than 2^57 bytes of objects".to_owned());
        }
        self.places.insert(*object, place.clone());
        Ok(place)
    }
}

impl Records for Placed {
    const ENGINE: &'static str = "libCacheSim";
    const BYTES: usize = RECORD_BYTES;
    const SORTS: &'static [NoteKind] = &[
        NoteKind { what: "of an object above 1 MiB", why: "only its first 1 MiB is loaded" },
        NoteKind { what: "of size 0", why: "one byte is loaded" },
    ];
    const FACTS: &'static [&'static str] = &[
        "objects lie one behind the other in the order of their first requests, as large as they were then; each \
         request is a load of one byte in each page of its object; there are no instructions, threads or mappings, \
         and times are passed over",
    ];

    fn take(&mut self, record: &[u8], to: &mut Assembler, notes: &Notes) -> Result<bool, SourceError> {
        let mut rest = match self.rest.take() {
            Some(rest) => rest,
            None => {
                let request = Request::read(record);
                let place = self.place(&request).map_err(|why| to.malformed(&why))?;
                let note =
                    |sort| notes.add(sort, to.done + 1, format!("object {}", request.object).as_bytes());
                if place.end - place.start > LOADED_BYTES_MAX {
                    note(LARGE);
                }
                if request.bytes == 0 {
                    note(EMPTY);
                }
                place.start..place.end.min(place.start + LOADED_BYTES_MAX)
            }
        };
        while rest.start < rest.end {
            if !to.take(Reference { kind: Kind::Load, address: rest.start, bytes: 1 })? {
                self.rest = Some(rest);
                return Ok(false);
            }
            rest.start = (rest.start / PAGE_BYTES + 1) * PAGE_BYTES;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::transcript::told;
    use super::super::{ImportError, Input, open};
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    fn request(time: u32, object: u64, bytes: u32, next: i64) -> Vec<u8> {
        [&time.to_le_bytes()[..], &object.to_le_bytes(), &bytes.to_le_bytes(), &next.to_le_bytes()].concat()
    }

    fn requests() -> Vec<u8> {
        [request(1, 7, 5000, 3), request(1, 9, 10, -1), request(2, 7, 9000, i64::MAX)].concat()
    }

    #[test]
    fn objects_are_what_the_format_says() {
        assert_eq!(told(&PAGES, requests()).0, ["Load 7000,1", "Load 9000,1", "Load 7000,1"]);
        assert_eq!(told(&BLOCKS, requests()).0, ["Load 1c0,1", "Load 240,1", "Load 1c0,1"]);
        let (read, notes, error) = told(&OBJECTS, requests());
        let first = ["Load 1000,1", "Load 2000,1"];
        assert_eq!(
            read,
            [&first[..], &["Load 2390,1"], &first].concat(),
            "places have the first request's bytes"
        );
        assert_eq!(error, None);
        assert!(notes[0].starts_with("objects lie one behind the other"), "{notes:?}");
    }

    #[test]
    fn large_objects_are_read_in_part_and_named() {
        let (read, notes, _) = told(&OBJECTS, request(1, 7, u32::MAX, -1));
        assert_eq!(read.len(), 256);
        assert!(
            notes[0].starts_with("1 record of an object above 1 MiB (record 1: `object 7`)"),
            "{notes:?}"
        );
    }

    #[test]
    fn requests_of_size_0_load_a_byte_and_are_counted() {
        let file = [request(1, 7, 0, -1), request(1, 8, 5, -1), request(1, 7, 0, -1)].concat();
        let (read, notes, _) = told(&OBJECTS, file);
        assert_eq!(read, ["Load 1000,1", "Load 1010,1", "Load 1000,1"]);
        assert!(notes[0].starts_with("2 records of size 0 (record 1: `object 7`): one byte"), "{notes:?}");
    }

    #[test]
    fn what_is_no_page_is_named_with_the_way_out() {
        let file = [request(1, 7, 1, -1), request(1, 1 << 45, 1, -1)].concat();
        let (read, _, error) = told(&PAGES, file);
        let error = error.unwrap();
        assert_eq!(read, ["Load 7000,1"]);
        assert!(
            error.starts_with("record 2 has number 35184372088832: numbers of 4096-byte pieces"),
            "{error}"
        );
        assert!(error.contains("below 2^45; --format oracle-objects"), "{error}");
        let cut = told(&BLOCKS, &requests()[..30]).2;
        assert_eq!(cut.as_deref(), Some("the file ends in the middle of record 2"));
    }

    #[test]
    fn requests_are_recognised_and_their_meaning_is_asked_for() {
        let file = Input { name: "f".to_owned(), bytes: Box::new(Cursor::new(requests())), in_folder: false };
        let Err(ImportError::Ambiguous(choices)) = open(vec![file], None) else { panic!("it was read") };
        for name in ["oracle-pages", "oracle-blocks", "oracle-objects"] {
            assert!(choices.contains(name), "{choices}");
        }
        assert!(!choices.contains("champsim"), "{choices}");
    }

    proptest! {
        #[test]
        fn objects_never_overlap_and_all_their_pages_are_loaded(
            all in prop::collection::vec((0u64..30, 0u32..20000), 0..400),
        ) {
            let file: Vec<u8> = all.iter().flat_map(|&(object, bytes)| request(0, object, bytes, -1)).collect();
            let (read, _, error) = told(&OBJECTS, file);
            let (mut places, mut end, mut expected) = (FxHashMap::default(), 4096u64, Vec::new());
            for (object, bytes) in all {
                let place = *places.entry(object).or_insert_with(|| {
                    let place = (end, u64::from(bytes).max(1));
                    end = (end + place.1).div_ceil(16) * 16;
                    place
                });
                let (mut page, last) = (place.0 / 4096, (place.0 + place.1 - 1) / 4096);
                expected.push(format!("Load {:x},1", place.0));
                while page < last {
                    page += 1;
                    expected.push(format!("Load {:x},1", page * 4096));
                }
            }
            prop_assert_eq!((read, error), (expected, None));
        }
    }
}
