//! What the profiler keeps of each walk and each miss of the first design.

use super::functions::Functions;
use super::heat::HeatMap;
use super::waits::PageWaits;
use crate::attribution::{HearsWaits, Observer, Wait, WaitingPage, Waits, Walk};
use pagewalk_mm::AddressSpace;
use pagewalk_translate::Asid;
use pagewalk_units::{PageSize, VirtAddr};
use std::ops::Range;

#[derive(Clone, Debug)]
pub(super) struct Attribution {
    pub functions: Functions,
    pub heat: HeatMap,
    pub waits: PageWaits,
}

impl Attribution {
    /// Nothing yet, of a machine with base pages of this size.
    pub fn new(base: PageSize) -> Attribution {
        let (functions, waits) = (Functions::default(), PageWaits::default());
        Attribution { functions, heat: HeatMap::new(base), waits }
    }
}

impl Observer for Attribution {
    fn on_walk(&mut self, walk: &Walk<'_>, space: &AddressSpace) {
        self.functions.add(walk, space);
        self.heat.add(walk.page, walk.mapping, walk.instructions);
    }

    fn on_lost_code(&mut self, _process: Asid, range: Range<u64>) {
        self.functions.forget(range);
    }

    fn hears_waits(&self) -> HearsWaits {
        HearsWaits::Together
    }

    fn expect_wait(&self, page_id: u32) {
        self.waits.expect(page_id);
    }

    fn on_wait(&mut self, wait: &Wait<'_>, space: &AddressSpace) {
        self.functions.add_wait(wait, space);
        self.waits.add(wait.of, |waits| waits.add_reference(wait.waits));
    }

    fn on_waits_of_code(&mut self, instruction: VirtAddr, waits: &Waits) {
        self.functions.add_waits(instruction, waits);
    }

    fn on_waits_of_page(&mut self, page: WaitingPage, waits: &Waits) {
        self.waits.add(page, |sum| sum.add(waits));
    }
}
