//! Programs with hugetlb memory: some of their pages may be huge under any policy, from the first such mapping on.

use crate::attribution::Observer;
use crate::pass::Pass;
use pagewalk_trace::Event;
use pagewalk_units::PAGE_BYTES;

impl<O: Observer> Pass<O> {
    /// Notices the program's first mapping of hugetlb memory: from then on some pages may be huge.
    pub(crate) fn expect_hugetlb(&mut self, event: &Event) {
        let is_of_it = matches!(event, Event::Map(mapping) if mapping.page_bytes > PAGE_BYTES);
        if !is_of_it || self.course.hugetlb || !self.designs.iter().any(|design| design.maps_hugetlb) {
            return;
        }
        self.course.hugetlb = true;
        // From now on the front's entries are recorded by unit.
        self.store.front_clear();
        self.store.minds_units = true;
        self.store.may_merge = true;
        for design in &self.designs {
            self.course.every_fetch |= design.needs_every_fetch(design.policy.as_ref(), true);
            if let Some(sets) = design.sets_to_mind(true) {
                self.store.mind_hits(sets);
            }
        }
    }
}
