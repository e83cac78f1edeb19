//! Plain misses: no page can be huge, only misses change what arrays hold, and no array serves fetches and data. This
//! is [`Pass::touch`] without the checks that such passes cannot need: passes for counts alone, of machines without
//! huge pages or under a kernel that gives none.

use crate::attribution::Observer;
use crate::bits::bits;
use crate::caches::WalkCost;
use crate::classes::{FETCH, STORE};
use crate::design::Design;
use crate::design::siblings::Miss;
use crate::pass::Pass;
use crate::pass::place::ReferencePlace;
use crate::sizes::SMALL;
use crate::store::PageStore;
use crate::store::entry::EntryId;
use pagewalk_translate::TranslationSource;
use pagewalk_units::Kind;

impl<O: Observer> Pass<O> {
    /// Whether all misses are plain.
    pub(crate) fn has_plain_misses(&self) -> bool {
        self.sets.kernels | self.sets.mapped | self.sets.mindful | self.sets.unified == 0
            && !self.store.minds_units
            && self.store.globals.is_none()
            && self.designs.iter().all(Design::has_plain_misses)
    }

    /// `n` consecutive translations of a page that is not in the front.
    #[inline(never)]
    pub(crate) fn miss_plain(
        &mut self,
        class: usize,
        kind: Kind,
        vpn: u64,
        n: u32,
        place: ReferencePlace<'_>,
    ) {
        self.catch_up(&place);
        let page = match self.store.find_missed(vpn) {
            Some(page) => page,
            None => {
                self.catch_up_before_fault(&place);
                self.fault(vpn, class == STORE, &[])
            }
        };
        self.store.totals[class] = self.store.totals[class].wrapping_add(n.into());
        self.store.now += 1;
        let missed = self.sets.active & !self.store.pages[page as usize].resident[class];
        for design in bits(missed) {
            let walked = self.designs[design].miss_plain(&mut self.store, class, kind, page, vpn);
            if self.sets.deferring >> design & 1 != 0 {
                self.defer(design, class, walked.map(|_| page), &place);
            } else if let Some(cost) = walked
                && self.observes(design)
            {
                self.observe(page, class == FETCH, cost, place, self.executed.instructions);
            }
        }
        let now = self.store.now;
        let held = &mut self.store.pages[page as usize];
        held.stamps[class] = now;
        if self.sets.active & !held.resident[class] == 0 {
            self.store.front_insert(class, page);
        }
    }
}

impl Design {
    /// The design's part of the condition.
    fn has_plain_misses(&self) -> bool {
        self.reach.is_none() && self.prefetchers.is_empty() && !self.gives_victims
    }

    /// [`Design::miss`] for plain misses.
    #[inline(always)]
    fn miss_plain(
        &mut self,
        store: &mut PageStore,
        class: usize,
        kind: Kind,
        page: u32,
        vpn: u64,
    ) -> Option<WalkCost> {
        let (held, asid, address, size) =
            (EntryId::Page(page), store.asid_at(vpn), store.address(vpn), self.sizes[SMALL]);
        self.counts.first_level[class][SMALL] += 1;
        let served = self.served_below(kind, asid, address, size);
        let read = if served == TranslationSource::Walk {
            let cost = self.walk(address, size);
            self.counts.charge(class, cost);
            Some(cost)
        } else {
            self.counts.lower_hits += 1;
            None
        };
        if let Some(array) = self.array[class][SMALL] {
            self.first[array].fill_page(store, self.bit, page, vpn);
        }
        self.lower.fill(kind, asid, address, size, served);
        if !self.siblings.is_empty() {
            self.siblings.miss(Miss { class, kind, held, asid, number: vpn, size, mapped: size, address });
        }
        read
    }
}
