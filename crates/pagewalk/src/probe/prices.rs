//! Prices from a probe: each figure as measured, or its usual value.

use pagewalk_live::probe::usual_figures::{LAST_LEVEL_ENTRIES, usually};
use pagewalk_report::Class;
use pagewalk_report::huge_pages::schema::AssumedFigure;
use pagewalk_report::probe::ProbeResult;

/// A figure in nanoseconds. For a measured figure, low and high equal the value: the spread between a probe's repeats
/// says little about another program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// The best estimate.
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// A figure that could not be measured, and the value assumed for it.
#[derive(Clone, Debug, PartialEq)]
pub struct AssumedPrice {
    /// The probe's name for it.
    pub figure: String,
    /// Its unit: `ns` or `entries`.
    pub unit: &'static str,
    /// The assumed value, with bounds.
    pub price: Price,
    /// Why it was not measured.
    pub why: String,
}

/// Time of a walk at one of the probe's footprints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WalkTimes {
    /// Footprint in bytes.
    pub bytes: u64,
    /// Nanoseconds per walk if each waits for the one before.
    pub alone: Price,
    /// Nanoseconds per walk with as many at once as were measured.
    pub together: Price,
}

/// Reads prices from a probe, and collects what it had to assume.
pub struct ProbePrices<'a> {
    result: &'a ProbeResult,
    /// Assumed values so far.
    pub assumed: Vec<AssumedPrice>,
}

/// Footprints that probes measure.
const FOOTPRINTS: [(&str, u64); 3] = [("32m", 32 << 20), ("256m", 256 << 20), ("1g", 1 << 30)];
/// Numbers of concurrent chains, the most telling first.
const TOGETHER: [u32; 3] = [8, 4, 2];

fn name_of(footprint: &str, chains: u32) -> String {
    format!("walk_extra.{footprint}.chains_{chains}")
}

impl<'a> ProbePrices<'a> {
    pub fn new(result: &'a ProbeResult) -> ProbePrices<'a> {
        ProbePrices { result, assumed: Vec::new() }
    }

    /// A figure's value; none if it is missing, refused, or not above 0.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.result.figure(name).and_then(|figure| figure.value).filter(|&value| value > 0.0)
    }

    /// A figure as measured, or its usual value.
    pub fn price(&mut self, name: &str) -> Price {
        if let Some(value) = self.value(name) {
            return Price { value, low: value, high: value };
        }
        let price = self.assumed(name);
        let why = self.result.figure(name).and_then(|figure| figure.refused.clone());
        self.assumed.push(AssumedPrice {
            figure: name.to_owned(),
            unit: "ns",
            price,
            why: why.unwrap_or_else(|| "the probe does not have it".to_owned()),
        });
        price
    }

    /// The usual value, narrowed by the repeats' range if they agree with it; otherwise the repeats win.
    fn assumed(&self, name: &str) -> Price {
        let usual = usually(name).expect("all that is asked for has a usual value");
        let (mut low, mut high) = (usual.low, usual.high);
        let shown = self.result.figure(name).and_then(|figure| figure.low.zip(figure.high));
        if let Some((least, most)) = shown.filter(|(_, most)| *most > 0.0) {
            let agrees = least <= high && most >= low;
            (low, high) =
                if agrees { (low.max(least), high.min(most)) } else { (least.max(most / 100.0), most) };
        }
        Price { value: usual.value.clamp(low, high), low, high }
    }

    /// Walk times at each footprint with any measurement, smallest first; with none, usual values for all.
    pub fn walks(&mut self) -> Vec<WalkTimes> {
        let asked = self.footprints();
        asked.into_iter().map(|footprint| self.walk(footprint)).collect()
    }

    /// Walk times at the footprint nearest to `bytes`, among those measured best.
    pub fn nearest_walk(&mut self, bytes: u64) -> WalkTimes {
        let distance = |of: u64| (bytes.max(1) as f64 / of as f64).log2().abs();
        let is_partly = |footprint| self.alone(footprint).is_none() || self.together(footprint).is_none();
        let order = |&(footprint, of): &(&'static str, u64)| (is_partly(footprint), distance(of));
        let asked = self.footprints().into_iter();
        let nearest = asked.min_by(|a, b| {
            let (a, b) = (order(a), order(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        self.walk(nearest.expect("there is one, measured or usual"))
    }

    fn alone(&self, footprint: &str) -> Option<f64> {
        self.value(&name_of(footprint, 1))
    }

    fn together(&self, footprint: &str) -> Option<f64> {
        TOGETHER.into_iter().find_map(|chains| self.value(&name_of(footprint, chains)))
    }

    /// Footprints with any measurement; all if there is none.
    fn footprints(&self) -> Vec<(&'static str, u64)> {
        let is_known = |footprint| self.alone(footprint).or(self.together(footprint)).is_some();
        let known: Vec<_> = FOOTPRINTS.into_iter().filter(|&(footprint, _)| is_known(footprint)).collect();
        if known.is_empty() { FOOTPRINTS.to_vec() } else { known }
    }

    fn walk(&mut self, (footprint, bytes): (&str, u64)) -> WalkTimes {
        let alone = self.price(&name_of(footprint, 1));
        let together = match self.together(footprint) {
            Some(value) => Price { value, low: value, high: value },
            None => self.price(&name_of(footprint, TOGETHER[0])),
        };
        // A walk among many takes no longer than one alone.
        let most = |price: f64| price.min(alone.value);
        let together =
            Price { value: most(together.value), low: most(together.low), high: most(together.high) };
        WalkTimes { bytes, alone: Price { low: alone.low.max(together.value), ..alone }, together }
    }

    /// Entries for base pages in the last TLB level.
    pub fn entries(&mut self) -> u32 {
        let base = self.result.tlbs.iter().filter(|tlb| tlb.page == "4K");
        let entries = base.map(|tlb| tlb.entries.unwrap_or(tlb.assumed.entries)).max();
        entries.unwrap_or_else(|| {
            let value = LAST_LEVEL_ENTRIES as f64;
            self.assumed.push(AssumedPrice {
                figure: "tlb.4k.entries".to_owned(),
                unit: "entries",
                price: Price { value, low: value / 2.0, high: value * 2.0 },
                why: "no TLB for 4 KB pages was seen".to_owned(),
            });
            LAST_LEVEL_ENTRIES
        }) as u32
    }
}

/// Advice about figures that were not measured.
const REMEDY: &str = "for surer figures take a probe with nothing else running: pagewalk probe -o probe.json, then \
     --probe probe.json";

/// As text: assumed values; empty if all were measured.
pub fn assumed_lines(assumed: &[AssumedPrice]) -> Vec<String> {
    let line = |assumed: &AssumedPrice| {
        let AssumedPrice { figure, unit, price: Price { value, low, high }, why } = assumed;
        format!("{figure} is assumed, not measured: {value:.0} {unit} ({low:.0} to {high:.0}); {why}")
    };
    let mut lines: Vec<String> = assumed.iter().map(line).collect();
    if !lines.is_empty() {
        lines.push(format!("with what is assumed intervals are wider; {REMEDY}"));
    }
    lines
}

/// The same as data.
pub fn assumed_values(assumed: &[AssumedPrice]) -> Vec<AssumedFigure> {
    let value = |assumed: &AssumedPrice| {
        let AssumedPrice { figure, unit, price: Price { value, low, high }, why } = assumed.clone();
        // Neither measured nor a bound.
        AssumedFigure { figure, class: Class::Modelled, unit: unit.to_owned(), value, low, high, why }
    };
    assumed.iter().map(value).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use pagewalk_report::probe::from_json;
    use serde_json::json;

    /// A probe with these figures; ranges are 80 to 120 % of the value, or 10 to 30 without one.
    pub fn probe(figures: &[(&str, Option<f64>)]) -> ProbeResult {
        let figure = |(name, value): &(&str, Option<f64>)| {
            let (low, high) = value.map_or((10.0, 30.0), |value| (value * 0.8, value * 1.2));
            json!({ "name": name, "title": "", "unit": "ns", "class": "measured", "repeats": 9, "value": value,
                    "low": low, "high": high, "cycles": null,
                    "refused": value.is_none().then_some("the noise hides it") })
        };
        let document = json!({
            "schema": "pagewalk.probe/1", "version": "0", "host": { "cpu": "", "kernel": "", "thp": "" },
            "surroundings": { "cpu": 0, "cpus_allowed": [0], "hypervisor": false, "tsc_ghz": 1.0, "tsc_constant": true,
                              "available_bytes": 0, "load": null },
            "quick": false, "seconds": 1.0, "tlbs": [], "figures": figures.iter().map(figure).collect::<Vec<_>>(),
            "curves": [], "notes": [],
        });
        from_json(&document.to_string()).expect("it is one")
    }

    #[test]
    fn what_was_measured_is_taken_as_it_is() {
        let result = probe(&[("collapse.2m", Some(4.0))]);
        let mut probed = ProbePrices::new(&result);
        assert_eq!(probed.price("collapse.2m"), Price { value: 4.0, low: 4.0, high: 4.0 });
        assert!(probed.assumed.is_empty() && assumed_lines(&probed.assumed).is_empty());
    }

    #[test]
    fn what_is_missing_is_as_usual_within_what_was_seen() {
        let mut result = probe(&[("walk_extra.32m.chains_1", None)]);
        let mut probed = ProbePrices::new(&result);
        let usual = usually("walk_extra.32m.chains_1").unwrap();
        assert_eq!(
            probed.price("walk_extra.32m.chains_1"),
            Price { value: usual.value, low: 10.0, high: 30.0 }
        );
        let never = usually("fault.anonymous_4k").unwrap();
        let found = probed.price("fault.anonymous_4k");
        assert_eq!((found.value, found.low, found.high), (never.value, never.low, never.high));
        assert_eq!(probed.assumed.len(), 2);
        assert_eq!(probed.assumed[0].why, "the noise hides it");
        // Repeats that all disagree with the usual value win.
        (result.figures[0].low, result.figures[0].high) = (Some(100.0), Some(300.0));
        let found = ProbePrices::new(&result).price("walk_extra.32m.chains_1");
        assert_eq!((found.value, found.low, found.high), (100.0, 100.0, 300.0));
        // As after a difference lost in noise.
        (result.figures[0].low, result.figures[0].high) = (Some(-5.0), Some(20.0));
        let found = ProbePrices::new(&result).price("walk_extra.32m.chains_1");
        assert_eq!((found.value, found.low, found.high), (usual.value, usual.low, 20.0));
    }

    #[test]
    fn a_footprint_counts_if_anything_of_it_was_measured() {
        let result = probe(&[
            ("walk_extra.32m.chains_1", None),
            ("walk_extra.32m.chains_8", Some(3.0)),
            ("walk_extra.256m.chains_1", Some(80.0)),
            ("walk_extra.1g.chains_1", None),
        ]);
        let mut probed = ProbePrices::new(&result);
        let walks = probed.walks();
        assert_eq!(walks.iter().map(|walk| walk.bytes >> 20).collect::<Vec<_>>(), [32, 256]);
        let missing: Vec<&str> = probed.assumed.iter().map(|assumed| &*assumed.figure).collect();
        assert_eq!(missing, ["walk_extra.32m.chains_1", "walk_extra.256m.chains_8"]);
        for WalkTimes { alone, together, .. } in walks {
            assert!(together.value <= alone.value && together.low <= together.high, "{together:?} {alone:?}");
        }
    }

    #[test]
    fn the_nearest_footprint_is_one_that_was_measured_whole() {
        let result = probe(&[
            ("walk_extra.32m.chains_1", Some(40.0)),
            ("walk_extra.32m.chains_4", Some(8.0)),
            ("walk_extra.256m.chains_1", None),
            ("walk_extra.256m.chains_8", Some(9.0)),
        ]);
        let mut probed = ProbePrices::new(&result);
        assert_eq!(probed.nearest_walk(200 << 20).bytes, 32 << 20);
        assert!(probed.assumed.is_empty());
        let nothing = probe(&[]);
        let mut probed = ProbePrices::new(&nothing);
        assert_eq!(probed.nearest_walk(200 << 20).bytes, 256 << 20);
        assert_eq!(probed.assumed.len(), 2);
    }

    #[test]
    fn of_nothing_all_is_usual() {
        let result = probe(&[]);
        let mut probed = ProbePrices::new(&result);
        assert_eq!(probed.walks().len(), FOOTPRINTS.len());
        assert_eq!(probed.entries(), LAST_LEVEL_ENTRIES as u32);
        assert_eq!(probed.assumed.len(), 2 * FOOTPRINTS.len() + 1);
        let lines = assumed_lines(&probed.assumed);
        assert!(
            lines[0].starts_with("walk_extra.32m.chains_1 is assumed, not measured: 15 ns (5 to 60)"),
            "{lines:?}"
        );
        assert!(lines.last().unwrap().contains("pagewalk probe -o probe.json"), "{lines:?}");
        assert_eq!(assumed_values(&probed.assumed)[0].low, 5.0);
    }
}
