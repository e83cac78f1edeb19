//! What functions are called, whatever becomes of their code and of its file.

use crate::harness::{Place, text};
use std::process::Command;

const MOVED: &str = include_str!("../programs/moved.c");
/// A program that walks in a function without a name of its own, behind a routine that states no size.
const HIDDEN: [(&str, &str); 3] = [
    ("1.s", include_str!("../../../symbols/tests/objects/programs/label.s")),
    ("2.c", include_str!("../../../symbols/tests/objects/programs/hidden.c")),
    ("3.s", include_str!("../../../symbols/tests/objects/programs/label_end.s")),
];

fn tool(place: &Place, name: &str, arguments: &[&str]) {
    let output = Command::new(name).args(arguments).current_dir(place.path(".")).output().expect(name);
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The function that walks most, and its object.
fn costliest(place: &Place, arguments: &[&str]) -> (String, String) {
    place.good(&[&["profile", "-o", "r.json", "--"], arguments].concat());
    let result = place.json("r.json");
    let row = &result["processes"][0]["attribution"]["functions"][0];
    let field = |name: &str| row[name].as_str().expect("a name").to_owned();
    (field("name"), field("object"))
}

#[test]
fn code_that_a_program_moves_keeps_its_names() {
    let place = Place::new();
    let program = place.compile("moved", MOVED);
    for way in ["in_place", "shared", "memfd", "mremap"] {
        let (name, object) = costliest(&place, &[&program, way]);
        assert_eq!(name, "chase", "{way}");
        assert!(object.ends_with("/moved"), "{way}: {object}");
    }
    let (name, object) = costliest(&place, &[&program, "other"]);
    assert!(name.starts_with("(no symbol, page 0x"), "it is not the file's code any more: {name}");
    assert!(object.ends_with("/moved [moved code]"), "{object}");
}

#[test]
fn functions_without_names_have_none_and_the_report_says_why() {
    let place = Place::new();
    for (name, source) in HIDDEN {
        place.write(name, source);
    }
    tool(&place, "gcc", &["-O1", "-o", "hidden", "1.s", "2.c", "3.s"]);
    tool(&place, "strip", &["-K", "old_label", "-K", "last_label", "-o", "kept", "hidden"]);
    tool(&place, "strip", &["-o", "stripped", "hidden"]);
    let path = |name: &str| text(&place.path(name)).to_owned();
    let (name, object) = costliest(&place, &["./kept"]);
    assert!(name.starts_with("kept (no symbol)+0x1"), "{name}");
    assert_eq!(object, path("kept"));
    let (name, _) = costliest(&place, &["./stripped"]);
    assert!(name.starts_with("stripped (stripped)+0x1"), "{name}");
    let printed = place.good(&["profile", "--", "./stripped"]).stderr;
    assert!(printed.contains("stripped: no names of functions are in that file"), "{printed}");
}
