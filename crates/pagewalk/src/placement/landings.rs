//! Where planned libraries lay: a table, notes, misses, JSON.

use pagewalk_layout::files::Object;
use pagewalk_live::layout::{Landing, LayoutImage, State};
use pagewalk_report::documents::layout_run::{LibraryPlace, PlacedImage};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Most misplaced libraries to name one by one.
const MISSES_NAMED: usize = 10;

/// The moment when all libraries are mapped that a program is linked with.
pub const LOADER_DONE: &str = "loader done";

/// A plan's objects, and where they landed.
#[derive(Clone, Copy)]
pub struct Landings<'a> {
    /// The objects as they are on this host.
    pub objects: &'a [Object],
    /// All process images.
    pub images: &'a [LayoutImage],
}

/// An image's last landings, and their moment.
fn latest(image: &LayoutImage) -> Option<(&[Landing], &'static str)> {
    let at_end = image.at_end.as_deref().map(|landings| (landings, "at the end"));
    at_end.or_else(|| Some((image.at_start.as_deref()?, LOADER_DONE)))
}

impl Landings<'_> {
    /// The loaded libraries that lie elsewhere; none if all landed.
    pub fn missed(self) -> Option<String> {
        let mut lines = Vec::new();
        for image in self.images {
            for landing in latest(image).map_or(&[][..], |(landings, _)| landings) {
                let State::Elsewhere(reason) = &landing.state else { continue };
                let object = &self.objects[landing.object];
                let reason = image.obstacle.as_ref().unwrap_or(reason);
                let of = format!("process {} ({})", image.process, image.program);
                lines.push(format!(
                    "{} did not land at {:#x} in {of}: {reason}",
                    object.file, landing.planned
                ));
            }
        }
        let rest = lines.len().saturating_sub(MISSES_NAMED);
        lines.truncate(MISSES_NAMED);
        if rest > 0 {
            lines.push(format!("and {rest} more"));
        }
        (!lines.is_empty()).then(|| lines.join("\n  "))
    }

    /// Harmless facts that the user should know.
    pub fn notes(self) -> Vec<String> {
        let mut notes = BTreeSet::new();
        for image in self.images {
            if let Some(obstacle) = &image.obstacle {
                notes.insert(format!("{} ran without the plan: {obstacle}", image.program));
            }
            if image.slid_bytes > 0 {
                let gib = image.slid_bytes >> 30;
                notes.insert(format!("{}: the plan was moved up by {gib} GiB", image.program));
            }
        }
        let absent = self.not_loaded();
        if !absent.is_empty() {
            let (few, all) = (absent.len(), self.objects.len());
            let named = absent[..few.min(MISSES_NAMED)].join(", ");
            let more = if few > MISSES_NAMED { ", …" } else { "" };
            notes.insert(format!("{few} of {all} planned libraries were not seen loaded: {named}{more}"));
        }
        notes.into_iter().collect()
    }

    /// Planned libraries that no examined image had loaded.
    pub fn not_loaded(&self) -> Vec<&str> {
        let images = self.images.iter().flat_map(|image| [&image.at_start, &image.at_end]);
        let loaded: BTreeSet<usize> = images.flatten().flatten().map(|landing| landing.object).collect();
        let absent = (0..self.objects.len()).filter(|position| !loaded.contains(position));
        absent.map(|position| self.objects[position].file.as_str()).collect()
    }

    /// As text: where libraries lay last, one table per examined image.
    pub fn tables(self) -> String {
        let last = |image: &LayoutImage| {
            latest(image).map(|(landings, when)| table(image, self.objects, landings, when))
        };
        self.images.iter().filter_map(last).collect()
    }

    /// All images as data.
    pub fn documents(self) -> Vec<PlacedImage> {
        self.images.iter().map(|image| self.document(image)).collect()
    }

    fn document(self, image: &LayoutImage) -> PlacedImage {
        let row = |landing: &Landing| library(&self.objects[landing.object], landing);
        let at = |landings: &Option<Vec<Landing>>| {
            landings.as_ref().map(|landings| landings.iter().map(row).collect())
        };
        PlacedImage {
            process: image.process,
            program: image.program.clone(),
            obstacle: image.obstacle.clone(),
            slid_bytes: image.slid_bytes,
            at_start: at(&image.at_start),
            at_end: at(&image.at_end),
        }
    }
}

fn library(object: &Object, landing: &Landing) -> LibraryPlace {
    let reason = if let State::Elsewhere(reason) = &landing.state { Some(reason.clone()) } else { None };
    LibraryPlace {
        file: object.file.clone(),
        planned: format!("{:#x}", landing.planned),
        actual: format!("{:#x}", landing.actual),
        bytes: object.bytes,
        state: landing.state.name(),
        reason,
    }
}

/// Where an image's libraries lie, as text; libraries that are not loaded are only counted.
pub fn table(image: &LayoutImage, objects: &[Object], landings: &[Landing], when: &str) -> String {
    let mut text = format!("process {} ({}), {when}:\n", image.process, image.program);
    if let Some(obstacle) = &image.obstacle {
        let _ = writeln!(text, "  without the plan: {obstacle}");
    }
    let file = |landing: &Landing| &objects[landing.object].file;
    let width = landings.iter().map(|landing| file(landing).len()).max().unwrap_or(0).max(4);
    if !landings.is_empty() {
        let _ = writeln!(text, "  {:width$}  {:>14}  {:>14}  state", "file", "planned", "actual");
    }
    for landing in landings {
        let Landing { planned, actual, state, .. } = landing;
        let reason = if let State::Elsewhere(reason) = state { format!(": {reason}") } else { String::new() };
        let _ = writeln!(
            text,
            "  {:width$}  {planned:>#14x}  {actual:>#14x}  {}{reason}",
            file(landing),
            state.name()
        );
    }
    if landings.len() < objects.len() {
        let _ = writeln!(text, "  {} of {} are not loaded", objects.len() - landings.len(), objects.len());
    }
    text
}
