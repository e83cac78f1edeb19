//! The result of `layout plan` as text.

use pagewalk_report::TextOptions;
use pagewalk_report::layout_plan::render_text;
use pagewalk_report::layout_plan::schema::*;

fn result() -> LayoutPlanResult {
    let machine = |name: &str, random: RandomLayouts| PlannedMachine {
        name: name.to_owned(),
        sets: 128,
        recorded: 20_000,
        planned: 15_000,
        fully_associative: 14_000,
        random,
    };
    let drawn = RandomLayouts { count: 30, least: 0.9, median: 1.1, most: 1.5 };
    LayoutPlanResult {
        schema: LAYOUT_PLAN_SCHEMA.to_owned(),
        version: "0.1.0".to_owned(),
        trace: "t.pwt".to_owned(),
        program: "/bin/program".to_owned(),
        planner: "search".to_owned(),
        did: "moved one".to_owned(),
        losses: Vec::new(),
        machines: vec![machine("one", drawn), machine("other", RandomLayouts::default())],
        objects: Vec::new(),
        left: 0,
    }
}

#[test]
fn what_is_estimated_is_told_from_what_is_modelled() {
    let text = render_text(&result(), &TextOptions { width: 120, color: false, verbose: false });
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split("  ").map(str::trim).collect()).collect();
    let row = |first: &str| {
        let line = lines.iter().find(|line| line.contains(&first)).unwrap();
        line.iter().copied().filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(row("machine").last(), Some(&"random (estimate)"), "{text}");
    assert_eq!(row("one").last(), Some(&"−10.0 % to +50.0 %"), "{text}");
    assert_eq!(row("other").last(), Some(&"–"), "{text}");
    assert!(
        text.contains("walks are modelled, for base pages; those of random layouts are estimated"),
        "{text}"
    );
}
