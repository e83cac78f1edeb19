//! Parses numbers in text, fast.

/// Values of digits; 255 for anything else.
static DIGITS: [u8; 256] = {
    let mut digits = [255; 256];
    let mut value = 0;
    while value < 16 {
        digits[b"0123456789abcdef"[value] as usize] = value as u8;
        digits[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    digits
};

/// The number of 1 to `most` digits at `at`, and the index after it, if one more byte follows.
#[inline]
pub(super) fn number<const BASE: u64>(text: &[u8], at: usize, most: usize) -> Option<(u64, usize)> {
    let mut value = 0;
    let mut end = at;
    loop {
        let digit = u64::from(DIGITS[usize::from(*text.get(end)?)]);
        if digit >= BASE {
            return (end > at).then_some((value, end));
        }
        if end - at == most {
            return None;
        }
        value = value * BASE + digit;
        end += 1;
    }
}
