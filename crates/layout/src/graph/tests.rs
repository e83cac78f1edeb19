use super::*;
use crate::evictions::{ArraySpec, Misses, PageHistory, Side};
use crate::objects::OwnerId;
use pagewalk_setassoc::{Geometry, SetIndex};
use pagewalk_units::{VirtAddr, Vpn};

fn row(set: usize, victim: usize, victimiser: usize, side: Side, count: u64) -> Row {
    Row {
        victimiser,
        victimiser_side: side,
        victim,
        victim_side: Side::Fetch,
        set,
        count,
        cause: VirtAddr(0x1234),
        cause_count: count,
    }
}

/// Set 24 of Konireddygari's figure 3.3: B replaces A 100 times, B and C replace each other 2,500 times.
fn figure_3_3() -> ArrayHistory {
    let page = |n: u64| PageHistory {
        page: Vpn(24 + 128 * n),
        owner: OwnerId::UNKNOWN,
        file_offset: None,
        references: [0; 2],
        misses: [0; 2],
        evicted: 0,
        evicted_own: 0,
        was_evicted: 0,
    };
    ArrayHistory {
        array: ArraySpec {
            name: "tlb".into(),
            geometry: Geometry::new(512, Some(4)).unwrap(),
            index: SetIndex::Modulo,
            fetches: true,
            data: true,
        },
        references: [0; 2],
        misses_by_side: [0; 2],
        misses: Misses::default(),
        misses_by_set: vec![0; 128],
        evictions: [[0; 2]; 2],
        pages: (0..4).map(page).collect(),
        rows: vec![
            row(3, 0, 1, Side::Fetch, 9),
            row(24, 1, 2, Side::Fetch, 2500),
            row(24, 2, 1, Side::Fetch, 2000),
            row(24, 2, 1, Side::Data, 500),
            row(24, 0, 1, Side::Fetch, 100),
            row(30, 0, 1, Side::Fetch, 9),
        ],
        dropped: 0,
    }
}

/// Nodes as (page, evicted, was evicted).
type Nodes = Vec<(usize, u64, u64)>;
/// Arrows as (victim's page, victimiser's, count).
type Arrows = Vec<(usize, usize, u64)>;

fn told(graph: &EvictionGraph) -> (Nodes, Arrows) {
    let page = |node: usize| graph.nodes[node].page;
    (
        graph.nodes.iter().map(|node| (node.page, node.evicted, node.was_evicted)).collect(),
        graph.edges.iter().map(|edge| (page(edge.victim), page(edge.victimiser), edge.count)).collect(),
    )
}

#[test]
fn konireddygari_figure_3_3() {
    let history = figure_3_3();
    let all = EvictionGraph::new(&history, 24, DrawThreshold::Evictions(0));
    let nodes = vec![(1, 2600, 2500), (2, 2500, 2500), (0, 0, 100)];
    assert_eq!(told(&all), (nodes, vec![(1, 2, 2500), (2, 1, 2500), (0, 1, 100)]));
    assert_eq!(all.left_out, 0);
    // Both sides of C and B are one arrow, with the cause of the larger part.
    assert_eq!(history.rows[all.edges[1].row].count, 2000);
    // Pages that evicted fewer than 500 times are not drawn.
    let drawn = EvictionGraph::new(&history, 24, DrawThreshold::Evictions(500));
    assert_eq!(told(&drawn).1, [(1, 2, 2500), (2, 1, 2500)]);
    assert_eq!((drawn.nodes.len(), drawn.left_out), (2, 100));
}

#[test]
fn a_share_is_of_either_page() {
    let history = figure_3_3();
    // 100 is all of A's weight, though little of B's.
    let share = EvictionGraph::new(&history, 24, "50%".parse().unwrap());
    assert_eq!(share.edges.len(), 3);
    let more = EvictionGraph { left_out: 0, ..EvictionGraph::new(&history, 30, DrawThreshold::Share(1.0)) };
    assert_eq!(told(&more).1, [(0, 1, 9)]);
    assert_eq!(EvictionGraph::new(&history, 25, DrawThreshold::Share(0.0)).nodes, []);
}

#[test]
fn few_arrows_keep_their_pages() {
    let mut graph = EvictionGraph::new(&figure_3_3(), 24, DrawThreshold::Evictions(0));
    graph.edges.swap(0, 2);
    graph.truncate(1);
    assert_eq!(told(&graph), (vec![(1, 2600, 2500), (0, 0, 100)], vec![(0, 1, 100)]));
    assert_eq!(graph.left_out, 5000);
}

#[test]
fn thresholds_read_and_print() {
    for text in ["500", "5%", "0", "12.5%"] {
        assert_eq!(text.parse::<DrawThreshold>().unwrap().to_string(), text);
    }
    for text in ["", "-1", "5 percent", "101%", "-1%", "NaN%", "%"] {
        assert!(text.parse::<DrawThreshold>().is_err(), "{text}");
    }
}

#[test]
fn graphviz_gets_names_and_counts() {
    let history = figure_3_3();
    let graph = EvictionGraph::new(&history, 24, DrawThreshold::Evictions(500));
    let dot = graph.to_dot(&history, |page| format!("lib\"{page}\""), |row| format!("func{}()", row.count));
    let expected = "digraph \"tlb set 24\" {\n  node [shape=box, fontname=\"sans-serif\"];\n  \
                    edge [fontname=\"sans-serif\"];\n  \
                    p0 [label=\"lib\\\"1\\\"\\nevicted 2600, was evicted 2500\"];\n  \
                    p1 [label=\"lib\\\"2\\\"\\nevicted 2500, was evicted 2500\"];\n  \
                    p0 -> p1 [label=\"2500\\nfunc2500()\"];\n  p1 -> p0 [label=\"2500\\nfunc2000()\"];\n}\n";
    assert_eq!(dot, expected);
}

#[test]
fn a_least_share_is_told_as_it_was_given() {
    for text in ["7%", "0.1%", "33.3%", "100%", "12"] {
        assert_eq!(text.parse::<DrawThreshold>().unwrap().to_string(), text);
    }
}
