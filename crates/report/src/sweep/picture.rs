//! The base of all pictures: SVG elements as text, colours in a light and a dark scheme, logarithmic axes.
//!
//! Pictures use classes only; [`style`] gives them colours. A separate file contains that style, a page has it once for
//! all pictures. The only foreign texts are names from the study, which are escaped.

use crate::html::escape;
use crate::numbers::count;
use std::fmt::Write;

/// Colours of the heat map from none to most, light and dark, as in the report's page.
const RAMP: [[&str; 2]; 6] = [
    ["#f1f4f9", "#191e27"],
    ["#c3d6f2", "#1b3358"],
    ["#7ea8e6", "#23508f"],
    ["#3b6cc9", "#3478cf"],
    ["#1f3f8f", "#7db4f5"],
    ["#0d1c4d", "#f2f8ff"],
];
/// Steps of a heat map's colours.
pub(super) const LEVELS: usize = 26;

/// Properties that differ between the light and the dark scheme, by selector.
const COLORS: [(&str, &str, [&str; 2]); 18] = [
    ("svg.picture text", "fill", ["#565b66", "#a3aab7"]),
    ("svg.picture text.strong", "fill", ["#1b1d22", "#e8eaee"]),
    ("svg.picture .axis", "stroke", ["#c9c9c4", "#454c58"]),
    ("svg.picture .grid", "stroke", ["#e4e4e0", "#2a2f38"]),
    ("svg.picture .size", "stroke", ["#a63a22", "#f2957e"]),
    ("svg.picture text.size", "fill", ["#a63a22", "#f2957e"]),
    ("svg.picture .data", "stroke", ["#2f66d0", "#78a5fb"]),
    ("svg.picture .fetches", "stroke", ["#a8690a", "#f2bd5c"]),
    ("svg.picture .everything", "stroke", ["#0d8273", "#4cc7b4"]),
    ("svg.picture .p0", "fill", ["#2f66d0", "#78a5fb"]),
    ("svg.picture .p1", "fill", ["#a8690a", "#f2bd5c"]),
    ("svg.picture .p2", "fill", ["#0d8273", "#4cc7b4"]),
    ("svg.picture .p3", "fill", ["#a63a22", "#f2957e"]),
    ("svg.picture .p4", "fill", ["#7a4fb5", "#b998ef"]),
    ("svg.picture .p5", "fill", ["#6f7480", "#8790a0"]),
    ("svg.picture .dot", "fill", ["#2f66d0", "#78a5fb"]),
    ("svg.picture .lead", "stroke", ["#c9c9c4", "#454c58"]),
    ("svg.picture .ground", "fill", ["#fbfbfa", "#101216"]),
];

/// Number of line colours; further lines reuse them.
pub(super) const LINE_COLORS: usize = 8;
/// Lines of plots, light and dark.
const LINES: [[&str; 2]; LINE_COLORS] = [
    ["#2f66d0", "#78a5fb"],
    ["#a8690a", "#f2bd5c"],
    ["#0d8273", "#4cc7b4"],
    ["#a63a22", "#f2957e"],
    ["#7a4fb5", "#c0a2f0"],
    ["#4d7a1c", "#a5d16b"],
    ["#b0387f", "#f08fc4"],
    ["#565b66", "#a3aab7"],
];

/// Properties that both schemes share.
const SHAPES: &str = "svg.picture text{font:12px system-ui,\"Segoe UI\",\"DejaVu Sans\",sans-serif;\
font-variant-numeric:tabular-nums}
svg.picture text.strong{font-weight:600}
svg.picture .axis,svg.picture .grid{fill:none;shape-rendering:crispEdges}
svg.picture line.size,svg.picture polyline.size{fill:none;stroke-width:1.25;stroke-dasharray:3 3}
svg.picture text.size{stroke:none}
svg.picture .curve{fill:none;stroke-width:2;stroke-linejoin:round}
svg.picture .sampled{stroke-dasharray:5 3;stroke-width:1.5}
svg.picture .error{stroke-width:1;stroke-opacity:0.55}
svg.picture rect{shape-rendering:crispEdges}
";

/// The style sheet of all pictures.
pub(crate) fn style() -> String {
    let scheme = |which: usize| {
        let mut rules = String::new();
        for (selector, property, colors) in COLORS {
            let _ = writeln!(rules, "{selector}{{{property}:{}}}", colors[which]);
        }
        for (number, colors) in LINES.iter().enumerate() {
            let color = colors[which];
            let _ = writeln!(
                rules,
                "svg.picture .s{number}{{stroke:{color}}}svg.picture .f{number}{{fill:{color}}}"
            );
        }
        for level in 0..LEVELS {
            let _ = writeln!(rules, "svg.picture .l{level}{{fill:{}}}", mixed(level, which));
        }
        rules
    };
    format!("{SHAPES}{}@media (prefers-color-scheme: dark){{\n{}}}\n", scheme(0), scheme(1))
}

/// The colour of a level.
fn mixed(level: usize, scheme: usize) -> String {
    let at = level as f64 / (LEVELS - 1) as f64 * (RAMP.len() - 1) as f64;
    let low = (at as usize).min(RAMP.len() - 2);
    let part = at - low as f64;
    let channel =
        |color: &str, n: usize| f64::from(u8::from_str_radix(&color[1 + 2 * n..3 + 2 * n], 16).unwrap_or(0));
    let channels = [0, 1, 2].map(|n| {
        let [from, to] = [RAMP[low][scheme], RAMP[low + 1][scheme]].map(|color| channel(color, n));
        (from + (to - from) * part).round() as u8
    });
    format!("#{:02x}{:02x}{:02x}", channels[0], channels[1], channels[2])
}

/// A figure, abbreviated.
pub(super) fn short(value: f64) -> String {
    if value >= 10.0 {
        return count(value.round() as u64);
    }
    // Three significant digits of small figures.
    let digits = (2 - value.abs().log10().floor().max(-12.0) as i32).clamp(3, 12) as usize;
    format!("{value:.digits$}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// An SVG picture under construction.
pub(crate) struct Picture {
    width: f64,
    height: f64,
    body: String,
}

impl Picture {
    /// An empty picture.
    pub fn new(width: f64, height: f64) -> Picture {
        Picture { width, height, body: String::new() }
    }

    /// Adds a filled cell with a tooltip.
    pub fn cell(&mut self, class: &str, [x, y, width, height]: [f64; 4], title: &str) {
        let title = escape(title);
        let _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\">\
             <title>{title}</title></rect>"
        );
    }

    /// Adds a line.
    pub fn line(&mut self, class: &str, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
        let _ = writeln!(
            self.body,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    /// Adds a line through several points.
    pub fn polyline(&mut self, class: &str, points: &[[f64; 2]]) {
        let points: Vec<String> = points.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(self.body, "<polyline class=\"{class}\" points=\"{}\"/>", points.join(" "));
    }

    /// Adds text that begins (`start`), is centred (`middle`) or ends (`end`) at a point.
    pub fn text(&mut self, class: &str, [x, y]: [f64; 2], anchor: &str, text: &str) {
        let text = escape(text);
        let _ = writeln!(
            self.body,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    /// The picture for a page that has the style; `label` describes it in words.
    pub fn element(&self, label: &str) -> String {
        let Picture { width, height, body } = self;
        format!(
            "<svg class=\"picture\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{}\">\n{body}</svg>\n",
            escape(label)
        )
    }

    /// The picture as a file of its own.
    pub fn file(&self, label: &str) -> String {
        let ground = "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>";
        let inside = format!("<style>\n{}</style>\n{ground}\n", style());
        self.element(label).replacen(">\n", &format!(">\n{inside}"), 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_those_of_the_reports_page() {
        let page = include_str!("../html/style.css");
        for (number, [light, dark]) in RAMP.iter().enumerate() {
            assert!(page.contains(&format!("--heat-{number}: light-dark({light}, {dark});")), "{number}");
        }
        assert_eq!((mixed(0, 0), mixed(LEVELS - 1, 1)), (RAMP[0][0].to_owned(), RAMP[5][1].to_owned()));
    }

    #[test]
    fn names_cannot_become_markup() {
        let mut picture = Picture::new(10.0, 10.0);
        picture.text("t", [1.0, 1.0], "start", "<script>");
        picture.cell("l0", [0.0; 4], "a & b");
        let file = picture.file("\"<x>\"");
        assert!(!file.contains("<script") && file.contains("&lt;script&gt;") && file.contains("a &amp; b"));
        assert!(file.contains("aria-label=\"&quot;&lt;x&gt;&quot;\"") && file.contains("<style>"));
    }
}
