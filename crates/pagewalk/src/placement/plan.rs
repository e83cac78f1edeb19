//! Where the shared objects of a recorded program should lie.
//!
//! The trace is read at least twice: to plan, while simulating every machine with objects where they were recorded, and
//! to simulate the plan.

use super::rebase::slide;
use crate::error::{Error, Fault};
use crate::listener::Listener;
use crate::machines;
use crate::stream::{Ending, check_window, follow_ahead};
use crate::traces::{check_file, open};
use pagewalk_capture::WindowSpec;
use pagewalk_layout::planner::{
    Candidate, PlannerError, ProposedLayouts, StreamView, Views, random, reuses, search,
};
use pagewalk_layout::rebase::RebasedSource;
use pagewalk_mm::Small;
use pagewalk_plan::{DEFAULT_ARENA, Layout, Plan, Program};
use pagewalk_report::layout_plan::schema::{
    LAYOUT_PLAN_SCHEMA, LayoutPlanResult, PlannedMachine, PlannedObject, RandomLayouts,
};
use pagewalk_setassoc::{Geometry, Replacement, SetIndex};
use pagewalk_sim::{Arrangement, DesignSpec, Simulation};
use pagewalk_trace::{Source, StreamHeader};
use pagewalk_translate::MachineSpec;
use pagewalk_units::{PAGE_BYTES, PageSize};
use std::path::Path;
use std::sync::Arc;

pub use pagewalk_layout::planner::callgraph::{CallgraphOptions, Load};
pub use pagewalk_layout::planner::single_move::TargetSet;
pub use pagewalk_layout::planner::{Planner, PlannerOptions};

/// What to plan for, and how.
pub struct LayoutRequest {
    /// The machines, at least one; see [`machines()`].
    pub machines: Vec<MachineSpec>,
    /// The planner.
    pub options: PlannerOptions,
    /// Random layouts to compare with, by an estimate.
    pub random: u64,
    /// The region of interest.
    pub window: WindowSpec,
}

/// A plan, and what it saves.
pub struct PlannedLayout {
    /// The plan.
    pub plan: Plan,
    /// What it saves.
    pub result: LayoutPlanResult,
    /// How the stream ended.
    pub ending: Ending,
}

impl PlannedLayout {
    /// The plan as a file.
    ///
    /// # Errors
    /// If it would be invalid.
    pub fn checked(&self) -> Result<String, Error> {
        self.plan.check().map_err(|error| Error::new(Fault::Failed, error))?;
        Ok(self.plan.to_toml())
    }

    /// Whether some machine walks less with it.
    pub fn pays(&self) -> bool {
        self.result.machines.iter().any(|machine| machine.planned < machine.recorded)
    }
}

/// Checks that a trace can be planned for.
///
/// # Errors
/// If it can be read only once.
pub fn check_trace(trace: &Path) -> Result<(), Error> {
    check_file(trace, "layout plan")
}

impl LayoutRequest {
    /// Plans for a recorded program.
    ///
    /// # Errors
    /// If the trace cannot be read, has nothing to move, or uses too much memory.
    pub fn trace(&self, trace: &Path, listener: &dyn Listener) -> Result<PlannedLayout, Error> {
        let (machines, options) = (&self.machines, &self.options);
        let reader = open(trace, listener)?;
        let header = reader.header().clone();
        let both = |machine: &MachineSpec| experiment(&[machine.clone(), fully_associative(machine)]);
        let experiments = machines.iter().map(both).collect::<Result<Vec<Simulation>, _>>()?;
        let views = Views::new(&header, machines, &[options.planner], reuses::DEFAULT_ROOM);
        let mut first = (views, experiments);
        let ending = follow_ahead(reader, &self.window, &mut first);
        check_window(&self.window, ending.reached, listener)?;
        let (views, experiments) = first;
        let recorded = walks(experiments);
        let mut seen = views.finish();
        let chosen = seen.choose(0..machines.len(), options).map_err(|error| planner_error(trace, &error))?;
        let mut layout = Layout {
            planner: options.planner.name().to_owned(),
            machines: machines.iter().map(|machine| machine.name.clone()).collect(),
            arena: DEFAULT_ARENA,
            places: Vec::new(),
        };
        let mut tried = None;
        for candidate in &chosen.candidates {
            layout.places.clone_from(&candidate.places);
            layout.arena = DEFAULT_ARENA;
            let planned = self.planned(trace, &mut layout, listener)?.into_iter().zip(&recorded);
            let walks = planned.map(|(planned, of)| Walks { recorded: of[0], full: of[1], planned });
            let walks: Vec<Walks> = walks.collect();
            let pays = walks.iter().all(|walks| walks.planned <= walks.recorded);
            tried = Some((candidate, walks));
            if pays || !candidate.must_pay {
                break;
            }
        }
        let (candidate, walks) = tried.expect("there is one candidate at least");
        let stream = PlanSource { trace, header: &header, ending: &ending, seen: &seen };
        let result = self.result(stream, &chosen, candidate, &layout, &walks);
        let plan = Plan { layout: Some(layout), ..Plan::of(program(&header)) };
        Ok(PlannedLayout { plan, result, ending })
    }

    /// Walks of every machine under the layout, after its arena is moved to free addresses.
    fn planned(&self, trace: &Path, layout: &mut Layout, listener: &dyn Listener) -> Result<Vec<u64>, Error> {
        let reader = open(trace, listener)?;
        let moved = RebasedSource::new(reader, &slide(layout, trace)?);
        let alone = |machine: &MachineSpec| experiment(std::slice::from_ref(machine));
        let mut experiments = self.machines.iter().map(alone).collect::<Result<Vec<Simulation>, _>>()?;
        follow_ahead(moved, &self.window, &mut experiments);
        Ok(walks(experiments).concat())
    }

    fn result(
        &self,
        stream: PlanSource<'_>,
        chosen: &ProposedLayouts,
        candidate: &Candidate,
        layout: &Layout,
        walks: &[Walks],
    ) -> LayoutPlanResult {
        let found = &stream.seen.found;
        let mut arrays = &found.arrays[..];
        let planned = |(machine, walks): (&MachineSpec, &Walks)| {
            let (own, others) = arrays.split_at(reuses::last_level(machine).len());
            arrays = others;
            PlannedMachine {
                sets: search::period(own),
                name: machine.name.clone(),
                recorded: walks.recorded,
                planned: walks.planned,
                fully_associative: walks.full,
                random: match reuses::is_supported(machine) {
                    Ok(()) => self.spread(own, found, chosen.period),
                    Err(_) => RandomLayouts::default(),
                },
            }
        };
        let machines = self.machines.iter().zip(walks).map(planned).collect();
        let objects = found.movables.all().iter().enumerate();
        let object = |(number, object): (usize, &pagewalk_layout::planner::Movable)| {
            let place = layout.places.iter().find(|place| place.file == object.file).expect("each has one");
            let page = layout.base(place) / PAGE_BYTES;
            PlannedObject {
                file: object.file.clone(),
                pages: object.pages,
                references: found.references[number],
                shift: page.wrapping_sub(object.first_page) % chosen.period,
                base: format!("{:#x}", layout.base(place)),
            }
        };
        LayoutPlanResult {
            schema: LAYOUT_PLAN_SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            trace: stream.trace.display().to_string(),
            program: stream.header.program.clone(),
            planner: layout.planner.clone(),
            did: candidate.did.clone(),
            losses: stream.ending.losses.clone(),
            machines,
            objects: objects.map(object).collect(),
            left: found.movables.left(&found.owners) as u64,
        }
    }

    /// Expected misses of random layouts, relative to the recorded one, from the kept reuses.
    fn spread(
        &self,
        arrays: &[reuses::ArrayReuses],
        found: &reuses::StreamReuses,
        period: u64,
    ) -> RandomLayouts {
        let (objects, pages) = (found.movables.all().len(), &found.pages);
        let misses = |shifts: &[u64]| {
            arrays.iter().map(|array| search::misses(array, pages, shifts)).sum::<u64>() as f64
        };
        let recorded = misses(&vec![0; objects]).max(1.0);
        let layout =
            |n: u64| misses(&random::shifts(objects, period, self.options.seed.wrapping_add(n))) / recorded;
        let mut found: Vec<f64> = (0..self.random).map(layout).collect();
        found.sort_by(f64::total_cmp);
        let (Some(&least), Some(&most)) = (found.first(), found.last()) else {
            return RandomLayouts::default();
        };
        RandomLayouts { count: self.random, least, median: found[found.len() / 2], most }
    }
}

fn planner_error(trace: &Path, error: &PlannerError) -> Error {
    match error {
        PlannerError::NothingMoves => Error::new(Fault::BadInput, format!("{}: {error}", trace.display()))
            .or("record a program that is linked dynamically"),
        _ => Error::new(Fault::Failed, error).or("plan for a program with less memory"),
    }
}

/// The program, with its build-id if the file still exists.
fn program(header: &StreamHeader) -> Program {
    let build_id = pagewalk_symbols::build_id(&header.program);
    Program { path: header.program.clone(), build_id, arguments: Vec::new() }
}

/// The machines of these names, if the planner can plan for them.
///
/// # Errors
/// If a name is unknown, or the planner does not support the machine, or not several at once. Random layouts are
/// estimated for [supported](reuses::is_supported) machines only.
pub fn machines(
    names: &[String],
    planner: Planner,
    listener: &dyn Listener,
) -> Result<Vec<MachineSpec>, Error> {
    let load = |name: &String| machines::load_and_say(name, listener);
    let machines: Vec<MachineSpec> = names.iter().map(load).collect::<Result<_, _>>()?;
    for machine in &machines {
        let wrong = |why: String| {
            Error::new(Fault::Usage, format!("machine `{}`: {why}", machine.name))
                .or("plan for another machine with -m")
        };
        if machine.paging.base() != PageSize::FOUR_KIB {
            return Err(wrong("plans are made for machines with 4K pages".to_owned()));
        }
        if !planner.looks_at_no_machine() {
            reuses::is_supported(machine).map_err(wrong)?;
        }
    }
    if names.len() > 1 && !planner.takes_machines() {
        let why = format!("{} machines: this planner plans for one", names.len());
        return Err(Error::new(Fault::Usage, why).or("give one -m, or --planner search"));
    }
    Ok(machines)
}

/// A trace, after planning's first pass.
#[derive(Clone, Copy)]
struct PlanSource<'a> {
    trace: &'a Path,
    header: &'a StreamHeader,
    ending: &'a Ending,
    seen: &'a StreamView,
}

/// Walks of one machine.
#[derive(Clone, Copy)]
struct Walks {
    recorded: u64,
    full: u64,
    planned: u64,
}

/// The machines with base pages only.
fn experiment(machines: &[MachineSpec]) -> Result<Simulation, Error> {
    let specs = machines.iter().map(|machine| DesignSpec::new(machine, Arc::new(Small))).collect();
    Simulation::new(specs, &Arrangement::default()).map_err(|error| Error::new(Fault::Usage, error))
}

/// Walks of each experiment's machines.
fn walks(experiments: Vec<Simulation>) -> Vec<Vec<u64>> {
    let of = |mut one: Simulation| one.finish().iter().map(|counts| counts.walks()).collect();
    experiments.into_iter().map(of).collect()
}

/// The machine with its last level for 4K pages made fully associative.
fn fully_associative(machine: &MachineSpec) -> MachineSpec {
    let mut machine = machine.clone();
    let names: Vec<String> = reuses::last_level(&machine).iter().map(|tlb| tlb.name.clone()).collect();
    for tlb in machine.tlbs.iter_mut().filter(|tlb| names.contains(&tlb.name)) {
        tlb.geometry = Geometry::new(tlb.geometry.entries() as u32, None).expect("as many entries as before");
        (tlb.replacement, tlb.index) = (Replacement::Lru, SetIndex::Modulo.into());
    }
    machine
}
