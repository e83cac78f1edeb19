use super::*;
use pagewalk_trace::{FileIdentity, Protection};
use pagewalk_units::VirtAddr;

pub(crate) fn header(origin: Origin) -> StreamHeader {
    StreamHeader { program: "/bin/program".into(), ..StreamHeader::unknown(origin) }
}

fn map(start: u64, bytes: u64, kind: MappingKind, file: Option<(&str, u64)>) -> Event {
    let file = file.map(|(path, offset)| FileIdentity {
        path: path.to_owned(),
        offset,
        build_id: path.contains(".so").then(|| "ab".to_owned()),
    });
    Event::Map(Mapping {
        protection: Protection::default(),
        kind,
        file,
        ..Mapping::anonymous(VirtAddr(start), bytes)
    })
}

fn whose(owners: &Owners, address: u64) -> (OwnerKind, String) {
    let owner = owners.get(owners.at(address));
    (owner.kind, owner.name())
}

/// The program, its `.bss` and the loader, before the program runs.
fn started(origin: Origin) -> Owners {
    let mut owners = Owners::new(&header(origin));
    owners.apply(&map(0x9_0000, 0x4000, MappingKind::Stack, None));
    owners.apply(&map(0x1_0000, 0x2000, MappingKind::File, Some(("/bin/program", 0))));
    owners.apply(&map(0x1_2000, 0x1000, MappingKind::File, Some(("/bin/program", 0x2000))));
    owners.apply(&map(0x1_3000, 0x1000, MappingKind::Anonymous, None));
    owners.apply(&map(0x2_0000, 0x2000, MappingKind::File, Some(("/lib/ld-linux.so.2", 0))));
    owners
}

#[test]
fn the_image_is_no_object() {
    let owners = started(Origin::Start);
    for address in [0x1_0000, 0x1_2fff, 0x1_3fff] {
        assert_eq!(whose(&owners, address), (OwnerKind::Program, "/bin/program".into()));
    }
    assert_eq!(whose(&owners, 0x2_0000).0, OwnerKind::Loader);
    assert_eq!(whose(&owners, 0x9_0000), (OwnerKind::Stack, "[stack]".into()));
    assert_eq!(whose(&owners, 0x5_0000), (OwnerKind::Unknown, "[unknown]".into()));
    assert_eq!(owners.objects().count(), 0);
    assert_eq!(owners.get(owners.at(0x1_0000)).bytes, 0x4000);
}

#[test]
fn an_object_is_whole_from_its_first_mapping() {
    let mut owners = started(Origin::Start);
    owners.start_running();
    let library = |offset| Some(("/lib/lib.so", offset));
    owners.apply(&map(0x3_0000, 0x6000, MappingKind::File, library(0)));
    owners.apply(&map(0x3_1000, 0x2000, MappingKind::File, library(0x1000)));
    owners.apply(&map(0x3_4000, 0x2000, MappingKind::Anonymous, None));
    // Beside it; and over it, but from another file.
    owners.apply(&map(0x3_6000, 0x1000, MappingKind::Anonymous, None));
    owners.apply(&map(0x3_3000, 0x1000, MappingKind::File, Some(("/tmp/data", 0))));
    let (id, object) = owners.objects().next().expect("one was mapped");
    assert_eq!((object.base, object.bytes, object.initial), (0x3_0000, 0x6000, false));
    for (address, expected) in [
        (0x3_0000, OwnerKind::Object),
        (0x3_2fff, OwnerKind::Object),
        (0x3_3000, OwnerKind::File),
        (0x3_5fff, OwnerKind::Object),
        (0x3_6000, OwnerKind::Anonymous),
    ] {
        assert_eq!(whose(&owners, address).0, expected, "{address:#x}");
    }
    assert_eq!(owners.file_offset(0x3_2fff), Some(0x2fff));
    assert_eq!(owners.file_offset(0x3_5000), None);
    assert_eq!(owners.file_offset(0x3_6000), None);
    let before = owners.generation();
    owners.apply(&Event::Unmap { start: VirtAddr(0x3_0000), bytes: 0x6000 });
    assert!(owners.generation() > before);
    assert_eq!(owners.get(id).gone, Some(10));
    // Mapping the same file again makes another object.
    owners.apply(&map(0x4_0000, 0x6000, MappingKind::File, library(0)));
    assert_eq!(owners.objects().count(), 2);
}

#[test]
fn a_library_without_a_build_id_is_known_by_its_parts() {
    let mut owners = started(Origin::Start);
    owners.start_running();
    owners.apply(&map(0x3_0000, 0x6000, MappingKind::File, Some(("/lib/plugin", 0))));
    assert_eq!(whose(&owners, 0x3_0000).0, OwnerKind::File);
    owners.apply(&map(0x3_1000, 0x1000, MappingKind::File, Some(("/lib/plugin", 0x1000))));
    owners.apply(&map(0x3_5000, 0x1000, MappingKind::Anonymous, None));
    assert_eq!(whose(&owners, 0x3_5000), (OwnerKind::Object, "/lib/plugin".into()));
}

#[test]
fn a_child_has_its_parents_objects() {
    let mut owners = started(Origin::Fork);
    owners.apply(&map(0x3_0000, 0x1000, MappingKind::File, Some(("/lib/lib.so", 0))));
    owners.apply(&map(0x3_1000, 0x1000, MappingKind::File, Some(("/lib/lib.so", 0x1000))));
    owners.apply(&map(0x3_2000, 0x1000, MappingKind::Anonymous, None));
    let (_, object) = owners.objects().next().expect("one was mapped");
    assert_eq!((object.bytes, object.file_bytes, object.initial), (0x3000, 0x2000, true));
}

#[test]
fn heap_and_remapped_memory_keep_their_owners() {
    let mut owners = started(Origin::Start);
    owners.start_running();
    owners.apply(&Event::Break { old_end: VirtAddr(0x1_4000), new_end: VirtAddr(0x1_8000) });
    owners.apply(&Event::Break { old_end: VirtAddr(0x1_8000), new_end: VirtAddr(0x1_6000) });
    assert_eq!(whose(&owners, 0x1_5fff).0, OwnerKind::Heap);
    assert_eq!(whose(&owners, 0x1_6000).0, OwnerKind::Unknown);
    owners.apply(&map(0x5_0000, 0x2000, MappingKind::SharedFile, Some(("/tmp/data", 0))));
    let (old_start, new_start) = (VirtAddr(0x5_0000), VirtAddr(0x6_0000));
    owners.apply(&Event::Remap { old_start, old_bytes: 0x2000, new_start, new_bytes: 0x3000 });
    assert_eq!(whose(&owners, 0x5_0000).0, OwnerKind::Unknown);
    assert_eq!(whose(&owners, 0x6_2fff), (OwnerKind::File, "/tmp/data".into()));
}
