//! The region of interest: passes a part of a stream and drops the rest.

use pagewalk_trace::{Batch, Event, Item, Mapping, MappingKind, Source, SourceError, Span, StreamHeader};
use pagewalk_units::RefIndex;
use std::ops::Range;

/// The bounds of the region. The default is everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowSpec {
    /// Begin at the first marker with this number.
    pub from_marker: Option<u64>,
    /// End at the first marker with this number after the beginning marker (or after the stream's start).
    pub to_marker: Option<u64>,
    /// Begin this many instructions later (after the marker or the stream's start).
    pub skip: u64,
    /// End after this many instructions.
    pub max_instructions: Option<u64>,
}

/// Passes the region of interest of a source.
///
/// Events pass also outside, so that mappings stay right, except system calls, sleep and spinning: then
/// [`Event::NOTHING`] passes, or what a call said of a child. References and instructions are counted from the region's
/// start. Cuts by instruction counts lie at the first block boundary at or after the place. A batch outside the region
/// passes empty. After the region's end, batches may be left out.
pub struct Window<S> {
    inner: S,
    region: Region,
    passed_over: PassedOver,
    /// Spans of a batch that began before the region, counted from the region's start.
    spans: Vec<Span>,
}

/// What lies before the region: the whole stream, if the region never begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// Instructions.
    pub instructions: u64,
    /// Those of the stream that has most.
    pub longest: u64,
    /// References and executions of blocks.
    pub records: u64,
    /// Markers.
    pub markers: MarkersSeen,
}

impl PassedOver {
    /// What lies before the regions of both streams.
    pub fn and(mut self, other: PassedOver) -> PassedOver {
        other.markers.ids().iter().for_each(|&id| self.markers.add(id));
        self.markers.has_more |= other.markers.has_more;
        PassedOver {
            instructions: self.instructions + other.instructions,
            longest: self.longest.max(other.longest),
            records: self.records + other.records,
            ..self
        }
    }
}

/// The numbers of markers, each once, in order of appearance: the first eight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkersSeen {
    ids: [u64; 8],
    count: usize,
    has_more: bool,
}

impl MarkersSeen {
    /// Those seen.
    pub fn ids(&self) -> &[u64] {
        &self.ids[..self.count]
    }

    /// Whether there were others.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Adds a marker.
    pub fn add(&mut self, id: u64) {
        if self.ids().contains(&id) {
            return;
        }
        match self.ids.get_mut(self.count) {
            Some(place) => (*place, self.count) = (id, self.count + 1),
            None => self.has_more = true,
        }
    }
}

/// The reading position relative to the region.
struct Region {
    spec: WindowSpec,
    state: State,
    /// Instructions of the inner stream before the region, once it has begun.
    start: Option<u64>,
    /// Instructions in the region, once it has ended and they are known.
    length: Option<u64>,
    /// Passed references.
    references: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the beginning marker.
    BeforeMarker,
    /// Instructions still to be skipped.
    Skipping(u64),
    Open,
    Closed,
}

impl<S: Source> Window<S> {
    /// The part of `inner` that `spec` describes.
    pub fn new(inner: S, spec: WindowSpec) -> Window<S> {
        let state = match spec.from_marker {
            Some(_) => State::BeforeMarker,
            None => State::after_marker(&spec),
        };
        let region = Region { spec, state, start: None, length: None, references: 0 };
        Window { inner, region, passed_over: PassedOver::default(), spans: Vec::new() }
    }

    /// Whether the region has begun. If not at the stream's end, tell the user why.
    pub fn has_begun(&self) -> bool {
        self.region.start.is_some()
    }

    /// The batches before the one in which the region begins.
    pub fn passed_over(&self) -> PassedOver {
        PassedOver { longest: self.passed_over.instructions, ..self.passed_over }
    }

    /// Whether the region has ended: only events pass.
    pub fn has_ended(&self) -> bool {
        self.region.state == State::Closed
    }
}

impl Region {
    /// The spans of `batch` that pass.
    fn cut(&mut self, batch: &Batch<'_>) -> Range<usize> {
        let mut at = batch.first_instruction;
        match self.state {
            State::BeforeMarker | State::Closed => return 0..0,
            State::Open if self.spec.max_instructions.is_none() => {
                self.start.get_or_insert(at);
                return 0..batch.spans.len();
            }
            State::Skipping(_) | State::Open => {}
        }
        let mut first = batch.spans.len();
        for (index, span) in batch.spans.iter().enumerate() {
            let length = batch.blocks.get(span.block).instructions.len() as u64;
            match self.state {
                State::Skipping(left) if left > length => self.state = State::Skipping(left - length),
                State::Skipping(_) => self.state = State::Open,
                State::BeforeMarker | State::Open | State::Closed => {
                    first = first.min(index);
                    let passed = at + length - *self.start.get_or_insert(at);
                    if self.spec.max_instructions.is_some_and(|most| passed >= most) {
                        self.state = State::Closed;
                        self.length = Some(passed);
                        return first..index + 1;
                    }
                }
            }
            at += length;
        }
        first..batch.spans.len()
    }

    /// Passed instructions before instruction `at` of the inner stream, the reading position.
    fn passed(&mut self, at: u64) -> u64 {
        let passed = self.start.map_or(0, |start| at - start);
        if self.state == State::Closed { *self.length.get_or_insert(passed) } else { passed }
    }
}

impl State {
    fn after_marker(spec: &WindowSpec) -> State {
        if spec.max_instructions == Some(0) {
            State::Closed
        } else if spec.skip > 0 {
            State::Skipping(spec.skip)
        } else {
            State::Open
        }
    }

    /// An event as it passes: outside the region no time, executions or system calls, but a child's end that a call
    /// reported, as that frees memory. Behind the region, how many areas a reader infers depends on how far it has read
    /// ahead, so none passes.
    fn as_passed(self, event: Event) -> Event {
        match (self, event) {
            (State::Open, event) => event,
            (_, Event::Idle { .. } | Event::Spin { .. }) => Event::NOTHING,
            (_, event @ Event::Syscall { .. }) => {
                event.reaped().map_or(Event::NOTHING, |child| Event::Reaped { child })
            }
            (State::Closed, Event::Map(Mapping { kind: MappingKind::Inferred, .. })) => Event::NOTHING,
            (_, event) => event,
        }
    }

    fn on_marker(self, id: u64, spec: &WindowSpec) -> State {
        match self {
            State::BeforeMarker if spec.from_marker == Some(id) => State::after_marker(spec),
            State::Skipping(_) | State::Open if spec.to_marker == Some(id) => State::Closed,
            state => state,
        }
    }
}

impl<S: Source> Source for Window<S> {
    fn header(&self) -> &StreamHeader {
        self.inner.header()
    }

    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
        // What lies before a region that never begins is counted to the end.
        if self.has_ended() && self.has_begun() {
            self.inner.leave_batches_out();
        }
        let Window { inner, region, passed_over, spans: moved } = self;
        let batch = match inner.next_item()? {
            Some(Item::Batch(batch)) => batch,
            Some(Item::Event { event, .. }) => {
                if let Event::Marker { id } = event {
                    if region.start.is_none() {
                        passed_over.markers.add(id);
                    }
                    region.state = region.state.on_marker(id, &region.spec);
                }
                let event = region.state.as_passed(event);
                return Ok(Some(Item::Event { at: RefIndex(region.references), event }));
            }
            None => return Ok(None),
        };
        let first_instruction = region.passed(batch.first_instruction);
        let inside = region.cut(&batch);
        if region.start.is_none() {
            passed_over.instructions += batch.instructions();
            passed_over.records += (batch.refs.len() + batch.spans.len()) as u64;
        }
        let first = RefIndex(region.references);
        let first_ref = batch.spans.get(inside.start).map_or(batch.refs.len(), |span| span.first as usize);
        let end_ref = if inside.is_empty() { first_ref } else { batch.span_end(inside.end - 1) };
        let refs = &batch.refs[first_ref..end_ref];
        region.references += refs.len() as u64;
        let spans = if first_ref == 0 {
            &batch.spans[inside]
        } else {
            let counted_anew = |span: &Span| Span { first: span.first - first_ref as u32, ..*span };
            moved.clear();
            moved.extend(batch.spans[inside].iter().map(counted_anew));
            moved
        };
        Ok(Some(Item::Batch(Batch { first, first_instruction, refs, spans, ..batch })))
    }
}

#[cfg(test)]
mod tests;
