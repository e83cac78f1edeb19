//! A probe as a result.

use pagewalk_capture::HostDescription;
use pagewalk_live::probe::{self, Probe, ProbedSize};
use pagewalk_report::probe::schema::{
    AssumedArray, Curve, Figure, PROBE_SCHEMA, Point, ProbeConditions, ProbeResult, ReplacementFinding,
    StrideConflict, TlbLevel,
};
use pagewalk_translate::MachineSpec;
use pagewalk_units::{Kind, PageSize};

/// The result, compared with `machine`.
pub fn build(probe: &Probe, host: &HostDescription, machine: Option<&MachineSpec>) -> ProbeResult {
    let HostDescription { cpu, kernel, thp } = host.clone();
    ProbeResult {
        schema: PROBE_SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: pagewalk_report::schema::Host { cpu, kernel, thp },
        surroundings: conditions(&probe.surroundings),
        quick: probe.quick,
        seconds: probe.seconds,
        tlbs: probe.tlbs.iter().map(|level| tlb(level, machine)).collect(),
        figures: probe.figures.iter().map(figure).collect(),
        curves: probe.curves.iter().map(curve).collect(),
        notes: probe.notes.clone(),
    }
}

fn conditions(around: &probe::ProbeConditions) -> ProbeConditions {
    ProbeConditions {
        cpu: around.cpu,
        cpus_allowed: around.cpus_allowed.clone(),
        hypervisor: around.hypervisor,
        reports_free_pages: around.reports_free_pages,
        tsc_ghz: around.tsc_ghz,
        tsc_constant: around.tsc_constant,
        available_bytes: around.available_bytes,
        load: around.load,
    }
}

fn tlb(level: &probe::Tlb, machine: Option<&MachineSpec>) -> TlbLevel {
    let conflict =
        |conflict: &probe::StrideConflict| StrideConflict { stride: conflict.stride, hits: conflict.hits };
    TlbLevel {
        page: match level.page {
            ProbedSize::Base => "4K",
            ProbedSize::Huge => "2M",
        }
        .to_owned(),
        level: level.level,
        entries: level.entries,
        ways: level.ways,
        between: level.between,
        refused: level.refused.clone(),
        conflicts: level.conflicts.iter().map(conflict).collect(),
        replacement: Some(replaced(&level.replacement)),
        assumed: AssumedArray { entries: level.assumed.entries, ways: level.assumed.ways },
        machine_entries: machine.and_then(|machine| entries(machine, level)),
    }
}

fn replaced(found: &probe::ReplacementFinding) -> ReplacementFinding {
    let nearest = if let probe::ReplacementFinding::Nearest(nearest) = found { Some(nearest) } else { None };
    let undecided =
        if let probe::ReplacementFinding::Undecided(why) = found { Some(why.clone()) } else { None };
    let next = nearest.and_then(|nearest| nearest.next);
    ReplacementFinding {
        policy: nearest.map(|nearest| nearest.policy.name().to_owned()),
        ways: nearest.map(|nearest| nearest.ways),
        off: nearest.map(|nearest| nearest.off),
        next: next.map(|(policy, _)| policy.name().to_owned()),
        next_off: next.map(|(_, off)| off),
        undecided,
    }
}

/// Entries of the machine's array for loads of such pages at this level.
fn entries(machine: &MachineSpec, level: &probe::Tlb) -> Option<u64> {
    let size = match level.page {
        ProbedSize::Base => PageSize::FOUR_KIB,
        ProbedSize::Huge => PageSize::TWO_MIB,
    };
    let array = machine
        .tlbs
        .iter()
        .find(|tlb| u32::from(tlb.level) == level.level && tlb.holds(size) && tlb.serves.has(Kind::Load));
    array.map(|tlb| tlb.geometry.entries() as u64)
}

fn figure(figure: &probe::Figure) -> Figure {
    Figure {
        name: figure.name.clone(),
        title: figure.title.clone(),
        unit: figure.unit.clone(),
        class: figure.class.clone(),
        repeats: figure.repeats,
        value: figure.value,
        low: figure.low,
        high: figure.high,
        cycles: figure.cycles,
        refused: figure.refused.clone(),
    }
}

fn curve(curve: &probe::Curve) -> Curve {
    let point =
        |point: &probe::Point| Point { at: point.at, value: point.value, low: point.low, high: point.high };
    Curve {
        name: curve.name.clone(),
        title: curve.title.clone(),
        at_unit: curve.at_unit.clone(),
        unit: curve.unit.clone(),
        points: curve.points.iter().map(point).collect(),
    }
}
