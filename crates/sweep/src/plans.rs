//! The plans of a study's layouts: which are needed, and how to make those of one stream.
//!
//! One reading of the stream serves all planners; it also simulates the machines as recorded. Plans that must not walk
//! more often than that are tried before they are taken, all in one reading; those that fail are replaced by the
//! planner's next candidate. So a plan of `search` never walks more often on its own stream.

use crate::displacement::MovedAnalysis;
use crate::error::SweepError;
use crate::machine_task::LayoutChoice;
use crate::rounds;
use crate::stream::Stream;
use crate::study::{LayoutSpec, MachineVariant, Study};
use pagewalk_layout::objects::Owners;
use pagewalk_layout::planner::{
    Candidate, Movables, Planner, PlannerError, PlannerOptions, StreamView, Views, at_random, period_of,
};
use pagewalk_layout::rebase::{Mover, PlanBinding, slide};
use pagewalk_mm::Small;
use pagewalk_plan::{DEFAULT_ARENA, Layout, Plan, Program};
use pagewalk_sim::{Arrangement, DesignSpec, Simulation};
use pagewalk_trace::pwt::Events;
use pagewalk_trace::{Analysis, Event, Mapping, Source, Stretch};
use pagewalk_translate::MachineSpec;
use rayon::ThreadPool;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// A needed plan: of a layout, on a process of a trace, for one machine or for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanRequest {
    /// Index of the trace that it is made from.
    pub trace: usize,
    /// Index of its process.
    pub process: usize,
    /// Index of the layout.
    pub layout: usize,
    /// The draw, if several are drawn.
    pub draw: u64,
    /// The machine's number; `None` for all.
    pub machine: Option<usize>,
}

/// A finished plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanOutput {
    /// The plan's file.
    pub text: String,
    /// What the planner did, in a sentence.
    pub did: String,
}

impl PlanRequest {
    /// The plans under which `machine` runs on a trace, by process; none for the recorded layout. A plan of one process
    /// serves all.
    pub fn of(
        study: &Study,
        streams: &[Stream],
        trace: usize,
        choice: &LayoutChoice<'_>,
        machine: &MachineVariant,
    ) -> Vec<PlanRequest> {
        let &LayoutChoice { spec, layout, draw } = choice;
        if spec.planner.is_none() {
            return Vec::new();
        }
        let from = study.source_of(spec).unwrap_or(trace);
        let machine = (!spec.for_all).then_some(machine.number);
        let planned_as = &streams[from].planned_as;
        let of = |process: usize| {
            let process = planned_as[process.min(planned_as.len() - 1)];
            PlanRequest { trace: from, process, layout, draw, machine }
        };
        (0..streams[trace].processes()).map(of).collect()
    }

    /// All plans that a study needs, each once.
    pub fn all(study: &Study, streams: &[Stream]) -> Vec<PlanRequest> {
        let machines = study.machines_once();
        let mut all: Vec<PlanRequest> = Vec::new();
        for (layout, spec) in study.layouts.iter().enumerate() {
            let traces = study.traces.iter().enumerate().filter(|(_, trace)| spec.is_for(trace.name()));
            for ((trace, _), draw) in traces.flat_map(|trace| (0..spec.count).map(move |draw| (trace, draw)))
            {
                let choice = LayoutChoice { spec, layout, draw };
                let of = |machine: &&MachineVariant| PlanRequest::of(study, streams, trace, &choice, machine);
                for wanted in machines.iter().flat_map(of) {
                    if !all.contains(&wanted) {
                        all.push(wanted);
                    }
                }
            }
        }
        all
    }

    /// The machines that it is for, among those of the study.
    fn machines(&self, study: &Study) -> Range<usize> {
        self.machine.map_or(0..study.machines_once().len(), |machine| machine..machine + 1)
    }

    /// Everything that it depends on besides stream and program, as text.
    pub fn identity(&self, study: &Study) -> String {
        let layout = &study.layouts[self.layout];
        let seed = layout.seed(self.draw);
        let options =
            layout.planner.map(|options| PlannerOptions { seed: seed.unwrap_or(options.seed), ..options });
        let machines = study.machines_once();
        let machines = machines[self.machines(study)].iter().map(|one| one.text.as_str());
        let machines = machines.collect::<Vec<_>>().join("\n");
        format!("plan, {options:?}, room {:?}\n{machines}", room(study))
    }

    /// Its process, from 1, if its trace is of processes that take turns.
    pub fn number(&self, streams: &[Stream]) -> Option<usize> {
        streams[self.trace].sharing.is_some().then_some(self.process + 1)
    }

    /// Its title as text.
    pub fn title(&self, study: &Study, streams: &[Stream]) -> String {
        let (layout, machine) = self.names(study);
        let machine = machine.map_or(String::new(), |machine| format!(" for {machine}"));
        let process = self.number(streams).map_or(String::new(), |number| format!(" of process {number}"));
        format!("plan {layout}{machine}{process}")
    }

    /// The plan's file in the folder of plans; unique, since layout names contain neither `,` nor `@`.
    pub fn file(&self, study: &Study, streams: &[Stream]) -> String {
        let (layout, machine) = self.names(study);
        let machine = machine.map_or(String::new(), |machine| format!("@{}", plain(&machine)));
        let process = self.number(streams).map_or(String::new(), |number| format!("{number}/"));
        format!("{}/{process}{}{machine}.toml", plain(study.traces[self.trace].name()), plain(&layout))
    }

    fn names(&self, study: &Study) -> (String, Option<String>) {
        let layout = &study.layouts[self.layout];
        let seed = layout.seed(self.draw).map_or(String::new(), |seed| format!(",seed={seed}"));
        let machine = self.machine.map(|machine| label(study.machines_once()[machine]));
        (format!("{}{seed}", layout.name), machine)
    }
}

/// A machine with its varied values, whatever its cores, and not by traps.
pub fn label(variant: &MachineVariant) -> String {
    let around = [MachineVariant::CORES, MachineVariant::BY_TRAPS, MachineVariant::NESTED];
    let of_machine = variant.parameters.iter().filter(|(key, _)| !around.contains(&key.as_str()));
    let values = of_machine.map(|(key, value)| format!(",{key}={value}"));
    format!("{}{}", variant.machine.name, values.collect::<String>())
}

/// A name as part of a file name: problematic bytes become `%` and hex, so that names stay distinct.
fn plain(name: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"._-+,=".contains(&b);
    let bytes = name.bytes().enumerate();
    let plain = bytes.map(|(place, b)| match is_plain(b) && (place, b) != (0, b'.') {
        true => char::from(b).to_string(),
        false => format!("%{b:02X}"),
    });
    plain.collect()
}

/// A stream to make plans from.
pub struct From<'a> {
    /// The study.
    pub study: &'a Study,
    /// The stream's header and events.
    pub events: &'a Events,
    /// Whether it is of one of several processes.
    pub is_one_of_several: bool,
    /// The threads to work on.
    pub pool: &'a ThreadPool,
}

/// A plan being made.
struct PlanTrial {
    wanted: PlanRequest,
    candidates: Vec<Candidate>,
    /// The present candidate.
    now: usize,
    /// Whether it has been accepted.
    taken: bool,
}

impl From<'_> {
    /// Makes plans from the stream that `open` opens, several times.
    pub fn make<S: Source + Send>(
        &self,
        wanted: &[PlanRequest],
        open: impl Fn() -> Result<S, SweepError>,
        wrong: impl Fn(String) -> SweepError,
    ) -> Result<Vec<(PlanRequest, PlanOutput)>, SweepError> {
        let (drawn, planned): (Vec<PlanRequest>, Vec<PlanRequest>) =
            wanted.iter().partition(|wanted| self.layout(wanted).is_drawn());
        let failed = |error: PlannerError| wrong(error.to_string());
        let mut made = Vec::new();
        for wanted in drawn {
            let mut candidates = self.or_none(self.drawn(&wanted).map(|one| vec![one])).map_err(failed)?;
            made.push((wanted, self.made(&wanted, candidates.swap_remove(0)).map_err(&wrong)?));
        }
        if planned.is_empty() {
            return Ok(made);
        }
        let (mut seen, recorded) = self.see(&planned, open()?, &wrong)?;
        let mut making = Vec::new();
        for wanted in planned {
            let options = self.layout(&wanted).planner.expect("it is planned");
            let chosen = seen.choose(wanted.machines(self.study), &options).map(|chosen| chosen.candidates);
            let candidates = self.or_none(chosen).map_err(failed)?;
            making.push(PlanTrial { wanted, candidates, now: 0, taken: false });
        }
        drop(seen);
        while self.try_next(&mut making, &recorded, &open, &wrong)? {}
        for PlanTrial { wanted, mut candidates, now, .. } in making {
            made.push((wanted, self.made(&wanted, candidates.swap_remove(now)).map_err(&wrong)?));
        }
        Ok(made)
    }

    /// A plan that moves nothing, for one of several processes in which nothing can move.
    fn or_none(&self, found: Result<Vec<Candidate>, PlannerError>) -> Result<Vec<Candidate>, PlannerError> {
        match found {
            Err(PlannerError::NothingMoves) if self.is_one_of_several => {
                let did = "nothing of this process can move".to_owned();
                Ok(vec![Candidate { places: Vec::new(), did, must_pay: false }])
            }
            found => found,
        }
    }

    fn layout(&self, wanted: &PlanRequest) -> &LayoutSpec {
        &self.study.layouts[wanted.layout]
    }

    fn specs(&self) -> Vec<MachineSpec> {
        self.study.machines_once().iter().map(|variant| variant.machine.clone()).collect()
    }

    fn drawn(&self, wanted: &PlanRequest) -> Result<Candidate, PlannerError> {
        let mut owners = Owners::new(&self.events.header);
        for (running, event) in self.events.in_order() {
            if running {
                owners.start_running();
            }
            owners.apply(event);
        }
        let seed = self.layout(wanted).seed(wanted.draw).expect("it is drawn");
        at_random(&Movables::new(&owners), period_of(&self.specs()), seed)
    }

    /// What planners need, and each machine's walks as recorded.
    fn see<S: Source + Send>(
        &self,
        wanted: &[PlanRequest],
        source: S,
        wrong: &impl Fn(String) -> SweepError,
    ) -> Result<(StreamView, Vec<u64>), SweepError> {
        let planner = |wanted: &PlanRequest| self.layout(wanted).planner.map(|options| options.planner);
        let planners: Vec<Planner> = wanted.iter().filter_map(planner).collect();
        let machines = self.specs();
        let room = room(self.study).unwrap_or(0);
        let mut views = Views::new(&self.events.header, &machines, &planners, room);
        let mut recorded = experiment(&machines).map_err(wrong)?;
        let mut parts = views.parts();
        parts.push(&mut recorded);
        self.play(source, &mut parts, wrong)?;
        Ok((views.finish(), walks(&mut recorded)))
    }

    /// Simulates untried plans that must pay; returns whether there were any.
    fn try_next<S: Source + Send>(
        &self,
        making: &mut [PlanTrial],
        recorded: &[u64],
        open: &impl Fn() -> Result<S, SweepError>,
        wrong: &impl Fn(String) -> SweepError,
    ) -> Result<bool, SweepError> {
        let mut tried = Vec::new();
        for one in making.iter_mut().filter(|one| !one.taken) {
            if !one.candidates[one.now].must_pay {
                one.taken = true;
                continue;
            }
            let (_, bound) = self.placed(&one.wanted, one.candidates[one.now].clone()).map_err(wrong)?;
            let planned = experiment(&self.specs()[one.wanted.machines(self.study)]).map_err(wrong)?;
            tried.push((one, MovedAnalysis::new(vec![Mover::new(&bound, &self.events.header)], planned)));
        }
        if tried.is_empty() {
            return Ok(false);
        }
        let mut analyses: Vec<&mut dyn Analysis> =
            tried.iter_mut().map(|(_, moved)| moved as &mut dyn Analysis).collect();
        self.play(open()?, &mut analyses, wrong)?;
        for (one, moved) in tried {
            let walks = walks(&mut moved.into_inner());
            let recorded = &recorded[one.wanted.machines(self.study)];
            let pays = walks.iter().zip(recorded).all(|(planned, recorded)| planned <= recorded);
            one.taken = pays;
            one.now += usize::from(!pays);
        }
        Ok(true)
    }

    fn play<S: Source + Send>(
        &self,
        mut source: S,
        analyses: &mut [&mut dyn Analysis],
        wrong: &impl Fn(String) -> SweepError,
    ) -> Result<(), SweepError> {
        let read = |stretch: &mut Stretch, most| stretch.read(&mut source, most);
        self.pool.install(|| rounds::run(read, analyses)).map_err(|error| wrong(error.to_string()))
    }

    /// A layout, moved to free addresses in the stream.
    fn placed(&self, wanted: &PlanRequest, candidate: Candidate) -> Result<(Layout, PlanBinding), String> {
        let planner = self.layout(wanted).planner.map_or("", |options| options.planner.name());
        let machines = &self.study.machines_once()[wanted.machines(self.study)];
        let mut layout = Layout {
            planner: planner.to_owned(),
            machines: machines.iter().map(|variant| variant.machine.name.clone()).collect(),
            arena: DEFAULT_ARENA,
            places: candidate.places,
        };
        let bound = slide(&mut layout, &self.events.header, self.events.in_order());
        bound.map(|bound| (layout, bound)).map_err(|error| error.to_string())
    }

    fn made(&self, wanted: &PlanRequest, candidate: Candidate) -> Result<PlanOutput, String> {
        let did = candidate.did.clone();
        let layout = Some(self.placed(wanted, candidate)?.0);
        let path = self.events.header.program.clone();
        let build_id = self.events.in_order().find_map(|(_, event)| match event {
            Event::Map(Mapping { file: Some(file), .. }) if file.path == path => file.build_id.clone(),
            _ => None,
        });
        let plan = Plan { layout, ..Plan::of(Program { path, build_id, arguments: Vec::new() }) };
        Ok(PlanOutput { text: plan.to_toml(), did })
    }
}

/// Binds a layout to a stream's events.
pub fn bind(layout: &Layout, events: &Events) -> Result<PlanBinding, String> {
    PlanBinding::new(layout, &events.header, events.in_order()).map_err(|error| error.to_string())
}

/// Machines with base pages alone.
fn experiment(machines: &[MachineSpec]) -> Result<Simulation, String> {
    let specs = machines.iter().map(|machine| DesignSpec::new(machine, Arc::new(Small))).collect();
    Simulation::new(specs, &Arrangement::default()).map_err(|error| error.to_string())
}

fn walks(experiment: &mut Simulation) -> Vec<u64> {
    experiment.finish().iter().map(|counts| counts.walks()).collect()
}

/// The room for reuses: one reading serves all plans, so it is the largest of the study.
fn room(study: &Study) -> Option<usize> {
    study.layouts.iter().map(|layout| layout.room).max()
}
