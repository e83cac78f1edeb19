//! Arithmetic of Uhlig et al. 1994: the machine's prices times the published counts are the published times.

use pagewalk_translate::{MachineSpec, MissClass, SoftwareCounts, SoftwareSpec};

/// Nanoseconds of a cycle: section 3.3.
const CYCLE: f64 = 60.0;

const R2000: &str = include_str!("../../../machines/mips_r2000.toml");

fn system(name: &str) -> SoftwareSpec {
    let text = R2000.replace("system = \"ultrix\"", &format!("system = \"{name}\""));
    MachineSpec::from_toml("mips_r2000", &text).unwrap().software().unwrap().clone()
}

/// Table V: l1u, l1k, l2, l3, invalid, modify; run time in seconds.
const COUNTS: [(&str, [u64; 6], f64); 5] = [
    ("ultrix", [9_021_420, 135_847, 3_828, 0, 16_191, 115], 583.0),
    ("osf1", [9_817_502, 1_509_973, 34_972, 207_163, 79_299, 42_490], 892.0),
    ("mach3", [21_466_165, 1_682_722, 352_713, 556_264, 165_849, 125_409], 975.0),
    ("mach3_afs_in", [30_123_212, 2_493_283, 330_803, 690_441, 168_429, 127_245], 1371.0),
    ("mach3_afs_out", [31_611_047, 2_712_979, 1_042_527, 987_648, 168_128, 127_505], 1517.0),
];

const COLUMNS: [MissClass; 6] =
    [MissClass::L1u, MissClass::L1k, MissClass::L2, MissClass::L3, MissClass::Invalid, MissClass::Modify];

/// Seconds by class in the order of the tables.
fn seconds(system_name: &str, counts: [u64; 6]) -> [f64; 6] {
    let spec = system(system_name);
    let mut charged = SoftwareCounts::default();
    for (class, events) in COLUMNS.into_iter().zip(counts) {
        charged.charge(&spec, class, events);
    }
    assert_eq!(charged.unpriced(&spec), None);
    COLUMNS.map(|class| charged.cycles[class as usize] as f64 * CYCLE / 1e9)
}

/// To the two decimals of the tables.
fn printed(seconds: f64) -> f64 {
    (seconds * 100.0).round() / 100.0
}

/// Target 1: tables II and VI.
#[test]
fn uhlig_1994_table_6_times() {
    let expected = [
        [8.66, 2.71, 0.11, 0.0, 0.33, 0.0],
        [11.78, 32.16, 1.07, 4.40, 1.32, 1.11],
        [25.76, 29.68, 8.61, 9.55, 2.66, 3.75],
        [36.15, 43.98, 8.08, 11.85, 2.70, 3.81],
        [37.93, 47.86, 25.46, 16.95, 2.69, 3.82],
    ];
    let totals = [11.82, 51.85, 80.01, 106.56, 134.71];
    for (((name, counts, _), expected), total) in COUNTS.into_iter().zip(expected).zip(totals) {
        let found = seconds(name, counts);
        assert_eq!(found.map(printed), expected, "{name}");
        assert_eq!(printed(found.iter().sum()), total, "{name}");
    }
}

/// Target 2: tables II and VI.
#[test]
fn uhlig_1994_ratios_and_shares() {
    let total = |(name, counts, _): (&str, [u64; 6], f64)| seconds(name, counts).iter().sum::<f64>();
    // The ratios are of the printed times.
    let ratios = COUNTS.map(|system| printed(printed(total(system)) / printed(total(COUNTS[0]))));
    assert_eq!(ratios, [1.0, 4.39, 6.77, 9.02, 11.40]);
    let shares = COUNTS.map(|system| printed(100.0 * total(system) / system.2));
    assert_eq!(shares, [2.03, 5.81, 8.21, 7.77, 8.88]);
}

/// Target 3: table VII.
#[test]
fn uhlig_1994_table_7_vectored_refill() {
    let (name, counts, _) = COUNTS[3];
    let before = seconds(name, counts);
    let after = seconds("mach3_afs_in_vectored", counts);
    assert_eq!(after.map(printed), [36.15, 2.99, 0.79, 11.85, 2.70, 3.81]);
    assert_eq!([before, after].map(|times| printed(times.iter().sum())), [106.56, 58.29]);
    let saved = |class: usize| (100.0 * (1.0 - after[class] / before[class])).round();
    assert_eq!((saved(1), saved(2)), (93.0, 90.0));
}
