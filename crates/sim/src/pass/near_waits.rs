//! Lines that the first level misses and the next cache has: nearly all misses of most programs.
//!
//! Those of one requester wait alike. So they are counted, by code and again by page, and told together before an event
//! changes what these are. The observer hears of the first one of each code and page at once, so that it knows them.

use crate::attribution::{HearsWaits, Observer, WaitingPage, Waits};
use crate::caches::passage::WaitsByRequester;
use crate::code_lines::{CodeLines, CodeNumber};
use crate::design::Design;
use crate::pass::Pass;
use crate::store::PageStore;
use pagewalk_cache::Requester;

/// By requester. Walks are not counted.
type Times = [u32; Requester::Walk as usize];

/// How often references of some code, or to some page, waited.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    times: Times,
    /// Whether the observer knows it.
    is_known: bool,
}

/// Counts by number, of which few are known.
#[derive(Clone, Debug, Default)]
struct Counts {
    all: Vec<Count>,
    known: Vec<u32>,
}

impl Counts {
    #[inline(always)]
    fn known(&mut self, number: u32) -> Option<&mut Count> {
        self.all.get_mut(number as usize).filter(|count| count.is_known)
    }

    fn know(&mut self, number: u32) {
        let index = number as usize;
        if self.all.len() <= index {
            self.all.resize(index + 1, Count::default());
        }
        if !std::mem::replace(&mut self.all[index].is_known, true) {
            self.known.push(number);
        }
    }

    /// Takes what was counted; then nothing is known.
    fn take(&mut self) -> impl Iterator<Item = (u32, Times)> {
        let Counts { all, known } = self;
        known.drain(..).map(|number| (number, std::mem::take(&mut all[number as usize]).times))
    }
}

/// What was counted since it was last told.
#[derive(Clone, Debug, Default)]
pub(crate) struct NearWaits {
    sites: Counts,
    runs: Counts,
    pages: Counts,
    /// How many, at most.
    lines: u32,
}

impl NearWaits {
    /// Counts a line if its code and page are known; returns whether they are.
    #[inline(always)]
    pub fn count(&mut self, by: Requester, code: CodeNumber, page: u32) -> bool {
        let code = match code {
            CodeNumber::Site(site) => self.sites.known(site),
            CodeNumber::Run(run) => self.runs.known(run),
        };
        let (Some(code), Some(page)) = (code, self.pages.known(page)) else { return false };
        code.times[by as usize] += 1;
        page.times[by as usize] += 1;
        true
    }

    /// The observer knows this code and page from now on.
    pub fn know(&mut self, code: CodeNumber, page: u32) {
        match code {
            CodeNumber::Site(site) => self.sites.know(site),
            CodeNumber::Run(run) => self.runs.know(run),
        }
        self.pages.know(page);
    }

    fn tell(
        &mut self,
        lines: &CodeLines,
        store: &PageStore,
        each: WaitsByRequester,
        observer: &mut impl Observer,
    ) {
        self.lines = 0;
        for (site, times) in self.sites.take() {
            observer.on_waits_of_code(lines.instruction_at(CodeNumber::Site(site)), &sum(times, each));
        }
        for (run, times) in self.runs.take() {
            observer.on_waits_of_code(lines.instruction_at(CodeNumber::Run(run)), &sum(times, each));
        }
        for (id, times) in self.pages.take() {
            let page = &store.pages[id as usize];
            let page = WaitingPage { page: store.address(page.vpn), id: Some(id), mapping: page.mapping };
            observer.on_waits_of_page(page, &sum(times, each));
        }
    }
}

fn sum(times: Times, each: WaitsByRequester) -> Waits {
    let mut sum = Waits::default();
    times.into_iter().zip(each).for_each(|(times, each)| sum.add_references(each, times.into()));
    sum
}

impl<O: Observer> Pass<O> {
    /// Tells the observer what was counted.
    pub(crate) fn tell_near_waits(&mut self) {
        let Pass { designs, store, process, observer, course, .. } = self;
        let near = &mut course.caches.near;
        if near.lines == 0 {
            return;
        }
        let Some(Design { memory: Some(memory), .. }) = designs.first() else { return };
        near.tell(&process.lines, store, memory.near_waits(), observer);
    }

    /// Makes room for the counts of so many lines.
    pub(crate) fn expect_near_waits(&mut self, lines: usize) {
        if self.observer.hears_waits() == HearsWaits::Together {
            let lines = u32::try_from(lines).expect("a batch has fewer lines");
            if self.course.caches.near.lines.checked_add(lines).is_none() {
                self.tell_near_waits();
            }
            self.course.caches.near.lines += lines;
        }
    }
}
