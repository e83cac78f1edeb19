//! Walks of several processes on the first machine.

use super::functions::{FunctionWalks, Functions};
use super::heat::HeatMap;
use super::makers::{Maker, Makers};
use crate::attribution::{
    HearsWaits, MappingCounts, Observer, PageWalks, ReferenceWaits, Wait, WaitingPage, Waits, Walk,
};
use pagewalk_mm::{AddressSpace, MappingId};
use pagewalk_translate::Asid;
use pagewalk_units::VirtAddr;
use std::collections::BTreeMap;
use std::ops::Range;

/// Who pays in one program of an arrangement, on the first machine.
pub struct ProgramFindings<'a> {
    /// The program.
    pub process: Asid,
    /// Walks by instruction, by ascending address.
    pub functions: Vec<FunctionWalks>,
    /// Walks, and the program's own references and touched pages, by mapping.
    pub mappings: BTreeMap<MappingId, MappingCounts>,
    /// Pages with walks, costliest first.
    pub pages: Vec<PageWalks>,
    /// What references to each page miss in caches of memory, by mapping and ascending address.
    pub waits: BTreeMap<(MappingId, VirtAddr), Waits>,
    /// Walks over address space and time.
    pub heat: &'a HeatMap,
    /// Its address space at the end.
    pub space: &'a AddressSpace,
    pub(crate) makers: &'a Makers<MappingId>,
}

impl ProgramFindings<'_> {
    /// The makers of a mapping without a file, and all its bytes.
    pub fn makers(&self, mapping: MappingId) -> (&[Maker], u64) {
        self.makers.of(mapping)
    }
}

/// A walk for a page of a program.
pub(crate) struct PageWalk {
    pub process: Asid,
    pub page: VirtAddr,
    pub fetch: bool,
    /// Page-table entries read.
    pub references: u32,
    pub cycles: u64,
    /// Instructions executed so far.
    pub instructions: u64,
}

/// What a program's reference to a page missed in caches of memory.
pub(crate) struct PageWait {
    pub process: Asid,
    pub page: VirtAddr,
    pub waits: ReferenceWaits,
}

/// What an engine keeps of walks and waits; by default nothing.
#[derive(Default)]
pub(crate) struct Programs {
    is_kept: bool,
    /// By process.
    functions: Vec<Option<Functions>>,
    /// Walks that nobody has taken.
    walks: Vec<PageWalk>,
    /// Waits that nobody has taken.
    waits: Vec<PageWait>,
}

impl Programs {
    /// From now on keeps all walks and waits.
    pub fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Whether it keeps them.
    pub fn keeps(&self) -> bool {
        self.is_kept
    }

    /// Takes the walks since the last call.
    pub fn take_walks(&mut self) -> impl Iterator<Item = PageWalk> {
        self.walks.drain(..)
    }

    /// Takes the waits since the last call.
    pub fn take_waits(&mut self) -> impl Iterator<Item = PageWait> {
        self.waits.drain(..)
    }

    /// What is kept of a process.
    #[inline]
    fn functions(&mut self, process: Asid) -> &mut Functions {
        let index = process.index();
        if !matches!(self.functions.get(index), Some(Some(_))) {
            self.add(index);
        }
        self.functions[index].as_mut().expect("it was added")
    }

    // A separate function: new ones pass through so much stack that touching it would take most of a call's time.
    #[inline(never)]
    fn add(&mut self, index: usize) {
        if self.functions.len() <= index {
            self.functions.resize_with(index + 1, || None);
        }
        self.functions[index] = Some(Functions::default());
    }

    /// Walks of a process by instruction, by ascending address.
    pub fn functions_of(&self, process: Asid) -> Vec<FunctionWalks> {
        let functions = self.functions.get(process.index()).and_then(Option::as_ref);
        functions.map_or_else(Vec::new, Functions::rows)
    }
}

impl Observer for Programs {
    fn on_walk(&mut self, walk: &Walk<'_>, space: &AddressSpace) {
        if !self.is_kept {
            return;
        }
        self.functions(walk.process).add(walk, space);
        let &Walk { process, page, fetch, references, cycles, instructions, .. } = walk;
        self.walks.push(PageWalk { process, page, fetch, references, cycles, instructions });
    }

    fn hears_waits(&self) -> HearsWaits {
        if self.is_kept { HearsWaits::AtOnce } else { HearsWaits::Never }
    }

    fn on_wait(&mut self, wait: &Wait<'_>, space: &AddressSpace) {
        let &Wait { process, of: WaitingPage { page, .. }, waits, .. } = wait;
        self.functions(process).add_wait(wait, space);
        self.waits.push(PageWait { process, page, waits });
    }

    fn on_lost_code(&mut self, process: Asid, range: Range<u64>) {
        if let Some(Some(functions)) = self.functions.get_mut(process.index()) {
            functions.forget(range);
        }
    }
}
