//! A page map reading as a result.

use super::{CacheColors, PagemapReading};
use pagewalk_capture::HostDescription;
use pagewalk_live::pagemap::{
    ENABLE_FRAMES, HUGE_PAGES, MappingPages, PAGE_BYTES, Sizes, Snapshot, SnapshotTime,
};
use pagewalk_report::contiguity::advise;
use pagewalk_report::contiguity::schema::{
    self, CONTIGUITY_SCHEMA, ContiguityResult, Coverage, Design, MappingContiguity, MissingFigures, PERCENTS,
    ProcessReading, name,
};

/// The whole result; `colors`: with the spread over these.
pub fn build(reading: &PagemapReading, colors: Option<&CacheColors>) -> ContiguityResult {
    let HostDescription { cpu, kernel, thp } = HostDescription::detect();
    let snapshot = &reading.snapshot;
    let ranges = snapshot.designs.ranges.as_ref();
    let mut result = ContiguityResult {
        schema: CONTIGUITY_SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: pagewalk_report::schema::Host { cpu, kernel, thp },
        process: subject(reading),
        page_bytes: PAGE_BYTES,
        huge_page_pages: HUGE_PAGES,
        present_pages: snapshot.distinct_pages,
        mapped_pages: snapshot.pages,
        repeated_pages: snapshot.repeated_pages,
        huge_mapped_pages: snapshot.huge_pages,
        swapped_pages: snapshot.swapped_pages,
        peak_resident_bytes: reading.peak_resident_bytes,
        frame_numbers: snapshot.frames.is_some(),
        colors: colors.and_then(|colors| colors.spread(snapshot)),
        classes: schema::figures(),
        designs: designs(snapshot),
        largest_virtual_run_pages: snapshot.designs.virtual_runs.largest(),
        largest_range_pages: ranges.map(Sizes::largest),
        mappings: snapshot.mappings.iter().map(|pages| mapping(pages, snapshot)).collect(),
        advice: String::new(),
    };
    result.advice = advise(&result);
    result
}

fn subject(reading: &PagemapReading) -> ProcessReading {
    let (read, at_seconds) = match reading.moment {
        None => (schema::ReadingTime::OnRequest, None),
        Some(SnapshotTime::Exit) => (schema::ReadingTime::AtExit, None),
        Some(SnapshotTime::Running { seconds }) => (schema::ReadingTime::WhileRunning, Some(seconds)),
    };
    ProcessReading {
        pid: reading.pid,
        program: reading.program.clone(),
        command_line: reading.command_line.clone(),
        read,
        at_seconds,
        reading_seconds: reading.seconds,
    }
}

const MEASURED: &str = "measured";
const BOUND: &str = "bound";

/// Designs for the memory as it lies, by how much an entry maps, then bounds.
fn designs(snapshot: &Snapshot) -> Vec<Design> {
    let found = &snapshot.designs;
    let rows = [
        (name::BASE_PAGES, "a 4 KB page", MEASURED, Some(&found.base_pages)),
        (name::AS_MAPPED, "a page as mapped, 4 KB or 2 MB", MEASURED, Some(&found.as_mapped)),
        (name::COALESCED, "up to 4 pages in a row (16 KB, CoLT)", MEASURED, found.coalesced.as_ref()),
        (name::CLUSTERED, "a cluster of up to 8 (32 KB)", MEASURED, found.clustered.as_ref()),
        (name::HINTED, "a block of 16 (64 KB, Arm's hint)", MEASURED, found.hinted.as_ref()),
        (name::RANGES, "a range of any length", MEASURED, found.ranges.as_ref()),
        (name::HUGE_EVERYWHERE, "2 MB pages everywhere", BOUND, Some(&found.huge_everywhere)),
        (name::VIRTUAL_RUNS, "a range, frames laid out for it", BOUND, Some(&found.virtual_runs)),
    ];
    rows.into_iter().map(|(name, title, class, sizes)| design(name, title, class, sizes, snapshot)).collect()
}

fn design(name: &str, title: &str, class: &str, sizes: Option<&Sizes>, snapshot: &Snapshot) -> Design {
    let (pages, entries) = sizes.into_iter().flat_map(Sizes::iter).unzip();
    let covering = |sizes: &Sizes| {
        PERCENTS.map(|percent| Coverage { percent, entries: sizes.covering(percent) }).to_vec()
    };
    Design {
        name: name.to_owned(),
        title: title.to_owned(),
        class: class.to_owned(),
        missing: sizes.is_none().then(|| why_missing(snapshot)),
        entries: sizes.map(Sizes::entries),
        covering: sizes.map_or(Vec::new(), covering),
        sizes: schema::EntrySizes { pages, entries },
    }
}

fn why_missing(snapshot: &Snapshot) -> MissingFigures {
    let (reason, enable) = if snapshot.frames.is_some() {
        ("this kernel does not tell where huge pages are (PAGEMAP_SCAN)", "Linux 6.7 or later")
    } else {
        ("this user may not read frame numbers: the kernel shows zeros without CAP_SYS_ADMIN", ENABLE_FRAMES)
    };
    MissingFigures { reason: reason.to_owned(), enable: enable.to_owned() }
}

fn mapping(pages: &MappingPages, snapshot: &Snapshot) -> MappingContiguity {
    let letter = |bit: u8, letter| if pages.rights & bit != 0 { letter } else { '-' };
    MappingContiguity {
        start: format!("{:#x}", pages.start),
        bytes: pages.end - pages.start,
        rights: [letter(1, 'r'), letter(2, 'w'), letter(4, 'x')].iter().collect(),
        name: pages.name.clone(),
        present_pages: pages.pages,
        huge_mapped_pages: snapshot.huge_places.then_some(pages.huge_pages),
        virtual_runs: pages.virtual_runs,
        ranges: pages.ranges,
    }
}
