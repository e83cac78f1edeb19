//! Follows one stream through the region of interest into an analysis, and notes how it ended.

use crate::error::{Error, Fault};
use crate::listener::Listener;
use pagewalk_capture::{PassedOver, Window, WindowSpec, read_ahead, share_a_cache};
use pagewalk_report::printable;
use pagewalk_report::schema::REST_LOST;
use pagewalk_trace::{Analysis, Event, Item, Source, SourceError, StreamHeader};
use std::path::Path;

/// How a stream ended.
#[derive(Debug, Default)]
pub struct Ending {
    /// Exit status; below 0 if a signal ended the process.
    pub status: Option<i32>,
    /// Whether the process became another program.
    pub exec: bool,
    /// What was lost, in plain words.
    pub losses: Vec<String>,
    /// Whether reading stopped before the end of the stream.
    pub cut: bool,
    /// Whether the region of interest was reached.
    pub reached: WindowProgress,
}

/// Whether streams reached the region of interest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowProgress {
    /// Something lay in it.
    pub begin: bool,
    /// It ended before the stream did.
    pub end: bool,
    /// What came before it.
    pub passed_over: PassedOver,
}

impl WindowProgress {
    /// Combined over several streams: reached by any of them.
    pub fn by_any(of: impl IntoIterator<Item = WindowProgress>) -> WindowProgress {
        let both = |a: WindowProgress, b: WindowProgress| WindowProgress {
            begin: a.begin || b.begin,
            end: a.end || b.end,
            passed_over: a.passed_over.and(b.passed_over),
        };
        of.into_iter().fold(WindowProgress::default(), both)
    }

    /// The progress in a window so far.
    pub fn of<S: Source>(window: &Window<S>) -> WindowProgress {
        let passed_over = window.passed_over();
        WindowProgress { begin: window.has_begun(), end: window.has_ended(), passed_over }
    }
}

impl Ending {
    /// The end of a stream that could not be followed.
    pub fn lost(why: String) -> Ending {
        Ending { losses: vec![why], cut: true, ..Ending::default() }
    }

    /// Notes that a stream cannot be read on.
    pub fn cut_by(&mut self, error: &SourceError) {
        self.cut = true;
        self.losses.push(printable(&error.to_string()));
    }

    /// What was lost, as a result tells it.
    pub fn told_losses(&self) -> Vec<String> {
        let mut losses = self.losses.clone();
        if let Some(last) = losses.last_mut().filter(|_| self.cut) {
            *last = format!("{REST_LOST}: {last}");
        }
        losses
    }

    /// Warns of each loss.
    pub fn tell_losses(&self, trace: &Path, listener: &dyn Listener) {
        self.losses.iter().for_each(|loss| listener.warn(&format!("{}: {loss}", trace.display())));
    }

    /// As text: `exit 0`, `signal`, `exec`, `unknown`.
    pub fn describe(&self) -> String {
        match self.status {
            // The engine reports an end by a signal as below 0.
            Some(..0) => "signal".to_owned(),
            Some(status) => format!("exit {status}"),
            None if self.exec => "exec".to_owned(),
            None => "unknown".to_owned(),
        }
    }
}

/// Why nothing of a stream counts, if it did not come to the region of interest.
pub fn unreached(window: &WindowSpec, reached: WindowProgress) -> Option<String> {
    let marker = window.from_marker.map(|id| format!("--from-marker {id}"));
    let skip = (window.skip > 0).then(|| format!("--skip {}", window.skip));
    let asked: Vec<String> = marker.into_iter().chain(skip).collect();
    if reached.begin || asked.is_empty() {
        return None;
    }
    let (asked, PassedOver { instructions, longest, records, markers }) =
        (asked.join(" "), reached.passed_over);
    let others = markers.has_more().then(|| "and others".to_owned());
    let seen: Vec<String> = markers.ids().iter().map(u64::to_string).chain(others).collect();
    let seen = match window.from_marker {
        Some(_) if seen.is_empty() => ", markers: none".to_owned(),
        Some(_) => format!(", markers: {}", seen.join(", ")),
        None => String::new(),
    };
    let why = match (window.to_marker, window.from_marker) {
        (Some(id), _) if reached.end => {
            format!("the mark of --to-marker {id} came before the end of --skip {}", window.skip)
        }
        (_, None) if window.skip < longest => format!("{asked} reaches into the last block"),
        _ => format!("the program never came to where {asked} begins"),
    };
    Some(format!("{why}; instructions in all: {instructions}, records: {records}{seen}"))
}

/// Warns of the streams, by name, that did not come to the region of interest, if others did.
pub fn tell_unreached<'a>(
    window: &WindowSpec,
    streams: impl Iterator<Item = (&'a Path, WindowProgress)> + Clone,
    listener: &dyn Listener,
) {
    if streams.clone().any(|(_, reached)| reached.begin) {
        for (name, why) in streams.filter_map(|(name, reached)| Some((name, unreached(window, reached)?))) {
            listener.warn(&format!("{}: nothing of it counts: {why}", name.display()));
        }
    }
}

/// Checks that a stream reached the region of interest. Warns if none reached the marker at its end.
///
/// # Errors
/// If no stream reached the region's beginning: all counts would be zero.
pub fn check_window(
    window: &WindowSpec,
    reached: WindowProgress,
    listener: &dyn Listener,
) -> Result<(), Error> {
    if let Some(why) = unreached(window, reached) {
        return Err(Error::new(Fault::Usage, format!("nothing was counted: {why}")));
    }
    if let (Some(id), WindowProgress { begin: true, end: false, .. }) = (window.to_marker, reached) {
        listener.warn(&format!(
            "the mark of --to-marker {id} never came: all was counted up to the program's end"
        ));
    }
    Ok(())
}

/// A source that ends where it is damaged, as [`follow`] sees it; for reading a stream again.
pub struct ReadablePrefix<S>(pub S);

impl<S: Source> Source for ReadablePrefix<S> {
    fn header(&self) -> &StreamHeader {
        self.0.header()
    }

    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
        match self.0.next_item() {
            Err(SourceError::Malformed(_) | SourceError::Truncated(_)) => Ok(None),
            other => other,
        }
    }

    fn leave_batches_out(&mut self) {
        self.0.leave_batches_out();
    }
}

/// The number of processors for this process; 1 if the host does not tell.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// [`follow`], decoding the source on a thread of its own if there is a processor for it. The analysis's forerunners
/// work on both, if all of the stream is of interest.
pub fn follow_ahead<S: Source + Send>(source: S, window: &WindowSpec, analysis: &mut dyn Analysis) -> Ending {
    if processors() < 2 {
        return follow(source, window, analysis);
    }
    let is_whole = *window == WindowSpec::default();
    // Handing its state to and fro costs more than two processors gain that share no cache.
    let has_room = processors() > 2 || share_a_cache();
    let forerunners = if is_whole && has_room { analysis.forerunners() } else { Vec::new() };
    std::thread::scope(|scope| match read_ahead(scope, source, forerunners) {
        Ok(ahead) => follow(ahead, window, analysis),
        Err(error) => Ending::lost(format!("no thread to decode the stream on: {error}")),
    })
}

/// Follows `source` to its end.
pub fn follow<S: Source>(source: S, window: &WindowSpec, analysis: &mut dyn Analysis) -> Ending {
    let mut source = Window::new(source, *window);
    let mut ending = Ending::default();
    while !analysis.is_done() {
        ending.reached = WindowProgress::of(&source);
        match source.next_item() {
            Ok(Some(Item::Batch(batch))) => {
                ending.exec = false;
                analysis.on_batch(&batch);
            }
            Ok(Some(Item::Event { event, .. })) if event.is_nothing() => {}
            Ok(Some(Item::Event { at, event })) => {
                note(&mut ending, &event);
                analysis.on_event(at, &event);
            }
            Ok(None) => return ending,
            // Of what follows the region, nothing counts.
            Err(_) if ending.reached.end => return ending,
            Err(error) => {
                ending.cut_by(&error);
                return ending;
            }
        }
    }
    ending
}

/// Notes what an event says about the stream's end.
pub(crate) fn note(ending: &mut Ending, event: &Event) {
    match event {
        Event::Exit { status } => ending.status = Some(*status),
        Event::Exec { .. } => ending.exec = true,
        Event::Lost { what } => ending.losses.push(printable(what)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_reached_is_told_from_what_ends_in_the_last_block() {
        let reached = |instructions| WindowProgress {
            passed_over: PassedOver {
                instructions,
                longest: instructions,
                records: 4,
                ..PassedOver::default()
            },
            ..WindowProgress::default()
        };
        let skip = WindowSpec { skip: 9, ..WindowSpec::default() };
        let why = |window: &WindowSpec, instructions| unreached(window, reached(instructions)).unwrap();
        assert!(why(&skip, 10).starts_with("--skip 9 reaches into the last block; instructions in all: 10"));
        assert!(why(&skip, 9).starts_with("the program never came to where --skip 9 begins"));
        let marker = WindowSpec { from_marker: Some(1), ..skip };
        assert!(why(&marker, 10).starts_with("the program never came to where --from-marker 1 --skip 9"));
        let ended = WindowSpec { to_marker: Some(2), ..skip };
        let why = unreached(&ended, WindowProgress { end: true, ..reached(5) }).unwrap();
        assert!(why.starts_with("the mark of --to-marker 2 came before the end of --skip 9"), "{why}");
        let both = WindowProgress::by_any([reached(6), reached(6)]);
        let why = unreached(&skip, both).unwrap();
        assert!(why.contains("never came to where --skip 9 begins; instructions in all: 12"), "{why}");
        assert_eq!(unreached(&skip, WindowProgress { begin: true, ..reached(10) }), None);
        assert_eq!(unreached(&WindowSpec::default(), reached(10)), None);
    }
}
