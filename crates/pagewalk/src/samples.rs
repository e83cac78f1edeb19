//! Samples of perf, attributed to mappings, functions, outcomes and regions; and next to a recorded stream.

mod spaces;
mod stream;
mod tallies;
mod text;

use crate::error::{Error, Fault};
use crate::listener::Listener;
use pagewalk_capture::samples::{MappedRange, Outcome, Sample, SampleNotes, SampleRecord};
use pagewalk_report::classes;
use pagewalk_report::documents::samples::{
    FIGURES, SAMPLES_SCHEMA, SampleCounts, SampledEvent, SampledPart, SampledProcess, SampledRegion,
    SamplesResult, StreamComparison,
};
use pagewalk_symbols::{FileOffset, Symbol, Symbolizer};
use pagewalk_trace::SourceError;
use rustc_hash::FxHashMap;
use spaces::Space;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use tallies::{Named, Tally};

pub use text::render;

/// Bytes of a region.
pub(crate) const REGION_BYTES: u64 = 2 << 20;
/// Names of what has none.
const UNKNOWN: &str = "[unknown]";
const ANONYMOUS: &str = "[anonymous]";
const KERNEL: &str = "[kernel]";

/// What to read.
pub struct SamplesOptions {
    /// The file of samples; `-` for standard input.
    pub file: PathBuf,
    /// A trace of the same program to compare with.
    pub with: Option<PathBuf>,
}

/// Reads a file of samples, and compares it with a trace if there is one.
///
/// # Errors
/// If a file cannot be read.
pub fn run(options: &SamplesOptions, listener: &dyn Listener) -> Result<SamplesResult, Error> {
    let sampled = read(&options.file)?;
    let compared = options.with.as_ref().map(|trace| stream::compare(&sampled, trace, listener));
    let compared = compared.transpose()?;
    Ok(sampled.result(&options.file, compared))
}

/// Reads a file of samples.
pub(crate) fn read(path: &Path) -> Result<Sampled, Error> {
    let bad = |error: &dyn std::fmt::Display| {
        Error::new(Fault::BadInput, format!("{}: {error}", path.display()))
            .or("perf record -d writes such files; for a text of one, perf script must be told its fields: perf script \
                 --show-mmap-events --show-task-events -F comm,pid,tid,time,event,addr,ip,sym,dso")
    };
    let file = match path == Path::new("-") {
        true => spooled(),
        false => File::open(path),
    };
    let mut sampled = Sampled::default();
    let notes = pagewalk_capture::samples::read(file.map_err(|error| bad(&error))?, &mut |record| {
        sampled.take(record)
    });
    sampled.notes = notes.map_err(|error: SourceError| bad(&error))?;
    Ok(sampled)
}

/// Standard input as a file, as samples are read from any place.
fn spooled() -> std::io::Result<File> {
    use std::io::{Seek, SeekFrom};
    let mut file = tempfile::tempfile()?;
    std::io::copy(&mut std::io::stdin().lock(), &mut file)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

/// A region's samples that walked.
#[derive(Default)]
pub(crate) struct Region {
    /// The mapping of the first one.
    pub mapping: String,
    /// Samples.
    pub samples: u64,
    /// Events that they stand for.
    pub walks: u64,
    /// Their pages, by address.
    pub pages: Vec<u64>,
    /// Whether the last one was on a huge page.
    pub huge: bool,
}

/// A page of a file or of the heap, wherever it was mapped.
pub(crate) type PagePlace = (String, u64);

/// Everything that was sampled.
#[derive(Default)]
pub(crate) struct Sampled {
    pub notes: SampleNotes,
    /// What is known of processes.
    pub spaces: FxHashMap<i32, Space>,
    /// First and last time, in nanoseconds.
    times: Option<(u64, u64)>,
    events: Vec<u64>,
    without_address: u64,
    /// Samples that do not say for how many events they stand.
    pub without_period: u64,
    all: Tally,
    processes: BTreeMap<i32, Tally>,
    outcomes: BTreeMap<Outcome, Tally>,
    page_sizes: BTreeMap<Option<u64>, Tally>,
    pub mappings: Named<String>,
    functions: Named<(String, String)>,
    /// By function with file and line of the source, and by object file.
    sites: Named<(String, String)>,
    /// By process and address.
    pub regions: BTreeMap<(i32, u64), Region>,
    /// Samples of pages of files and the heap.
    pub pages: FxHashMap<PagePlace, u64>,
    symbols: Symbols,
}

impl Sampled {
    fn take(&mut self, record: SampleRecord) {
        match record {
            SampleRecord::Command { process, name, is_exec } => {
                let space = self.spaces.entry(process).or_default();
                space.command = name;
                if is_exec {
                    space.clear();
                }
            }
            SampleRecord::Fork { process, parent } => {
                let space = self.spaces.get(&parent).cloned().unwrap_or_default();
                self.spaces.insert(process, space);
            }
            SampleRecord::Mapped(range) => self.spaces.entry(range.process).or_default().map(range),
            SampleRecord::Sample(sample) => self.count(&sample),
        }
    }

    fn count(&mut self, sample: &Sample) {
        if self.events.len() <= sample.event {
            self.events.resize(sample.event + 1, 0);
        }
        self.events[sample.event] += 1;
        if let Some(time) = sample.nanoseconds {
            let (first, last) = self.times.unwrap_or((time, time));
            self.times = Some((first.min(time), last.max(time)));
        }
        let Some(address) = sample.address else {
            self.without_address += 1;
            return;
        };
        self.without_period += u64::from(sample.period.is_none());
        let range = self.spaces.get(&sample.process).and_then(|space| space.find(address));
        let mapping = mapping_name(sample, range).to_owned();
        if let Some(range) = range
            && let Some(page) = page_of(self.spaces.get(&sample.process), range, address)
        {
            *self.pages.entry((mapping.clone(), page)).or_default() += 1;
        }
        let code = sample.code.filter(|_| !sample.in_kernel);
        let code = code.and_then(|code| Some((self.spaces.get(&sample.process)?.find(code)?, code)));
        let (function, site) = self.symbols.place(sample, code);
        self.all.add(sample, address);
        self.processes.entry(sample.process).or_default().add(sample, address);
        self.outcomes.entry(sample.outcome).or_default().add(sample, address);
        self.page_sizes.entry(sample.page_bytes).or_default().add(sample, address);
        if let Some(site) = site {
            self.sites.of((site, function.1.clone())).add(sample, address);
        }
        self.functions.of(function).add(sample, address);
        if sample.outcome == Outcome::Walk {
            self.count_walk(sample, address, &mapping);
        }
        self.mappings.of(mapping).add(sample, address);
    }

    fn count_walk(&mut self, sample: &Sample, address: u64, mapping: &str) {
        let region = self.regions.entry((sample.process, address & !(REGION_BYTES - 1))).or_default();
        if region.samples == 0 {
            mapping.clone_into(&mut region.mapping);
        }
        region.samples += 1;
        region.walks = region.walks.saturating_add(sample.period.unwrap_or(1));
        let page = address & !0xfff;
        if let Err(at) = region.pages.binary_search(&page) {
            region.pages.insert(at, page);
        }
        region.huge = sample.page_bytes.is_some_and(|bytes| bytes >= REGION_BYTES);
    }

    /// Seconds from the first sample to the last.
    pub fn seconds(&self) -> Option<f64> {
        self.times.map(|(first, last)| (last - first) as f64 * 1e-9)
    }

    /// The process with most walks.
    pub fn process_with_walks(&self) -> Option<i32> {
        let walking = self.processes.iter().filter(|(_, tally)| tally.walks > 0);
        walking.max_by_key(|(_, tally)| tally.walks).map(|(&process, _)| process)
    }

    fn result(self, file: &Path, stream: Option<StreamComparison>) -> SamplesResult {
        let all = self.all.samples;
        let counts = |tally: &Tally| tally.counts(all);
        let part = |name: String, tally: &Tally| SampledPart { name, file: None, counts: counts(tally) };
        let in_file = |((name, file), tally): (&(String, String), &Tally)| SampledPart {
            file: Some(file.clone()),
            ..part(name.clone(), tally)
        };
        let notes = self.sentences();
        let outcomes = Outcome::ALL.iter().filter_map(|outcome| Some((outcome, self.outcomes.get(outcome)?)));
        SamplesResult {
            schema: SAMPLES_SCHEMA,
            file: file.display().to_string(),
            format: self.notes.format,
            seconds: self.seconds(),
            samples: counts(&self.all),
            without_address: self.without_address,
            outcomes: outcomes.map(|(outcome, tally)| part(outcome.name().to_owned(), tally)).collect(),
            page_sizes: self.page_sizes.iter().map(|(&bytes, tally)| part(size_name(bytes), tally)).collect(),
            mappings: sorted(self.mappings.iter().map(|(name, tally)| part(name.clone(), tally))),
            functions: sorted(self.functions.iter().map(in_file)),
            sites: sorted(self.sites.iter().map(in_file)),
            processes: self.sampled_processes(),
            regions: self.sampled_regions(),
            events: self
                .notes
                .events
                .iter()
                .zip(self.events.iter().chain(std::iter::repeat(&0)))
                .map(|(name, &samples)| SampledEvent { name: name.clone(), samples })
                .collect(),
            stream,
            notes,
            classes: classes(&FIGURES),
        }
    }

    fn sampled_processes(&self) -> Vec<SampledProcess> {
        let mut all: Vec<SampledProcess> = self
            .processes
            .iter()
            .map(|(&process, tally)| SampledProcess {
                process,
                command: self.spaces.get(&process).map(|space| space.command.clone()).unwrap_or_default(),
                samples: tally.samples,
                walks: tally.walks,
            })
            .collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.samples));
        all
    }

    fn sampled_regions(&self) -> Vec<SampledRegion> {
        let mut all: Vec<SampledRegion> = self
            .regions
            .iter()
            .map(|(&(process, start), region)| SampledRegion {
                process,
                start: format!("{start:#x}"),
                mapping: region.mapping.clone(),
                walks: region.samples,
                pages: region.pages.len() as u64,
                huge: region.huge,
            })
            .collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.walks));
        all
    }

    /// What the file lacks.
    fn sentences(&self) -> Vec<String> {
        let mut notes = self.notes.notes.clone();
        let mut lacks = |is: bool, what: &str| notes.extend(is.then(|| what.to_owned()));
        lacks(
            self.all.samples == 0,
            "no sample has an address: record with -d, and an event that has addresses (perf mem record, page-faults); \
             for perf script, -F …,addr",
        );
        lacks(
            self.all.samples > 0 && self.outcomes.keys().all(|&outcome| outcome == Outcome::Unknown),
            "no sample says what its translation met: record memory accesses (perf mem record), or page-faults",
        );
        lacks(
            self.page_sizes.keys().all(Option::is_none) && self.all.samples > 0,
            "samples have no page sizes: record with --data-page-size",
        );
        lacks(
            self.spaces.values().all(|space| space.ranges().next().is_none()),
            "the file has no mappings: for perf script, --show-mmap-events",
        );
        notes.extend(self.symbols.problems());
        notes
    }
}

/// Most walks first, then most samples.
fn sorted(parts: impl Iterator<Item = SampledPart>) -> Vec<SampledPart> {
    let mut parts: Vec<SampledPart> = parts.collect();
    let order = |counts: &SampleCounts| std::cmp::Reverse((counts.walks, counts.samples));
    parts.sort_by(|a, b| {
        order(&a.counts).cmp(&order(&b.counts)).then_with(|| (&a.name, &a.file).cmp(&(&b.name, &b.file)))
    });
    parts
}

/// The name of an address's mapping: by the file's mappings, else as perf said.
fn mapping_name<'a>(sample: &'a Sample, range: Option<&'a MappedRange>) -> &'a str {
    match range.map(|range| range.name.as_str()).or(sample.mapping.as_deref()) {
        Some("") => ANONYMOUS,
        Some(name) => name,
        None => UNKNOWN,
    }
}

/// The number of an address's page in its file or in the heap.
fn page_of(space: Option<&Space>, range: &MappedRange, address: u64) -> Option<u64> {
    let origin = match range.name.as_str() {
        "[heap]" => space?.ranges().find(|range| range.name == "[heap]")?.start,
        _ if range.is_file() => range.start.wrapping_sub(range.offset),
        _ => return None,
    };
    Some(address.wrapping_sub(origin) >> 12)
}

fn size_name(bytes: Option<u64>) -> String {
    match bytes {
        None => "unknown".to_owned(),
        Some(bytes) if bytes >= 1 << 30 => format!("{}G", bytes >> 30),
        Some(bytes) if bytes >= 1 << 20 => format!("{}M", bytes >> 20),
        Some(bytes) => format!("{}K", bytes >> 10),
    }
}

/// Names of functions and lines, looked up once for each place in a file.
#[derive(Default)]
struct Symbols {
    symbolizer: Symbolizer,
    known: FxHashMap<(String, u64), (String, Option<String>)>,
}

impl Symbols {
    /// The function of a sample's code with its object file, and its line of source.
    fn place(
        &mut self,
        sample: &Sample,
        code: Option<(&MappedRange, u64)>,
    ) -> ((String, String), Option<String>) {
        let Some((range, address)) = code.filter(|(range, _)| range.is_file()) else {
            let file = match sample.in_kernel {
                true => KERNEL,
                false => code.map_or(
                    UNKNOWN,
                    |(range, _)| if range.name.is_empty() { ANONYMOUS } else { &range.name },
                ),
            };
            let unknown = || (UNKNOWN.to_owned(), file.to_owned());
            return (sample.function.clone().unwrap_or_else(unknown), None);
        };
        let offset = (address - range.start).wrapping_add(range.offset);
        let Symbols { symbolizer, known } = self;
        let (function, site) = known.entry((range.name.clone(), offset)).or_insert_with(|| {
            // perf names functions of files that are not here.
            let is_needed = sample.function.is_none() || Path::new(&range.name).exists();
            let found = is_needed.then(|| symbolizer.lookup(&range.name, FileOffset(offset)));
            let Symbol { function, file, line, .. } = found.unwrap_or_default();
            let function = function.unwrap_or_else(|| UNKNOWN.to_owned());
            let site = file.zip(line).map(|(file, line)| format!("{function} {file}:{line}"));
            (function, site)
        });
        let named = sample.function.clone();
        (named.unwrap_or_else(|| (function.clone(), range.name.clone())), site.clone())
    }

    fn problems(&self) -> Vec<String> {
        self.symbolizer
            .problems()
            .iter()
            .map(|problem| format!("functions have no names: {problem}"))
            .collect()
    }
}
