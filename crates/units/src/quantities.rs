//! Numbers as people write them: bytes in powers of 1,024, counts in powers of ten.

/// The bytes of a text such as `4096`, `64K`, `512M`, `2G` or `1T`; `None` for another, or for more than 64 bits.
pub fn bytes(text: &str) -> Option<u64> {
    let (digits, shift) = unit(text, &[("Kk", 10), ("Mm", 20), ("Gg", 30), ("Tt", 40)]);
    whole(digits)?.checked_mul(1 << shift)
}

/// A whole number: digits, maybe with a power of ten, or with K, M or G for thousands, millions or billions. `None` for
/// another, or for more than 64 bits.
pub fn count(text: &str) -> Option<u64> {
    let (number, power) = match text.split_once(['e', 'E']) {
        Some((number, power)) => (number, power.parse().ok()?),
        None => unit(text, &[("Kk", 3), ("Mm", 6), ("Gg", 9)]),
    };
    let (before, behind) = number.split_once('.').unwrap_or((number, ""));
    let zeros = power.checked_sub(u32::try_from(behind.len()).ok()?)?;
    let number = whole(&format!("{before}{behind}")).filter(|_| !before.is_empty());
    number?.checked_mul(10_u64.checked_pow(zeros)?)
}

/// The text without its unit, and the unit's power.
fn unit<'a>(text: &'a str, units: &[(&str, u32)]) -> (&'a str, u32) {
    let of = |&(letters, power): &(&str, u32)| {
        text.strip_suffix(|letter| letters.contains(letter)).map(|number| (number, power))
    };
    units.iter().find_map(of).unwrap_or((text, 0))
}

/// Digits alone: `parse` would take a sign.
fn whole(digits: &str) -> Option<u64> {
    Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        for (text, number) in [("0", 0), ("4096", 4096), ("64K", 1 << 16), ("2g", 2 << 30), ("1T", 1 << 40)] {
            assert_eq!(bytes(text), Some(number), "{text}");
        }
        for text in ["", "K", "-1", "+1", "1.5K", "1 K", "1KB", "0x10", "16777216T", "1é"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn a_count_has_digits_or_a_power_of_ten() {
        for text in ["2500000", "2.5e6", "2.5E6", "25e5", "2500K", "2500k", "2.5M", "2.500000M", "0.0025G"] {
            assert_eq!(count(text), Some(2_500_000), "{text}");
        }
        assert_eq!((count("0"), count("18446744073709551615")), (Some(0), Some(u64::MAX)));
        for text in
            ["", "M", "e6", ".5M", "-1", "+1", "1.5", "1e-6", "1e", "1x", "1 M", "1e20", "2e30", "0x10"]
        {
            assert_eq!(count(text), None, "{text}");
        }
    }
}
