//! The machines of a study, each with what is around it.

use crate::layouts::RECORDED;
use crate::study::{KernelKind, KernelVariant, LayoutSpec, MachineVariant, Study, SystemChoice};
use pagewalk_mm::ThpMode;
use pagewalk_mm::structure::StructureSpec;
use pagewalk_sim::{Arrangement, Sharing};

/// A machine, and what is around it.
#[derive(Clone, Copy, Debug)]
pub struct MachineTask<'a> {
    pub machine: &'a MachineVariant,
    /// Without a kernel: the recording host's.
    pub under: SystemChoice<'a>,
    /// `None`: the study names no layouts.
    pub layout: Option<LayoutChoice<'a>>,
}

impl<'a> MachineTask<'a> {
    /// Every machine in every system, under every layout and draw.
    pub fn all(study: &'a Study) -> impl Iterator<Item = MachineTask<'a>> {
        study.cells().flat_map(|(machine, under)| {
            let layouts = study.layouts.iter().enumerate().flat_map(|(layout, spec)| {
                (0..spec.count).map(move |draw| LayoutChoice { spec, layout, draw })
            });
            let unnamed = study.layouts.is_empty().then_some(None);
            layouts.map(Some).chain(unnamed).map(move |layout| MachineTask { machine, under, layout })
        })
    }

    /// The kernel with a policy, if it is not the recording host's.
    pub fn policy(&self) -> Option<&'a KernelVariant> {
        self.under.0.filter(|kernel| kernel.kind != KernelKind::Host)
    }

    /// The operating system around the programs, if any.
    pub fn structure(&self) -> Option<&'a StructureSpec> {
        self.under.1.and_then(|structure| structure.spec.as_ref())
    }

    /// How its streams are arranged.
    pub fn arrangement(&self, sharing: Option<&Sharing>) -> Arrangement {
        Arrangement {
            turns: sharing.is_some(),
            cores: self.machine.cores.map_or(0, usize::from),
            global_files: sharing.is_some_and(|sharing| sharing.global_files),
            structure: self.structure().cloned(),
        }
    }

    /// Whether the costs of last-level sets are counted too: for a layout of a process alone, on one core and on base
    /// pages.
    pub fn has_splits(&self, thp: ThpMode, sharing: Option<&Sharing>) -> bool {
        let is_alone =
            sharing.is_none() && self.structure().is_none() && self.machine.cores.unwrap_or(1) == 1;
        let is_full = self.machine.traps.is_none();
        self.layout.is_some() && is_alone && is_full && self.policy().is_none() && thp == ThpMode::Never
    }

    /// Everything that the outcome depends on besides stream and program, as text; `plans` are those of its layout.
    pub fn identity(&self, thp: &str, plans: &[&str]) -> String {
        let MachineTask { machine, under: (_, structure), layout } = self;
        let plans = if plans.is_empty() { RECORDED.to_owned() } else { plans.join("\n") };
        let layout = layout.map_or(String::new(), |_| format!("layout\n{plans}\n"));
        let structure = structure.filter(|structure| structure.spec.is_some());
        let structure =
            structure.map_or(String::new(), |structure| format!("structure\n{}\n", structure.text));
        let cores = machine.cores.filter(|&cores| cores > 1);
        let cores = cores.map_or(String::new(), |cores| format!("cores {cores}\n"));
        let kernel = match self.policy() {
            _ if machine.traps.is_some() => format!("machine, by traps {:?}", machine.traps),
            Some(kernel) => format!("machine, kernel\n{}", kernel.text),
            None => format!("machine, thp {thp}"),
        };
        format!("{layout}{structure}{cores}{kernel}\n{}", machine.text)
    }

    pub fn title(&self) -> String {
        let MachineTask { machine, under: (kernel, structure), layout } = self;
        let parameters = machine.parameters.iter().map(|(key, value)| format!(", {key} = {value}"));
        let parameters: String = parameters.collect();
        let kernel = kernel.map_or(String::new(), |kernel| format!(", os {}", kernel.name));
        let structure = structure.map_or(String::new(), |system| format!(", structure {}", system.name));
        let layout = layout.map_or(String::new(), |LayoutChoice { spec, draw, .. }| {
            let seed = spec.seed(draw).map_or(String::new(), |seed| format!(" by seed {seed}"));
            format!(", layout {}{seed}", spec.name)
        });
        format!("machine {}{parameters}{kernel}{structure}{layout}", machine.machine.name)
    }
}

/// The layout under which a machine runs.
#[derive(Clone, Copy, Debug)]
pub struct LayoutChoice<'a> {
    pub spec: &'a LayoutSpec,
    /// Its index in the study.
    pub layout: usize,
    /// The draw, if several are drawn.
    pub draw: u64,
}
