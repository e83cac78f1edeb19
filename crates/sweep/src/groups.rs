//! Groups machines to simulate together.

use crate::machine_task::MachineTask;
use pagewalk_mm::OsKernel;
use pagewalk_sim::{DesignSpec, HostKernel};
use pagewalk_translate::TlbSpec;
use pagewalk_units::Paging;

/// With fewer first levels, a pass mostly repeats the work of other passes.
const FIRST_LEVELS_LEAST: usize = 2;

/// A machine's task with its number.
#[derive(Clone, Copy)]
pub struct NumberedDesign<'a> {
    pub number: usize,
    pub task: MachineTask<'a>,
}

/// What machines of one simulation have in common: the page format, the operating system, and the cores.
type Surroundings<'a> = (Paging, Option<&'a str>, Option<u8>);

impl<'a> NumberedDesign<'a> {
    /// Whether it shares only the stream: it is simulated operation by operation, or by traps.
    fn is_apart(&self) -> bool {
        let machine = self.task.machine;
        machine.machine.data_side.is_some() || machine.traps.is_some()
    }

    fn runs_in(&self) -> Surroundings<'a> {
        let MachineTask { machine, under: (_, structure), .. } = self.task;
        (machine.machine.paging, structure.map(|structure| structure.name.as_str()), machine.cores)
    }

    /// The machine under its kernel.
    pub fn design(&self, host: &HostKernel) -> DesignSpec {
        let machine = &self.task.machine.machine;
        if let Some(traps) = self.task.machine.traps {
            return DesignSpec::by_traps(machine.name.clone(), machine, traps);
        }
        let kernel = self.task.under.0;
        let built =
            kernel.and_then(|kernel| kernel.build(machine).expect("the study was checked when it was read"));
        match built {
            Some(OsKernel::Running(kernel)) => {
                DesignSpec::with_kernel(machine.name.clone(), machine, *kernel)
            }
            Some(OsKernel::Offline(_)) => unreachable!("the stream is replayed for it"),
            None => host.design(machine),
        }
    }
}

/// Machines with one first level.
struct DesignGroup<'a> {
    runs_in: Surroundings<'a>,
    first_level: Vec<&'a TlbSpec>,
    members: Vec<NumberedDesign<'a>>,
}

/// Groups machines into passes: machines with the same first level stay together, since they share its simulation; the
/// rest are distributed over `threads` threads, and so are those that share only the stream.
pub fn groups<'a>(machines: Vec<NumberedDesign<'a>>, threads: usize) -> Vec<Vec<NumberedDesign<'a>>> {
    let (apart, machines): (Vec<NumberedDesign<'a>>, _) =
        machines.into_iter().partition(NumberedDesign::is_apart);
    let of_one_kind = apart.chunk_by(|a, b| a.runs_in() == b.runs_in());
    let of_apart = of_one_kind.flat_map(|alike| alike.chunks(alike.len().div_ceil(threads.max(1))));
    let mut groups: Vec<Vec<NumberedDesign<'a>>> = of_apart.map(<[_]>::to_vec).collect();
    let mut all: Vec<DesignGroup<'a>> = Vec::new();
    for one in machines {
        let runs_in = one.runs_in();
        let first_level: Vec<&TlbSpec> = one.task.machine.machine.level(1).map(|(_, tlb)| tlb).collect();
        let same = all.iter_mut().find(|alike| alike.runs_in == runs_in && alike.first_level == first_level);
        match same {
            Some(alike) => alike.members.push(one),
            None => all.push(DesignGroup { runs_in, first_level, members: vec![one] }),
        }
    }
    while let Some(runs_in) = all.first().map(|alike| alike.runs_in) {
        let (of_format, others): (Vec<DesignGroup<'a>>, _) =
            all.into_iter().partition(|alike| alike.runs_in == runs_in);
        all = others;
        let passes = threads.min(of_format.len() / FIRST_LEVELS_LEAST).max(1);
        let chunks = of_format.chunks(of_format.len().div_ceil(passes));
        groups.extend(
            chunks.map(|chunk| chunk.iter().flat_map(|alike| alike.members.iter().copied()).collect()),
        );
    }
    groups
}
