//! Runs several processes in turns, which end after instructions or at system calls.

use super::groups::payers;
use super::rivals::{RivalCounts, Rivals};
use super::rows::{self, compared, modelled, perfect};
use super::spec::Experiment;
use crate::error::{Error, Fault};
use crate::findings::{Detail, Namer, Payers, blank};
use crate::listener::Listener;
use crate::stream::{Ending, WindowProgress, note};
use pagewalk_capture::Window;
use pagewalk_mm::ThpMode;
use pagewalk_report::count;
use pagewalk_report::schema::{ProcessResult, WhatIf};
use pagewalk_sim as sim;
use pagewalk_sim::{Arrangement, DesignCounts, Sharing};
use pagewalk_sweep::named_together;
use pagewalk_trace::{Interleave, Item, Origin, Source, StreamHeader};
use pagewalk_translate::{Asid, MachineSpec};
use std::cmp::Ordering;

/// Several streams on an experiment's machines, all with the same turns.
pub struct InterleavedStreams {
    /// The machines, then the first one without identifiers, and with one for each process.
    shared: sim::Simulation,
    /// The first machine with the opposite setting for global pages of files.
    otherwise: sim::Simulation,
    /// Whether the machines have global pages of files.
    global_files: bool,
    cores: usize,
    /// The rivals of the machines.
    rivals: Rivals,
    /// Each process alone on the first machine.
    alone: Vec<sim::Simulation>,
    switches: u64,
    headers: Vec<StreamHeader>,
    /// How each stream ended.
    endings: Vec<Ending>,
}

impl InterleavedStreams {
    /// Follows `sources` to their ends.
    pub fn follow<S: Source>(
        experiment: &Experiment,
        rivals: Rivals,
        sources: Vec<S>,
        sharing: &Sharing,
        thp: ThpMode,
    ) -> Result<InterleavedStreams, Error> {
        let (shared, otherwise) = arranged(experiment, &rivals, thp)?;
        let arrangement = Arrangement { global_files: false, ..experiment.arrangement() };
        let only = &experiment.machines[..1];
        let alone = sources.iter().map(|_| Rivals::default().arranged(experiment, only, thp, &arrangement));
        let mut all = InterleavedStreams {
            shared,
            otherwise,
            global_files: sharing.global_files,
            cores: arrangement.cores,
            alone: alone.collect::<Result<_, _>>()?,
            rivals,
            switches: 0,
            headers: sources.iter().map(|source| source.header().clone()).collect(),
            endings: Vec::new(),
        };
        for (stream, _) in (0..).zip(&all.headers).filter(|(_, header)| header.origin == Origin::Fork) {
            all.shared.begin_as_child(Asid::new(stream).expect("there are not more streams"));
        }
        let InterleavedStreams { shared, otherwise, alone, .. } = &mut all;
        (all.endings, all.switches) = follow_turns(experiment, sources, |stream, switch, item| {
            if let Some(asid) = switch {
                shared.switch_to(asid);
                otherwise.switch_to(asid);
            }
            [&mut *shared, otherwise, &mut alone[stream]].into_iter().for_each(|to| item.play(to));
        });
        Ok(all)
    }

    /// All processes as one: counters of the machines, and of each process; and how each ended. `replayed` are the
    /// counts under kernels that know the future.
    pub fn result(
        mut self,
        experiment: &Experiment,
        namer: &Namer,
        replayed: &[DesignCounts],
    ) -> (ProcessResult, Vec<Ending>) {
        let counts = self.shared.finish();
        let Payers { attribution, heat, losses } =
            payers(experiment, (namer, Detail::Full), &self.headers, &mut self.shared);
        let alone: Vec<DesignCounts> =
            self.alone.iter_mut().flat_map(|pass| pass.finish().into_iter().take(1)).collect();
        let otherwise = self.otherwise.finish().swap_remove(0);
        let machine = &experiment.machines[0];
        let mut what_if = what_if(&counts, &alone, experiment.machines.len());
        let (bases, rest) = counts.split_at(experiment.machines.len());
        what_if.insert(3, global_row(&counts[0], self.global_files, &otherwise));
        let did = self.shared.counts();
        let further = [("switches", self.switches), ("cores", self.cores as u64)];
        let further = if self.cores > 1 { &further[..] } else { &further[..1] };
        let machines = rows::machines(&experiment.machines, &counts, did.as_ref(), further);
        let mut process = interleaved(experiment, &self.headers, &self.endings);
        process.losses.extend(losses);
        let mut process = ProcessResult {
            machines,
            advice: advice(&what_if, self.switches, &machine.name),
            attribution,
            heat,
            what_if,
            ..process
        };
        self.rivals.add_rows(experiment, RivalCounts { bases, rivals: &rest[2..], replayed }, &mut process);
        (process, self.endings)
    }
}

/// Streams that took turns, as one process without counters.
fn interleaved(experiment: &Experiment, headers: &[StreamHeader], endings: &[Ending]) -> ProcessResult {
    let names: Vec<&str> = headers.iter().map(|header| header.program.as_str()).collect();
    ProcessResult {
        pid: 0,
        parent: 0,
        origin: "interleaved".to_owned(),
        program: named_together(&names),
        command_line: headers.iter().flat_map(|header| header.arguments.clone()).collect(),
        ended: "interleaved".to_owned(),
        losses: endings.iter().flat_map(Ending::told_losses).collect(),
        inferred_gap: headers.iter().find_map(|header| header.inferred_gap),
        structure: experiment.structure.as_ref().map(|structure| structure.name.clone()),
        ..blank(&headers[0])
    }
}

/// Follows `sources` in the experiment's turns to their ends. `play` hears which stream did what, and the process to
/// which the processor switched for it. Returns how each ended, and the number of switches.
fn follow_turns<S: Source>(
    experiment: &Experiment,
    sources: Vec<S>,
    mut play: impl FnMut(usize, Option<Asid>, &Item<'_>),
) -> (Vec<Ending>, u64) {
    let sharing = experiment.sharing.as_ref().expect("they take turns");
    let mut endings: Vec<Ending> = sources.iter().map(|_| Ending::default()).collect();
    let windows = sources.into_iter().map(|source| Window::new(source, experiment.window));
    let mut streams = Interleave::new(windows.collect(), sharing.turns.clone());
    let (mut runs, mut switches) = (0, 0);
    loop {
        let (stream, item) = match streams.next_item() {
            Ok(Some(turn)) => turn,
            Ok(None) => break,
            Err((stream, error)) => {
                if !streams.source(stream).has_ended() {
                    endings[stream].cut_by(&error);
                }
                continue;
            }
        };
        let switch = (stream != runs).then(|| Asid::new(stream as u32).expect("there are not more streams"));
        switches += u64::from(switch.is_some());
        runs = stream;
        if let Item::Event { event, .. } = &item {
            note(&mut endings[stream], event);
        }
        play(stream, switch, &item);
    }
    for (stream, ending) in endings.iter_mut().enumerate() {
        ending.reached = WindowProgress::of(streams.source(stream));
    }
    (endings, switches)
}

/// Checks that so many traces can take turns.
///
/// # Errors
/// If there are too many.
pub fn check_number(experiment: &Experiment, traces: usize) -> Result<(), Error> {
    let most = sim::Simulation::programs_max(experiment.structure.as_ref());
    if traces > most {
        return Err(Error::new(Fault::Usage, format!("{traces} traces: at most {most} can take turns")));
    }
    Ok(())
}

/// The machines, then the first one without identifiers and with one for each process, then all rivals; and the first
/// machine with the opposite setting for global pages of files.
pub fn arranged(
    experiment: &Experiment,
    rivals: &Rivals,
    thp: ThpMode,
) -> Result<(sim::Simulation, sim::Simulation), Error> {
    let first = &experiment.machines[0];
    let mut machines = experiment.machines.clone();
    machines.extend([0, Asid::COUNT].map(|asids| MachineSpec { asids, ..first.clone() }));
    let arrangement = experiment.arrangement();
    let otherwise = Arrangement { global_files: !arrangement.global_files, ..arrangement };
    rivals.with_other(experiment, &machines, thp, &otherwise)
}

/// The first machine as it is, with other numbers of identifiers, and with each process alone on it.
fn what_if(counts: &[DesignCounts], alone: &[DesignCounts], machines: usize) -> Vec<WhatIf> {
    let base = &counts[0];
    let row = |id, title, counts| modelled(base, id, title, counts);
    let walks = alone.iter().map(DesignCounts::walks).sum();
    let cycles = alone.iter().map(|counts| counts.cycles.walk).sum();
    vec![
        row("baseline", "as it is", base),
        row("flush", "TLBs flushed at each switch", &counts[machines]),
        row("identifiers", "an identifier for every process", &counts[machines + 1]),
        compared(base, "alone", "each process alone", "modelled", walks, cycles),
        perfect(base),
    ]
}

/// The first machine with the opposite setting for global pages.
fn global_row(base: &DesignCounts, global_files: bool, otherwise: &DesignCounts) -> WhatIf {
    let (id, title) = match global_files {
        true => ("no_global", "no global pages"),
        false => ("global", "read-only pages of files global"),
    };
    modelled(base, id, title, otherwise)
}

fn advice(what_if: &[WhatIf], switches: u64, machine: &str) -> String {
    let found = |id: &str| what_if.iter().find(|row| row.id == id).map(|row| row.walks);
    let walks = |id: &str| found(id).unwrap_or(0);
    let (now, alone, identified) = (walks("baseline"), walks("alone"), walks("identifiers"));
    // Global pages are no effect of turns.
    let shared = found("no_global").unwrap_or(now);
    let all = count(shared);
    let does = match shared.cmp(&alone) {
        Ordering::Greater => format!("costs {} of {all} page walks", count(shared - alone)),
        Ordering::Equal => format!("changes nothing of {all} page walks"),
        Ordering::Less => format!("saves {} page walks and leaves {all}", count(alone - shared)),
    };
    let lead =
        if found("no_global").is_some() { "Without global pages, taking turns" } else { "Taking turns" };
    let told =
        format!("{lead} {does} on {machine} (switches: {}; alone: {} walks)", count(switches), count(alone));
    let global = match found("no_global") {
        None => String::new(),
        Some(_) => format!("; with them it takes {}", count(now)),
    };
    match identified == now {
        true => format!("{told}{global}."),
        false => {
            format!("{told}{global}; with an identifier for each process it would be {}.", count(identified))
        }
    }
}

/// The common mode of huge pages, since one kernel serves all processes; warns if the recordings differ.
pub fn common_thp<S: Source>(sources: &[S], listener: &dyn Listener) -> String {
    let mut modes = sources.iter().map(|source| source.header().thp.clone());
    let first = modes.next().unwrap_or_default();
    if let Some(other) = modes.find(|mode| *mode != first) {
        listener.warn(&format!(
            "the traces were recorded under THP {first} and {other}; the first's is taken for all (--thp sets it)"
        ));
    }
    first
}
