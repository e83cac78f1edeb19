//! Generates the references of the kernel and its servers for each call.

use super::class::{CallClass, CallClasses};
use super::layout::{KernelData, Segment};
use super::spec::{self, ServerSpec, StructureSpec, WorkingSet};
use pagewalk_units::{Draws, Kind, VirtAddr};
use std::ops::Range;

/// A maker of references other than the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visitor {
    /// The kernel, in the running address space: all spaces share its pages.
    Kernel,
    /// The server with this index, in its own address space.
    Server(usize),
}

/// A reference to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The first byte of the page.
    pub address: VirtAddr,
    /// The kind of reference.
    pub kind: Kind,
}

/// References in order, by visitor.
#[derive(Clone, Debug, Default)]
pub struct Visits {
    references: Vec<Reference>,
    visits: Vec<(Visitor, Range<usize>)>,
}

impl Visits {
    /// The visitors in order, with their references.
    pub fn iter(&self) -> impl Iterator<Item = (Visitor, &[Reference])> {
        self.visits.iter().map(|(who, range)| (*who, &self.references[range.clone()]))
    }

    /// Clears the contents, keeping the allocation.
    pub fn clear(&mut self) {
        self.references.clear();
        self.visits.clear();
    }

    fn add(&mut self, who: Visitor, address: VirtAddr, kind: Kind) {
        let at = self.references.len();
        self.references.push(Reference { address, kind });
        match self.visits.last_mut() {
            Some((last, range)) if *last == who => range.end = at + 1,
            _ => self.visits.push((who, at..at + 1)),
        }
    }
}

/// Draws visits. Equal specifications and equal sequences of calls and ticks give equal visits.
#[derive(Clone, Debug)]
pub struct Generator {
    spec: StructureSpec,
    classes: CallClasses,
    kernel_data: KernelData,
    draws: Draws,
    /// The next message buffer.
    message: u32,
    /// Servers of the current call.
    chain: Vec<usize>,
}

impl Generator {
    /// A new generator.
    pub fn new(spec: StructureSpec) -> Generator {
        Generator {
            classes: CallClasses::new(),
            kernel_data: KernelData { regions: spec.kernel.regions.into() },
            draws: Draws::new(spec.seed),
            message: 0,
            chain: Vec::new(),
            spec,
        }
    }

    /// Its specification.
    pub fn spec(&self) -> &StructureSpec {
        &self.spec
    }

    /// Adds the visits of a system call.
    pub fn call(&mut self, number: u32, visits: &mut Visits) {
        self.serve(self.classes.of(number), visits);
    }

    /// Adds the visits of a clock tick.
    pub fn tick(&mut self, visits: &mut Visits) {
        self.serve(CallClass::Tick, visits);
    }

    /// The kernel takes the call and passes it on to a chain of servers; the answers return the same way.
    fn serve(&mut self, class: CallClass, visits: &mut Visits) {
        self.kernel(self.spec.kernel.touches.of(class), self.spec.kernel.unmapped, visits);
        self.chain.clear();
        for (index, server) in self.spec.servers.iter().enumerate() {
            if self.draws.chance(server.share.of(class)) {
                self.chain.push(index);
            }
        }
        for place in 0..self.chain.len() {
            let index = self.chain[place];
            self.messages(index, visits);
            self.server(index, 1.0, visits);
            // The server's data in mapped kernel memory.
            self.kernel(self.spec.servers[index].kernel_touches, 0.0, visits);
        }
        for place in (0..self.chain.len()).rev() {
            self.messages(self.chain[place], visits);
            if let Some(caller) = place.checked_sub(1) {
                let caller = self.chain[caller];
                self.server(caller, self.spec.servers[caller].resumes, visits);
            }
        }
    }

    fn kernel(&mut self, touches: u32, unmapped: f64, visits: &mut Visits) {
        for _ in 0..touches {
            if !self.draws.chance(unmapped) {
                let data = self.spec.kernel.data;
                let page = self.draw(&data);
                let kind = self.load_or_store();
                visits.add(Visitor::Kernel, self.kernel_data.page(page), kind);
            }
        }
    }

    /// A message to or from a server: the kernel copies it through a buffer.
    fn messages(&mut self, server: usize, visits: &mut Visits) {
        let kernel = &self.spec.kernel;
        for _ in 0..self.spec.servers[server].message_touches {
            let page = kernel.data.pages + self.message;
            self.message = (self.message + 1) % kernel.message_pages;
            visits.add(Visitor::Kernel, self.kernel_data.page(page.into()), Kind::Store);
        }
    }

    /// A server makes a part of the references of a whole visit.
    fn server(&mut self, index: usize, part: f64, visits: &mut Visits) {
        let ServerSpec { text, data, stack, .. } = self.spec.servers[index];
        let touches = |segment: spec::SegmentSpec| (f64::from(segment.touches) * part).round() as u32;
        let all = [(Segment::Text, text), (Segment::Data, data), (Segment::Stack, stack)];
        let most = all.iter().map(|&(_, segment)| touches(segment)).max().unwrap_or(0);
        for turn in 0..most {
            for (place, segment) in all.into_iter().filter(|&(_, segment)| turn < touches(segment)) {
                let page = self.draw(&segment.set());
                let kind = match place {
                    Segment::Text => Kind::Fetch,
                    Segment::Data | Segment::Stack => self.load_or_store(),
                };
                visits.add(Visitor::Server(index), place.page(page), kind);
            }
        }
    }

    fn load_or_store(&mut self) -> Kind {
        if self.draws.chance(self.spec.kernel.stores) { Kind::Store } else { Kind::Load }
    }

    fn draw(&mut self, set: &WorkingSet) -> u64 {
        let (pages, hot) = (u64::from(set.pages), u64::from(set.hot));
        if hot == pages || (hot > 0 && self.draws.chance(set.hot_share)) {
            return self.draws.below(hot);
        }
        hot + self.draws.below(pages - hot)
    }
}
