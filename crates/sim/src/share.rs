//! Which engine simulates a design, and which designs share one.

use crate::arrangement::Arrangement;
use crate::design::siblings::alike;
use crate::error::DESIGNS_MAX;
use crate::spec::DesignSpec;
use pagewalk_mm::Kernel;
use pagewalk_translate::WalkerSpec;

/// The engine that simulates a design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineKind {
    /// A pass shared with other designs.
    Pass,
    /// Data sides shared with other designs.
    DataSides,
    /// Its own system.
    System,
    /// Traps.
    Traps,
}

impl EngineKind {
    /// The fastest engine that can simulate a design in an arrangement.
    pub fn of(design: &DesignSpec, arrangement: &Arrangement) -> EngineKind {
        let machine = &design.machine;
        if design.traps.is_some() {
            return EngineKind::Traps;
        }
        let is_one_process = !arrangement.turns && arrangement.structure.is_none();
        let is_one_core = arrangement.cores <= 1;
        let has_caches = !machine.caches.is_empty();
        if design.kernel.as_ref().is_some_and(|kernel| needs_frames(kernel, has_caches)) {
            return EngineKind::System;
        }
        let in_registers = matches!(machine.walker, WalkerSpec::Radix(_) | WalkerSpec::Software);
        if machine.data_side.is_some() {
            let is_taken = is_one_process && is_one_core && design.kernel.is_none() && !has_caches;
            return if is_taken { EngineKind::DataSides } else { EngineKind::System };
        }
        let is_taken = match design.kernel {
            _ if !design.fits_pass() => false,
            Some(_) => is_one_process && is_one_core,
            None => is_one_core || is_one_process && in_registers && !has_caches,
        };
        if is_taken { EngineKind::Pass } else { EngineKind::System }
    }
}

/// Whether a design must know where pages lie in physical memory.
fn needs_frames(kernel: &Kernel, has_caches: bool) -> bool {
    kernel.colors_by().is_some() || has_caches && kernel.has_frames()
}

/// Designs that share an engine.
pub(crate) struct Share {
    pub by: EngineKind,
    pub designs: Vec<DesignSpec>,
    /// The first design with each first level.
    first_levels: Vec<usize>,
}

impl Share {
    /// Shares that simulate `designs` in an arrangement; for each design its share, and its index there.
    pub fn all(designs: Vec<DesignSpec>, arrangement: &Arrangement) -> (Vec<Share>, Vec<(usize, usize)>) {
        let mut shares: Vec<Share> = Vec::new();
        let mut places = Vec::new();
        // Each core has first levels of its own.
        let most = DESIGNS_MAX / arrangement.cores.max(1);
        for design in designs {
            let by = EngineKind::of(&design, arrangement);
            let at = shares.iter().position(|share| share.takes(by, &design, most)).unwrap_or(shares.len());
            match shares.get_mut(at) {
                Some(share) => share.add(design),
                None => shares.push(Share::new(by, design)),
            }
            places.push((at, shares[at].designs.len() - 1));
        }
        (shares, places)
    }

    /// A first design, simulated by this kind of engine.
    pub fn new(by: EngineKind, design: DesignSpec) -> Share {
        Share { by, designs: vec![design], first_levels: vec![0] }
    }

    /// Whether a design that this kind of engine simulates can join, with `most` different first levels.
    pub fn takes(&self, by: EngineKind, design: &DesignSpec, most: usize) -> bool {
        let is_alike = self.by == by && self.designs[0].machine.paging == design.machine.paging;
        is_alike
            && match by {
                EngineKind::Pass => self.knows(design) || self.first_levels.len() < most,
                EngineKind::DataSides => true,
                EngineKind::System | EngineKind::Traps => false,
            }
    }

    /// Adds a design that it takes.
    pub fn add(&mut self, design: DesignSpec) {
        if !self.knows(&design) {
            self.first_levels.push(self.designs.len());
        }
        self.designs.push(design);
    }

    /// Whether a design has the first level of another one.
    fn knows(&self, design: &DesignSpec) -> bool {
        self.first_levels.iter().any(|&first| alike(&self.designs[first], design))
    }
}
