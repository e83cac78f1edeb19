//! Charts of sections, as data that a page's scripts draw. Places are fractions of the width and height, from the left
//! and the top; texts are final.

use serde::{Serialize, Serializer};

/// Serializes a place as precisely as a screen can show it.
fn place<S: Serializer>(at: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((at * 1e4).round() / 1e4)
}

fn places<S: Serializer>(all: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(all.iter().map(|at| (at * 1e4).round() / 1e4))
}

/// A chart.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Chart {
    Plot(Plot),
    Heat(Heat),
    Bars(Bars),
}

/// Curves and points between two axes.
#[derive(Default, Serialize)]
pub(crate) struct Plot {
    /// What it shows, for readers who cannot see it.
    pub label: String,
    /// The title above it, and smaller words below the title.
    pub title: String,
    pub sub: String,
    /// Its height in pixels.
    pub height: u32,
    /// Whether it is one of several small charts side by side.
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
    /// Fills the area below it.
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
    /// The name beside it, if there is room.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// A style of its own.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub look: &'static str,
    /// Lines of its tooltip; the first is the title, if the chart has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tells: Vec<String>,
}

/// A line across the chart.
#[derive(Serialize)]
pub(crate) struct Mark {
    /// Its place, if it is vertical.
    pub x: Option<f64>,
    /// Its place, if it is horizontal.
    pub y: Option<f64>,
    pub text: String,
}

/// Walks over address space and time. The run's data holds the cells.
#[derive(Serialize)]
pub(crate) struct Heat {
    pub label: String,
    /// Number of columns.
    pub columns: u32,
    /// Most walks of a cell, as a number and in words.
    pub most: u64,
    pub most_text: String,
    /// The size of a cell, in words.
    pub cell: String,
    /// Instructions at the left edge of each column, and at the right edge of the last.
    pub edges: Vec<String>,
    pub ticks: Vec<Tick>,
    /// Walks of each column as fractions of the largest column.
    pub strip: Vec<f64>,
    /// The largest column's walks, in words.
    pub peak: String,
    pub groups: Vec<HeatGroup>,
}

/// Rows of one mapping.
#[derive(Serialize)]
pub(crate) struct HeatGroup {
    /// The mapping's name and first address.
    pub name: String,
    pub start: String,
    /// Its share of all walks.
    pub share: String,
    /// The address of each row; empty for the row that collects many mappings.
    pub places: Vec<String>,
}

/// Columns of stacked parts between two axes.
#[derive(Serialize)]
pub(crate) struct Bars {
    /// What it shows, for readers who cannot see it.
    pub label: String,
    /// Its height in pixels.
    pub height: u32,
    pub x: Axis,
    pub y: Axis,
    pub marks: Vec<Mark>,
    /// The style and the name of each part, from the bottom.
    pub legend: Vec<(&'static str, String)>,
    pub stacks: Vec<Stack>,
}

/// A column.
#[derive(Serialize)]
pub(crate) struct Stack {
    /// The height of each part.
    #[serde(serialize_with = "places")]
    pub parts: Vec<f64>,
    /// Lines of its tooltip, the title first.
    pub tells: Vec<String>,
}
