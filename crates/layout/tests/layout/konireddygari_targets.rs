//! What can be checked exactly of S. Konireddygari, "Measuring and Improving TLB Performance for Linux GUI
//! Applications", MS thesis, NC State University 2008: set numbers, and the arithmetic of its tables.

use pagewalk_layout::evictions::ArraySpec;
use pagewalk_setassoc::{Geometry, SetIndex};
use pagewalk_units::Vpn;

/// TLB, program; accesses and misses before, then after; miss ratios before and after, and by how much misses and
/// their ratio changed, in per cent.
///
/// Tables 4.3 to 4.8: one library moved by eviction patterns. Of Gthumb on U512 the accesses after are printed
/// without their last three digits.
const ONE_LIBRARY: &str = "
    U512 Evince     2440825239   609102  2453775228   552421 0.02495 0.02251  -9.31  -9.78
    U512 Abiword    6998081655  3109707  6990273929  2852774 0.04444 0.04081  -8.26  -8.16
    U512 Gthumb     1957182463   493741  1958059000   468913 0.02523 0.02395  -5.03  -5.07
    U256 Evince     2432596581  3366102  2457165965  2872029 0.13837 0.11688 -14.68 -15.53
    U256 Abiword    6977572797 11966085  6957123472 11337441 0.17149 0.16296  -5.25  -4.98
    U256 Gthumb     1958149042  2026559  1957018016  1984695 0.10349 0.10141  -2.07  -2.01
    I128 Evince     1566255316  1167461  1575622195  1088987 0.07454 0.06911  -6.72  -7.28
    I128 Abiword    4330240432  6895394  4305221408  6550586 0.15924 0.15215  -5.00  -4.45
    I128 Gthumb     1253874020   791188  1255493913   787931 0.06310 0.06276  -0.41  -0.54
    D128 Evince      890978634  2251358   895263366  2009389 0.25268 0.22445 -10.75 -11.17
    D128 Abiword    2646306273  4907404  2629314357  4964352 0.18544 0.18881   1.16   1.81
    D128 Gthumb      702923236  1517735   703660666  1498081 0.21592 0.21290  -1.29  -1.40
    I64  Evince     1562216950  4336542  1577635742  4328009 0.27759 0.27434  -0.20  -1.17
    I64  Abiword    4335826825 16810390  4340823503 16384778 0.38771 0.37746  -2.53  -2.64
    I64  Gthumb     1253613714  3343632  1255616965  2884001 0.26672 0.22969 -13.75 -13.88
    D64  Evince      888170929  5277293   896415162  5030958 0.59418 0.56123  -4.67  -5.54
    D64  Abiword    2649817917 11496889  2652221532 12364948 0.43387 0.46621   7.55   7.45
    D64  Gthumb      702651903  3643586   703799087  3619820 0.51855 0.51433  -0.65  -0.81
";

/// Tables 4.9 to 4.14: all libraries placed by the call graph.
const CALL_GRAPH: &str = "
    U512 Evince     2440825239   609102  2493092468   675382 0.02495 0.02709  10.88   8.56
    U512 Abiword    6998081655  3109707  6943165650  3306917 0.04444 0.04763   6.34   7.18
    U512 Gthumb     1957182463   493741  1957757267   488084 0.02523 0.02493  -1.15  -1.17
    U512 Gcalctool 10302050488   892587 10317161194  1085857 0.00866 0.01052  21.65  21.47
    U256 Evince     2432596581  3366102  2466145691  2462219 0.13837 0.09984 -26.85 -27.85
    U256 Abiword    6977572797 11966085  6927738289 12440600 0.17149 0.17958   3.97   4.71
    U256 Gthumb     1958149042  2026559  1957960886  1885401 0.10349 0.09629  -6.97  -6.96
    U256 Gcalctool 10291653021  8183581 10310440397 10821483 0.07952 0.10496  32.23  31.99
    I128 Evince     1566255316  1167461  1568440670  1028631 0.07454 0.06558 -11.89 -12.01
    I128 Abiword    4330240432  6895394  4265969510  6440247 0.15924 0.15097  -6.60  -5.19
    I128 Gthumb     1253874020   791188  1256111153   718884 0.06310 0.05723  -9.14  -9.30
    I128 Gcalctool  6434091484  5081368  6477231581  4665743 0.07898 0.07203  -8.18  -8.79
    D128 Evince      890978634  2251358   907951938  1995101 0.25268 0.21974 -11.38 -13.04
    D128 Abiword    2646306273  4907404  2607129388  5180330 0.18544 0.19870   5.56   7.15
    D128 Gthumb      702923236  1517735   704228286  1458420 0.21592 0.20709  -3.91  -4.09
    D128 Gcalctool  3849406916  5018408  3826300213  4980255 0.13037 0.13016  -0.76  -0.16
    I64  Evince     1562216950  4336542  1574408827  4086406 0.27759 0.25955  -5.77  -6.50
    I64  Abiword    4335826825 16810390  4306619272 15845033 0.38771 0.36792  -5.74  -5.10
    I64  Gthumb     1253613714  3343632  1255383279  2959370 0.26672 0.23573 -11.49 -11.62
    I64  Gcalctool  6448666909 23963801  6456974567 19513587 0.37161 0.30221 -18.57 -18.68
    D64  Evince      888170929  5277293   902118785  5222082 0.59418 0.57887  -1.05  -2.58
    D64  Abiword    2649817917 11496889  2631807307 12566841 0.43387 0.47750   9.31  10.05
    D64  Gthumb      702651903  3643586   703719931  3866747 0.51855 0.54947   6.12   5.96
    D64  Gcalctool  3856304970 18592604  3860823018 16367273 0.48214 0.42393 -11.97 -12.07
";

/// Misses for 375 cycles each, over the references of the table below: Table 4.16 from those above. By program, for
/// 64i, 64d, 128i, 128d, 256u, 512u, before and after.
const CYCLES: &str = "
    Evince    1.041 0.973 1.267 1.244 0.280 0.246 0.539 0.477 0.519 0.374 0.094 0.102
    Abiword   1.454 1.380 0.994 1.094 0.597 0.566 0.425 0.455 0.643 0.673 0.167 0.179
    Gthumb    1.000 0.884 1.090 1.155 0.237 0.215 0.454 0.435 0.388 0.361 0.095 0.093
    Gcalctool 1.394 1.133 1.081 0.951 0.296 0.270 0.292 0.288 0.298 0.394 0.032 0.039
";

/// What a TLB is, and whose accesses stand for instructions: its own, or those of the instruction TLB beside it. For
/// unified TLBs the thesis divides by all accesses.
const COLUMNS: [(&str, &str); 6] =
    [("I64", "I64"), ("D64", "I64"), ("I128", "I128"), ("D128", "I128"), ("U256", "U256"), ("U512", "U512")];
const CYCLES_PER_MISS: f64 = 375.0;

#[derive(Clone, Copy)]
struct Run {
    accesses: f64,
    misses: f64,
}

impl Run {
    /// In per cent.
    fn ratio(self) -> f64 {
        100.0 * self.misses / self.accesses
    }
}

/// In per cent.
fn change(before: f64, after: f64) -> f64 {
    100.0 * (after - before) / before
}

struct Case<'a> {
    tlb: &'a str,
    program: &'a str,
    before: Run,
    after: Run,
    /// As printed: ratios, and changes of count and ratio.
    printed: [f64; 4],
}

impl Case<'_> {
    fn changes(&self) -> [f64; 2] {
        let (before, after) = (self.before, self.after);
        [change(before.misses, after.misses), change(before.ratio(), after.ratio())]
    }
}

fn cases(table: &str) -> Vec<Case<'_>> {
    let case = |line| {
        let mut words = str::split_whitespace(line);
        let (tlb, program) = (words.next().unwrap(), words.next().unwrap());
        let mut number = || words.next().unwrap().parse::<f64>().unwrap();
        let mut run = || Run { accesses: number(), misses: number() };
        let (before, after) = (run(), run());
        Case { tlb, program, before, after, printed: [number(), number(), number(), number()] }
    };
    table.lines().filter(|line| !line.is_empty()).map(case).collect()
}

#[track_caller]
fn near(computed: f64, printed: f64, digits: i32) {
    let off = (computed - printed).abs();
    assert!(off < 0.501 * 10f64.powi(-digits), "{computed} is not {printed}");
}

/// The mean change of a TLB's misses, by count and by ratio.
fn means(table: &str, tlb: &str) -> [f64; 2] {
    let of: Vec<Case<'_>> = cases(table).into_iter().filter(|case| case.tlb == tlb).collect();
    [0, 1].map(|which| of.iter().map(|case| case.changes()[which]).sum::<f64>() / of.len() as f64)
}

#[test]
fn target_1_pages_fall_into_the_sets_that_the_thesis_tells() {
    let array = |entries, ways| ArraySpec {
        name: "tlb".into(),
        geometry: Geometry::new(entries, Some(ways)).unwrap(),
        index: SetIndex::Modulo,
        fetches: true,
        data: true,
    };
    let (u512, i128) = (array(512, 4), array(128, 4));
    // Tables 4.1 and 4.2: the hot page, its library's base before and after, its set before and after.
    for (array, page, from, to, before, after) in [
        (&u512, 0x2e61, 0x2e0_5000, 0x12_c000, 97, 8),
        (&u512, 0x24b7, 0x24a_3000, 0x11_c000, 55, 48),
        (&u512, 0x2f1d, 0x2ec_f000, 0x2e_d000, 29, 59),
        (&i128, 0x3032, 0x301_2000, 0x49_7000, 18, 23),
        (&i128, 0x2697, 0x269_1000, 0xf3_5000, 23, 27),
        (&i128, 0x2ef6, 0x2ec_f000, 0x2e_d000, 22, 20),
    ] {
        let moved = page - (from >> 12) + (to >> 12);
        assert_eq!((array.set_of(Vpn(page)), array.set_of(Vpn(moved))), (before, after), "{page:#x}");
    }
}

#[test]
fn target_2_ratios_and_changes_follow_from_counts() {
    for case in [ONE_LIBRARY, CALL_GRAPH].into_iter().flat_map(cases) {
        let [before, after, count, ratio] = case.printed;
        near(case.before.ratio(), before, 5);
        near(case.after.ratio(), after, 5);
        near(case.changes()[0], count, 2);
        near(case.changes()[1], ratio, 2);
    }
}

#[test]
fn target_2_means_are_what_the_text_says() {
    for (table, tlb, count, ratio) in [
        (ONE_LIBRARY, "U512", -7.53, -7.67),
        (ONE_LIBRARY, "U256", -7.33, -7.51),
        (ONE_LIBRARY, "I128", -4.04, -4.09),
        (ONE_LIBRARY, "D128", -3.63, -3.59),
        (ONE_LIBRARY, "I64", -5.49, -5.90),
        (ONE_LIBRARY, "D64", 0.74, 0.36),
        (CALL_GRAPH, "U512", 9.43, 9.01),
        (CALL_GRAPH, "U256", 0.60, 0.48),
        (CALL_GRAPH, "I128", -8.95, -8.82),
        (CALL_GRAPH, "D128", -2.62, -2.53),
        (CALL_GRAPH, "I64", -10.39, -10.47),
        (CALL_GRAPH, "D64", 0.60, 0.34),
    ] {
        let [by_count, by_ratio] = means(table, tlb);
        near(by_count, count, 2);
        near(by_ratio, ratio, 2);
    }
    // Table 4.15, a second session with the same layout.
    let (before, after) = (
        Run { accesses: 6_208_255_627.0, misses: 828_097.0 },
        Run { accesses: 5_998_949_296.0, misses: 761_396.0 },
    );
    near(change(before.ratio(), after.ratio()), -4.85, 2);
    near(change(before.misses, after.misses), -8.05, 2);
}

#[test]
fn target_2_cycles_follow_from_375_a_miss() {
    let all = cases(CALL_GRAPH);
    for line in CYCLES.lines().filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace();
        let program = words.next().unwrap();
        let find = |tlb| all.iter().find(|case| case.tlb == tlb && case.program == program).unwrap();
        for (tlb, instructions) in COLUMNS {
            let (of, by) = (find(tlb), find(instructions));
            for (run, over) in [(of.before, by.before), (of.after, by.after)] {
                let printed = words.next().unwrap().parse().unwrap();
                near(run.misses * CYCLES_PER_MISS / over.accesses, printed, 3);
            }
        }
    }
}
