//! What the fuzzers feed with bytes: the readers of files that come from outside.
//!
//! Any input may be refused; none may panic, and what is yielded keeps the promises of its type.

use pagewalk_capture::import::{IMPORTERS, Input, Opened, open};
use pagewalk_mm::structure::{Generator, KERNEL_START, StructureSpec, Visitor, Visits};
use pagewalk_trace::{Batch, Item, Source, pwt};
use pagewalk_translate::MachineSpec;
use std::io::Cursor;

/// A `.pwt` trace, from its front and by its index.
pub fn pwt_reader(data: &[u8]) {
    if let Ok(reader) = pwt::Reader::new(data) {
        drain(reader);
    }
    // The index leads all over the file; only that this returns matters.
    let _ = pwt::info(Cursor::new(data));
}

/// Another tool's file, whatever packs it: as each format that there is, and as the one that it has.
pub fn imports(data: &[u8]) {
    import_all(&[data]);
}

/// Several files of one experiment: the first byte says where the second one begins.
pub fn import_files(data: &[u8]) {
    let Some((&place, files)) = data.split_first() else { return };
    let (first, second) = files.split_at(files.len() * usize::from(place) / 256);
    import_all(&[first, second]);
}

fn import_all(files: &[&[u8]]) {
    for format in IMPORTERS.iter().map(Some).chain([None]) {
        let input = |bytes: &&[u8]| Input {
            name: "fuzzed".to_owned(),
            bytes: Box::new(Cursor::new(bytes.to_vec())),
            in_folder: false,
        };
        if let Ok(Opened { import, .. }) = open(files.iter().map(input).collect(), format) {
            drain(import.source);
            import.notes.sentences();
        }
    }
}

/// Samples of perf.
pub fn samples(data: &[u8]) {
    let _ = pagewalk_capture::samples::read(Cursor::new(data), &mut |_| {});
}

/// A machine description.
pub fn machine_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(machine) = MachineSpec::from_toml("fuzzed.toml", text) {
        assert!(machine.last_level() >= 1);
        assert!(machine.tlbs.iter().all(|tlb| tlb.geometry.sets().is_power_of_two()));
        assert_eq!(machine.doubled().tlbs.len(), machine.tlbs.len());
    }
}

/// A description of an operating system's structure, and what is drawn from it.
pub fn structure_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(structure) = StructureSpec::from_toml("fuzzed.toml", text) else { return };
    let servers = structure.servers.len();
    let mut generator = Generator::new(structure);
    let mut visits = Visits::default();
    // A call of each class: read, brk, wait4, getuid.
    [0, 12, 61, 102].into_iter().for_each(|number| generator.call(number, &mut visits));
    generator.tick(&mut visits);
    for (who, references) in visits.iter() {
        assert!(!references.is_empty());
        match who {
            Visitor::Kernel => assert!(references.iter().all(|one| one.address >= KERNEL_START)),
            Visitor::Server(index) => {
                assert!(index < servers);
                assert!(references.iter().all(|one| one.address < KERNEL_START));
            }
        }
    }
}

/// Takes every item up to the end or the first error.
fn drain(mut source: impl Source) {
    while let Ok(Some(item)) = source.next_item() {
        if let Item::Batch(batch) = item {
            check_batch(&batch);
        }
    }
}

/// The promises of [`Batch`]: spans in order cover all references, each with as many as its block has sites.
fn check_batch(batch: &Batch<'_>) {
    assert!(!batch.spans.is_empty() || batch.refs.is_empty(), "references without a span");
    for (number, span) in batch.spans.iter().enumerate() {
        assert!(span.block.index() < batch.blocks.len(), "span {number} names no block");
        let references = batch.span_end(number).checked_sub(span.first as usize);
        assert_eq!(references, Some(batch.blocks.get(span.block).sites.len()), "references of span {number}");
    }
    assert_eq!(batch.spans.first().map_or(0, |span| span.first), 0, "references before the first span");
}
