//! `pagewalk simulate --quantum N A.pwt B.pwt`, or with `--switch-at`: several processes in turns.

use super::os::Under;
use super::{compared, os, structure};
use crate::arguments::Simulate;
use crate::command::profile::Study;
use crate::error::{CliError, Code};
use crate::findings::{groups, short};
use crate::output::say;
use crate::process::{Ending, Reached, note, window};
use pagewalk_capture::Window;
use pagewalk_mm::ThpMode;
use pagewalk_report::metrics::record_count;
use pagewalk_report::schema::{Attribution, Heat, MachineResult, MappingRow, ProcessResult, WhatIf};
use pagewalk_sim::{Arrangement, DesignCounts, Experiment};
use pagewalk_sweep::{add_structure, metrics, partition};
use pagewalk_trace::{
    Analysis, Interleave, Item, Origin, Source, StreamHeader, Turns, all_calls, call_number,
};
use pagewalk_translate::{Asid, MachineSpec};
use pagewalk_units::names::{closest, meant};

/// How processes share a processor.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// Where their turns end.
    pub turns: Turns,
    /// Whether pages of files are global that are mapped without the right to write.
    pub global_files: bool,
    /// On how many cores their threads run.
    pub cores: usize,
}

/// What the command line says of turns; `None`: there are none.
pub fn turns(arguments: &Simulate) -> Result<Option<Sharing>, CliError> {
    let calls = arguments.switch_at.iter().map(|name| call(name)).collect::<Result<Vec<u32>, _>>()?;
    let (quantum, global_files) = (arguments.quantum, arguments.global_files);
    if quantum.is_none() && calls.is_empty() {
        let why = "--global-files is for processes that take turns";
        let way_out = "give --quantum N or --switch-at CALL, or leave it out";
        return if global_files { Err(CliError::new(Code::Usage, why).or(way_out)) } else { Ok(None) };
    }
    let cores = arguments.cores.map_or(1, usize::from);
    Ok(Some(Sharing { turns: Turns { quantum, calls }, global_files, cores }))
}

/// The number of a system call that is given by its name, or by its number.
fn call(text: &str) -> Result<u32, CliError> {
    call_number(text).or_else(|| text.parse().ok()).ok_or_else(|| {
        let error = CliError::new(
            Code::Usage,
            format!("--switch-at {text}: no system call of x86-64 Linux has this name"),
        );
        error.or(match meant(&closest(text, all_calls().map(|(_, name)| name))) {
            None => "give names such as read, poll or futex, or numbers".to_owned(),
            Some(meant) => format!("{meant} Numbers work too"),
        })
    })
}

/// Several streams on the machines of a study, which all see the same turns.
pub struct Interleaved {
    /// The machines, and after them the first one without identifiers and with one for each process.
    shared: Experiment,
    /// The first machine with global pages of files if the others are without, and the other way round.
    otherwise: Experiment,
    sharing: Sharing,
    /// Kernels beside the host's, of which each process has its own.
    kernels: Vec<Under>,
    /// Each process with the first machine for itself.
    alone: Vec<Experiment>,
    switches: u64,
    headers: Vec<StreamHeader>,
    /// How each stream ended.
    pub endings: Vec<Ending>,
}

impl Interleaved {
    /// Follows `sources` to their ends.
    pub fn follow<S: Source>(
        study: &Study,
        sources: Vec<S>,
        sharing: Sharing,
        thp: ThpMode,
    ) -> Result<Interleaved, CliError> {
        let structure = study.structure.as_ref();
        let most = Experiment::programs_max(structure);
        if sources.len() > most {
            let why = format!("{} traces: at most {most} can take turns", sources.len());
            return Err(CliError::new(Code::Usage, why));
        }
        let first = &study.machines[0];
        let mut machines = study.machines.clone();
        machines.extend([0, Asid::COUNT].map(|asids| MachineSpec { asids, ..first.clone() }));
        let only = std::slice::from_ref(first);
        let kernels = os::running_kernels(study, "--quantum or --switch-at")?;
        let cores = sharing.cores;
        let taking_turns = |machines: &[MachineSpec], kernels: &[Under], global_files: bool| {
            let structure = structure.cloned();
            let arrangement = Arrangement { turns: true, global_files, structure, cores };
            os::experiment(study, machines, kernels, thp, &arrangement)
        };
        let alone = sources.iter().map(|_| taking_turns(only, &[], false));
        let mut all = Interleaved {
            shared: taking_turns(&machines, &kernels, sharing.global_files)?,
            otherwise: taking_turns(only, &[], !sharing.global_files)?,
            sharing,
            alone: alone.collect::<Result<_, _>>()?,
            kernels,
            switches: 0,
            headers: sources.iter().map(|source| source.header().clone()).collect(),
            endings: sources.iter().map(|_| Ending::default()).collect(),
        };
        for (stream, _) in (0..).zip(&all.headers).filter(|(_, header)| header.origin == Origin::Fork) {
            all.shared.begin_as_child(Asid::new(stream).expect("there are not more streams"));
        }
        let windows = sources.into_iter().map(|source| Window::new(source, window(&study.region)));
        let turns = all.sharing.turns.clone();
        all.take_turns(Interleave::new(windows.collect(), turns));
        Ok(all)
    }

    fn take_turns<S: Source>(&mut self, mut streams: Interleave<Window<S>>) {
        let mut runs = 0;
        loop {
            let (stream, item) = match streams.next_item() {
                Ok(Some(turn)) => turn,
                Ok(None) => break,
                Err((stream, error)) => {
                    self.endings[stream].cut = true;
                    self.endings[stream].losses.push(error.to_string());
                    continue;
                }
            };
            if stream != runs {
                self.switches += 1;
                runs = stream;
                let asid = Asid::new(stream as u32).expect("there are not more streams");
                self.shared.switch_to(asid);
                self.otherwise.switch_to(asid);
            }
            if let Item::Event { event, .. } = &item {
                note(&mut self.endings[stream], event);
            }
            for pass in [&mut self.shared, &mut self.otherwise, &mut self.alone[stream]] {
                match &item {
                    Item::Batch(batch) => pass.on_batch(batch),
                    Item::Event { at, event } => pass.on_event(*at, event),
                }
            }
        }
        for (stream, ending) in self.endings.iter_mut().enumerate() {
            ending.region = Reached::of(streams.source(stream));
        }
    }

    /// All processes as one: counters of the machines, and the processes in the place of mappings.
    pub fn result(mut self, study: &Study) -> ProcessResult {
        let spaces = self.shared.program_counts();
        let program = |space: Asid| self.headers.get(space.index()).map(structure::program);
        let groups = groups(&self.shared.groups(), program);
        let system = study.structure.as_ref().map(|structure| structure::rows(structure, &mut self.shared));
        let counts = self.shared.finish();
        let alone: Vec<DesignCounts> =
            self.alone.iter_mut().flat_map(|pass| pass.finish().into_iter().take(1)).collect();
        let otherwise = self.otherwise.finish().swap_remove(0);
        let machine = &study.machines[0];
        let rows = spaces.iter().map(|(asid, counts)| {
            let header = &self.headers[asid.index()];
            structure::row(structure::program(header), counts)
        });
        let mut rows: Vec<MappingRow> = rows.chain(system.into_iter().flatten()).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.walk_cycles));
        let mut what_if = what_if(&counts, &alone, study.machines.len());
        let (bases, under) = (&counts[..study.machines.len()], &counts[study.machines.len() + 2..]);
        let under = os::rows(study, &self.kernels, bases, under);
        what_if.splice(3..3, under.under);
        what_if.insert(3, global_row(&counts[0], self.sharing.global_files, &otherwise));
        let names: Vec<&str> = self.headers.iter().map(|header| short(&header.program)).collect();
        ProcessResult {
            pid: 0,
            parent: 0,
            origin: "interleaved".to_owned(),
            program: together(&names),
            command_line: self.headers.iter().flat_map(|header| header.arguments.clone()).collect(),
            ended: "interleaved".to_owned(),
            losses: self.endings.iter().flat_map(|ending| ending.losses.clone()).collect(),
            cut_short: None,
            thp_disable: None,
            structure: study.structure.as_ref().map(|structure| structure.name.clone()),
            machines: study
                .machines
                .iter()
                .zip(&counts)
                .map(|(machine, counts)| {
                    let mut metrics = metrics(counts);
                    record_count(&mut metrics, "switches", self.switches);
                    if self.sharing.cores > 1 {
                        record_count(&mut metrics, "cores", self.sharing.cores as u64);
                    }
                    if let Some(counts) = self.shared.counts() {
                        add_structure(&mut metrics, &counts);
                    }
                    MachineResult { name: machine.name.clone(), metrics, partition: partition(counts) }
                })
                .collect(),
            advice: advice(&what_if, self.switches, &machine.name),
            attribution: Attribution { mappings: rows, groups, ..Attribution::default() },
            heat: Heat::default(),
            reach: Vec::new(),
            what_if,
            kernels: under.kernels,
        }
    }
}

/// The programs in order of their first appearance: `2 × sqlite3 + gzip`.
fn together(programs: &[&str]) -> String {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for &program in programs {
        match counted.iter_mut().find(|(known, _)| *known == program) {
            Some((_, times)) => *times += 1,
            None => counted.push((program, 1)),
        }
    }
    let name = |(program, times): (&str, usize)| match times {
        1 => program.to_owned(),
        _ => format!("{times} × {program}"),
    };
    counted.into_iter().map(name).collect::<Vec<_>>().join(" + ")
}

/// The first machine as it is, with other numbers of identifiers, and with each process alone on it.
fn what_if(counts: &[DesignCounts], alone: &[DesignCounts], machines: usize) -> Vec<WhatIf> {
    let base = &counts[0];
    let row = |id: &str, title: &str, counts: &DesignCounts| {
        compared(base, id, title, "modelled", counts.walks(), counts.cycles.walk)
    };
    let walks = alone.iter().map(DesignCounts::walks).sum();
    let cycles = alone.iter().map(|counts| counts.cycles.walk).sum();
    vec![
        row("baseline", "as it is", base),
        row("flush", "TLBs flushed at each switch", &counts[machines]),
        row("identifiers", "an identifier for every process", &counts[machines + 1]),
        compared(base, "alone", "each process alone", "modelled", walks, cycles),
        compared(base, "perfect_tlb", "a perfect TLB", "bound", 0, 0),
    ]
}

/// The first machine with global pages if it has none, and without if it has.
fn global_row(base: &DesignCounts, global_files: bool, otherwise: &DesignCounts) -> WhatIf {
    let (id, title) = match global_files {
        true => ("no_global", "no global pages"),
        false => ("global", "read-only pages of files global"),
    };
    compared(base, id, title, "modelled", otherwise.walks(), otherwise.cycles.walk)
}

fn advice(what_if: &[WhatIf], switches: u64, machine: &str) -> String {
    let walks = |id: &str| what_if.iter().find(|row| row.id == id).map_or(0, |row| row.walks);
    let (shared, alone) = (walks("baseline"), walks("alone"));
    format!(
        "{switches} switches between the processes cost {} page walks more than each process alone on {machine} \
         ({shared} instead of {alone}); an identifier for every process would leave {}.",
        shared.saturating_sub(alone),
        walks("identifiers")
    )
}

/// Says when the recordings disagree about huge pages: one kernel serves all processes.
pub fn common_thp<S: Source>(sources: &[S]) -> String {
    let mut modes = sources.iter().map(|source| source.header().thp.clone());
    let first = modes.next().unwrap_or_default();
    if let Some(other) = modes.find(|mode| *mode != first) {
        say(format!("the traces were recorded under THP {first} and {other}; {first} is taken for all"));
    }
    first
}
