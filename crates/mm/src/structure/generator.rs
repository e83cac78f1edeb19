//! What the kernel and its servers touch for each call.

use super::class::{CallClass, CallClasses};
use super::layout::{KernelData, Segment};
use super::spec::{self, ServerSpec, StructureSpec, WorkingSet};
use pagewalk_units::{Draws, Kind, VirtAddr};
use std::ops::Range;

/// Who makes references beside the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visitor {
    /// The kernel, in the address space of whoever runs: its pages are the same in all of them.
    Kernel,
    /// The server with this index, in an address space of its own.
    Server(usize),
}

/// One reference: which byte of its page does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The first byte of the page.
    pub address: VirtAddr,
    /// What is done there.
    pub kind: Kind,
}

/// References in their order, by who makes them.
#[derive(Clone, Debug, Default)]
pub struct Visits {
    references: Vec<Reference>,
    visits: Vec<(Visitor, Range<usize>)>,
}

impl Visits {
    /// Who comes, one after the other, and what each touches.
    pub fn iter(&self) -> impl Iterator<Item = (Visitor, &[Reference])> {
        self.visits.iter().map(|(who, range)| (*who, &self.references[range.clone()]))
    }

    /// Forgets the contents, keeps the memory.
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

/// Draws visits. Equal descriptions and equal sequences of calls and ticks give equal visits.
#[derive(Clone, Debug)]
pub struct Generator {
    spec: StructureSpec,
    classes: CallClasses,
    kernel_data: KernelData,
    draws: Draws,
    /// The message buffer that the next reference to one goes to.
    message: u32,
    /// Servers that the call goes to.
    chain: Vec<usize>,
}

impl Generator {
    /// A generator that has drawn nothing yet.
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

    /// What it was made from.
    pub fn spec(&self) -> &StructureSpec {
        &self.spec
    }

    /// A program makes the system call with this number: adds what follows from it.
    pub fn call(&mut self, number: u32, visits: &mut Visits) {
        self.serve(self.classes.of(number), visits);
    }

    /// The clock ticks: adds what follows from it.
    pub fn tick(&mut self, visits: &mut Visits) {
        self.serve(CallClass::Tick, visits);
    }

    /// The kernel takes the call, and passes it on to servers that pass it on in their turn; the answers come back
    /// the same way.
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
            // On behalf of the server: what it keeps in mapped memory of the kernel.
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

    /// A server runs, with a part of the references of a whole visit.
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
