//! The straightforward simulator, with which the pass is compared in speed and in counts: every translation of every
//! reference looks up its arrays, one by one.

use pagewalk_mm::{AddressSpace, Change};
use pagewalk_setassoc::{Entry, TlbArray};
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_translate::{Asid, LowerLevels, MachineSpec, TranslationSource, Walker};
use pagewalk_units::{Kind, PageSize, RefIndex, VirtAddr, Vpn};

const SIZE: PageSize = PageSize::FOUR_KIB;

/// One machine over 4 KiB pages.
pub struct Plain {
    /// With their indices in the machine.
    arrays: Vec<(usize, TlbArray)>,
    /// Index in `arrays` by kind of reference.
    array_of: [Option<usize>; 4],
    lower: LowerLevels,
    walker: Walker,
    space: AddressSpace,
    running: bool,
    /// Walks so far.
    pub walks: u64,
}

/// The page of this number.
fn entry(vpn: u64) -> Entry {
    Entry { shift: SIZE.shift(), number: vpn, key: vpn }
}

impl Plain {
    pub fn new(machine: &MachineSpec) -> Plain {
        let first: Vec<_> = machine.level(1).filter(|(_, tlb)| tlb.holds(SIZE)).collect();
        let serving = |kind| first.iter().position(|(_, tlb)| tlb.serves.has(kind));
        let served_as = |kind| if kind == Kind::Modify { Kind::Store } else { kind };
        Plain {
            arrays: first.iter().map(|&(index, tlb)| (index, tlb.array())).collect(),
            array_of: Kind::ALL.map(|kind| serving(served_as(kind))),
            lower: LowerLevels::new(machine),
            walker: Walker::new(&machine.walker),
            space: AddressSpace::default(),
            running: false,
            walks: 0,
        }
    }

    fn reference(&mut self, kind: Kind, first: Vpn, last: Vpn) {
        for vpn in first.0..=last.0 {
            self.translate(kind, vpn);
        }
    }

    fn translate(&mut self, kind: Kind, vpn: u64) {
        let array = self.array_of[kind as usize];
        if array.is_some_and(|array| self.arrays[array].1.touch(entry(vpn))) {
            return;
        }
        let address = Vpn(vpn).start();
        let served = self.lower.look_up(kind, Asid::default(), address, SIZE);
        if served == TranslationSource::Walk {
            self.walks += 1;
            self.walker.walk(address, SIZE);
        }
        if let Some(array) = array {
            let (index, array) = &mut self.arrays[array];
            if let Some(victim) = array.fill(entry(vpn)) {
                self.lower.receive(*index, Asid::default(), victim, SIZE);
            }
        }
        self.lower.fill(kind, Asid::default(), address, SIZE, served);
    }

    fn invalidate(&mut self, start: VirtAddr, bytes: u64) {
        let vpns = start.vpn().0..=VirtAddr(start.0 + (bytes - 1)).vpn().0;
        for (_, array) in &mut self.arrays {
            array.remove_where(|vpn| vpns.contains(&vpn));
        }
        for vpn in vpns {
            self.lower.invalidate(Asid::default(), vpn, SIZE);
            self.walker.invalidate_page(Asid::default(), vpn, SIZE);
        }
        self.walker.invalidate(start, bytes);
    }
}

impl Analysis for Plain {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        if !std::mem::replace(&mut self.running, true) {
            self.space.start_running();
        }
        for (index, span) in batch.spans.iter().enumerate() {
            let block = batch.blocks.get(span.block);
            let mut next = span.first as usize;
            let end = batch.span_end(index);
            for (number, instruction) in block.instructions.iter().enumerate() {
                let last = VirtAddr(instruction.address.0 + u64::from(instruction.length) - 1);
                self.reference(Kind::Fetch, instruction.address.vpn(), last.vpn());
                while next < end && usize::from(block.sites[next - span.first as usize].instruction) == number
                {
                    let record = batch.refs[next];
                    self.reference(record.kind(), record.vpn(), record.last_vpn());
                    next += 1;
                }
            }
        }
    }

    fn on_event(&mut self, _at: RefIndex, event: &Event) {
        let mut changes = Vec::new();
        self.space.apply(event, &mut changes);
        for change in changes {
            let (Change::Gone { start, bytes } | Change::Flushed { start, bytes }) = change;
            self.invalidate(start, bytes);
        }
    }
}
