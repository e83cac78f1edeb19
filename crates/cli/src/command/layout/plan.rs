//! `pagewalk layout plan`: where the shared objects of a recorded program should lie.
//!
//! The trace is read twice at least: to plan and to simulate every machine with objects where they were recorded,
//! and to simulate them with objects where they are planned.

use crate::arguments::{self, LayoutPlan};
use crate::command::simulate::layout::{check_file, slide};
use crate::command::simulate::open;
use crate::error::{CliError, Code};
use crate::machine;
use crate::output::{Output, print, say, say_next, text_options};
use crate::process::{Ending, explain_region, follow_ahead};
use pagewalk_layout::Plan;
use pagewalk_layout::plan::{DEFAULT_ARENA, PAGE_BYTES, Program};
use pagewalk_layout::planner::callgraph::{self, Load};
use pagewalk_layout::planner::single::Target;
use pagewalk_layout::planner::{
    Candidate, Chosen, Planner, PlannerError, PlannerOptions, Seen, Views, random, reuses, search,
};
use pagewalk_layout::rebase::Rebased;
use pagewalk_mm::Small;
use pagewalk_report::layout_plan::schema::{
    LAYOUT_PLAN_SCHEMA, LayoutPlanResult, PlannedMachine, PlannedObject, RandomLayouts,
};
use pagewalk_report::layout_plan::{render_text, to_json};
use pagewalk_setassoc::{Geometry, Replacement, SetIndex};
use pagewalk_sim::{Arrangement, DesignSpec, Experiment};
use pagewalk_trace::{Source, StreamHeader};
use pagewalk_translate::MachineSpec;
use pagewalk_units::PageSize;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;

pub fn run(arguments: LayoutPlan) -> Result<ExitCode, CliError> {
    let machines = machines(&arguments)?;
    check_file(&arguments.trace, "layout plan")?;
    let apart = |path| Output::open_apart(path, [&*arguments.trace]);
    let output = arguments.output.as_deref().map(apart).transpose()?;
    let reader = open(&arguments.trace, arguments.style.quiet)?;
    let header = reader.header().clone();
    let both = |machine: &MachineSpec| experiment(&[machine.clone(), fully_associative(machine)]);
    let experiments = machines.iter().map(both).collect::<Result<Vec<Experiment>, _>>()?;
    let options = planner_options(&arguments);
    let mut first = (Views::new(&header, &machines, &[options.planner], reuses::DEFAULT_ROOM), experiments);
    let ending = follow_ahead(reader, &arguments.region, &mut first);
    explain_region(&arguments.region, ending.region);
    let (views, experiments) = first;
    let recorded = walks(experiments);
    let mut seen = views.finish();
    let chosen = seen.choose(0..machines.len(), &options).map_err(|error| told(&arguments, &error))?;
    let mut plan = Plan {
        planner: options.planner.name().to_owned(),
        machines: machines.iter().map(|machine| machine.name.clone()).collect(),
        arena: DEFAULT_ARENA,
        program: program(&header),
        places: Vec::new(),
    };
    let mut tried = None;
    for candidate in &chosen.candidates {
        plan.places.clone_from(&candidate.places);
        plan.arena = DEFAULT_ARENA;
        let planned = planned(&arguments, &machines, &mut plan)?.into_iter().zip(&recorded);
        let walks = planned.map(|(planned, of)| Walks { recorded: of[0], full: of[1], planned });
        let walks: Vec<Walks> = walks.collect();
        let pays = walks.iter().all(|walks| walks.planned <= walks.recorded);
        tried = Some((candidate, walks));
        if pays || !candidate.must_pay {
            break;
        }
    }
    let (candidate, walks) = tried.expect("there is one candidate at least");
    let stream = Stream { header: &header, ending: &ending, seen: &seen };
    let result = result(&arguments, stream, &chosen, candidate, &plan, machines.iter().zip(walks));
    let printed = publish(&result, &arguments);
    // Whatever became of the printing: the plan took its time.
    if let Some(output) = output {
        plan.check().map_err(|error| CliError::new(Code::Failed, error))?;
        let path = output.write(plan.to_toml().as_bytes())?;
        if !arguments.style.quiet {
            let path = path.display();
            say(format!("plan written to {path}; next: pagewalk layout run {path} -- CMD"));
        }
    } else if result.machines.iter().any(|machine| machine.planned < machine.recorded) {
        say_next(arguments.style.quiet, "give -o plan.toml too, for a plan that `layout run` takes");
    }
    printed?;
    if !ending.cut {
        return Ok(ExitCode::SUCCESS);
    }
    ending.losses.iter().for_each(|loss| say(format!("{}: {loss}", arguments.trace.display())));
    Ok(ExitCode::from(Code::BadInput as u8))
}

impl From<arguments::Planner> for Planner {
    fn from(given: arguments::Planner) -> Planner {
        match given {
            arguments::Planner::Search => Planner::Search,
            arguments::Planner::Single => Planner::Single,
            arguments::Planner::Callgraph => Planner::Callgraph,
            arguments::Planner::Pack => Planner::Pack,
            arguments::Planner::Random => Planner::Random,
        }
    }
}

fn planner_options(arguments: &LayoutPlan) -> PlannerOptions {
    PlannerOptions {
        planner: arguments.planner.into(),
        starts: arguments.starts,
        seed: arguments.seed,
        target: if arguments.weighed { Target::Weighed } else { Target::Fewest },
        callgraph: callgraph::Options {
            calls: arguments.calls,
            load: if arguments.load_calls { Load::Calls } else { Load::Instructions },
            fixed: true,
        },
    }
}

fn told(arguments: &LayoutPlan, error: &PlannerError) -> CliError {
    match error {
        PlannerError::NothingMoves => {
            CliError::new(Code::BadInput, format!("{}: {error}", arguments.trace.display()))
                .or("record a program that is linked dynamically")
        }
        _ => CliError::new(Code::Failed, error).or("plan for a program with less memory"),
    }
}

/// The program, with the build-id of its file if that is still there.
fn program(header: &StreamHeader) -> Program {
    Program { path: header.program.clone(), build_id: pagewalk_symbols::build_id(&header.program) }
}

fn machines(arguments: &LayoutPlan) -> Result<Vec<MachineSpec>, CliError> {
    let load = |name: &String| machine::load_and_say(name, arguments.style.quiet);
    let machines: Vec<MachineSpec> = arguments.machine.iter().map(load).collect::<Result<_, _>>()?;
    for machine in &machines {
        let wrong = |why: String| {
            CliError::new(Code::Usage, format!("machine `{}`: {why}", machine.name))
                .or("plan for another machine with -m")
        };
        if machine.paging.base() != PageSize::FOUR_KIB {
            return Err(wrong("plans are made for machines with 4K pages".to_owned()));
        }
        reuses::is_supported(machine).map_err(wrong)?;
    }
    if arguments.machine.len() > 1 && !Planner::from(arguments.planner).takes_machines() {
        let why = format!("{} machines: this planner plans for one", arguments.machine.len());
        return Err(CliError::new(Code::Usage, why).or("give one -m, or --planner search"));
    }
    Ok(machines)
}

/// What was read.
#[derive(Clone, Copy)]
struct Stream<'a> {
    header: &'a StreamHeader,
    ending: &'a Ending,
    seen: &'a Seen,
}

/// Walks of one machine.
#[derive(Clone, Copy)]
struct Walks {
    recorded: u64,
    full: u64,
    planned: u64,
}

/// Machines with base pages alone.
fn experiment(machines: &[MachineSpec]) -> Result<Experiment, CliError> {
    let specs = machines.iter().map(|machine| DesignSpec::new(machine, Arc::new(Small))).collect();
    Experiment::new(specs, &Arrangement::default()).map_err(|error| CliError::new(Code::Usage, error))
}

/// Walks of each experiment's machines.
fn walks(experiments: Vec<Experiment>) -> Vec<Vec<u64>> {
    let of = |mut one: Experiment| one.finish().iter().map(|counts| counts.walks()).collect();
    experiments.into_iter().map(of).collect()
}

/// Walks of every machine with the objects where they are planned, for which the plan is moved to where it has room.
fn planned(arguments: &LayoutPlan, machines: &[MachineSpec], plan: &mut Plan) -> Result<Vec<u64>, CliError> {
    let reader = open(&arguments.trace, arguments.style.quiet)?;
    let moved = Rebased::new(reader, &slide(plan, &arguments.trace)?);
    let alone = |machine: &MachineSpec| experiment(std::slice::from_ref(machine));
    let mut experiments = machines.iter().map(alone).collect::<Result<Vec<Experiment>, _>>()?;
    follow_ahead(moved, &arguments.region, &mut experiments);
    Ok(walks(experiments).concat())
}

/// The machine with sets of the last level for 4K pages made one.
fn fully_associative(machine: &MachineSpec) -> MachineSpec {
    let mut machine = machine.clone();
    let names: Vec<String> = reuses::last_level(&machine).iter().map(|tlb| tlb.name.clone()).collect();
    for tlb in machine.tlbs.iter_mut().filter(|tlb| names.contains(&tlb.name)) {
        tlb.geometry = Geometry::new(tlb.geometry.entries() as u32, None).expect("as many entries as before");
        (tlb.replacement, tlb.index) = (Replacement::Lru, SetIndex::Modulo.into());
    }
    machine
}

fn result<'a>(
    arguments: &LayoutPlan,
    stream: Stream<'_>,
    chosen: &Chosen,
    candidate: &Candidate,
    plan: &Plan,
    walks: impl Iterator<Item = (&'a MachineSpec, Walks)>,
) -> LayoutPlanResult {
    let found = &stream.seen.found;
    let mut arrays = &found.arrays[..];
    let planned = |(machine, walks): (&MachineSpec, Walks)| {
        let (own, others) = arrays.split_at(reuses::last_level(machine).len());
        arrays = others;
        PlannedMachine {
            sets: search::period(own),
            name: machine.name.clone(),
            recorded: walks.recorded,
            planned: walks.planned,
            fully_associative: walks.full,
            random: spread(own, found, chosen.period, arguments),
        }
    };
    let machines = walks.map(planned).collect();
    let objects = found.movables.all().iter().enumerate();
    let object = |(number, object): (usize, &pagewalk_layout::planner::Movable)| {
        let place = plan.places.iter().find(|place| place.file == object.file).expect("each has one");
        let page = plan.base(place) / PAGE_BYTES;
        PlannedObject {
            file: object.file.clone(),
            pages: object.pages,
            references: found.references[number],
            shift: page.wrapping_sub(object.first_page) % chosen.period,
            base: format!("{:#x}", plan.base(place)),
        }
    };
    LayoutPlanResult {
        schema: LAYOUT_PLAN_SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        trace: arguments.trace.display().to_string(),
        program: stream.header.program.clone(),
        planner: plan.planner.clone(),
        did: candidate.did.clone(),
        losses: stream.ending.losses.clone(),
        machines,
        objects: objects.map(object).collect(),
        left: found.movables.left(&found.owners) as u64,
    }
}

/// What random layouts of the objects would miss, by the kept reuses, of what is missed as recorded.
fn spread(
    arrays: &[reuses::ArrayReuses],
    found: &reuses::Found,
    period: u64,
    arguments: &LayoutPlan,
) -> RandomLayouts {
    let (objects, pages) = (found.movables.all().len(), &found.pages);
    let misses =
        |shifts: &[u64]| arrays.iter().map(|array| search::misses(array, pages, shifts)).sum::<u64>() as f64;
    let recorded = misses(&vec![0; objects]).max(1.0);
    let layout = |n: u64| misses(&random::shifts(objects, period, arguments.seed.wrapping_add(n))) / recorded;
    let mut found: Vec<f64> = (0..arguments.random).map(layout).collect();
    found.sort_by(f64::total_cmp);
    let (Some(&least), Some(&most)) = (found.first(), found.last()) else { return RandomLayouts::default() };
    RandomLayouts { count: arguments.random, least, median: found[found.len() / 2], most }
}

fn publish(result: &LayoutPlanResult, arguments: &LayoutPlan) -> Result<(), CliError> {
    if arguments.style.json {
        return print(&to_json(result));
    }
    print(&render_text(result, &text_options(arguments.style.verbose, io::stdout().is_terminal())))
}
