//! Lengths of objects that a process had before it ran.

use crate::common::{PAGE, header, rights};
use pagewalk_layout::files;
use pagewalk_layout::objects::Owners;
use pagewalk_layout::planner::Movables;
use pagewalk_trace::{Event, FileIdentity, Mapping, MappingKind, Origin, StreamHeader};
use pagewalk_units::VirtAddr;
use std::process::Command;

const BASE: u64 = 0x3_0000_0000;

/// A library with 20,000 bytes of zeros, and the pages of its file that are mapped.
fn library(folder: &tempfile::TempDir) -> (String, u64) {
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (source, library) = (path("x.c"), path("x.so"));
    std::fs::write(&source, "int large[5000];\nint used(void) { return large[3]; }\n").unwrap();
    let arguments = ["-shared", "-fPIC", "-Wl,--build-id=0xBEEF", "-o", &library, &source];
    assert!(Command::new("gcc").args(arguments).status().expect("gcc is here").success());
    let pages = files::place(&library, 0).unwrap().size / PAGE;
    (library, pages - 4)
}

/// The library in a forked child: two parts, followed by anonymous memory.
fn inherited(path: &str, build_id: &str, file_pages: u64, anonymous: u64) -> Movables {
    let mut owners = Owners::new(&StreamHeader { origin: Origin::Fork, ..header() });
    let mut map = |page: u64, pages: u64, kind, file| {
        let (start, bytes) = (VirtAddr(BASE + page * PAGE), pages * PAGE);
        owners.apply(&Event::Map(Mapping {
            protection: rights("r"),
            kind,
            file,
            ..Mapping::anonymous(start, bytes)
        }));
    };
    let file = |offset| FileIdentity { path: path.to_owned(), offset, build_id: Some(build_id.to_owned()) };
    map(0, 1, MappingKind::File, Some(file(0)));
    map(1, file_pages - 1, MappingKind::File, Some(file(PAGE)));
    map(file_pages, anonymous, MappingKind::Anonymous, None);
    Movables::new(&owners)
}

#[test]
fn what_a_child_inherits_is_as_long_as_its_file_says() {
    let folder = tempfile::tempdir().unwrap();
    let (library, file_pages) = library(&folder);
    let pages = |build_id, anonymous| inherited(&library, build_id, file_pages, anonymous).all()[0].pages;
    assert_eq!(pages("beef", 4), file_pages + 4, "its zeros alone");
    assert_eq!(pages("beef", 40), file_pages + 4, "and other memory behind them");
    assert_eq!(pages("beef", 3), file_pages, "less than the file says: it is not that file");
    assert_eq!(pages("dead", 40), file_pages, "another build by now");
    std::fs::remove_file(&library).unwrap();
    assert_eq!(pages("beef", 40), file_pages, "gone");
}
