//! Walks by function where several processes run.

use super::functions::{FunctionWalks, Functions};
use crate::attribution::{Observer, Walk};
use pagewalk_mm::AddressSpace;
use pagewalk_translate::Asid;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Walks of one program by the instructions that caused them.
pub struct ProgramFunctions<'a> {
    /// The program.
    pub process: Asid,
    /// By ascending address.
    pub walks: Vec<FunctionWalks>,
    /// Its address space at the end.
    pub space: &'a AddressSpace,
}

/// What is kept of walks; by default nothing.
#[derive(Default)]
pub(crate) struct Programs {
    is_kept: bool,
    functions: FxHashMap<Asid, Functions>,
}

impl Programs {
    /// From now on keeps all walks.
    pub fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Walks of a process by instruction, by ascending address.
    pub fn walks_of(&self, process: Asid) -> Vec<FunctionWalks> {
        self.functions.get(&process).map_or_else(Vec::new, Functions::rows)
    }
}

impl Observer for Programs {
    fn on_walk(&mut self, walk: &Walk<'_>, space: &AddressSpace) {
        if self.is_kept {
            self.functions.entry(walk.process).or_default().add(walk, space);
        }
    }

    fn on_lost_code(&mut self, process: Asid, range: Range<u64>) {
        if let Some(functions) = self.functions.get_mut(&process) {
            functions.forget(range);
        }
    }
}
