//! The graph of one set: its pages, with an arrow from each victim to the page that replaced it.
//!
//! Source: S. Konireddygari, MS thesis, NC State University 2008, section 3.2.2; thresholds as a share of a node's
//! weight, section 5.1.

use crate::evictions::{ArrayHistory, Row};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What to leave out of the drawing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DrawThreshold {
    /// Pages with fewer evictions of others than this, with their arrows.
    Evictions(u64),
    /// Arrows below this share of the weight of both their pages; from 0 to 1.
    Share(f64),
}

/// Why a text is no [`DrawThreshold`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a number of evictions, such as 500, nor a share of a page's, such as 5%")]
pub struct DrawThresholdError(String);

impl std::str::FromStr for DrawThreshold {
    type Err = DrawThresholdError;

    fn from_str(text: &str) -> Result<DrawThreshold, DrawThresholdError> {
        let least = match text.strip_suffix('%') {
            Some(share) => share.trim().parse().ok().map(|share: f64| DrawThreshold::Share(share / 100.0)),
            None => text.parse().ok().map(DrawThreshold::Evictions),
        };
        let is_valid = |least: &DrawThreshold| match least {
            DrawThreshold::Share(share) => (0.0..=1.0).contains(share),
            DrawThreshold::Evictions(_) => true,
        };
        least.filter(is_valid).ok_or_else(|| DrawThresholdError(text.to_owned()))
    }
}

impl std::fmt::Display for DrawThreshold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DrawThreshold::Evictions(count) => write!(f, "{count}"),
            // 0.07 times 100 is not exactly 7: round to the digits that a person would write.
            DrawThreshold::Share(share) => write!(f, "{}%", (share * 1e8).round() / 1e6),
        }
    }
}

/// A page of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphNode {
    /// Index into [`ArrayHistory::pages`].
    pub page: usize,
    /// Arrows to it: how often it evicted others, according to the rows.
    pub evicted: u64,
    /// Arrows from it.
    pub was_evicted: u64,
}

impl GraphNode {
    /// The total of its arrows.
    pub fn weight(&self) -> u64 {
        self.evicted + self.was_evicted
    }
}

/// An arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphEdge {
    /// Index of the evicted node.
    pub victim: usize,
    /// Index of the node that replaced it.
    pub victimiser: usize,
    /// How often.
    pub count: u64,
    /// The most frequent of its rows, whose cause is shown.
    pub row: usize,
}

/// The graph of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionGraph {
    /// The set.
    pub set: usize,
    /// Its pages, by weight.
    pub nodes: Vec<GraphNode>,
    /// Its arrows, most frequent first.
    pub edges: Vec<GraphEdge>,
    /// Evictions in arrows left out.
    pub left_out: u64,
}

impl EvictionGraph {
    /// The graph of a set of `history`, without what is below `least`.
    pub fn new(history: &ArrayHistory, set: usize, least: DrawThreshold) -> EvictionGraph {
        let start = history.rows.partition_point(|row| row.set < set);
        let end = history.rows.partition_point(|row| row.set <= set);
        let rows = &history.rows[start..end];
        let all: u64 = rows.iter().map(|row| row.count).sum();
        let weights = weights(rows);
        let mut edges = joined(rows, start);
        edges.retain(|edge| match least {
            DrawThreshold::Evictions(count) => {
                [edge.victim, edge.victimiser].iter().all(|page| weights[page].evicted >= count)
            }
            DrawThreshold::Share(share) => [edge.victim, edge.victimiser]
                .iter()
                .any(|page| edge.count as f64 >= share * weights[page].weight() as f64),
        });
        let drawn = |node: &&GraphNode| match least {
            DrawThreshold::Evictions(count) => node.evicted >= count,
            DrawThreshold::Share(_) => {
                edges.iter().any(|edge| [edge.victim, edge.victimiser].contains(&node.page))
            }
        };
        let mut nodes: Vec<GraphNode> = weights.values().filter(drawn).copied().collect();
        nodes.sort_by_key(|node| (std::cmp::Reverse(node.weight()), node.page));
        let number: BTreeMap<usize, usize> = nodes.iter().map(|node| node.page).zip(0..).collect();
        for edge in &mut edges {
            (edge.victim, edge.victimiser) = (number[&edge.victim], number[&edge.victimiser]);
        }
        edges.sort_by_key(|edge| (std::cmp::Reverse(edge.count), edge.victim, edge.victimiser));
        let left_out = all - edges.iter().map(|edge| edge.count).sum::<u64>();
        EvictionGraph { set, nodes, edges, left_out }
    }

    /// Keeps only the `most` most frequent arrows, and the pages that have any.
    pub fn truncate(&mut self, most: usize) {
        let kept = self.edges.len().min(most);
        self.left_out += self.edges.drain(kept..).map(|edge| edge.count).sum::<u64>();
        let has_arrow =
            |node: usize| self.edges.iter().any(|edge| edge.victim == node || edge.victimiser == node);
        let stay: Vec<usize> = (0..self.nodes.len()).filter(|&node| has_arrow(node)).collect();
        let number: BTreeMap<usize, usize> = stay.iter().copied().zip(0..).collect();
        self.nodes = stay.iter().map(|&node| self.nodes[node]).collect();
        for edge in &mut self.edges {
            (edge.victim, edge.victimiser) = (number[&edge.victim], number[&edge.victimiser]);
        }
    }

    /// The graph for Graphviz. `page` names a page, `cause` the cause of an arrow's row.
    pub fn to_dot(
        &self,
        history: &ArrayHistory,
        page: impl Fn(usize) -> String,
        mut cause: impl FnMut(&Row) -> String,
    ) -> String {
        let mut out = format!("digraph \"{} set {}\" {{\n", escaped(&history.array.name), self.set);
        out += "  node [shape=box, fontname=\"sans-serif\"];\n  edge [fontname=\"sans-serif\"];\n";
        // Writing to a string cannot fail.
        for (index, node) in self.nodes.iter().enumerate() {
            let (label, evicted, was) = (escaped(&page(node.page)), node.evicted, node.was_evicted);
            let _ = writeln!(out, "  p{index} [label=\"{label}\\nevicted {evicted}, was evicted {was}\"];");
        }
        for edge in &self.edges {
            let cause = escaped(&cause(&history.rows[edge.row]));
            let (victim, victimiser, count) = (edge.victim, edge.victimiser, edge.count);
            let _ = writeln!(out, "  p{victim} -> p{victimiser} [label=\"{count}\\n{cause}\"];");
        }
        out + "}\n"
    }
}

/// Weights of all pages in some rows.
fn weights(rows: &[Row]) -> BTreeMap<usize, GraphNode> {
    let mut weights: BTreeMap<usize, GraphNode> = BTreeMap::new();
    for row in rows {
        let mut add = |page: usize, evicted: u64, was_evicted: u64| {
            let node = weights.entry(page).or_insert(GraphNode { page, evicted: 0, was_evicted: 0 });
            node.evicted += evicted;
            node.was_evicted += was_evicted;
        };
        add(row.victimiser, row.count, 0);
        add(row.victim, 0, row.count);
    }
    weights
}

/// Joins rows of the same two pages into edges, with pages instead of nodes. `first` is the number of the first row.
fn joined(rows: &[Row], first: usize) -> Vec<GraphEdge> {
    let mut edges: BTreeMap<(usize, usize), GraphEdge> = BTreeMap::new();
    // The most frequent row of two pages comes first.
    for (row, of) in (first..).zip(rows) {
        let (victim, victimiser) = (of.victim, of.victimiser);
        let edge = edges.entry((victim, victimiser));
        edge.or_insert(GraphEdge { victim, victimiser, count: 0, row }).count += of.count;
    }
    edges.into_values().collect()
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ")
}

#[cfg(test)]
mod tests;
