//! The result of watching conflicts.

use super::{ConflictOptions, Names, StreamConflicts};
use pagewalk_layout::calls::CallGraph;
use pagewalk_layout::evictions::{ArrayHistory, PageHistory};
use pagewalk_layout::graph::EvictionGraph;
use pagewalk_layout::objects::Owners;
use pagewalk_report::conflicts::schema::{
    ArrayResult, CONFLICTS_SCHEMA, CodeAndData, CodeGraph, CodePage, ConflictPage, ConflictsResult,
    Evictions, GraphEdge, GraphNode, OwnerRow, PageCall, SetGraph,
};
use pagewalk_report::schema::Host;
use pagewalk_translate::TlbSpec;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

/// Most pages to report besides those of graphs.
const PAGES_TOLD: usize = 256;
/// Most arrows to report for each set.
const EDGES_TOLD: usize = 24;

/// The whole result.
pub fn build(
    watched: &StreamConflicts,
    watching: &ConflictOptions,
    tlbs: &[&TlbSpec],
    trace: &Path,
    names: &mut Names,
) -> ConflictsResult {
    let header = &watched.header;
    let array = |(history, tlb): (&ArrayHistory, &&TlbSpec)| {
        ArrayReport { history, owners: &watched.owners, watching }.array(tlb, names)
    };
    ConflictsResult {
        schema: CONFLICTS_SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: Host { cpu: header.cpu.clone(), kernel: header.kernel.clone(), thp: header.thp.clone() },
        trace: trace.display().to_string(),
        program: header.program.clone(),
        command_line: header.arguments.clone(),
        losses: watched.ending.losses.clone(),
        machine: watching.machine.name.clone(),
        least: watching.least.to_string(),
        arrays: watched.histories.iter().zip(tlbs).map(array).collect(),
        code: code(&watched.calls),
    }
}

/// All sets, most misses first.
pub fn sets_by_misses(history: &ArrayHistory) -> Vec<usize> {
    let mut sets: Vec<usize> = (0..history.misses_by_set.len()).collect();
    sets.sort_by_key(|&set| Reverse(history.misses_by_set[set]));
    sets
}

fn sides([code, data]: [u64; 2]) -> CodeAndData {
    CodeAndData { code, data }
}

/// Builds the report on one array.
struct ArrayReport<'a> {
    history: &'a ArrayHistory,
    owners: &'a Owners,
    watching: &'a ConflictOptions,
}

impl ArrayReport<'_> {
    fn array(&self, tlb: &TlbSpec, names: &mut Names) -> ArrayResult {
        let history = self.history;
        let spec = &history.array;
        let [[code_by_code, data_by_code], [code_by_data, data_by_data]] = history.evictions;
        let serves = match (spec.fetches, spec.data) {
            (true, true) => "code and data",
            (true, false) => "code",
            _ => "data",
        };
        let graphs = self.graphs();
        let (pages, number) = self.pages(&graphs);
        ArrayResult {
            name: spec.name.clone(),
            serves: serves.to_owned(),
            sets: spec.geometry.sets() as u64,
            ways: spec.geometry.ways() as u64,
            index: spec.index.to_string(),
            replacement: tlb.replacement.name().to_owned(),
            references: sides(history.references),
            misses: sides(history.misses_by_side),
            compulsory: history.misses.compulsory,
            capacity: history.misses.capacity,
            conflict: history.misses.conflict,
            spared: history.misses.spared,
            evictions: Evictions { code_by_code, data_by_code, code_by_data, data_by_data },
            variation: history.variation(),
            misses_by_set: history.misses_by_set.clone(),
            owners: self.owners(),
            pages,
            pages_in_all: history.pages.len() as u64,
            graphs: graphs.iter().map(|graph| self.graph(graph, &number, names)).collect(),
            dropped: history.dropped,
        }
    }

    /// Graphs of all sets with arrows: the requested set first, then those with most misses.
    fn graphs(&self) -> Vec<EvictionGraph> {
        let mut sets = sets_by_misses(self.history);
        sets.sort_by_key(|&set| self.watching.set != Some(set));
        let graph = |set: usize| EvictionGraph::new(self.history, set, self.watching.least);
        let mut graphs: Vec<EvictionGraph> = sets.into_iter().map(graph).collect();
        graphs.iter_mut().for_each(|graph| graph.truncate(EDGES_TOLD));
        graphs.retain(|graph| !graph.edges.is_empty() || self.watching.set == Some(graph.set));
        graphs
    }

    /// Pages of graphs and others with most involvement, and each page's row.
    fn pages(&self, graphs: &[EvictionGraph]) -> (Vec<ConflictPage>, BTreeMap<usize, usize>) {
        let pages = &self.history.pages;
        let mut order: Vec<usize> = (0..pages.len()).collect();
        order.sort_by_key(|&page| (Reverse(pages[page].involved()), Reverse(pages[page].misses), page));
        let drawn: BTreeMap<usize, ()> =
            graphs.iter().flat_map(|graph| &graph.nodes).map(|node| (node.page, ())).collect();
        let told = order.into_iter().enumerate();
        let told = told.filter(|(rank, page)| *rank < PAGES_TOLD || drawn.contains_key(page));
        let order: Vec<usize> = told.map(|(_, page)| page).collect();
        let rows = order.iter().map(|&page| self.page(&pages[page])).collect();
        (rows, order.into_iter().zip(0..).collect())
    }

    fn page(&self, page: &PageHistory) -> ConflictPage {
        ConflictPage {
            start: page.page.start().to_string(),
            set: self.history.array.set_of(page.page) as u64,
            owner: self.owners.get(page.owner).name(),
            file_offset: page.file_offset.map(|offset| format!("{offset:#x}")),
            references: sides(page.references),
            misses: sides(page.misses),
            evicted: page.evicted,
            was_evicted: page.was_evicted,
        }
    }

    /// Pages summed by their owners' names.
    fn owners(&self) -> Vec<OwnerRow> {
        let mut rows: BTreeMap<String, OwnerRow> = BTreeMap::new();
        for page in &self.history.pages {
            let owner = self.owners.get(page.owner);
            let row = rows.entry(owner.name()).or_insert_with(|| OwnerRow {
                name: owner.name(),
                kind: owner.kind.name().to_owned(),
                pages: 0,
                references: CodeAndData::default(),
                misses: CodeAndData::default(),
                evicted: 0,
                evicted_own: 0,
                was_evicted: 0,
            });
            row.pages += 1;
            add(&mut row.references, page.references);
            add(&mut row.misses, page.misses);
            row.evicted += page.evicted;
            row.evicted_own += page.evicted_own;
            row.was_evicted += page.was_evicted;
        }
        let mut rows: Vec<OwnerRow> = rows.into_values().collect();
        rows.sort_by_key(|row| Reverse((row.involved(), row.misses.total())));
        rows
    }

    fn graph(&self, graph: &EvictionGraph, number: &BTreeMap<usize, usize>, names: &mut Names) -> SetGraph {
        let node = |node: &pagewalk_layout::graph::GraphNode| GraphNode {
            page: number[&node.page],
            evicted: node.evicted,
            was_evicted: node.was_evicted,
        };
        let edges = graph.edges.iter().map(|edge| GraphEdge {
            victim: edge.victim,
            victimiser: edge.victimiser,
            count: edge.count,
            cause: names.cause(&self.history.rows[edge.row], self.history, self.owners),
        });
        SetGraph {
            set: graph.set as u64,
            misses: self.history.misses_by_set[graph.set],
            nodes: graph.nodes.iter().map(node).collect(),
            edges: edges.collect(),
            left_out: graph.left_out,
        }
    }
}

fn add(sum: &mut CodeAndData, [code, data]: [u64; 2]) {
    sum.code += code;
    sum.data += data;
}

fn code(calls: &CallGraph) -> CodeGraph {
    let pages = calls.pages.iter().map(|page| CodePage {
        start: page.page.start().to_string(),
        owner: calls.owners.get(page.owner).name(),
        file_offset: page.file_offset.map(|offset| format!("{offset:#x}")),
        instructions: page.instructions,
    });
    let call = |call: &pagewalk_layout::calls::Call| PageCall {
        caller: call.caller,
        callee: call.callee,
        calls: call.calls,
        instructions: call.instructions,
    };
    CodeGraph {
        instructions: calls.instructions(),
        pages: pages.collect(),
        calls: calls.calls.iter().map(call).collect(),
    }
}
