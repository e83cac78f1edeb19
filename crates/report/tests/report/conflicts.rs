//! The result of `layout analyze` as text, JSON and page.

use crate::hostile::{assert_harmless, hostile};
use pagewalk_report::TextOptions;
use pagewalk_report::conflicts::schema::*;
use pagewalk_report::conflicts::{from_json, render_html, render_text, to_json};
use pagewalk_report::schema::Host;

fn page(owner: &str, offset: Option<&str>, set: u64, evicted: u64, was_evicted: u64) -> ConflictPage {
    ConflictPage {
        start: "0x4a000".into(),
        set,
        owner: owner.into(),
        file_offset: offset.map(str::to_owned),
        references: CodeAndData { code: 10_000, data: 500 },
        misses: CodeAndData { code: 90, data: 10 },
        evicted,
        was_evicted,
    }
}

pub fn result() -> ConflictsResult {
    let owner = |name: &str, kind: &str, evicted: u64| OwnerRow {
        evicted_own: evicted / 2,
        name: name.into(),
        kind: kind.into(),
        pages: 3,
        references: CodeAndData { code: 20_000, data: 0 },
        misses: CodeAndData { code: 180, data: 20 },
        evicted,
        was_evicted: 100,
    };
    let edge = |victim: usize, victimiser: usize, count: u64, cause: &str| GraphEdge {
        victim,
        victimiser,
        count,
        cause: cause.into(),
    };
    let array = ArrayResult {
        name: "tlb".into(),
        serves: "code and data".into(),
        sets: 4,
        ways: 2,
        index: "modulo".into(),
        replacement: "tree-plru".into(),
        references: CodeAndData { code: 20_000, data: 1000 },
        misses: CodeAndData { code: 280, data: 20 },
        compulsory: 30,
        capacity: 120,
        conflict: 150,
        spared: 7,
        evictions: Evictions { code_by_code: 250, data_by_code: 5, code_by_data: 10, data_by_data: 5 },
        variation: 1.25,
        misses_by_set: vec![10, 250, 40, 0],
        owners: vec![owner("/lib/libg.so", "object", 150), owner("[anonymous]", "anonymous", 20)],
        pages: vec![
            page("/lib/libg.so", Some("0x5c000"), 1, 120, 115),
            page("/bin/<b>program", Some("0x1000"), 1, 110, 90),
            page("[anonymous]", None, 1, 9, 10),
        ],
        pages_in_all: 40,
        graphs: vec![SetGraph {
            set: 1,
            misses: 250,
            nodes: vec![
                GraphNode { page: 0, evicted: 120, was_evicted: 115 },
                GraphNode { page: 1, evicted: 110, was_evicted: 90 },
            ],
            edges: vec![edge(1, 0, 90, "g_object_ref"), edge(0, 1, 80, "main\u{202e}</script>")],
            left_out: 12,
        }],
        dropped: 3,
    };
    ConflictsResult {
        schema: CONFLICTS_SCHEMA.into(),
        version: "0.1.0".into(),
        host: Host { cpu: "a CPU".into(), kernel: "6.1".into(), thp: "never".into() },
        trace: "t.pwt".into(),
        program: "/bin/<b>program".into(),
        command_line: vec!["program".into(), "<i>".into()],
        losses: vec!["the trace is cut off".into()],
        machine: "konireddygari_u512".into(),
        least: "1%".into(),
        arrays: vec![array],
        code: CodeGraph { instructions: 20_000, pages: Vec::new(), calls: Vec::new() },
    }
}

#[test]
fn text_tells_misses_sets_owners_and_pages() {
    let text = render_text(&result(), &TextOptions { width: 110, color: false, verbose: false });
    for part in [
        "<b>program on konireddygari_u512",
        "20.0 k instructions on 0 pages of code, measured; all else is modelled, each array alone",
        "the trace is cut off",
        "tlb, for code and data: 8 entries, 4 sets of 2 ways; simulated with LRU, where the machine has tree-plru",
        "most in 1 (250), fewest in 3 (0); coefficient of variation 1.25",
        "libg.so+0x5c000",
        "g_object_ref",
        "3 evictions are in no row",
        "/lib/libg.so",
        "can move",
        "[anonymous] 0x4a000",
        "and 37 more pages",
        "Other places could help: 50.0 % of its misses are conflicts",
        "83.3 % of all in set 1",
    ] {
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(joined.contains(part), "no {part:?} in:\n{text}");
    }
    assert!(!text.contains('\u{202e}'));
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
}

#[test]
fn few_conflicts_are_nothing_to_gain() {
    let mut result = result();
    result.arrays[0].conflict = 2;
    let text = render_text(&result, &TextOptions { width: 100, color: false, verbose: true });
    assert!(text.contains("Nothing to gain from other places: 0.67 % of its misses"), "{text}");
    let array = &mut result.arrays[0];
    (array.misses, array.graphs) = (CodeAndData::default(), Vec::new());
    array.misses_by_set = vec![0; 4];
    let text = render_text(&result, &TextOptions { width: 100, color: false, verbose: true });
    assert!(text.contains("No reference missed."), "{text}");
}

#[test]
fn json_reads_back_and_must_be_whole() {
    let result = result();
    assert_eq!(from_json(&to_json(&result)).unwrap(), result);
    type Breach = fn(&mut ArrayResult);
    let breaches: [Breach; 5] = [
        |array| _ = array.misses_by_set.pop(),
        |array| array.graphs[0].set = 4,
        |array| array.graphs[0].nodes[0].page = 3,
        |array| array.graphs[0].edges[0].victim = 2,
        |array| array.graphs[0].edges[1].victimiser = 9,
    ];
    for breach in breaches {
        let mut broken = result.clone();
        breach(&mut broken.arrays[0]);
        let error = from_json(&to_json(&broken)).unwrap_err().to_string();
        assert!(error.contains("array \"tlb\""), "{error}");
    }
    assert!(from_json(&to_json(&result).replace("conflicts/1", "conflicts/9")).is_err());
}

#[test]
fn the_page_is_whole_and_safe() {
    let page = render_html(&result());
    for part in [
        "<h3 class=\"scripted\">Misses of each set</h3><div class=\"sets\" id=\"sets-0\"></div>",
        "&lt;b&gt;program on konireddygari_u512",
        "50.0",
        "/lib/libg.so <span class=\"tag measured\">can move</span>",
        "libg.so+0x5c000",
        "id=\"pagewalk-conflicts\"",
    ] {
        assert!(page.contains(part), "no {part:?}");
    }
    assert!(!page.contains("<b>") && !page.contains("<i>program") && !page.contains("{{"));
    assert_eq!(page.matches("</script>").count(), 2, "the island's and the script's own");
    assert!(
        !page.contains("http://") || page.matches("http://").count() == page.matches("www.w3.org").count()
    );
}

#[test]
fn no_text_of_a_file_becomes_markup() {
    for kept in [&["schema"][..], &["schema", "kind"]] {
        assert_harmless(&render_html(&from_json(&hostile(&to_json(&result()), kept)).unwrap()));
    }
}
