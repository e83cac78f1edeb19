//! Random streams: exported, imported, compared with what a format can say of them.

mod binary;
mod drmemtrace;
mod stream;

use super::{EXPORTERS, Export, Exporter, Omissions, Out, exporter, packed};
use crate::import::transcript::told;
use crate::import::{IMPORTERS, importer};
use pagewalk_trace::{Origin, StreamHeader};
use pagewalk_units::Kind;
use proptest::prelude::*;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use stream::{Step, any_stream, feed, instruction, load};

/// A file in memory.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn header() -> StreamHeader {
    StreamHeader { pid: 7, ..StreamHeader::unknown(Origin::Start) }
}

/// The stream as a file of this name.
fn exported(format: &Exporter, name: &str, steps: &[Step]) -> (Vec<u8>, Omissions) {
    exported_by(name, steps, |out| Export::begin(format, &header(), out))
}

fn exported_by(
    name: &str,
    steps: &[Step],
    begin: impl FnOnce(Out) -> io::Result<Export>,
) -> (Vec<u8>, Omissions) {
    let file = Shared::default();
    let out = packed(Path::new(name), Box::new(file.clone())).unwrap();
    let mut export = begin(out).unwrap();
    feed(steps, &mut export);
    let omissions = export.finish().unwrap();
    (std::mem::take(&mut *file.0.lock().unwrap()), omissions)
}

/// What the importer of the format's name says of the exported stream.
fn round(format: &str, steps: &[Step]) -> Vec<String> {
    let (file, _) = exported(exporter(format).unwrap(), "", steps);
    let (told, _, error) = told(importer(format).unwrap(), file);
    assert_eq!(error, None);
    told
}

/// Each step's instructions and references, written by `say`, one after the other.
fn spelled(steps: &[Step], say: impl Fn(Kind, u64, u64) -> Vec<String>) -> Vec<String> {
    stream::plain(steps)
        .flat_map(|(instruction, references)| {
            let fetch = instruction.map(|(address, length)| say(Kind::Fetch, address, length));
            let data = references.iter().map(|&(kind, address, bytes)| say(kind, address, bytes));
            fetch.into_iter().chain(data).flatten().collect::<Vec<_>>()
        })
        .collect()
}

fn word(kind: Kind) -> &'static str {
    if kind == Kind::Fetch { "I" } else { ["Fetch", "Load", "Store", "Modify"][kind as usize] }
}

/// The first byte in each page.
fn pages(address: u64, bytes: u64) -> Vec<u64> {
    let mut pages: Vec<u64> = (address..address + bytes).map(|byte| byte / 4096).collect();
    pages.dedup();
    pages.into_iter().map(|page| address.max(page * 4096)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn lackey_and_tables_say_every_fetch_and_reference(steps in any_stream()) {
        let expected = spelled(&steps, |kind, address, bytes| vec![format!("{} {address:x},{bytes}", word(kind))]);
        prop_assert_eq!(&round("lackey", &steps), &expected);
        prop_assert_eq!(&round("table", &steps), &expected);
    }

    #[test]
    fn din_says_the_word_of_each_page(steps in any_stream()) {
        let expected = spelled(&steps, |kind, address, bytes| {
            let kinds = if kind == Kind::Modify { vec![Kind::Load, Kind::Store] } else { vec![kind] };
            let line = |kind, place: u64| format!("{} {:x},4", word(kind), place / 4 * 4);
            kinds.into_iter().flat_map(|kind| pages(address, bytes).into_iter().map(move |p| line(kind, p))).collect()
        });
        prop_assert_eq!(round("din", &steps), expected);
    }

    /// Files packed by name are the same files.
    #[test]
    fn packed_files_are_imported_alike(steps in any_stream()) {
        let format = exporter("table").unwrap();
        let (plain, _) = exported(format, "t.csv", &steps);
        for name in ["t.csv.gz", "t.csv.zst", "t.csv.xz"] {
            let (file, _) = exported(format, name, &steps);
            prop_assert_ne!(&file, &plain);
            prop_assert_eq!(unpacked(file), &plain[..]);
        }
    }
}

fn unpacked(file: Vec<u8>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut file = crate::import::container::unpacked(Box::new(io::Cursor::new(file))).unwrap();
    io::Read::read_to_end(&mut file, &mut bytes).unwrap();
    bytes
}

#[test]
fn what_a_format_cannot_say_is_counted() {
    let steps = [
        instruction(0x1000, 4, &[load(0x4ffc, 8), stream::modify(0x5000, 4)]),
        Step::Event(pagewalk_trace::Event::Syscall { number: 3, result: 0 }),
        Step::Event(pagewalk_trace::Event::Switch { thread: 2 }),
        instruction(0x1004, 2, &[load(0x6000, 4)]),
    ];
    let said = |format: &str| exported(exporter(format).unwrap(), "", &steps).1.sentences();
    let threads = "starts, ends and switches of threads: 1; left out; the references of all are one thread's"
        .to_owned();
    let calls = "system calls: 1; left out".to_owned();
    assert_eq!(said("lackey"), [threads.clone(), calls.clone()]);
    for table in ["table", "parquet"] {
        assert_eq!(said(table).join(""), calls);
    }
    let modifies = "modifies: 1; each is a load and a store".to_owned();
    let crossings = "references that cross into other pages: 1; each is one for each page".to_owned();
    let sizes = |count| {
        format!("references of sizes that the format does not say: {count}; their first bytes are written")
    };
    // Among them is the fetch of two bytes.
    assert_eq!(said("din"), [threads.clone(), calls.clone(), modifies.clone(), crossings.clone(), sizes(2)]);
    assert_eq!(
        said("champsim"),
        [threads.clone(), calls.clone(), modifies.clone(), crossings.clone(), sizes(2)]
    );
    assert_eq!(
        said("oracle-pages"),
        [threads, calls, "instruction fetches: 2; left out".to_owned(), crossings]
    );
    assert_eq!(
        said("drmemtrace"),
        ["instructions of unknown bytes: 2; written without them".to_owned(), modifies]
    );
}

#[test]
fn what_is_exported_can_be_imported_by_the_same_name() {
    let without = ["parquet"];
    for format in EXPORTERS {
        let has_importer = IMPORTERS.iter().any(|one| one.name == format.name);
        assert_eq!(has_importer, !without.contains(&format.name), "{}", format.name);
    }
}

/// A file that takes a few bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_ends_the_export_with_its_error() {
    let steps: Vec<Step> = (0..50_000u64)
        .map(|n| instruction(0x1000 + n * 37 % 9999, 4, &[load(n * n * 4099 % (1 << 40), 8)]))
        .collect();
    for format in EXPORTERS {
        for name in ["t", "t.zst"] {
            let out = packed(Path::new(name), Box::new(Full(1000))).unwrap();
            let error = match Export::begin(format, &header(), out) {
                Err(error) => error,
                Ok(mut export) => {
                    feed(&steps, &mut export);
                    export.finish().expect_err("the disk is full")
                }
            };
            assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{}: {error}", format.name);
        }
    }
}
