//! Runs the parts of a probe one after the other.

use super::arrays::Cycle;
use super::balloon::free_page_reporting;
use super::clock::Clock;
use super::counters;
use super::figure::{Curve, Figure, Samples};
use super::host::{self, CpuPin};
use super::kernel::Stopwatch;
use super::memory::{HUGE, available_bytes};
use super::replacement::ReplacementFinding;
use super::tlb::{BasePages, Effort, HugePages};
use super::{Probe, ProbeConditions, ProbeError, ProbeOptions, ProbedSize, caches, levels, tlb, walks};
use std::ops::ControlFlow;
use std::path::Path;

/// Most bytes of a footprint of walks.
const MOST_WALKED: u64 = 1 << 30;
/// Divisor of available memory for a footprint of walks; there are two.
const PART_WALKED: u64 = 8;
/// Most bytes of a footprint of caches.
const MOST_CACHED: u64 = 128 << 20;
/// Most relative change of the core's clock during the probe.
const STEADY: f64 = 0.05;

/// Amounts of work.
struct Amounts {
    tlb: Effort,
    /// Repeats of chases over large footprints.
    walks: usize,
    /// Their largest footprint, in bytes.
    walked: u64,
    /// Repeats of cache latencies.
    caches: usize,
    /// Their largest footprint, in bytes.
    cached: u64,
    /// Repeats of kernel costs.
    kernel: usize,
}

impl Amounts {
    fn of(quick: bool) -> Amounts {
        let walked = (available_bytes() / PART_WALKED).min(MOST_WALKED);
        if quick {
            let tlb = Effort { rounds: 9, most_pages: 4096, longest_stride: 1 << 14 };
            Amounts { tlb, walks: 33, walked: walked.min(32 << 20), caches: 33, cached: 4 << 20, kernel: 9 }
        } else {
            let tlb = Effort { rounds: 41, most_pages: u64::MAX, longest_stride: u64::MAX };
            Amounts { tlb, walks: 161, walked, caches: 101, cached: MOST_CACHED, kernel: 41 }
        }
    }
}

/// A probe in progress.
pub(super) struct Parts {
    probe: Probe,
    amounts: Amounts,
    clock: Clock,
    place: CpuPin,
    core: Samples,
}

impl Parts {
    /// Calibrates the clock and measures the core's.
    pub fn begin(options: ProbeOptions, place: CpuPin) -> Parts {
        let clock = Clock::calibrate();
        let surroundings = ProbeConditions {
            cpu: place.cpu,
            cpus_allowed: place.allowed.clone(),
            hypervisor: host::hypervisor(),
            reports_free_pages: free_page_reporting(Path::new("/sys")).is_some(),
            tsc_ghz: clock.ticks_per_ns(),
            tsc_constant: host::tsc_constant(),
            available_bytes: available_bytes(),
            load: host::load(),
        };
        let probe = Probe {
            surroundings,
            quick: options.quick,
            seconds: 0.0,
            tlbs: Vec::new(),
            figures: Vec::new(),
            curves: Vec::new(),
            notes: Vec::new(),
        };
        Parts { probe, amounts: Amounts::of(options.quick), clock, place, core: clock.core_ghz(9) }
    }

    /// Measures every part, unless `progress` says to end.
    pub fn all(&mut self, progress: &mut dyn FnMut(&str, f64) -> ControlFlow<()>) -> ControlFlow<()> {
        progress("4 KB pages", 0.0)?;
        self.base_pages();
        self.counted();
        progress("2 MB pages", 0.2)?;
        let mut huge = HugePages::new(self.clock, self.huge_pages_wanted());
        match &mut huge {
            Ok(huge) => self.huge_pages(huge),
            Err(error) => self.refuse_tlb(ProbedSize::Huge, error),
        }
        let huge = huge.and_then(|mut pages| {
            let most = self.amounts.walked.max(self.amounts.cached);
            pages.fill(most.div_ceil(HUGE as u64)).map(|()| pages)
        });
        progress("walks", 0.4)?;
        self.walks(huge.as_ref());
        progress("caches", 0.65)?;
        self.caches(huge.as_ref());
        drop(huge);
        progress("kernel", 0.8)?;
        self.kernel();
        progress("done", 1.0)
    }

    fn huge_pages_wanted(&self) -> u64 {
        if self.probe.quick { 128 } else { u64::MAX }
    }

    fn base_pages(&mut self) {
        match tlb::base_pages(self.clock, self.amounts.tlb) {
            Ok((found, replaced)) => self.found(ProbedSize::Base, &found, replaced),
            Err(error) => self.refuse_tlb(ProbedSize::Base, &error),
        }
    }

    fn huge_pages(&mut self, huge: &mut HugePages) {
        match tlb::huge_pages(huge, self.amounts.tlb) {
            Ok(found) => {
                let not_asked = ReplacementFinding::Undecided("only 4 KB pages are asked for it".to_owned());
                let replaced = vec![not_asked; found.levels.len()];
                self.found(ProbedSize::Huge, &found, replaced);
            }
            Err(error) => self.refuse_tlb(ProbedSize::Huge, &error),
        }
    }

    fn found(
        &mut self,
        page: ProbedSize,
        found: &super::arrays::TlbSearch,
        replaced: Vec<ReplacementFinding>,
    ) {
        let (curve, figures) = levels::costs(page, found);
        self.probe.tlbs.extend(levels::tlbs(page, found, replaced));
        self.probe.curves.push(curve);
        self.probe.figures.extend(figures);
    }

    fn refuse_tlb(&mut self, page: ProbedSize, why: &ProbeError) {
        self.probe.figures.extend(levels::refused(page, why));
        self.probe.notes.push(format!("the TLBs for {} pages were not measured: {why}", page.title()));
    }

    /// Walks seen by a hardware counter, if there is one.
    fn counted(&mut self) {
        let pages = self.probe.curves.first().map_or(Vec::new(), |curve| {
            curve.points.iter().step_by(4).map(|point| Cycle { pages: point.at, stride: 1 }).collect()
        });
        let counted = BasePages::new(self.clock)
            .map(|mut base| counters::walks_per_access(&pages, |cycle| base.follow(cycle)));
        match counted {
            Ok(Ok(Ok(walks))) => {
                let samples: Vec<(u64, Samples)> =
                    walks.into_iter().map(|(at, walks)| (at, [walks].into_iter().collect())).collect();
                let names =
                    ["tlb.4k.counted", "walks of an access that the hardware counted, to so many 4 KB pages"];
                let points = samples.iter().map(|(at, samples)| (*at, samples));
                self.probe.curves.push(Curve::of(names, ["pages", "walks"], points));
            }
            Ok(Err(error)) => self.probe.notes.push(counters::why_not(&error)),
            Ok(Ok(Err(error))) | Err(error) => self.probe.notes.push(error.to_string()),
        }
    }

    fn walks(&mut self, huge: Result<&HugePages, &ProbeError>) {
        let footprints = walks::footprints(self.amounts.walked);
        match walks::measure(self.clock, &footprints, self.amounts.walks, huge.ok()) {
            Ok(walks) => {
                let (curves, figures) = walks.results(huge.err());
                self.probe.curves.extend(curves);
                self.probe.figures.extend(figures);
            }
            Err(error) => self.probe.notes.push(format!("the cost of walks was not measured: {error}")),
        }
    }

    fn caches(&mut self, huge: Result<&HugePages, &ProbeError>) {
        let (curves, figures) =
            caches::results(self.clock, self.place.cpu, self.amounts.cached, self.amounts.caches, huge);
        self.probe.curves.extend(curves);
        self.probe.figures.extend(figures);
    }

    fn kernel(&mut self) {
        let measure = Stopwatch { clock: self.clock, rounds: self.amounts.kernel };
        self.probe.figures.extend([
            measure.anonymous_fault(),
            measure.file_fault(),
            measure.huge_fault(),
            measure.copy(),
            measure.collapse(),
            measure.advise(),
            measure.shootdown(&self.place),
        ]);
    }

    /// The finished probe; has cycles if the core's clock did not change.
    pub fn finish(mut self) -> Probe {
        let after = self.clock.core_ghz(9);
        let (name, title, unit) = ("core.clock", "clock of the core", "GHz");
        let [first, last] = [self.core.median(), after.median()];
        let mut clock = Figure::of(name, title, unit, &self.core.joined(after));
        if clock.refused.is_none() && (last / first - 1.0).abs() > STEADY {
            let why = format!(
                "it changed from {first:.2} to {last:.2} GHz meanwhile, so nothing is given in cycles"
            );
            clock = Figure { value: None, refused: Some(why), ..clock };
        }
        if let Some(ghz) = clock.value {
            for figure in self.probe.figures.iter_mut().filter(|figure| figure.unit == "ns") {
                figure.cycles = figure.value.map(|ns| ns * ghz);
            }
        }
        self.probe.figures.insert(0, clock);
        self.probe
    }
}
