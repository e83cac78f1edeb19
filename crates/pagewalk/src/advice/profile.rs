//! The engine's profile of the program.

use crate::engine::{Live, Stream};
use crate::error::{Error, Fault};
use crate::listener::Listener;
use crate::makers::made_by;
use crate::native::{asks_to_end, describe_end};
use crate::stream::follow_ahead;
use crate::traces::open;
use pagewalk_capture::WindowSpec;
use pagewalk_forecast::{Origins, Piece, PieceId, REGION_BYTES, RegionReport, Regions};
use pagewalk_mm::{AreaRules, InferredAreas, ThpMode};
use pagewalk_sim::PassError;
use pagewalk_symbols::Symbolizer;
use pagewalk_trace::Source;
use pagewalk_translate::MachineSpec;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Requirements on a command to advise on.
pub const ENDS_WELL: &str =
    "give a command that does its work each time and exits with 0, such as sh -c 'CMD || true'";

/// The process image that executed most.
pub struct ProgramProfile {
    /// Path of its program.
    pub program: String,
    /// Without the program's name.
    pub arguments: Vec<String>,
    pub found: RegionReport,
    /// Who made each piece that a huge page fits, as `build (graph.c:13)`; `None` if unknown.
    pub made_by: Vec<Option<String>>,
    /// Number of process images.
    pub images: usize,
    /// The image's share of all instructions.
    pub share: f64,
}

/// Reads a trace.
pub fn read(
    trace: &Path,
    machine: &MachineSpec,
    thp: ThpMode,
    listener: &dyn Listener,
) -> Result<ProgramProfile, Error> {
    let mut regions = Regions::new(machine, thp).map_err(|error| unsupported(machine, &error))?;
    let reader = InferredAreas::new(open(trace, listener)?, AreaRules::default());
    let header = reader.header().clone();
    let ending = follow_ahead(reader, &WindowSpec::default(), &mut regions);
    if ending.cut {
        let why = format!("{}: {}", trace.display(), ending.losses.join("; "));
        return Err(Error::new(Fault::BadInput, why).or("advise needs the whole run: record it again"));
    }
    let (program, arguments) = (header.program, without_name(header.arguments));
    let (found, origins) = regions.finish();
    let made_by = makers(&found, &origins);
    Ok(ProgramProfile { program, arguments, found, made_by, images: 1, share: 1.0 })
}

/// Who made each piece that a huge page fits: plans name no other.
fn makers(found: &RegionReport, Origins { makers, space }: &Origins) -> Vec<Option<String>> {
    let mut symbols = Symbolizer::new();
    let pieces = (0..).map(PieceId).zip(&found.pieces);
    let name = |(id, piece): (PieceId, &Piece)| {
        (piece.named_bytes() >= REGION_BYTES).then(|| made_by(makers.of(id), space, &mut symbols)).flatten()
    };
    pieces.map(name).collect()
}

/// Arguments without the first, the program's name, as plans have them.
fn without_name(arguments: Vec<String>) -> Vec<String> {
    arguments.into_iter().skip(1).collect()
}

fn unsupported(machine: &MachineSpec, error: &PassError) -> Error {
    Error::new(Fault::Usage, format!("machine `{}`: {error}", machine.name))
}

/// Runs the program once under the engine.
pub fn see(
    live: &Live,
    machine: &MachineSpec,
    thp: ThpMode,
    listener: &dyn Listener,
) -> Result<ProgramProfile, Error> {
    let window = WindowSpec::default();
    let all = Mutex::new(Vec::new());
    // Refuse an unsupported machine before the program runs.
    Regions::new(machine, thp).map_err(|error| unsupported(machine, &error))?;
    let status = live.run(listener, |source: Stream| {
        let (number, header) = (source.inner.number(), source.header().clone());
        let mut regions = Regions::new(machine, thp).expect("it was possible before");
        let ending = follow_ahead(source, &window, &mut regions);
        let one = (number, header, regions.finish(), ending);
        all.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    })?;
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.sort_by_key(|(number, ..)| *number);
    if !status.success() {
        let why = format!("the program ended with {}", describe_end(status));
        return Err(match status.signal().is_some_and(asks_to_end) {
            true => Error::new(Fault::Failed, format!("interrupted: {why}")),
            false => Error::new(Fault::Failed, why).or(ENDS_WELL),
        });
    }
    let instructions: u64 = all.iter().map(|(_, _, (found, _), _)| found.instructions).sum();
    for (_, header, _, ending) in &all {
        ending.losses.iter().for_each(|loss| listener.warn(&format!("{}: {loss}", header.program)));
    }
    let images = all.len();
    // The first of equals; the last would depend on later images.
    let most = all.into_iter().rev().max_by_key(|(_, _, (found, _), _)| found.instructions);
    let Some((_, header, (found, origins), _)) = most else {
        return Err(Error::new(Fault::Failed, "no process of the program could be followed"));
    };
    let share = found.instructions as f64 / instructions.max(1) as f64;
    let (arguments, made_by) = (without_name(header.arguments), makers(&found, &origins));
    Ok(ProgramProfile { program: header.program, arguments, found, made_by, images, share })
}
