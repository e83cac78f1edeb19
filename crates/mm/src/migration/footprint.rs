//! The room that a policy's own code and data take in the caches (Romer 1998, section 4.3.2: the references of compiled
//! fragments, among those of the program).

use crate::promotion::{Actions, Footprint, Policy, PolicyEvent, Rules};

/// A recoloring policy whose work touches its own code and data.
#[derive(Clone)]
pub struct Touching {
    recolors: Box<dyn Policy>,
    footprint: Footprint,
}

impl Touching {
    /// `recolors` with code and data.
    pub fn new(recolors: Box<dyn Policy>, footprint: Footprint) -> Touching {
        Touching { recolors, footprint }
    }
}

impl Policy for Touching {
    fn rules(&self) -> Rules {
        self.recolors.rules()
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        let before = actions.recoloring_cycles;
        self.recolors.on(event, actions);
        let worked = actions.recoloring_cycles - before;
        actions.touched = actions.touched.or(self.footprint.touched_in(worked));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::Frame;
    use crate::migration::{Cml, CmlBuffer, CmlSettings};
    use crate::promotion::CacheMiss;

    #[test]
    fn work_touches_what_its_cycles_reach() {
        let settings = CmlSettings { interrupt_at: Some(2), interrupt_cycles: 100, ..CmlSettings::default() };
        let cml = Box::new(Cml::new(settings, CmlBuffer::new(4, 4)));
        let mut policy = Touching::new(cml, Footprint { code: 1000, data: 64 });
        let mut actions = Actions::default();
        let miss = PolicyEvent::CacheMissed(CacheMiss { page: Some(1), frame: Frame(1), cycles: 0 });
        policy.on(miss, &mut actions);
        assert_eq!(actions.touched, Footprint::default());
        policy.on(miss, &mut actions);
        assert_eq!((actions.recoloring_cycles, actions.touched), (100, Footprint { code: 400, data: 64 }));
        policy.on(miss, &mut actions);
        assert_eq!(actions.touched, Footprint { code: 400, data: 64 }, "until they are taken");
    }
}
