//! How near the rejected blocks came to paying for themselves.

use super::{ChargesByProcess, ChosenBlock};
use pagewalk_mm::Superpage;
use pagewalk_mm::promotion::OfflineSettings;
use pagewalk_units::PageSize;

/// The misses that rejected blocks would prevent, as shares of the break-even misses. The source takes the thresholds
/// of its online policies from these percentiles (Romer 1998, section 3.4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RejectedBlocks {
    /// Blocks with charges that are neither chosen nor inside a chosen one.
    pub blocks: usize,
    /// 99th percentile of prefetch charges.
    pub prefetch: f64,
    /// 99th percentile of capacity charges.
    pub capacity: f64,
}

impl RejectedBlocks {
    /// Margins after a replay with `chosen` in force.
    pub(super) fn new(
        settings: &OfflineSettings,
        base: PageSize,
        orders: u32,
        chosen: &[ChosenBlock],
        charges: &ChargesByProcess<'_>,
    ) -> RejectedBlocks {
        let (mut prefetch, mut capacity) = (Vec::new(), Vec::new());
        for (&process, charges) in charges {
            let is_rejected = |block: Superpage| {
                let mut of_process = chosen.iter().filter(|unit| unit.process == process);
                block.order > 0
                    && orders >> block.order & 1 == 1
                    && !of_process.any(|unit| unit.block.holds(block))
            };
            charges.each(|block, charge| {
                if is_rejected(block) {
                    let kib = block.len() << base.shift() >> 10;
                    let price = settings.costs.copy_per_kib.saturating_mul(kib);
                    let share =
                        |misses: u64| misses as f64 * settings.miss_cycles as f64 / price.max(1) as f64;
                    prefetch.push(share(charge.prefetch));
                    capacity.push(share(charge.capacity));
                }
            });
        }
        RejectedBlocks {
            blocks: prefetch.len(),
            prefetch: percentile_99(prefetch),
            capacity: percentile_99(capacity),
        }
    }
}

/// The 99th percentile; 0 without values.
fn percentile_99(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (values.len() * 99).div_ceil(100);
    rank.checked_sub(1).map_or(0.0, |at| values[at])
}

#[cfg(test)]
mod tests {
    use super::percentile_99;

    #[test]
    fn the_percentile_is_the_least_value_that_so_many_do_not_exceed() {
        assert_eq!(percentile_99(Vec::new()), 0.0);
        assert_eq!(percentile_99(vec![3.0, 1.0]), 3.0);
        assert_eq!(percentile_99((1..=200).rev().map(f64::from).collect()), 198.0);
    }
}
