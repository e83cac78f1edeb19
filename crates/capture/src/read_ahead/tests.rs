//! Items read ahead equal the source's, whoever decodes them.

use super::*;
use pagewalk_trace::{Analysis, Batch, BatchRoom, Block, BlockEnd, Event, Origin, Ref, Span};
use pagewalk_units::{RefIndex, SpaceId, ThreadId};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Batches with these numbers of references, and an event after every third; all values differ.
struct Steps {
    header: StreamHeader,
    gives: bool,
    sizes: Vec<usize>,
    next: usize,
    told: u64,
    event: bool,
    room: BatchRoom,
    blocks: Dictionary,
    /// Set if a writer is active.
    backlog: Option<Arc<Calls>>,
    /// The batch at which reading panics.
    spoiled: Option<usize>,
    leaves_batches_out: bool,
}

/// Counts calls to a source's writer.
#[derive(Default)]
struct Calls {
    waited: AtomicUsize,
    gone_on: AtomicUsize,
    stirred: AtomicUsize,
}

impl Backlog for Calls {
    fn wait(&self) {
        self.waited.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_micros(50));
    }

    fn stir(&self) {
        self.stirred.fetch_add(1, Ordering::Relaxed);
    }

    fn go_on(&self) {
        self.gone_on.fetch_add(1, Ordering::Relaxed);
    }
}

impl Steps {
    fn new(sizes: &[usize], gives: bool) -> Steps {
        let header = StreamHeader::unknown(Origin::Import);
        Steps {
            header,
            gives,
            sizes: sizes.to_vec(),
            next: 0,
            told: 0,
            event: false,
            room: BatchRoom::default(),
            blocks: Dictionary::default(),
            backlog: None,
            spoiled: None,
            leaves_batches_out: false,
        }
    }
}

impl Source for Steps {
    fn header(&self) -> &StreamHeader {
        &self.header
    }

    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
        if std::mem::take(&mut self.event) {
            let event = Event::Marker { id: self.next as u64 };
            return Ok(Some(Item::Event { at: RefIndex(self.told), event }));
        }
        let Some(&size) = self.sizes.get(self.next) else {
            return Err(SourceError::Truncated("the end".to_owned()));
        };
        assert!(self.spoiled != Some(self.next), "a spoiled batch");
        self.next += 1;
        self.event = self.next.is_multiple_of(3);
        let code: Box<[u8]> = self.next.to_le_bytes().into();
        let block = Block { instructions: [].into(), sites: [].into(), code, end: BlockEnd::Jump };
        let block = self.blocks.intern(block);
        let first = self.told;
        self.told += size as u64;
        // Other contents of a room precede the new ones, and old ones follow.
        let before = size % 3;
        let refs = (first..self.told).map(|address| Ref::from_parts(address, 1));
        let refs = std::iter::repeat_n(Ref::from_parts(7, 7), before).chain(refs);
        self.room.refs.splice(..(before + size).min(self.room.refs.len()), refs);
        self.room.first_ref = before;
        self.room.spans.splice(..self.room.spans.len().min(1), [Span { block, first: 0 }]);
        if self.leaves_batches_out {
            return self.next_item();
        }
        Ok(Some(Item::Batch(Batch {
            space: SpaceId(0),
            thread: ThreadId(1),
            first: RefIndex(first),
            first_instruction: first,
            refs: &self.room.refs[before..][..size],
            spans: &self.room.spans[..1],
            wide: size % 2 == 0,
            blocks: &self.blocks,
        })))
    }

    fn leave_batches_out(&mut self) {
        self.leaves_batches_out = true;
    }

    fn gives_rooms(&self) -> bool {
        self.gives
    }

    fn give_room(&mut self, for_another: &mut BatchRoom) {
        std::mem::swap(&mut self.room, for_another);
    }

    fn is_ready(&self) -> bool {
        // With a writer, reading must wait from time to time.
        self.backlog.is_none() || self.next * self.next % 7 != 2
    }

    fn backlog(&self) -> Option<Arc<dyn Backlog>> {
        Some(self.backlog.clone()?)
    }
}

/// Everything that a source yields, as text.
fn told(source: &mut impl Source) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        match source.next_item() {
            Ok(Some(Item::Batch(batch))) => {
                let Batch { first, first_instruction, refs, spans, wide, blocks, .. } = batch;
                let code: &[u8] = &blocks.get(spans[0].block).code;
                all.push(format!("{first:?} {first_instruction} {refs:?} {spans:?} {wide} {code:?}"));
            }
            Ok(Some(Item::Event { at, event })) => all.push(format!("{at:?} {event:?}")),
            Ok(None) => return all,
            Err(error) => {
                all.push(error.to_string());
                return all;
            }
        }
    }
}

/// Rooms are reused: more batches than all parcels hold.
fn sizes() -> Vec<usize> {
    (0..300).map(|n| [0, 1, 2047, 2048, 4096, 5000, 77][n * n % 7]).collect()
}

#[test]
fn items_come_out_as_they_went_in() {
    let sizes = sizes();
    let straight = told(&mut Steps::new(&sizes, false));
    assert_eq!(straight.len(), 300 + 100 + 1);
    for gives in [false, true] {
        let ahead = std::thread::scope(|scope| {
            told(&mut read_ahead(scope, Steps::new(&sizes, gives), Vec::new()).expect("a thread"))
        });
        assert!(ahead == straight, "gives rooms: {gives}");
    }
}

#[test]
fn so_they_do_where_the_source_has_to_be_waited_for() {
    let sizes = sizes();
    let straight = told(&mut Steps::new(&sizes, false));
    for gives in [false, true] {
        let calls = Arc::new(Calls::default());
        let source = Steps { backlog: Some(Arc::clone(&calls)), ..Steps::new(&sizes, gives) };
        let ahead =
            std::thread::scope(|scope| told(&mut read_ahead(scope, source, Vec::new()).expect("a thread")));
        assert!(ahead == straight, "gives rooms: {gives}");
        // Each read that ended for lack of data let the writer continue.
        assert!(calls.gone_on.load(Ordering::Relaxed) >= sizes.len() / 7);
        assert!(calls.waited.load(Ordering::Relaxed) > 0);
        assert_eq!(calls.stirred.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn batches_are_left_out_once_nobody_wants_them() {
    let (mut events, mut batches) = (0, 0);
    std::thread::scope(|scope| {
        let mut ahead = read_ahead(scope, Steps::new(&sizes(), true), Vec::new()).expect("a thread");
        ahead.leave_batches_out();
        while let Ok(Some(item)) = ahead.next_item() {
            match item {
                Item::Event { .. } => events += 1,
                Item::Batch(_) => batches += 1,
            }
        }
    });
    assert_eq!(events, 100);
    assert!(batches < 300, "all batches came");
}

/// Counts the batches that it sees, which come in order.
struct Seen {
    instructions: u64,
    batches: Arc<AtomicUsize>,
    spoiled: Option<usize>,
}

impl Analysis for Seen {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        assert!(self.instructions <= batch.first_instruction);
        let code = &batch.blocks.get(batch.spans[0].block).code;
        assert!(!code.is_empty());
        self.instructions = batch.first_instruction;
        let before = self.batches.fetch_add(1, Ordering::SeqCst);
        assert_ne!(Some(before), self.spoiled, "spoiled");
    }
}

#[test]
fn forerunners_see_each_batch_first() {
    let sizes = sizes();
    let straight = told(&mut Steps::new(&sizes, false));
    for (gives, writes) in [(false, false), (true, false), (true, true)] {
        let backlog = writes.then(|| Arc::new(Calls::default()));
        let source = Steps { backlog, ..Steps::new(&sizes, gives) };
        let seen = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        let forerunner = |batches: &Arc<AtomicUsize>| -> Box<dyn Analysis> {
            Box::new(Seen { instructions: 0, batches: Arc::clone(batches), spoiled: None })
        };
        let forerunners = seen.iter().map(forerunner).collect();
        let mut read = 0;
        std::thread::scope(|scope| {
            let mut ahead = read_ahead(scope, source, forerunners).expect("a thread");
            while let Ok(Some(item)) = ahead.next_item() {
                read += usize::from(matches!(item, Item::Batch(_)));
                assert!(seen.iter().all(|batches| batches.load(Ordering::SeqCst) >= read));
            }
        });
        assert_eq!(read, straight.iter().filter(|one| one.contains('[')).count());
        assert!(seen.iter().all(|batches| batches.load(Ordering::SeqCst) == read));
        let seen = Seen { instructions: 0, batches: Arc::default(), spoiled: None };
        let source = Steps::new(&sizes, gives);
        let ahead = std::thread::scope(|scope| {
            told(&mut read_ahead(scope, source, vec![Box::new(seen)]).expect("a thread"))
        });
        assert!(ahead == straight, "gives rooms: {gives}, has a writer: {writes}");
    }
}

#[test]
fn a_forerunner_that_panics_ends_both() {
    for spoiled in [0, 1, 100, 299] {
        let ended = std::panic::catch_unwind(|| {
            let forerunner = |spoiled| -> Box<dyn Analysis> {
                Box::new(Seen { instructions: 0, batches: Arc::default(), spoiled })
            };
            std::thread::scope(|scope| {
                let source = Steps::new(&sizes(), true);
                let forerunners = vec![forerunner(None), forerunner(Some(spoiled))];
                let mut ahead = read_ahead(scope, source, forerunners).expect("a thread");
                while let Ok(Some(_)) = ahead.next_item() {}
            });
        });
        assert!(ended.is_err(), "at batch {spoiled}");
    }
}

#[test]
fn a_consumer_may_leave() {
    for items in [0, 1, 50] {
        let calls = Arc::new(Calls::default());
        let source = Steps { backlog: Some(Arc::clone(&calls)), ..Steps::new(&sizes(), true) };
        // Returns once the thread has ended.
        std::thread::scope(|scope| {
            let mut ahead = read_ahead(scope, source, Vec::new()).expect("a thread");
            (0..items).for_each(|_| assert!(matches!(ahead.next_item(), Ok(Some(_)))));
        });
        assert_eq!(calls.stirred.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn a_source_that_panics_ends_both() {
    let run = |backlog: Option<Arc<Calls>>| {
        std::thread::scope(|scope| {
            let source = Steps { spoiled: Some(150), backlog, ..Steps::new(&sizes(), true) };
            let mut ahead = read_ahead(scope, source, Vec::new()).expect("a thread");
            while let Ok(Some(_)) = ahead.next_item() {}
        });
    };
    for backlog in [None, Some(Arc::default())] {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(backlog)));
        assert!(ended.is_err());
    }
}
