//! Following one stream: through the region of interest, into an analysis, noting how it ended.

use crate::arguments::Region;
use pagewalk_capture::{Window, WindowSpec};
use pagewalk_trace::{Analysis, Event, Item, Source};

/// How a stream ended.
#[derive(Debug, Default)]
pub struct Ending {
    /// Exit status that the stream reports.
    pub status: Option<i32>,
    /// Whether the process became another program.
    pub exec: bool,
    /// What was lost, in plain words.
    pub losses: Vec<String>,
    /// Whether the stream could not be read to its end.
    pub cut: bool,
}

impl Ending {
    /// For people: `exit 0`, `exec`, `unknown`.
    pub fn describe(&self) -> String {
        match self.status {
            Some(status) => format!("exit {status}"),
            None if self.exec => "exec".to_owned(),
            None => "unknown".to_owned(),
        }
    }
}

/// The region as the capture crate wants it.
pub fn window(region: &Region) -> WindowSpec {
    WindowSpec {
        from_marker: region.from_marker,
        to_marker: region.to_marker,
        skip: region.skip,
        max_instructions: region.max_instructions,
    }
}

/// Follows `source` to its end. `each` is called after every item, for progress.
pub fn follow<S: Source>(
    source: S,
    region: &Region,
    analysis: &mut dyn Analysis,
    mut each: impl FnMut(),
) -> Ending {
    let mut source = Window::new(source, window(region));
    let mut ending = Ending::default();
    loop {
        match source.next_item() {
            Ok(Some(Item::Batch(batch))) => {
                ending.exec = false;
                analysis.on_batch(&batch);
            }
            Ok(Some(Item::Event { at, event })) => {
                note(&mut ending, &event);
                analysis.on_event(at, &event);
            }
            Ok(None) => return ending,
            Err(error) => {
                ending.cut = true;
                ending.losses.push(error.to_string());
                return ending;
            }
        }
        each();
    }
}

fn note(ending: &mut Ending, event: &Event) {
    match event {
        Event::Exit { status } => ending.status = Some(*status),
        Event::Exec { .. } => ending.exec = true,
        Event::Lost { what } => ending.losses.push(what.clone()),
        _ => {}
    }
}
