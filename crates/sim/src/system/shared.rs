//! The physical memory that processes in turns share: it moves to the kernel that works.

use super::System;
use super::host::HostMemory;
use super::kernel::OwnMemory;
use super::process::{Memory, Process};
use super::side_memory::SideMemory;
use crate::spec::DesignSpec;
use pagewalk_mm::{PagesInUse, Small};
use pagewalk_translate::Asid;
use std::ops::Add;
use std::sync::Arc;

impl System {
    /// Moves the shared memory to another process's kernel.
    pub(super) fn hand_memory(&mut self, to: Asid) {
        let System { spec, processes, side, holder, .. } = self;
        processes.entry(to).or_insert_with(|| new_process(spec, to, side.as_deref()));
        let from = holder.replace(to).expect("some kernel has it");
        let [from, to] = processes.get_disjoint_mut([&from, &to]).map(|process| process?.kernel());
        let (from, to) = from.zip(to).expect("all have simulated kernels");
        from.hand_memory(to);
    }

    /// Reports losses to the other processes after a kernel has worked.
    pub(super) fn tell_losses(&mut self) {
        if self.holder.is_none() {
            return;
        }
        let losses = self.process().kernel().map_or_else(Vec::new, |kernel| kernel.losses());
        let works = self.asid;
        for (process, loss) in losses {
            self.asid = Asid::new(process).unwrap_or(Asid::GLOBAL);
            let mut remaps = Vec::new();
            if let Some(kernel) = self.process().kernel() {
                kernel.lost(loss, &mut remaps);
            }
            self.remap(remaps, None);
        }
        self.asid = works;
        self.tell_use();
    }

    /// Tells the current process's kernel what the other programs use.
    pub(super) fn tell_use(&mut self) {
        if self.spec.kernel.is_none() || self.processes.len() < 2 || self.visitors.contains(&self.asid) {
            return;
        }
        let is_other = |asid: &Asid| *asid != self.asid && !self.visitors.contains(asid);
        let others = self.processes.iter().filter(|(asid, process)| is_other(asid) && !process.ended);
        let used = others.filter_map(|(_, process)| Some(process.own()?.kernel.in_use()));
        let used = used.fold(PagesInUse::default(), PagesInUse::add);
        if let Some(kernel) = self.process().kernel() {
            kernel.beside(used);
        }
    }

    /// The running process ends: others may have its frames.
    pub(super) fn end(&mut self) {
        self.process().ended = true;
        let is_left = |(asid, process): (&Asid, &Process)| !process.ended && !self.visitors.contains(asid);
        if !self.processes.iter().any(is_left) {
            return;
        }
        let Some(kernel) = self.process().kernel() else { return };
        let units = kernel.table().units();
        kernel.ended();
        units.into_iter().for_each(|unit| self.follow_frames(unit.pages()));
    }
}

/// A process that touches its first page. `side` is the memory of one for a data side.
pub(super) fn new_process(spec: &DesignSpec, asid: Asid, side: Option<&SideMemory>) -> Process {
    let side = side.cloned().map(|mut side| {
        side.design.process = asid.space();
        Box::new(side)
    });
    Process::new(memory_of(spec, asid), side, spec.machine.paging.base())
}

fn memory_of(spec: &DesignSpec, asid: Asid) -> Memory {
    match &spec.kernel {
        // A data side chooses huge pages itself, at walks.
        None if spec.machine.data_side.is_some() => {
            Memory::Host(HostMemory::new(&spec.machine, Arc::new(Small), asid.space()))
        }
        None => Memory::Host(HostMemory::new(&spec.machine, spec.policy.clone(), asid.space())),
        Some(kernel) => {
            let own = OwnMemory::new(kernel.clone().numbered(asid.index() as u32), &spec.machine);
            Memory::Own(Box::new(own.expect("System::new checks it")))
        }
    }
}
