//! The result of a sweep as Parquet, JSON, text, page and pictures.

use crate::hostile::{assert_harmless, hostile};
use pagewalk_report::TextOptions;
use pagewalk_report::schema::{Metrics, Number};
use pagewalk_report::sweep::schema::*;
use pagewalk_report::sweep::{from_json, pictures, render_html, render_text, to_json, to_parquet};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

pub fn trace(name: &str) -> SweepTrace {
    SweepTrace {
        name: name.to_owned(),
        program: format!("/usr/bin/{name}"),
        command_line: vec![name.to_owned(), "<b>&".to_owned()],
        fingerprint: "00".to_owned(),
        thp: "never".to_owned(),
        instructions: 1_000_000,
        references_data: 400_000,
        ..SweepTrace::default()
    }
}

fn machine(trace: usize, entries: i64, replacement: &str, walks: u64) -> MachineCell {
    let parameters = [
        ("tlb.l2.entries".to_owned(), Value::Integer(entries)),
        ("tlb.l2.replacement".to_owned(), Value::Text(replacement.to_owned())),
    ];
    let metrics = Metrics::from([
        ("walks".to_owned(), Number::Count(walks)),
        ("tlb.level1.misses".to_owned(), Number::Count(3 * walks)),
        ("walks_per_kilo_instruction".to_owned(), Number::Real(walks as f64 / 1000.0)),
        ("walk_cycle_share".to_owned(), Number::Real(0.25)),
    ]);
    MachineCell {
        trace,
        machine: "k8".to_owned(),
        parameters: parameters.into(),
        metrics,
        ..MachineCell::default()
    }
}

fn family(trace: usize) -> FamilyCell {
    let size = |page_size: &str, shift: u32| FamilySize {
        page_size: page_size.to_owned(),
        page_bytes: 1 << shift,
        sets: vec![1, 2, 4],
        ways: vec![1, 2, 3, 4],
        misses: vec![vec![4000, 2000, 1500, 1000], vec![2000, 1000, 500, 400], vec![900, 400, 0, 0]],
    };
    FamilyCell {
        trace,
        serves: "data".to_owned(),
        references: 400_100,
        sizes: vec![size("4K", 12), size("2M", 21)],
    }
}

fn caches(trace: usize) -> CacheFamilyCell {
    CacheFamilyCell {
        trace,
        serves: "data".to_owned(),
        line_bytes: 64,
        references: 400_100,
        sets: vec![8, 16],
        ways: vec![1, 2, 3],
        compulsory: 1000,
        capacity: vec![vec![8000, 7000, 6500], vec![7000, 6000, 5500]],
        conflict: vec![vec![500, 200, 0], vec![250, -1500, 0]],
    }
}

fn curve(trace: usize, method: Method, errors: &[f64]) -> CurveCell {
    CurveCell {
        trace,
        serves: "data".to_owned(),
        references: 400_100,
        method,
        entries: vec![1, 2, 4],
        misses: vec![4000.0, 2000.0, 1000.5],
        standard_errors: errors.to_vec(),
    }
}

pub fn result() -> SweepResult {
    let found = |trace, upper, agrees| TraceQuotient { trace, machine: None, upper, lower: 1000.0, agrees };
    SweepResult {
        schema: SWEEP_SCHEMA.to_owned(),
        version: "0.1.0".to_owned(),
        name: "s".to_owned(),
        title: "A <study>".to_owned(),
        traces: vec![trace("one"), trace("two")],
        machines: vec![
            machine(0, 512, "lru", 100),
            machine(0, 1024, "fifo", 50),
            machine(1, 512, "lru", 7),
            machine(1, 1024, "fifo", 0),
        ],
        families: vec![family(0)],
        cache_families: vec![caches(0)],
        curves: vec![
            curve(0, Method::Exact, &[]),
            curve(0, Method::FixedRate { rate: 0.1 }, &[100.0, 50.0, 20.5]),
        ],
        comparisons: vec![Comparison {
            title: "Halving".to_owned(),
            source: "somebody 1994".to_owned(),
            said: "3 to 5".to_owned(),
            least: Some(3.0),
            most: Some(5.0),
            on: "some".to_owned(),
            strict: false,
            found: vec![found(0, 4000.0, true), found(1, 1500.0, false)],
            left_out: Vec::new(),
            agrees: true,
        }],
        ..SweepResult::default()
    }
}

/// The table, row by row, by column.
fn table(bytes: Vec<u8>) -> Vec<std::collections::BTreeMap<String, Field>> {
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| {
        row.unwrap().get_column_iter().map(|(name, field)| (name.clone(), field.clone())).collect()
    })
    .collect()
}

#[test]
fn every_number_is_a_row_of_the_table() {
    let table = table(to_parquet(&result()).unwrap());
    // Four metrics of four cells; two page sizes of 12 shapes and a sum; three of six caches, and two sums; twice three
    // points and a sum.
    assert_eq!(table.len(), 16 + 25 + 20 + 8);
    let text = |text: &str| Field::Str(text.to_owned());
    let row = table
        .iter()
        .find(|row| {
            row["trace"] == text("two") && row["metric"] == text("walks") && row["count"] == Field::Long(7)
        })
        .unwrap();
    assert_eq!((&row["kind"], &row["machine"]), (&text("machine"), &text("k8")));
    assert_eq!((&row["tlb.l2.entries"], &row["tlb.l2.replacement"]), (&Field::Long(512), &text("lru")));
    assert_eq!((&row["value"], &row["sets"]), (&Field::Double(7.0), &Field::Null));
    let row = table
        .iter()
        .find(|row| {
            row["page_bytes"] == Field::Long(1 << 21)
                && (&row["sets"], &row["ways"]) == (&Field::Long(4), &Field::Long(2))
        })
        .unwrap();
    assert_eq!((&row["kind"], &row["count"]), (&text("family"), &Field::Long(400)));
    assert_eq!((&row["entries"], &row["machine"]), (&Field::Long(8), &Field::Null));
    let sampled: Vec<_> = table.iter().filter(|row| row["kind"] == text("sampled_curve")).collect();
    assert_eq!((&sampled[3]["count"], &sampled[3]["value"]), (&Field::Null, &Field::Double(1000.5)));
    assert_eq!(sampled[3]["standard_error"], Field::Double(20.5));
    let of = |metric: &str, column: &str| {
        table.iter().find(|row| row["metric"] == text(metric)).map(|row| row[column].clone())
    };
    assert_eq!((of("walks", "class"), of("walks", "unit")), (Some(text("modelled")), Some(Field::Null)));
    assert_eq!(of("misses", "class"), Some(text("modelled")));
    assert_eq!(of("references", "class"), Some(text("measured")));
}

#[test]
fn json_reads_back() {
    let result = result();
    assert_eq!(from_json(&to_json(&result)).unwrap(), result);
    let other = from_json("{\"schema\": \"pagewalk.result/1\"}").unwrap_err().to_string();
    assert!(other.contains("pagewalk.result/1") && other.contains(SWEEP_SCHEMA), "{other}");
}

/// Results come from files, which may contain anything.
#[test]
fn a_result_that_contradicts_itself_is_refused() {
    let changed = |change: fn(&mut SweepResult)| {
        let mut result = result();
        change(&mut result);
        from_json(&to_json(&result)).unwrap_err().to_string()
    };
    let why = changed(|result| result.cache_families[0].trace = 9);
    assert!(why.contains("cache_families: there is no trace 9"), "{why}");
    let why = changed(|result| result.families[0].trace = 7);
    assert!(why.contains(SWEEP_SCHEMA) && why.contains("families: there is no trace 7"), "{why}");
    assert!(changed(|result| result.machines[0].trace = 7).contains("machines: there is no trace 7"));
    assert!(changed(|result| result.curves[0].trace = 7).contains("curves: there is no trace 7"));
    assert!(
        changed(|result| result.comparisons[0].found[0].trace = 7)
            .contains("comparisons: there is no trace 7")
    );
    let why = changed(|result| result.curves[0].serves = "\"><script>".to_owned());
    assert!(why.contains("serves = ") && why.contains("data, fetches, everything"), "{why}");
    // More entries than addresses give a useless picture, but still a picture.
    let mut result = result();
    *result.curves[0].entries.last_mut().unwrap() = u64::MAX;
    assert!(render_html(&result).contains("</svg>"));
}

#[test]
fn text_shows_all_kinds() {
    let options = |verbose| TextOptions { width: 100, color: false, verbose };
    let text = render_text(&result(), &options(false));
    for part in [
        "A <study>",
        "instructions are measured; all else is modelled",
        "1024            fifo",
        "data on 4K pages",
        "1 way",
        "0.25 % ± 0.01 %",
        "one 4.00 ×, (two 1.50 ×)",
        "agrees, asked for on some traces: from 3 to 5",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    assert!(!text.contains("2M") && render_text(&result(), &options(true)).contains("data on 2M pages"));
}

#[test]
fn what_is_not_compared_is_told_with_the_reason() {
    let mut result = result();
    result.traces[1].turns = Some("turns of 500 instructions".to_owned());
    let skipped = |trace, why: &str| SkippedCase { trace, machine: None, why: why.to_owned() };
    let comparison = &mut result.comparisons[0];
    (comparison.agrees, comparison.found) = (false, Vec::new());
    comparison.left_out = vec![skipped(0, "killed"), skipped(1, "it lacks a figure")];
    let text = render_text(&result, &TextOptions { width: 200, color: false, verbose: false });
    let names = [0, 1].map(|trace| result.traces[trace].name.clone());
    let told = format!("left out: {} (killed); {} (it lacks a figure)", names[0], names[1]);
    for (document, of_turns) in [
        (text, "instructions, in turns of 500 instructions"),
        (render_html(&result), " in turns of 500 instructions"),
    ] {
        assert!(document.contains(&told) && document.contains("nothing to compare"), "{document}");
        assert!(document.contains(of_turns), "{document}");
    }
}

#[test]
fn the_page_is_whole_and_asks_for_nothing() {
    let page = render_html(&result());
    assert!(page.contains("<h1>A &lt;study&gt;</h1>") && page.contains("&lt;b&gt;&amp;"));
    assert!(!page.contains("<study>") && !page.contains("{{") && !page.contains("<script>"));
    assert!(!page.contains("http://") || !page.replace("http://www.w3.org/2000/svg", "").contains("http://"));
    let island = page.split("id=\"pagewalk-sweep\">").nth(1).unwrap().split("</script>").next().unwrap();
    assert_eq!(from_json(island).unwrap(), result());
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    // Two heat maps, their legend, and the curves.
    assert_eq!(page.matches("<svg").count(), 4);
}

#[test]
fn pictures_are_files_of_their_own() {
    let files = pictures(&result());
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["family-one-data-4K.svg", "family-one-data-2M.svg", "curve-one.svg"]);
    for file in &files {
        assert!(file.svg.starts_with("<svg") && file.svg.contains("<style>"), "{}", file.name);
    }
    assert!(files[0].svg.contains("4 × 2 = 8 entries: 400 misses, 0.40 per 1000 instructions"));
}

/// A machine under two kernels of its own, of which the second takes less time and more memory.
fn under_kernels() -> SweepResult {
    let under = |trace: usize, os: &str, walks: u64, own: u64, backed: u64| {
        let cycles = 30 * walks + own;
        let counts = [
            ("walks", walks),
            ("walk_cycles", 30 * walks),
            ("kernel.cycles", own),
            ("kernel.copy_cycles", own),
        ];
        let mut metrics: Metrics =
            counts.map(|(name, value)| (name.to_owned(), Number::Count(value))).into_iter().collect();
        metrics.insert("instructions".to_owned(), Number::Count(1_000_000));
        metrics.insert("kernel.backed_bytes_peak".to_owned(), Number::Count(backed));
        metrics.insert("total_cycles".to_owned(), Number::Real((1_000_000 + 30 * walks) as f64));
        metrics.insert("tlb_mcpi".to_owned(), Number::Real(cycles as f64 / 1e6));
        MachineCell {
            trace,
            machine: "m".to_owned(),
            os: Some(os.to_owned()),
            metrics,
            ..MachineCell::default()
        }
    };
    let row =
        PublishedRow { name: "coral".to_owned(), values: vec!["1,205,951".to_owned(), "<b>".to_owned()] };
    let table = PublishedTable {
        title: "Misses, hundreds".to_owned(),
        source: "somebody 1998".to_owned(),
        beside: "misses".to_owned(),
        columns: vec!["FIXED".to_owned(), "ONLINE".to_owned()],
        rows: vec![row],
    };
    let machines = vec![
        under(0, "small <pages>", 100_000, 0, 4 << 20),
        under(0, "large", 0, 1_000_000, 5 << 20),
        under(1, "small <pages>", 0, 0, 4 << 20),
        under(1, "large", 0, 50_000_000, 4 << 20),
    ];
    SweepResult { machines, families: Vec::new(), curves: Vec::new(), published: vec![table], ..result() }
}

#[test]
fn kernels_stand_beside_one_another_and_beside_the_source() {
    let result = under_kernels();
    assert_eq!(from_json(&to_json(&result)).unwrap(), result);
    let page = render_html(&result);
    for part in
        ["small &lt;pages&gt;", "50.0 %", "25.0 %", "−5000.0 %", "1,205,951", "&lt;b&gt;", "somebody 1998"]
    {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("<b>") && !page.contains("<pages>") && !page.contains("NaN"));
    let names: Vec<String> = pictures(&result).into_iter().map(|file| file.name).collect();
    assert_eq!(names, ["cycles-m-one.svg", "memory-m-one.svg", "cycles-m-two.svg", "memory-m-two.svg"]);
    let text = render_text(&result, &TextOptions { width: 140, color: false, verbose: false });
    assert!(text.contains("large") && text.contains("50.0 %"), "{text}");
    let rows = table(to_parquet(&result).unwrap());
    assert!(rows.iter().any(|row| row["os"] == Field::Str("large".to_owned())));
}

/// Every part of a page: machines, families, curves, comparisons, plots of each kind, kernels, layouts.
#[test]
fn no_text_of_a_file_becomes_markup() {
    let plot = |x: &str, y: &str| Plot {
        title: x.to_owned(),
        source: y.to_owned(),
        x: x.to_owned(),
        y: vec![y.to_owned()],
        lines: Some("trace".to_owned()),
        at: Parameters::new(),
        logarithmic: false,
    };
    let mut plotted = result();
    plotted.plots = vec![plot("tlb.l2.entries", "walks"), plot(Plot::MACHINE, "walks")];
    let mut laid = result();
    laid.machines.iter_mut().for_each(|cell| cell.layout = Some("recorded".to_owned()));
    for result in [result(), plotted, under_kernels(), laid] {
        for kept in [&["schema", "serves", "method"][..], &["schema", "serves", "method", "x", "y", "beside"]]
        {
            assert_harmless(&render_html(&from_json(&hostile(&to_json(&result), kept)).unwrap()));
        }
    }
    let mut keyed = result();
    keyed.machines[0].parameters.insert("<meta http-equiv=refresh>".to_owned(), Value::Integer(1));
    assert!(!render_html(&keyed).contains("<meta http-equiv=refresh"));
}

#[test]
fn caches_of_one_size_share_a_row() {
    let result = result();
    let text = render_text(&result, &TextOptions { width: 120, verbose: false, color: false });
    let row = |text: &str, size: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(size));
        line.unwrap_or_else(|| panic!("{text}")).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    // 1,000 compulsory and 7,000 capacity misses, 250 and 200 of conflict, in a million instructions.
    assert_eq!(row(&text, "1 KiB"), ["1", "KiB", "8.00", "8.25", "8.20", "–"]);
    assert_eq!(row(&text, "1.50 KiB"), ["1.50", "KiB", "7.50", "–", "–", "7.50"]);
    assert!(text.contains("1.00 compulsory") && !text.contains("512 B"), "{text}");
    let verbose = render_text(&result, &TextOptions { width: 120, verbose: true, color: false });
    let conflict = &verbose[verbose.find("of these conflict misses").unwrap()..];
    assert_eq!(row(conflict, "2 KiB"), ["2", "KiB", "7.00", "–", "−1.50", "–"]);
    let page = render_html(&result);
    assert!(page.contains("id=\"caches\"") && page.contains("8.25<span class=\"sub\">+0.25</span>"));
}
