use super::*;
use pagewalk_report::schema::{Metrics, Number};
use pagewalk_report::sweep::schema::SweepTrace;

fn cell(trace: usize, machine: &str, layout: (&str, Option<u64>), conflicts: u64) -> MachineCell {
    MachineCell {
        trace,
        machine: machine.to_owned(),
        layout: Some(layout.0.to_owned()),
        layout_seed: layout.1,
        metrics: Metrics::from([("conflicts".to_owned(), Number::Count(conflicts))]),
        ..MachineCell::default()
    }
}

/// Two machines' conflicts on one trace: as recorded, in a good layout, a bad one, and three draws.
fn result(machines: &[(&str, [u64; 6])]) -> SweepResult {
    let trace = SweepTrace { name: "t".to_owned(), thp: "never".to_owned(), ..SweepTrace::default() };
    let layouts = [RECORDED, "good", "bad", "random", "random", "random"];
    let of_machine = |(machine, conflicts): &(&str, [u64; 6])| {
        let of = |(number, (layout, conflicts)): (usize, (&str, u64))| {
            cell(0, machine, (layout, number.checked_sub(3).map(|draw| draw as u64)), conflicts)
        };
        layouts.into_iter().zip(*conflicts).enumerate().map(of).collect::<Vec<_>>()
    };
    SweepResult {
        traces: vec![trace],
        machines: machines.iter().flat_map(of_machine).collect(),
        ..SweepResult::default()
    }
}

fn part(layout: &str, draws: Option<DrawFigure>, reduction_from: Option<&str>) -> Cell {
    Cell::Machine {
        machine: None,
        os: None,
        structure: None,
        layout: Some(layout.to_owned()),
        draws,
        reduction_from: reduction_from.map(str::to_owned),
        parameters: Parameters::new(),
        metrics: vec!["conflicts".to_owned()],
        times: 1.0,
        best: None,
    }
}

fn compare(upper: Cell, lower: Cell, least: f64) -> ComparisonSpec {
    ComparisonSpec {
        title: String::new(),
        source: String::new(),
        said: String::new(),
        upper,
        less: None,
        lower,
        base: Some(part(RECORDED, None, None)),
        least: Some(least),
        most: None,
        on: TraceQuorum::Average,
        traces: Vec::new(),
        machines: vec!["a".to_owned(), "b".to_owned()],
        provided: Some(Precondition {
            upper: part(RECORDED, None, None),
            lower: Cell::Number(1.0),
            least: Some(50.0),
            most: None,
        }),
        strict: true,
    }
}

#[test]
fn reductions_are_compared_machine_by_machine() {
    let of = |layout: &str| part(layout, None, Some(RECORDED));
    let both = result(&[("a", [100, 20, 80, 90, 70, 130]), ("b", [200, 100, 180, 1, 2, 3])]);
    let found = evaluate(&compare(of("good"), of("bad"), 4.3), &both);
    let parts: Vec<_> =
        found.found.iter().map(|one| (one.machine.as_deref(), one.upper, one.lower)).collect();
    assert_eq!(parts, [(Some("a"), 0.8, 0.2), (Some("b"), 0.5, 0.1)]);
    assert!(found.agrees && found.left_out.is_empty(), "0.65 to 0.15 on average");
    assert!(!super::evaluate(&compare(of("good"), of("bad"), 4.4), &both).agrees);
}

#[test]
fn a_figure_is_taken_from_the_upper_one() {
    let both = result(&[("a", [100, 20, 80, 0, 0, 0]), ("b", [100, 90, 80, 0, 0, 0])]);
    let mut spec = compare(part("bad", None, None), part(RECORDED, None, None), 0.5);
    spec.less = Some(part("good", None, None));
    let found = evaluate(&spec, &both);
    let parts: Vec<_> = found.found.iter().map(|one| (one.upper, one.lower, one.agrees)).collect();
    assert_eq!(parts, [(0.6, 1.0, true), (-0.1, 1.0, false)]);
}

fn left_out(machine: &str, why: &str) -> SkippedCase {
    SkippedCase { trace: 0, machine: Some(machine.to_owned()), why: why.to_owned() }
}

#[test]
fn what_lacks_a_figure_is_left_out() {
    let both = result(&[("a", [100, 20, 80, 0, 0, 0]), ("b", [100, 20, 80, 0, 0, 0])]);
    let found = evaluate(&compare(part("no-such", None, None), part("bad", None, None), 0.0), &both);
    assert_eq!(found.left_out, [left_out("a", "it lacks a figure"), left_out("b", "it lacks a figure")]);
    assert!(found.found.is_empty() && !found.agrees);
}

#[test]
fn any_reduction_is_more_than_none() {
    let of = |layout: &str| part(layout, None, Some(RECORDED));
    let worse = result(&[("a", [100, 99, 130, 0, 0, 0]), ("b", [100, 100, 100, 0, 0, 0])]);
    let agrees = |upper, lower| evaluate(&compare(of(upper), of(lower), 2.0), &worse).agrees;
    assert!(agrees("good", "bad") && !agrees("bad", "bad"));
}

#[test]
fn draws_are_chosen_and_conditions_leave_out() {
    let both = result(&[("a", [100, 0, 0, 90, 70, 130]), ("b", [49, 0, 0, 5, 6, 7])]);
    for (draws, expected) in [(DrawFigure::Least, 0.7), (DrawFigure::Median, 0.9), (DrawFigure::Most, 1.3)] {
        let found =
            evaluate(&compare(part("random", Some(draws), None), part(RECORDED, None, None), 0.0), &both);
        assert_eq!(found.found.iter().map(|one| one.upper).collect::<Vec<_>>(), [expected]);
        assert_eq!(found.left_out, [left_out("b", "`provided` does not hold")]);
    }
}

/// For each value of the key the selected draw, and of those the least.
#[test]
fn the_best_value_is_the_one_whose_draw_is_least() {
    let key = "tlb.l2.entries";
    let draws = |value: i64, conflicts: [u64; 3]| {
        (0..3).zip(conflicts).map(move |(seed, conflicts)| MachineCell {
            parameters: Parameters::from([(key.to_owned(), Value::Integer(value))]),
            ..cell(0, "a", ("random", Some(seed)), conflicts)
        })
    };
    let mut all = result(&[]);
    all.machines = draws(512, [10, 90, 100]).chain(draws(1024, [60, 70, 80])).collect();
    let best = |draws, place| match part("random", Some(draws), None) {
        Cell::Machine { layout, draws, parameters, metrics, times, .. } => Cell::Machine {
            machine: Some("a".to_owned()),
            os: None,
            structure: None,
            layout,
            draws,
            reduction_from: None,
            parameters,
            metrics,
            times,
            best: Some(BestValue { key: key.to_owned(), place }),
        },
        other => other,
    };
    for (of, figure, place) in [
        (DrawFigure::Median, 70.0, 1024.0),
        (DrawFigure::Least, 10.0, 512.0),
        (DrawFigure::Most, 80.0, 1024.0),
    ] {
        assert_eq!(best(of, false).value(&all, 0, None), Some(figure));
        assert_eq!(best(of, true).value(&all, 0, None), Some(place));
    }
}

#[test]
fn a_program_that_was_killed_stands_beside_nothing() {
    let mut both = result(&[("a", [100, 20, 80, 0, 0, 0]), ("b", [100, 20, 80, 0, 0, 0])]);
    let good = both.machines.iter_mut().find(|cell| cell.layout.as_deref() == Some("good")).unwrap();
    good.metrics.insert("kernel.killed_at".to_owned(), Number::Count(7));
    let found = evaluate(&compare(part("good", None, None), part("bad", None, None), 0.0), &both);
    assert_eq!(found.left_out, [left_out("a", "killed")]);
    assert_eq!(found.found.iter().map(|one| one.machine.as_deref()).collect::<Vec<_>>(), [Some("b")]);
}
