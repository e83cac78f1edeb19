//! Numbers of processors, as the kernel lists them.

use std::collections::BTreeSet;

/// No kernel has more processors.
const MOST: usize = 1 << 16;

/// The numbers of a list such as `0-3,8`. `None` if it is no such list.
pub fn listed(text: &str) -> Option<BTreeSet<usize>> {
    let mut all = BTreeSet::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let last: usize = last.parse().ok().filter(|&last| last < MOST)?;
        all.extend(first.parse().ok()?..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_are_none_are_refused() {
        assert_eq!(listed("0-1,4\n"), Some(BTreeSet::from([0, 1, 4])));
        assert_eq!(listed(""), None);
        assert_eq!(listed("0-x"), None);
        assert_eq!(listed("0-99999999999"), None);
    }
}
