//! Studies of layouts under kernels, in structures and on cores, as text, page and pictures.

use crate::golden::check_golden;
use crate::sweep::{result, trace};
use pagewalk_report::TextOptions;
use pagewalk_report::schema::{Metrics, Number};
use pagewalk_report::sweep::schema::*;
use pagewalk_report::sweep::{pictures, render_html, render_text};

/// Each layout with the seed of its draw and its walks on one core.
const LAYOUTS: [(&str, Option<u64>, u64); 5] = [
    ("recorded", None, 40_000),
    ("found", None, 30_000),
    ("drawn", Some(1), 50_000),
    ("drawn", Some(2), 36_000),
    ("drawn", Some(3), 44_000),
];

fn cell(os: &str, structure: &str, cores: i64, layout: (&str, Option<u64>, u64)) -> MachineCell {
    let (name, seed, walks) = layout;
    let walks = walks * cores.unsigned_abs();
    let mut metrics = Metrics::from([
        ("instructions".to_owned(), Number::Count(1_000_000)),
        ("walks".to_owned(), Number::Count(walks)),
        ("walk_cycles".to_owned(), Number::Count(30 * walks)),
        ("total_cycles".to_owned(), Number::Real((1_000_000 + 30 * walks) as f64)),
        ("tlb_mcpi".to_owned(), Number::Real(30.0 * walks as f64 / 1e6)),
    ]);
    if (os, structure, cores) == ("host", "none", 1) {
        metrics.insert("last_level.conflict_misses".to_owned(), Number::Count(walks / 2));
        metrics.insert("last_level.fully_associative_misses".to_owned(), Number::Count(walks / 2));
        metrics.insert("last_level.l2.misses_per_set_variation".to_owned(), Number::Real(0.5));
        metrics.insert("last_level.l2.most_involved_page_share".to_owned(), Number::Real(0.25));
    }
    if os != "host" {
        metrics.insert("kernel.cycles".to_owned(), Number::Count(100_000));
        metrics.insert("kernel.backed_bytes_peak".to_owned(), Number::Count(4 << 20));
    }
    if (os, structure) == ("small", "mach3") {
        metrics.insert("kernel.killed_at".to_owned(), Number::Count(9_470_000));
        metrics.insert("kernel.killed_for_bytes".to_owned(), Number::Count(4096));
    }
    MachineCell {
        machine: "konireddygari_u512".to_owned(),
        os: Some(os.to_owned()),
        structure: Some(structure.to_owned()),
        layout: Some(name.to_owned()),
        layout_seed: seed,
        parameters: [("cores".to_owned(), Value::Integer(cores))].into(),
        metrics,
        ..MachineCell::default()
    }
}

fn of(machines: Vec<MachineCell>) -> SweepResult {
    SweepResult {
        traces: vec![trace("one")],
        machines,
        families: Vec::new(),
        cache_families: Vec::new(),
        curves: Vec::new(),
        comparisons: Vec::new(),
        ..result()
    }
}

/// Layouts under some kernels, in both structures and on both numbers of cores.
fn under(kernels: &[&str]) -> SweepResult {
    let mut machines = Vec::new();
    for cores in [1, 2] {
        for os in kernels {
            for structure in ["none", "mach3"] {
                machines.extend(LAYOUTS.map(|layout| cell(os, structure, cores, layout)));
            }
        }
    }
    of(machines)
}

fn text(result: &SweepResult, width: usize) -> String {
    render_text(result, &TextOptions { width, color: false, verbose: false })
}

/// The part of a page in a section.
fn section(result: &SweepResult, id: &str) -> String {
    let page = render_html(result);
    let from = page.find(&format!("<section id=\"{id}\">"));
    from.map_or(String::new(), |from| page[from..].split("</section>").next().unwrap().to_owned())
}

#[test]
fn rows_name_kernel_structure_and_parameters_apart() {
    check_golden("layout-study.txt", &text(&under(&["host", "linux"]), 140));
    let page = section(&under(&["host", "linux"]), "layouts");
    for title in ["kernel", "structure", "cores", "layout"] {
        assert!(page.contains(&format!("<th scope=\"col\">{title}</th>")), "{title} in\n{page}");
    }
    // The median, and the range below it.
    assert!(page.contains(">44.0 k<span class=\"sub\">36.0 k…50.0 k</span></td>"), "{page}");
}

#[test]
fn figures_that_only_some_rows_have_are_dashes_in_the_others_and_those_of_none_are_left_out() {
    let page = section(&under(&["host"]), "layouts");
    let row = page.split("<tr><td").find(|row| row.contains(">mach3</td>")).unwrap();
    assert_eq!(row.matches("<td class=\"number\">–</td>").count(), 5, "{row}");
    let mut result = under(&["host"]);
    result.machines.retain(|cell| cell.structure.as_deref() == Some("mach3"));
    let told = format!("{}{}", text(&result, 140), section(&result, "layouts"));
    assert!(told.contains("to recorded"), "{told}");
    for title in ["conflict", "fully associative", "variation over sets", "most involved page"] {
        assert!(!told.contains(title), "{title} in\n{told}");
    }
}

#[test]
fn killed_programs_are_told_and_compare_with_nothing() {
    let result = under(&["linux", "small"]);
    check_golden("layout-study-killed.txt", &text(&result, 100));
    let killed = "killed at instruction 9.47 M: no frame for 4 KiB";
    let layouts = section(&result, "layouts");
    assert_eq!(layouts.matches(&format!("konireddygari_u512<span class=\"sub\">{killed}</span>")).count(), 6);
    // Two tables of figures and the bars, for three layouts on one core and on two.
    let kernels = section(&result, "kernels");
    assert_eq!(kernels.matches(&format!("<td class=\"number\">{killed}</td>")).count(), 2 * 6);
    assert_eq!(kernels.matches(&format!("text-anchor=\"start\">{killed}</text>")).count(), 6);
    let mut bare = result;
    bare.machines.retain(|cell| cell.layout.as_deref() == Some("found"));
    bare.machines.iter_mut().for_each(|cell| cell.layout = None);
    let remark =
        "small on konireddygari_u512, mach3, cores = 1; on konireddygari_u512, mach3, cores = 2 was killed";
    assert!(text(&bare, 200).contains(remark), "{}", text(&bare, 200));
    assert!(section(&bare, "machines").contains(killed));
}

/// The picture of walks under each layout.
fn picture(result: &SweepResult) -> Option<String> {
    let file = pictures(result).into_iter().find(|file| file.name == "layouts-one.svg")?;
    Some(file.svg)
}

#[test]
fn layouts_are_drawn_against_the_recorded_one_or_not_at_all() {
    let mut result = under(&["host", "small"]);
    let svg = picture(&result).unwrap();
    assert!(svg.contains(">konireddygari_u512, host, mach3, cores = 1</text>"), "{svg}");
    assert!(!svg.contains("small, mach3"), "a killed program has no ratio:\n{svg}");
    assert!(
        svg.contains("<title>drawn by seed 2: 0.90</title>") && section(&result, "layouts").contains("<svg")
    );
    // 43 letters need more room than the usual 190.
    let ends = svg.split("text-anchor=\"end\">konireddygari_u512, host, mach3, cores = 1<").next().unwrap();
    let at: f64 = ends.rsplit(" x=\"").next().unwrap().split('"').next().unwrap().parse().unwrap();
    assert!(at > 6.0 * 40.0, "{at}");
    result.machines.retain(|cell| cell.layout.as_deref() != Some("recorded"));
    assert_eq!(picture(&result), None);
    let layouts = section(&result, "layouts");
    assert!(layouts.contains(">44.0 k") && !layouts.contains("<svg"), "{layouts}");
}

#[test]
fn draws_of_a_layout_are_one_machine_under_kernels() {
    let result = under(&["linux", "other"]);
    let kernels = section(&result, "kernels");
    assert!(!kernels.contains("by seed"), "{kernels}");
    let title = "konireddygari_u512, none, drawn (3), cores = 1";
    let row =
        "<td class=\"unbroken\">one</td><td class=\"number\">44.0 k</td><td class=\"number\">44.0 k</td>";
    let of_draws = kernels.split("<table>").find(|table| table.contains(title)).unwrap();
    assert!(of_draws.contains(row), "{of_draws}");
    // Two structures, two numbers of cores, three layouts.
    assert_eq!(kernels.matches("Cycles of translation per instruction by kernel").count(), 12);
    assert_eq!(pictures(&result).iter().filter(|file| file.name.starts_with("cycles-")).count(), 12);
}

#[test]
fn a_draw_whose_program_was_killed_stands_for_all() {
    let mut result = under(&["linux", "other"]);
    let drawn = |cell: &&mut MachineCell| cell.layout_seed == Some(2) && cell.os.as_deref() == Some("other");
    for cell in result.machines.iter_mut().filter(drawn) {
        cell.metrics.insert("kernel.killed_at".to_owned(), Number::Count(1000));
        cell.metrics.insert("kernel.killed_for_bytes".to_owned(), Number::Count(4096));
    }
    let kernels = section(&result, "kernels");
    // In four machines: walks, cycles, and the bar.
    assert_eq!(kernels.matches("killed at instruction 1.00 k: no frame for 4 KiB").count(), 4 * 3);
}

#[test]
fn nothing_is_headed_that_has_no_picture() {
    let plane = "<h3>Cycles and memory</h3>";
    assert!(section(&under(&["linux", "other"]), "kernels").contains(plane));
    let mut result = under(&["linux", "small"]);
    let killed = section(&result, "kernels");
    let planes = &killed[killed.find(plane).unwrap()..];
    assert!(planes.contains("none") && !planes.contains("mach3"), "{planes}");
    result.machines.retain(|cell| cell.structure.as_deref() == Some("mach3"));
    assert!(!section(&result, "kernels").contains(plane));
}

const HOSTS_WORK: &str = "The work of the host's kernel is not counted.";
const HOSTS_MEMORY: &str = "Memory under the host's kernel is not counted.";

#[test]
fn what_is_not_counted_of_the_host_is_told_where_it_is_among_the_kernels() {
    let told = |kernels: &[&str]| {
        let page = section(&under(kernels), "kernels");
        let titles = ["Run time saved", "Cycles for each instruction", "Memory backed", "Where cycles go"];
        let about = |title: &&str| {
            let lead = page.split(&format!("<h3>{title}</h3>")).nth(1)?.split("</p>").next().unwrap();
            Some((lead.contains(HOSTS_WORK), lead.contains(HOSTS_MEMORY)))
        };
        titles.each_ref().map(about)
    };
    let (work, memory, neither) = (Some((true, false)), Some((false, true)), Some((false, false)));
    assert_eq!(told(&["linux", "other"]), [neither; 4]);
    assert_eq!(told(&["linux", "host"]), [None, work, None, work], "nothing compares with the other kernel");
    assert_eq!(
        told(&["host", "linux", "other"]),
        [None, work, None, work],
        "nothing compares with the first"
    );
    assert_eq!(told(&["linux", "other", "host"]), [work, work, memory, work]);
}

#[test]
fn tables_without_layouts_tell_it_too() {
    let bare = |kernels: &[&str]| {
        let mut result = under(kernels);
        result.machines.retain(|cell| cell.layout.as_deref() == Some("found"));
        result.machines.iter_mut().for_each(|cell| cell.layout = None);
        (text(&result, 140), section(&result, "machines"))
    };
    let (text, page) = bare(&["linux", "other"]);
    assert!(
        text.contains("memory backed") && !text.contains(HOSTS_WORK) && !page.contains(HOSTS_WORK),
        "{text}"
    );
    let (text, page) = bare(&["host", "linux"]);
    assert!(text.contains(HOSTS_WORK) && page.contains(HOSTS_WORK), "{text}");
    assert!(!text.contains("time saved") && !text.contains("emory"), "{text}");
    let (text, _) = bare(&["linux", "host"]);
    assert!(text.contains(&format!("{HOSTS_WORK} {HOSTS_MEMORY}")), "{text}");
}

/// A plot of the studies below, with a line for each value of a key.
fn plot(x: &str, y: &str, lines: &str) -> Plot {
    Plot {
        title: "A plot".to_owned(),
        source: String::new(),
        x: x.to_owned(),
        y: vec![y.to_owned()],
        lines: Some(lines.to_owned()),
        at: Parameters::new(),
        logarithmic: false,
    }
}

#[test]
fn panels_without_a_point_are_left_out() {
    let mut result = under(&["host", "linux"]);
    result.plots = vec![plot("cores", "last_level.conflict_misses", "layout")];
    let plots = section(&result, "plots");
    assert!(plots.contains(">none, host</text>"), "{plots}");
    assert_eq!(plots.matches("<svg").count(), 1, "no other kernel or structure has it:\n{plots}");
    result.plots[0].y = vec!["nothing".to_owned()];
    let plots = section(&result, "plots");
    assert!(plots.contains("No machine has nothing here.") && !plots.contains("<svg"), "{plots}");
    assert!(!pictures(&result).iter().any(|file| file.name.starts_with("plot-")));
}

#[test]
fn panels_and_lines_name_the_key_of_a_value() {
    let mut result = under(&["host"]);
    result.machines.retain(|cell| cell.structure.as_deref() == Some("none"));
    for (index, cell) in result.machines.iter_mut().enumerate() {
        let entries = if index % 2 == 0 { 64 } else { 256 };
        cell.parameters.insert("tlb.l2.entries".to_owned(), Value::Integer(entries));
    }
    result.plots = vec![plot("tlb.l2.entries", "walks", "cores")];
    let plots = section(&result, "plots");
    for line in [">cores 1</text>", ">cores 2</text>", ">recorded</text>"] {
        assert!(plots.contains(line), "{line} in\n{plots}");
    }
    result.plots = vec![plot("cores", "walks", "tlb.l2.entries")];
    assert!(section(&result, "plots").contains(">entries 256</text>"));
    result.plots = vec![plot("tlb.l2.entries", "walks", "layout")];
    assert!(
        section(&result, "plots")
            .contains("class=\"strong\" x=\"0.0\" y=\"13.0\" text-anchor=\"start\">cores 2<")
    );
    let names: Vec<String> = pictures(&result).into_iter().map(|file| file.name).collect();
    assert!(names.iter().any(|name| name == "plot-1-cores_2.svg"), "{names:?}");
}

/// `small` is killed in `mach3`.
#[test]
fn plots_leave_killed_programs_out_and_say_so() {
    let mut result = under(&["linux", "small"]);
    let found = [("layout".to_owned(), Value::Text("found".to_owned()))];
    // Panels: one for each kernel and structure, of which one has no point.
    result.plots = vec![Plot { at: found.clone().into(), ..plot("cores", "walks", "layout") }];
    assert_eq!(section(&result, "plots").matches("<svg").count(), 3);
    // One for each structure.
    result.plots = vec![Plot { at: found.into(), ..plot("cores", "walks", "os") }];
    let plots = section(&result, "plots");
    assert_eq!((plots.matches("<svg").count(), plots.matches(">small</text>").count()), (2, 1), "{plots}");
    assert_eq!(plots.matches(">walks (left out: 2 killed programs)</text>").count(), 1, "{plots}");
    result.machines.retain(|cell| cell.parameters["cores"] == Value::Integer(1));
    assert!(section(&result, "plots").contains(">walks (left out: one killed program)</text>"));
}
