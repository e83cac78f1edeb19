//! Reading a study file.

mod comparisons;

use crate::cache_family::FileCacheFamily;
use crate::error::SweepError;
use crate::layouts::{self, FileLayout};
use crate::names::name_is_plain;
use crate::selection::{self, Names, Numbers};
use crate::source::StudyFiles;
use crate::study::{CurveSpec, FamilySpec, SERVES, Study, TraceSpec};
use crate::task::Task;
use crate::together::FileTogether;
use crate::workloads::{FileWorkload, check_grains, needed_grain, shared_workloads, workloads};
use crate::{kernels, machines, plots, structures};
use comparisons::FileCompare;
use pagewalk_mm::{AreaRules, ThpMode};
use pagewalk_report::sweep::schema::{Plot, PublishedRow, PublishedTable};
use pagewalk_reuse::Family;
use pagewalk_sim::Arrangement;
use pagewalk_units::names::{choice, with_closest};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use toml::Table;

/// The largest TLB of a host that traps come from.
const HOST_SLOTS_MAX: u32 = 1 << 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: u32,
    name: String,
    title: Option<String>,
    #[serde(default)]
    traces: Vec<String>,
    #[serde(default)]
    together: Vec<FileTogether>,
    workloads: Option<String>,
    #[serde(default)]
    workload: Vec<FileWorkload>,
    #[serde(default)]
    machines: Vec<String>,
    thp: Option<String>,
    areas: Option<String>,
    cores: Option<Numbers>,
    by_traps: Option<Numbers>,
    #[serde(default)]
    os: Vec<Table>,
    #[serde(default)]
    structures: Vec<String>,
    #[serde(default)]
    layout: Vec<FileLayout>,
    #[serde(default)]
    vary: Table,
    family: Option<FileFamily>,
    cache_family: Option<FileCacheFamily>,
    curve: Option<FileCurve>,
    #[serde(default)]
    compare: Vec<FileCompare>,
    #[serde(default)]
    published: Vec<FilePublished>,
    #[serde(default)]
    plot: Vec<FilePlot>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePlot {
    title: String,
    #[serde(default)]
    source: String,
    x: String,
    y: Vec<String>,
    lines: Option<String>,
    #[serde(default)]
    at: Table,
    #[serde(default)]
    logarithmic: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePublished {
    title: String,
    source: String,
    beside: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileFamily {
    #[serde(default = "data")]
    serves: Names,
    sets: Option<Numbers>,
    ways: Option<Numbers>,
    page_sizes: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCurve {
    #[serde(default = "data")]
    serves: Names,
    #[serde(default = "yes")]
    exact: bool,
    rate: Option<f64>,
    pages: Option<usize>,
}

fn data() -> Names {
    Names::One("data".to_owned())
}

fn yes() -> bool {
    true
}

impl Study {
    /// Reads a study file; paths in it start from its folder.
    pub fn read(path: &Path) -> Result<Study, SweepError> {
        StudyFiles::at(path).study()
    }

    /// Reads a study from TOML text; `file` is its name in messages, `folder` the base of its paths.
    pub fn from_toml(file: &str, text: &str, folder: &Path) -> Result<Study, SweepError> {
        Study::with_files(file, text, folder, &mut StudyFiles::at(&folder.join(file)))
    }

    /// The same, with the other files that it names read through `files`.
    pub(crate) fn with_files(
        file: &str,
        text: &str,
        folder: &Path,
        files: &mut StudyFiles,
    ) -> Result<Study, SweepError> {
        let wrong = |why: String| SweepError::Study { file: file.to_owned(), why };
        let parsed: File = toml::from_str(text).map_err(|e| wrong(with_closest(e.to_string().trim_end())))?;
        if parsed.schema != 1 {
            return Err(wrong(format!("schema = {}: this version reads schema = 1", parsed.schema)));
        }
        name_is_plain(&parsed.name).map_err(wrong)?;
        let own_kernels = parsed.vary.keys().find(|key| key.starts_with("os."));
        if let Some(key) = own_kernels.filter(|_| !parsed.os.is_empty()) {
            return Err(wrong(format!(
                "vary: \"{key}\" is of the machines' own kernels, which [[os]] replaces: give an [[os]] for each value"
            )));
        }
        let around = around(parsed.cores, parsed.by_traps, &parsed.machines).map_err(wrong)?;
        let machines = machines::variants(file, (folder, files), &parsed.machines, &parsed.vary, &around)?;
        let kernels = kernels::variants(file, text, (folder, files), parsed.os, &machines)?;
        let cache_family = parsed.cache_family.map(FileCacheFamily::check).transpose().map_err(wrong)?;
        let grain = needed_grain(&machines, cache_family.as_ref());
        let mut all = traces(parsed.traces, parsed.together, folder).map_err(wrong)?;
        if let Some(path) = &parsed.workloads {
            let inside = |why: String| wrong(format!("workloads = \"{path}\": {why}"));
            let (shared, folder) = shared_workloads(&folder.join(path), files).map_err(inside)?;
            all.extend(workloads(shared, grain, &folder, files).map_err(inside)?);
        }
        all.extend(workloads(parsed.workload, grain, folder, files).map_err(wrong)?);
        check_names(&all).map_err(wrong)?;
        let study = Study {
            structures: structures::variants(file, (folder, files), &parsed.structures, &machines)?,
            layouts: layouts::variants(parsed.layout).map_err(wrong)?,
            kernels,
            machines,
            file: file.to_owned(),
            title: parsed.title.unwrap_or_else(|| parsed.name.clone()),
            name: parsed.name,
            traces: all,
            thp: parsed.thp.as_deref().map(thp).transpose().map_err(wrong)?,
            areas: areas(parsed.areas.as_deref()).map_err(wrong)?,
            family: parsed.family.map(FileFamily::check).transpose().map_err(wrong)?,
            cache_family,
            curve: parsed.curve.map(FileCurve::check).transpose().map_err(wrong)?,
            compare: parsed
                .compare
                .into_iter()
                .map(FileCompare::check)
                .collect::<Result<_, _>>()
                .map_err(wrong)?,
            published: parsed
                .published
                .into_iter()
                .map(FilePublished::check)
                .collect::<Result<_, _>>()
                .map_err(wrong)?,
            plots: parsed.plot.into_iter().map(Plot::from).collect(),
        };
        study.plots.iter().try_for_each(|plot| plots::check(plot, &study)).map_err(wrong)?;
        if Task::all(&study).is_empty() {
            return Err(wrong(
                "nothing to simulate: give machines, [family], [cache_family] or [curve]".to_owned(),
            ));
        }
        check_grains(&study).map_err(wrong)?;
        layouts::check(&study).map_err(wrong)?;
        study.compare.iter().try_for_each(|compare| compare.check(&study)).map_err(wrong)?;
        Ok(study)
    }
}

/// The numbers of cores, and the slots of host TLBs from whose misses machines are simulated too; none if the study
/// does not say.
fn around(
    on_cores: Option<Numbers>,
    by_traps: Option<Numbers>,
    machines: &[String],
) -> Result<(Vec<u8>, Vec<u32>), String> {
    Ok((cores(on_cores, machines)?, host_slots(by_traps, machines)?))
}

/// The numbers of cores; none if the study does not say.
fn cores(given: Option<Numbers>, machines: &[String]) -> Result<Vec<u8>, String> {
    let Some(given) = given else { return Ok(Vec::new()) };
    if machines.is_empty() {
        return Err("cores: there is no machine to have them: name some with machines = [\"k8\"]".to_owned());
    }
    let all: Vec<u32> = (1..=Arrangement::CORES_MAX.into()).collect();
    let what = format!("from 1 to {}", Arrangement::CORES_MAX);
    let chosen = selection::numbers("cores", Some(given), &all, &what)?;
    Ok(chosen.into_iter().filter_map(|cores| cores.try_into().ok()).collect())
}

fn host_slots(given: Option<Numbers>, machines: &[String]) -> Result<Vec<u32>, String> {
    let Some(given) = given else { return Ok(Vec::new()) };
    if machines.is_empty() {
        return Err("by_traps: there is no machine: name some with machines = [\"mips_r2000\"]".to_owned());
    }
    let all: Vec<u32> = (1..=HOST_SLOTS_MAX).collect();
    selection::numbers("by_traps", Some(given), &all, &format!("from 1 to {HOST_SLOTS_MAX} slots"))
}

fn areas(text: Option<&str>) -> Result<AreaRules, String> {
    text.map_or(Ok(AreaRules::default()), AreaRules::from_text).map_err(|why| format!("areas: {why}"))
}

fn traces(paths: Vec<String>, together: Vec<FileTogether>, folder: &Path) -> Result<Vec<TraceSpec>, String> {
    let mut traces =
        paths.into_iter().map(|path| file_trace(folder.join(path))).collect::<Result<Vec<_>, String>>()?;
    for together in together {
        traces.push(together.check(folder)?);
    }
    Ok(traces)
}

/// A trace file, named after the file.
pub(crate) fn file_trace(path: PathBuf) -> Result<TraceSpec, String> {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = stem.ok_or_else(|| format!("traces: \"{}\" is no file's path", path.display()))?;
    Ok(TraceSpec::File { name, path })
}

pub(crate) fn check_names(traces: &[TraceSpec]) -> Result<(), String> {
    if traces.is_empty() {
        return Err(
            "no trace: give traces = [\"a.pwt\"], workloads = \"FILE\", a [[together]] or a [[workload]]"
                .to_owned(),
        );
    }
    let mut names = BTreeSet::new();
    match traces.iter().find(|trace| !names.insert(trace.name())) {
        Some(twice) => Err(format!("two traces are named `{}`: names must differ", twice.name())),
        None => Ok(()),
    }
}

fn thp(name: &str) -> Result<ThpMode, String> {
    let wrong = || format!("thp = \"{name}\": {}", choice(name, &["always", "madvise", "never"]));
    ThpMode::from_name(name).ok_or_else(wrong)
}

impl FileFamily {
    fn check(self) -> Result<FamilySpec, String> {
        let serves = selection::several("family: serves", self.serves.all(), &SERVES)?;
        let powers: Vec<u32> = (0..=Family::SETS_MAX.ilog2()).map(|bits| 1 << bits).collect();
        let ways: Vec<u32> = (1..=Family::WAYS_MAX).collect();
        let known = Family::PAGE_SIZES.map(|size| (size.to_string(), size));
        let known: Vec<_> = known.iter().map(|(name, size)| (name.as_str(), *size)).collect();
        Ok(FamilySpec {
            serves,
            sets: selection::numbers("family: sets", self.sets, &powers, "a power of two from 1 to 4096")?,
            ways: selection::numbers("family: ways", self.ways, &ways, "from 1 to 64")?,
            page_sizes: match self.page_sizes {
                None => Family::PAGE_SIZES.to_vec(),
                Some(names) => selection::several("family: page_sizes", &names, &known)?,
            },
        })
    }
}

impl FileCurve {
    fn check(self) -> Result<CurveSpec, String> {
        let serves = selection::several("curve: serves", self.serves.all(), &SERVES)?;
        if let Some(rate) = self.rate.filter(|rate| !(*rate > 0.0 && *rate <= 1.0)) {
            return Err(format!(
                "curve: rate = {rate}: give a part of all pages above 0 and up to 1, such as 0.01"
            ));
        }
        if let Some(pages) = self.pages.filter(|pages| !(64..=1 << 24).contains(pages)) {
            return Err(format!("curve: pages = {pages}: give from 64 to 16777216"));
        }
        if !self.exact && self.rate.is_none() && self.pages.is_none() {
            return Err("curve: exact = false without rate or pages leaves no curve".to_owned());
        }
        Ok(CurveSpec { serves, exact: self.exact, rate: self.rate, pages: self.pages })
    }
}

impl FilePublished {
    fn check(self) -> Result<PublishedTable, String> {
        let FilePublished { title, source, beside, columns, rows } = self;
        let inside = |why: String| format!("published \"{title}\": {why}");
        let tables = [("misses", ()), ("time", ()), ("mcpi", ()), ("memory", ()), ("layouts", ())];
        selection::one("beside", &beside, &tables).map_err(inside)?;
        let row = |row: Vec<String>| {
            let mut values = row.into_iter();
            let name = values.next().unwrap_or_default();
            let values: Vec<String> = values.collect();
            if values.len() != columns.len() {
                let (given, expected) = (values.len(), columns.len());
                return Err(inside(format!("row \"{name}\": {given} figures for {expected} columns")));
            }
            Ok(PublishedRow { name, values })
        };
        let rows = rows.into_iter().map(row).collect::<Result<_, _>>()?;
        Ok(PublishedTable { title, source, beside, columns, rows })
    }
}

impl From<FilePlot> for Plot {
    fn from(file: FilePlot) -> Plot {
        let FilePlot { title, source, x, y, lines, at, logarithmic } = file;
        let at: Vec<_> = at.into_iter().collect();
        Plot { title, source, x, y, lines, at: crate::vary::parameters(&at), logarithmic }
    }
}
