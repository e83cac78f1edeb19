//! The page: its data equals `--json`, names cannot become markup, it loads nothing, it is readable without
//! scripts.

use crate::fixtures;
use crate::hostile::{assert_harmless, hostile};
use crate::page::{data, views, without_scripts};
use pagewalk_report::schema::{Number, RunResult, WhatIf};
use pagewalk_report::{from_json, render_html, to_json};

fn island(page: &str) -> &str {
    let start = "<script type=\"application/json\" id=\"pagewalk-result\">";
    let from = page.find(start).expect("the page has an island") + start.len();
    &page[from..from + page[from..].find("</script>").expect("the island ends")]
}

#[test]
fn the_island_equals_the_json() {
    for (_, result) in fixtures::all() {
        let page = render_html(&result);
        let data = island(&page);
        assert!(!data.contains('<'));
        assert_eq!(from_json(data).unwrap(), result);
        assert_eq!(to_json(&from_json(data).unwrap()), to_json(&result));
        assert_eq!(data.replace("\\u003c", "<"), to_json(&result));
    }
}

#[test]
fn the_same_result_is_the_same_page() {
    assert_eq!(render_html(&fixtures::many_processes()), render_html(&fixtures::many_processes()));
}

#[test]
fn names_cannot_become_markup() {
    let page = render_html(&fixtures::hostile());
    let shown = without_scripts(&page);
    assert!(!shown.contains("<img"), "a name became an element");
    assert!(!shown.contains("<!--"));
    assert!(!shown.contains('\u{202e}') && !shown.contains('\u{1b}'));
    assert!(shown.contains("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&lt;!--\\u{1b}[2J\\u{202e}"));
    let mut benign = fixtures::cpython();
    benign.processes[0].attribution.groups = fixtures::threads().processes.swap_remove(0).attribution.groups;
    let benign = render_html(&benign);
    assert_eq!(
        page.matches("</script>").count(),
        benign.matches("</script>").count(),
        "a name ended a script"
    );
    assert_eq!(shown.matches("<td").count(), without_scripts(&benign).matches("<td").count());
}

#[test]
fn a_name_that_looks_like_a_placeholder_stays_a_name() {
    let page = render_html(&fixtures::hostile());
    assert!(without_scripts(&page).contains("{{island}}&quot;&#39;&amp;"));
    assert_eq!(page.matches("id=\"pagewalk-result\">").count(), 1);
    assert!(!render_html(&fixtures::cpython()).contains("{{"));
}

#[test]
fn the_page_asks_for_nothing() {
    let page = render_html(&fixtures::cpython()).replace("\"http://www.w3.org/2000/svg\"", "");
    for outside in ["http:", "https:", "<link", "@import", "url(", "src=", "fetch("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn the_finding_the_figures_and_the_tables_need_no_scripts() {
    let shown = without_scripts(&render_html(&fixtures::cpython()));
    for text in [
        "python3.11 spends 6.83 % of its modelled cycles on page walks: 1.96 M walks in 602 M instructions",
        "mark it <code>MADV_HUGEPAGE</code> (malloc&#39;s: <code>GLIBC_TUNABLES=glibc.malloc.hugetlb=1</code>).",
        "<div class=\"value\">602 M</div>",
        "<span class=\"tag measured\">measured</span>",
        "a perfect TLB <span class=\"tag bound\">bound</span>",
        "from instruction 12.3 M",
        "<td class=\"name\">l1d</td><td>1</td><td>load, store</td><td>4K</td><td>64 × 4-way</td>",
        "pde (32 × 4-way, 91.0 % hits)",
        "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz",
        "Glossary",
    ] {
        assert!(shown.contains(text), "missing: {text}");
    }
}

#[test]
fn several_processes_are_listed_costliest_first() {
    let shown = without_scripts(&render_html(&fixtures::many_processes()));
    assert!(shown.contains("122 process images ran"));
    assert!(shown.contains(
        "<td class=\"name\">cc1<span class=\"sub\">cc1 -quiet unit39.c -O2</span></td>\
         <td class=\"number\">318</td>"
    ));
    assert!(shown.contains("and 82 more"));
    assert!(shown.contains("pid 401: the last 3 chunks of the stream: the process was killed"));
    let one = without_scripts(&render_html(&fixtures::cpython()));
    assert!(!one.contains("process images ran"));
}

#[test]
fn programs_that_take_turns_are_named_without_their_command_lines() {
    let shown = without_scripts(&render_html(&fixtures::together()));
    assert!(shown.contains("<code>gups + sort</code> (interleaved, "));
}

#[test]
fn kernels_stand_in_the_place_of_alternatives() {
    let shown = without_scripts(&render_html(&fixtures::kernels()));
    for text in [
        "<section id=\"kernels\"><h2>fixed:page=64K: 79.3 % of the cost of address translation is gone</h2>",
        "<h3>any-size <span class=\"tag modelled\">modelled</span></h3>",
        "<tr class=\"emphasis\"><td class=\"name\">host</td>",
        "<td class=\"number\" data-word=\"change\">−90.1 %</td>",
        "<td class=\"number\" data-word=\"kernel cyc/instr.\">0.5359</td>",
        "<span class=\"sub\">bookkeeping 0.24, copying 0.30</span>",
        "<span class=\"sub\">copying 0.013, rest 0.062</span>",
        "<td class=\"number\" data-word=\"never touched\">3.43 MiB</td>",
        "<span class=\"price\">25.6 %<span class=\"bar\"><i class=\"memory\" style=\"width:100.00%\">",
        "a perfect TLB <span class=\"tag bound\">bound</span>",
        "<span class=\"key cut\"></span>longer than drawn</span>",
        "<span class=\"sub\">killed at instruction 61.2 M: no frame for 4 KiB</span>",
        "The finding leaves out faults, clearing, files and flushes: not all kernels charge them.",
    ] {
        assert!(shown.contains(text), "missing: {text}");
    }
    assert!(!shown.contains("id=\"what-if\"") && shown.contains("<a href=\"#what-if\" hidden>"));
    assert_eq!(shown.matches("<div class=\"bar cut\">").count(), 2, "ONLINE on each machine is cut");
    let without = without_scripts(&render_html(&fixtures::cpython()));
    assert!(without.contains("<section id=\"what-if\">") && !without.contains("id=\"kernels\""));
}

#[test]
fn classes_of_misses_have_a_section() {
    let shown = without_scripts(&render_html(&fixtures::software()));
    for text in [
        "<section id=\"classes\"><h2>Misses by class</h2>",
        "<td class=\"name\">l1k</td><td>a mapped page of the kernel</td><td class=\"number\">16.1 k</td>\
         <td class=\"number\">12.5 %</td><td class=\"number\">0.49</td><td class=\"number\">294</td>\
         <td class=\"picture\"><div class=\"bar\"><i style=\"width:42.1%\"></i></div></td>\
         <td class=\"number\">4.72 M</td><td class=\"number\">42.1 %</td>",
        "<td class=\"name\">modify</td><td>first store to a page</td><td class=\"number\">0</td>\
         <td class=\"number\">0 %</td><td class=\"number\">0</td><td class=\"number\">–</td>",
        "<tr class=\"emphasis\"><td class=\"name\">all</td>",
    ] {
        assert!(shown.contains(text), "missing: {text}");
    }
    assert!(!without_scripts(&render_html(&fixtures::cpython())).contains("id=\"classes\""));
    let mut without_misses = fixtures::software();
    for name in ["l1u", "l1k", "l2", "l3", "invalid", "modify"] {
        let metrics = &mut without_misses.processes[0].machines[0].metrics;
        metrics.insert(format!("misses.{name}"), Number::Count(0));
        metrics.insert(format!("miss_cycles.{name}"), Number::Count(0));
    }
    assert!(!without_scripts(&render_html(&without_misses)).contains("a mapped page of the kernel"));
}

#[test]
fn designs_stand_side_by_side_with_cycles_and_energy() {
    let shown = without_scripts(&render_html(&fixtures::sides()));
    for text in [
        "<section id=\"designs\">",
        "<tr class=\"emphasis\"><td class=\"name\">karakostas_4k</td><td class=\"number\">12.0</td>",
        "<td class=\"picture\"><div class=\"bar\"><i style=\"width:100.0%\"></i></div></td>\
         <td class=\"number\">644 M</td><td class=\"number\">–</td>",
        "<td class=\"number\">−99.8 %</td><td class=\"picture\"><div class=\"bar\"><i class=\"memory\" \
         style=\"width:28.7%\"></i></div></td><td class=\"number\">3.22</td><td class=\"number\">−64.3 %</td>",
    ] {
        assert!(shown.contains(text), "missing: {text}");
    }
    assert!(!without_scripts(&render_html(&fixtures::cpython())).contains("id=\"designs\""));
}

/// Other bounds are named before the perfect TLB, or instead of it.
#[test]
fn only_a_perfect_tlb_says_what_a_perfect_tlb_saves() {
    let card = |result: &RunResult| {
        let page = render_html(result);
        let (_, card) = page.split_once("Perfect TLB saves").unwrap();
        let (_, value) = card.split_once("<div class=\"value\">").unwrap();
        value.split_once("</div>").unwrap().0.to_owned()
    };
    let mut result = fixtures::sides();
    assert_eq!(card(&result), "–");
    let what_if = &mut result.processes[0].what_if;
    what_if.push(WhatIf { id: "perfect_tlb".to_owned(), walk_cycles: 0, ..what_if[0].clone() });
    assert_eq!(card(&result), "3.75 %", "all of the share of walk cycles");
}

#[test]
fn names_of_kernels_and_machines_cannot_become_markup() {
    let mut result = fixtures::kernels();
    let benign = without_scripts(&render_html(&result)).matches('<').count();
    for row in &mut result.processes[0].kernels {
        for name in [&mut row.machine, &mut row.policy, &mut row.class] {
            name.push_str("<b>\"");
        }
    }
    let shown = without_scripts(&render_html(&result));
    assert!(shown.contains("asap&lt;b&gt;&quot;"));
    // Classes other than the usual one get a tag: a start and an end tag in each row.
    let rows = result.processes[0].kernels.len();
    assert_eq!(shown.matches("<b>").count(), 0);
    assert!(shown.matches('<').count() <= benign + 2 * rows);
}

/// The policy identifies the host's kernel, and ids and classes identify alternatives, so these stay unchanged.
#[test]
fn no_text_of_a_file_becomes_markup() {
    for (_, result) in fixtures::all() {
        for kept in [&["schema"][..], &["schema", "policy", "id", "class"]] {
            assert_harmless(&render_html(&from_json(&hostile(&to_json(&result), kept)).unwrap()));
        }
    }
}

#[test]
fn a_program_without_walks_and_a_run_without_processes() {
    let shown = without_scripts(&render_html(&fixtures::no_walks()));
    assert!(shown.contains("Nothing to gain here"));
    let mut nothing = fixtures::no_walks();
    nothing.processes.clear();
    let page = render_html(&nothing);
    assert!(without_scripts(&page).contains("No process was recorded."));
    assert_eq!(from_json(island(&page)).unwrap(), nothing);
}

/// The views that can be chosen are in the page's data, and the first one shown is one of them.
#[test]
fn views_of_all_processes_are_in_the_page() {
    let mut result = fixtures::many_processes();
    let last = result.processes.len() - 1;
    result.processes[last].attribution.groups = fixtures::threads().processes[0].attribution.groups.clone();
    let page = render_html(&result);
    let views = &views(&page)[0];
    assert_eq!(views.len(), result.processes.len());
    let (summary, sections) = (&views[119][0], &views[119][1]);
    assert!(
        page.contains(&format!("<section id=\"summary\" data-costliest=\"119\">\n  {summary}</section>"))
    );
    assert!(page.contains(&format!("<div id=\"sections\">\n{sections}</div>")));
    assert!(!page.contains("id=\"threads\"") && !sections.contains("id=\"threads\""));
    let (_, threads) = views[last][1].split_once("<section id=\"threads\"").expect("a section");
    let names: Vec<&str> = threads.split("<td class=\"name\">").skip(1).map(|row| &row[..1]).collect();
    assert_eq!(names[..3], ["3", "2", "1"], "the hottest is first");
    assert!(views[0][0].contains("<code>make -j2 all</code>"));
    assert!(
        !render_html(&fixtures::cpython()).contains("id=\"pagewalk-views\""),
        "one process needs no other view"
    );
}

#[test]
fn groups_of_a_run_have_sections() {
    for (id, title, rows) in [
        (
            "by-process",
            "Walks by process",
            &["./gups (pid 811)", "/usr/bin/sort (pid 812)", "server unix", "kernel of mach3"][..],
        ),
        ("cores", "Walks by core", &["0", "1"]),
    ] {
        let page = render_html(&fixtures::together());
        let (_, section) =
            page.split_once(&format!("<section id=\"{id}\"><h2>{title}</h2>")).expect("a section");
        let (section, _) = section.split_once("</section>").expect("it ends");
        let cells = section.split("<td class=\"name\">").skip(1);
        let names: Vec<&str> = cells.filter_map(|cell| Some(cell.split_once("</td>")?.0)).collect();
        assert_eq!(names, rows);
        assert!(section.contains("<i class=\"fetch\" style=\"width:0.0"), "{section}");
    }
}

/// Hundreds of processes, sixteen of them in full, as the command keeps them.
#[test]
fn a_page_of_400_processes_is_small() {
    let result = fixtures::build(400);
    let page = render_html(&result);
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    assert_eq!(from_json(&data(&page, "pagewalk-result")).unwrap(), result);
    assert_eq!(views(&page)[0].len(), 400);
}
