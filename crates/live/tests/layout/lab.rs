//! Shared by the tests: plans for libraries, and runs.

use pagewalk_layout::files::{self, Object};
use pagewalk_live::layout::{
    LayoutError, LayoutImage, LayoutRun, PlacementOptions, Relay, State, check_host, run,
};
use pagewalk_plan::{DEFAULT_ARENA, Layout};
use pagewalk_skip::{Need, skip};
use std::ffi::OsString;

/// Whether libraries can be placed here. If not, only the refusal is tested, which must name a remedy.
pub fn host_can() -> bool {
    match check_host() {
        Ok(()) => true,
        Err(error) => {
            assert!(!error.enable().is_empty(), "{error}");
            skip(Need::Tracing, format_args!("{error}; to enable: {}", error.enable()));
            false
        }
    }
}

/// The objects of a plan that puts these files one after the other.
pub fn packed(files: &[String]) -> Vec<Object> {
    files::objects(&packed_layout(files)).unwrap()
}

pub fn packed_layout(files: &[String]) -> Layout {
    let mut offset = 0;
    let mut places = Vec::new();
    for file in files {
        let place = files::place(file, offset).unwrap();
        offset += place.size;
        places.push(place);
    }
    Layout { planner: "hand".into(), machines: vec![], arena: DEFAULT_ARENA, places }
}

pub const VERIFY: PlacementOptions = PlacementOptions { verify: true, release: false, no_randomise: false };

pub fn placed(
    words: &[&str],
    objects: &[Object],
    options: PlacementOptions,
) -> Result<LayoutRun, LayoutError> {
    let command: Vec<OsString> = words.iter().map(OsString::from).collect();
    run(&command, objects, options, &Relay::new(), &mut |_| {})
}

/// All the plan's objects are at their places when the loader is done, and at the end.
#[track_caller]
pub fn assert_landed(image: &LayoutImage, objects: &[Object]) {
    assert_eq!(image.obstacle, None);
    for landings in [&image.at_start, &image.at_end] {
        let landings = landings.as_ref().expect("looked at");
        assert_eq!(landings.len(), objects.len());
        for (landing, object) in landings.iter().zip(objects) {
            assert_eq!(landing.state, State::Landed, "{landing:#x?}");
            assert_eq!((landing.actual, landing.planned), (landing.planned, object.base + image.slid_bytes));
        }
    }
}

/// A process's mapped shared objects, from its own copy of `/proc/self/maps`.
pub fn mapped_libraries(maps: &str) -> Vec<String> {
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| line[at..].to_owned()));
    let mut files: Vec<String> =
        paths.filter(|path| path.contains(".so") && !path.contains("/ld-linux")).collect();
    files.sort();
    files.dedup();
    files
}
