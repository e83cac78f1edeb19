//! Programs on hugetlb: some of their pages may be huge under any policy, which a pass looks out for from their
//! first such
//! mapping on.

use crate::attribution::WalkObserver;
use crate::pass::Pass;
use pagewalk_trace::Event;
use pagewalk_units::PAGE_BYTES;

impl<O: WalkObserver> Pass<O> {
    /// The program may map memory of hugetlb for the first time: from then on some pages may be huge.
    pub(crate) fn expect_hugetlb(&mut self, event: &Event) {
        let is_of_it = matches!(event, Event::Map(mapping) if mapping.page_bytes > PAGE_BYTES);
        if !is_of_it || self.course.hugetlb || !self.designs.iter().any(|design| design.maps_hugetlb) {
            return;
        }
        self.course.hugetlb = true;
        // What the front holds is noted by unit from now on.
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
