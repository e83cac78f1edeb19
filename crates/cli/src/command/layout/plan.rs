//! `pagewalk layout plan`: plans where the shared objects of a recorded program should lie.

use crate::arguments::{self, LayoutPlan};
use crate::exit;
use crate::exit::ExitCode;
use crate::output::{print, say, say_next, text_options};
use crate::terminal::Terminal;
use pagewalk::output::Output;
use pagewalk::placement::plan::{
    CallgraphOptions, LayoutRequest, Load, Planner, PlannerOptions, TargetSet, check_trace, machines,
};
use pagewalk::report::layout_plan::schema::LayoutPlanResult;
use pagewalk::report::layout_plan::{render_text, to_json};
use pagewalk::shell::quoted;
use pagewalk::{Error, Fault};
use std::io::{self, IsTerminal};

pub fn run(arguments: LayoutPlan) -> Result<ExitCode, Error> {
    let terminal = Terminal { quiet: arguments.style.quiet };
    let planning = LayoutRequest {
        machines: machines(&arguments.machine, arguments.planner.into(), &terminal)?,
        options: planner_options(&arguments),
        random: arguments.random,
        window: arguments.region.clone().into(),
    };
    check_trace(&arguments.trace)?;
    let apart = |path| Output::open_apart(path, [&*arguments.trace]);
    let output = arguments.output.as_deref().map(apart).transpose()?;
    let planned = planning.trace(&arguments.trace, &terminal)?;
    let printed = publish(&planned.result, &arguments);
    // Even if printing failed: the plan took time to make.
    if let Some(output) = output {
        let path = output.write(planned.checked()?.as_bytes())?;
        if !arguments.style.quiet {
            let path = quoted(&path);
            say(format!("plan written to {path}; next: pagewalk layout run {path} -- CMD"));
        }
    } else if planned.pays() {
        say_next(arguments.style.quiet, "give -o plan.toml too, for a plan that `layout run` takes");
    }
    printed?;
    if !planned.ending.cut {
        return Ok(ExitCode::SUCCESS);
    }
    planned.ending.tell_losses(&arguments.trace, &terminal);
    Ok(exit::by(Fault::BadInput))
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
        target: if arguments.weighed { TargetSet::Weighed } else { TargetSet::Fewest },
        callgraph: CallgraphOptions {
            calls: arguments.calls,
            load: if arguments.load_calls { Load::Calls } else { Load::Instructions },
            fixed: true,
        },
    }
}

fn publish(result: &LayoutPlanResult, arguments: &LayoutPlan) -> Result<(), Error> {
    if arguments.style.json {
        return print(&to_json(result));
    }
    print(&render_text(result, &text_options(arguments.style.verbose, io::stdout().is_terminal())))
}
