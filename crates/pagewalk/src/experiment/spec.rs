//! The settings of an experiment.

use crate::error::{Error, Fault};
use pagewalk_capture::WindowSpec;
use pagewalk_mm::structure::StructureSpec;
use pagewalk_mm::{AreaRules, OsSpec, ThpMode};
use pagewalk_sim::{Arrangement, Profile, Sharing, SharingError};
use pagewalk_translate::MachineSpec;
use std::path::PathBuf;

/// What to simulate over streams, and how to arrange them.
#[derive(Clone, Default)]
pub struct Experiment {
    /// The machines, with distinct names; at least one.
    pub machines: Vec<MachineSpec>,
    /// The host's mode of transparent huge pages; none: the recording host's.
    pub thp: Option<ThpMode>,
    /// The region of interest of each stream.
    pub window: WindowSpec,
    /// How areas of traces without mappings are inferred.
    pub areas: AreaRules,
    /// Whether to simulate alternatives too: other page sizes, larger TLBs.
    pub what_if: bool,
    /// Kernels to simulate besides the host's.
    pub kernels: Vec<OsSpec>,
    /// The operating system around the programs.
    pub structure: Option<StructureSpec>,
    /// Cores for a process's threads, in order of appearance; none: one core.
    pub cores: Option<u8>,
    /// How processes take turns; none: each runs alone.
    pub sharing: Option<Sharing>,
    /// The slots of a host TLB from whose misses to simulate the TLB as well.
    pub by_traps: Option<u32>,
    /// A layout plan by which to move the streams' shared objects.
    pub layout: Option<PathBuf>,
}

impl Experiment {
    /// Streams alone on these machines under the host's kernel.
    pub fn new(machines: Vec<MachineSpec>) -> Experiment {
        Experiment { machines, ..Experiment::default() }
    }

    /// The arrangement of the streams.
    pub(super) fn arrangement(&self) -> Arrangement {
        Arrangement {
            turns: self.sharing.is_some(),
            cores: self.cores.map_or(1, usize::from),
            global_files: self.sharing.as_ref().is_some_and(|sharing| sharing.global_files),
            structure: self.structure.clone(),
        }
    }

    /// Whether each process runs alone, on one core.
    pub(super) fn is_alone(&self) -> bool {
        self.sharing.is_none() && self.cores.is_none() && self.structure.is_none()
    }

    /// The index of the machine that alternatives are of. A profile has whole machines before data sides.
    pub(super) fn profiled(&self) -> usize {
        let is_whole = |machine: &MachineSpec| machine.data_side.is_none();
        let whole = self.machines.iter().position(is_whole).filter(|_| self.what_if && self.is_alone());
        whole.unwrap_or(0)
    }

    /// Whether no profile takes the machine that it would be of: superpages with mapped page tables are simulated in
    /// order. Without alternatives, `never` leaves base pages only.
    pub(super) fn is_in_order(&self) -> bool {
        let mut whole = self.machines.iter().filter(|machine| machine.data_side.is_none());
        let may_be_huge = self.what_if || self.thp != Some(ThpMode::Never);
        self.is_alone() && may_be_huge && whole.next().is_some_and(|machine| !Profile::suits(machine))
    }

    /// Whether a profile follows a lone stream beside a simulation of its machines: it has alternatives.
    pub(super) fn profiles_beside(&self) -> bool {
        self.what_if && !self.is_in_order()
    }

    /// Whether alternatives are simulated in order, not by a profile.
    pub(super) fn has_alternatives_in_order(&self) -> bool {
        self.what_if && (!self.is_alone() || self.is_in_order())
    }

    /// Whether some machine also runs under another kernel than the host's, or by traps.
    pub(super) fn has_rivals(&self) -> bool {
        let has_own = |machine: &MachineSpec| machine.os.is_some();
        self.by_traps.is_some() || !self.kernels.is_empty() || self.machines.iter().any(has_own)
    }

    /// Whether machines go into a simulation of their own: they have rivals, or no profile takes them.
    pub(super) fn has_simulation(&self) -> bool {
        self.has_rivals() || self.is_in_order()
    }
}

/// Turns of `quantum` instructions, or up to system calls with these names; `None` without either.
///
/// # Errors
/// If there is no such system call, or global files are requested without turns.
pub fn sharing(
    quantum: Option<u64>,
    switch_at: &[String],
    global_files: bool,
) -> Result<Option<Sharing>, Error> {
    Sharing::new(quantum, switch_at, global_files).map_err(|error| {
        let usage = |option: &str| Error::new(Fault::Usage, format!("{option}: {error}"));
        match &error {
            SharingError::Empty => usage("--quantum"),
            SharingError::Call(..) => usage("--switch-at"),
            SharingError::Alone => {
                usage("--global-files").or("give --quantum N or --switch-at CALL, or leave it out")
            }
        }
    })
}
