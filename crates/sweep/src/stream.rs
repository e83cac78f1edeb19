//! The streams of a study before they are read.

use crate::cache_family;
use crate::error::SweepError;
use crate::progress::{CountingFile, Progress};
use crate::study::{MachineVariant, Study, TraceSpec};
use crate::together;
use pagewalk_mm::{InferredAreas, ThpMode};
use pagewalk_report::sweep::schema::SweepTrace;
use pagewalk_sim::{Sharing, check_grain};
use pagewalk_trace::pwt::{Reader, info};
use pagewalk_trace::{Origin, Source};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// A stream, or several that take turns.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Its files; one without turns.
    pub files: Vec<PathBuf>,
    /// The files' BLAKE3 hashes, in hex.
    pub hashes: Vec<String>,
    /// How they share the processor, if they take turns.
    pub sharing: Option<Sharing>,
    /// By process: the process whose plan it has. A forked child has its parent's, as `fork` keeps all addresses.
    pub planned_as: Vec<usize>,
    /// Bytes of all files.
    pub bytes: u64,
    /// Its mode of huge pages in the simulation.
    pub thp: ThpMode,
    /// Its description in the result.
    pub about: SweepTrace,
}

impl Stream {
    /// Examines the streams of a study, given the files of each in its order. Cost: reads every file once, for its
    /// hash, and says so to `progress`.
    ///
    /// # Errors
    /// If a trace cannot be read, or does not suit the study.
    pub fn all(
        study: &Study,
        traces: &[Vec<PathBuf>],
        progress: &dyn Progress,
    ) -> Result<Vec<Stream>, SweepError> {
        assert_eq!(traces.len(), study.traces.len(), "files for each trace of the study");
        let named = study.traces.iter().zip(traces);
        let of = named.map(|(spec, files)| Stream::of(study, spec, files, progress));
        let streams = of.collect::<Result<Vec<Stream>, SweepError>>()?;
        check_processes(study, &streams)?;
        Ok(streams)
    }

    /// How many processes it has.
    pub fn processes(&self) -> usize {
        self.hashes.len()
    }

    /// Examines the files of a trace.
    fn of(
        study: &Study,
        spec: &TraceSpec,
        files: &[PathBuf],
        progress: &dyn Progress,
    ) -> Result<Stream, SweepError> {
        let sharing = spec.sharing();
        if sharing.is_some() {
            together::check_number(study, spec.name(), files.len())?;
        }
        let one_of = sharing.map_or(String::new(), |_| format!(" (of `{}`)", spec.name()));
        let looks = files.iter().map(|path| stream(spec.name(), path, study, progress));
        let examined = looks.collect::<Result<Vec<_>, SweepError>>().map_err(|error| match error {
            SweepError::Trace { path, why } => SweepError::Trace { path, why: why + &one_of },
            other => other,
        })?;
        let (looks, origins): (Vec<Stream>, Vec<ProcessOrigin>) = examined.into_iter().unzip();
        let programs: Vec<&str> = looks.iter().map(|one| one.about.program.as_str()).collect();
        let programs = together::named(&programs);
        let mut looks = looks.into_iter();
        let mut all = looks.next().expect("a trace has a file");
        all.planned_as = planned_as(&origins);
        let Some(sharing) = sharing else { return Ok(all) };
        all.about.program = programs;
        all.about.turns = Some(together::told(sharing));
        let mut hasher = blake3::Hasher::new();
        hasher.update(format!("{sharing:?}").as_bytes()).update(all.about.fingerprint.as_bytes());
        for one in looks {
            all.hashes.extend(one.hashes);
            all.about.command_line.extend(one.about.command_line);
            hasher.update(one.about.fingerprint.as_bytes());
            all.bytes += one.bytes;
            all.about.inferred_gap = all.about.inferred_gap.or(one.about.inferred_gap);
            all.about.instructions += one.about.instructions;
            all.about.references_data += one.about.references_data;
        }
        all.about.fingerprint = hasher.finalize().to_hex().to_string();
        Ok(Stream { files: files.to_vec(), sharing: Some(sharing.clone()), ..all })
    }
}

/// Checks that each process of a layout's traces has a plan.
fn check_processes(study: &Study, streams: &[Stream]) -> Result<(), SweepError> {
    for spec in &study.layouts {
        let Some(from) = study.source_of(spec).map(|from| &streams[from]) else { continue };
        let fits = |stream: &&Stream| [1, stream.processes()].contains(&from.processes());
        let mut streams = streams.iter().filter(|stream| spec.is_for(&stream.about.name));
        if let Some(other) = streams.find(|stream| !fits(stream)) {
            let why = format!(
                "layout `{}`: from = \"{}\" has {} processes, and trace `{}` has {}: name a trace of as many, or of 1",
                spec.name,
                from.about.name,
                from.processes(),
                other.about.name,
                other.processes()
            );
            return Err(SweepError::Study { file: study.file.clone(), why });
        }
    }
    Ok(())
}

/// A process's number and its parent's, and whether it was forked.
struct ProcessOrigin {
    pid: u32,
    parent: u32,
    is_forked: bool,
}

/// By process: the process whose plan it has.
fn planned_as(origins: &[ProcessOrigin]) -> Vec<usize> {
    let mut planned_as: Vec<usize> = Vec::new();
    for (number, origin) in origins.iter().enumerate() {
        let parent = origins[..number].iter().rposition(|other| other.pid == origin.parent);
        let parent = parent.filter(|_| origin.is_forked);
        planned_as.push(parent.map_or(number, |parent| planned_as[parent]));
    }
    planned_as
}

/// Examines a trace: its hash and header, that it is complete, and that it has what the study needs.
fn stream(
    name: &str,
    path: &Path,
    study: &Study,
    progress: &dyn Progress,
) -> Result<(Stream, ProcessOrigin), SweepError> {
    let wrong = |why: String| SweepError::Trace { path: path.to_owned(), why };
    let mut file = File::open(path).map_err(|e| wrong(e.to_string()))?;
    let about = info(BufReader::new(&file)).map_err(|e| wrong(e.to_string()))?;
    if let Some(damage) = about.damage {
        return Err(wrong(format!("{damage}; a study takes whole traces only")));
    }
    let check = |variant: &MachineVariant| check_grain(about.header.grain, &variant.machine);
    study.machines.iter().try_for_each(check).map_err(|e| wrong(e.to_string()))?;
    cache_family::check_grain(about.header.grain, study.cache_family.as_ref())
        .map_err(|e| wrong(e.to_string()))?;
    std::io::Seek::rewind(&mut file).map_err(|e| wrong(e.to_string()))?;
    let reader = Reader::new(&file).map_err(|e| wrong(e.to_string()))?;
    let inferred_gap = InferredAreas::new(reader, study.areas).header().inferred_gap;
    // A host that reports none has no transparent huge pages.
    let thp = study.thp.or_else(|| ThpMode::from_name(&about.header.thp)).unwrap_or(ThpMode::Never);
    let mut hasher = blake3::Hasher::new();
    std::io::Seek::rewind(&mut file).map_err(|e| wrong(e.to_string()))?;
    hasher.update_reader(CountingFile { file, progress }).map_err(|e| wrong(e.to_string()))?;
    let fingerprint = hasher.finalize().to_hex().to_string();
    let origin = ProcessOrigin {
        pid: about.header.pid,
        parent: about.header.parent,
        is_forked: about.header.origin == Origin::Fork,
    };
    let stream = Stream {
        files: vec![path.to_owned()],
        hashes: vec![fingerprint.clone()],
        planned_as: vec![0],
        sharing: None,
        bytes: about.bytes,
        thp,
        about: SweepTrace {
            name: name.to_owned(),
            turns: None,
            program: about.header.program,
            command_line: about.header.arguments,
            fingerprint,
            thp: thp.name().to_owned(),
            inferred_gap,
            instructions: about.instructions,
            references_data: about.references,
        },
    };
    Ok((stream, origin))
}
