//! Charts of sections, as data: a page's scripts draw them. Places are parts of one, from the left and from the top;
//! words are ready to show.

use serde::{Serialize, Serializer};

/// A place, as finely as a screen can show it.
fn place<S: Serializer>(at: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((at * 1e4).round() / 1e4)
}

/// A chart.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Chart {
    Plot(Plot),
    Heat(Heat),
}

/// Curves and points between two axes.
#[derive(Default, Serialize)]
pub(crate) struct Plot {
    /// What it shows, for who cannot see it.
    pub label: String,
    /// What stands above it, and smaller words below that.
    pub title: String,
    pub sub: String,
    /// How high it is, in pixels.
    pub height: u32,
    /// Whether it stands beside others of its kind.
    pub is_small: bool,
    pub x: Axis,
    pub y: Axis,
    pub curves: Vec<Curve>,
    pub marks: Vec<Mark>,
}

/// An axis.
#[derive(Default, Serialize)]
pub(crate) struct Axis {
    pub title: String,
    pub ticks: Vec<Tick>,
}

/// A label of an axis.
#[derive(Serialize)]
pub(crate) struct Tick {
    #[serde(serialize_with = "place")]
    pub at: f64,
    pub text: String,
}

/// Points, joined or not.
#[derive(Default, Serialize)]
pub(crate) struct Curve {
    /// Its style.
    pub look: &'static str,
    /// Its name, beside its first or its last point.
    pub name: String,
    pub is_named_at_end: bool,
    pub is_joined: bool,
    /// Closes it along its lower edge: filled.
    pub is_filled: bool,
    /// Draws a circle at each point.
    pub has_dots: bool,
    pub points: Vec<Point>,
}

/// A point of a curve.
#[derive(Default, Serialize)]
pub(crate) struct Point {
    #[serde(serialize_with = "place")]
    pub x: f64,
    #[serde(serialize_with = "place")]
    pub y: f64,
    /// Beside it, where there is room.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// A style of its own.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub look: &'static str,
    /// What the pointer tells there; the first line as a title, if the chart has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tells: Vec<String>,
}

/// A line across the chart.
#[derive(Serialize)]
pub(crate) struct Mark {
    /// Where, if it is upright.
    pub x: Option<f64>,
    /// Where, if it lies.
    pub y: Option<f64>,
    pub text: String,
}

/// Walks over address space and time. Cells stand in the data of the run.
#[derive(Serialize)]
pub(crate) struct Heat {
    pub label: String,
    /// Number of columns.
    pub columns: u32,
    /// Most walks of a cell, and in words.
    pub most: u64,
    pub most_text: String,
    /// How large a cell is.
    pub cell: String,
    /// Instructions at the left edge of each column, and at the right edge of the last.
    pub edges: Vec<String>,
    pub ticks: Vec<Tick>,
    /// Walks of each column, as parts of the most that one has.
    pub strip: Vec<f64>,
    /// The most.
    pub peak: String,
    pub groups: Vec<HeatGroup>,
}

/// Rows of one mapping.
#[derive(Serialize)]
pub(crate) struct HeatGroup {
    /// The mapping, and where it begins.
    pub name: String,
    pub start: String,
    /// Its share of all walks.
    pub share: String,
    /// Where each row lies; empty of the row of many mappings.
    pub places: Vec<String>,
}
