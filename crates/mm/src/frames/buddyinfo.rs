//! Reads `/proc/buddyinfo`: the free blocks of a Linux host, by order.
//!
//! A line per zone: `Node 0, zone   Normal   1046    527 …`, with counts by ascending order from 0. The number of
//! columns depends on the kernel: 11 if `MAX_PAGE_ORDER` is 10, as on x86-64; more with larger granules. Source:
//! proc_buddyinfo(5), and `frag_show_print` in Linux's `mm/vmstat.c`.

use super::MAX_ORDER;

/// The free blocks of one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Zone {
    /// Its memory node.
    node: u32,
    /// Its name, such as `DMA32` or `Normal`.
    name: String,
    /// Free blocks by order, from 0.
    free: Vec<u64>,
}

/// The zones of a host: at least one, all with the same orders. Parsed from `/proc/buddyinfo`.
///
/// ```
/// use pagewalk_mm::frames::BuddyInfo;
///
/// let host: BuddyInfo = "Node 0, zone DMA 1 0 2\nNode 1, zone Normal 3 4 5\n".parse()?;
/// assert_eq!(host.free_blocks(), [4, 4, 7]);
/// # Ok::<(), pagewalk_mm::frames::BuddyInfoError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuddyInfo {
    zones: Vec<Zone>,
}

/// Why a text is no valid `/proc/buddyinfo`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuddyInfoError {
    /// All lines are empty.
    #[error("no zones: expected lines such as `Node 0, zone Normal 12 5 0 …`")]
    Empty,
    /// A line has a wrong beginning.
    #[error(
        "line {line}: `{text}` is no zone: expected `Node N, zone NAME` and counts of free blocks by order"
    )]
    Line {
        /// From 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// A count is no number.
    #[error("line {line}, order {order}: `{text}` is no count of free blocks: expected digits")]
    Count {
        /// From 1.
        line: usize,
        /// The column, from 0.
        order: usize,
        /// The text.
        text: String,
    },
    /// Too few or too many columns.
    #[error("line {line}: {columns} counts of free blocks: expected {expected}")]
    Columns {
        /// From 1.
        line: usize,
        /// The number of columns.
        columns: usize,
        /// The expected number.
        expected: String,
    },
    /// Too many free frames.
    #[error("line {line}: more free frames than a memory may have")]
    TooLarge {
        /// From 1.
        line: usize,
    },
}

impl BuddyInfo {
    /// The largest order of the host's allocator.
    pub fn max_order(&self) -> u32 {
        self.zones[0].free.len() as u32 - 1
    }

    /// Free blocks by order, all zones together.
    pub fn free_blocks(&self) -> Vec<u64> {
        (0..=self.max_order() as usize)
            .map(|order| self.zones.iter().map(|zone| zone.free[order]).sum())
            .collect()
    }
}

impl std::str::FromStr for BuddyInfo {
    type Err = BuddyInfoError;

    /// Empty lines are skipped.
    fn from_str(text: &str) -> Result<BuddyInfo, BuddyInfoError> {
        let mut zones: Vec<Zone> = Vec::new();
        let mut frames = 0_u64;
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        for (line, text) in lines.map(|(index, text)| (index + 1, text)) {
            let zone = zone(line, text)?;
            let columns = zone.free.len();
            let expected = zones.first().map(|first| first.free.len());
            if expected.is_some_and(|expected| expected != columns) {
                let expected = format!("{}, as in the lines before", expected.unwrap_or_default());
                return Err(BuddyInfoError::Columns { line, columns, expected });
            }
            for (order, &blocks) in zone.free.iter().enumerate() {
                let sum = blocks.checked_mul(1 << order).and_then(|more| frames.checked_add(more));
                frames = sum.ok_or(BuddyInfoError::TooLarge { line })?;
            }
            zones.push(zone);
        }
        if zones.is_empty() { Err(BuddyInfoError::Empty) } else { Ok(BuddyInfo { zones }) }
    }
}

fn zone(line: usize, text: &str) -> Result<Zone, BuddyInfoError> {
    let no_zone = || BuddyInfoError::Line { line, text: text.trim().to_owned() };
    let mut words = text.split_whitespace();
    let mut word = || words.next().ok_or_else(no_zone);
    let (node_word, node, zone_word, name) = (word()?, word()?, word()?, word()?);
    let node = node.strip_suffix(',').and_then(|node| node.parse().ok()).ok_or_else(no_zone)?;
    if (node_word, zone_word) != ("Node", "zone") {
        return Err(no_zone());
    }
    let free = words
        .enumerate()
        .map(|(order, text)| {
            text.parse().map_err(|_| BuddyInfoError::Count { line, order, text: text.to_owned() })
        })
        .collect::<Result<Vec<u64>, _>>()?;
    if free.is_empty() || free.len() > MAX_ORDER as usize + 1 {
        let expected = format!("1 to {}, for orders 0 to at most {MAX_ORDER}", MAX_ORDER + 1);
        return Err(BuddyInfoError::Columns { line, columns: free.len(), expected });
    }
    Ok(Zone { node, name: name.to_owned(), free })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "\
Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      3 
Node 0, zone    DMA32      1      1      4      2      5      4      3      3      4      2    752 
Node 0, zone   Normal     71     15    785    841    682    414    280    109      0      0   1090 
Node 1, zone   Normal      2      0      0      0      0      0      0      0      0      0      0 
";

    #[test]
    fn a_host_of_two_nodes() {
        let host: BuddyInfo = HOST.parse().unwrap();
        let zones: Vec<(u32, &str)> = host.zones.iter().map(|zone| (zone.node, zone.name.as_str())).collect();
        assert_eq!(zones, [(0, "DMA"), (0, "DMA32"), (0, "Normal"), (1, "Normal")]);
        assert_eq!(host.max_order(), 10);
        assert_eq!(host.free_blocks(), [74, 16, 789, 843, 687, 418, 283, 112, 5, 3, 1845]);
    }

    #[test]
    fn more_columns_and_fewer() {
        let line = |columns: usize| format!("Node 0, zone Normal{}\n", " 7".repeat(columns));
        assert_eq!(line(21).parse::<BuddyInfo>().unwrap().max_order(), 20);
        assert_eq!(line(1).parse::<BuddyInfo>().unwrap().free_blocks(), [7]);
        for columns in [0, 22] {
            let error = line(columns).parse::<BuddyInfo>().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "line 1: {columns} counts of free blocks: expected 1 to 21, for orders 0 to at most 20"
                )
            );
        }
        let uneven = format!("{}\n{}", line(3), line(4)).parse::<BuddyInfo>().unwrap_err();
        assert_eq!(uneven.to_string(), "line 3: 4 counts of free blocks: expected 3, as in the lines before");
    }

    #[test]
    fn what_is_wrong_and_where() {
        let error = |text: &str| text.parse::<BuddyInfo>().unwrap_err().to_string();
        assert!(error("\n \n").starts_with("no zones"));
        for text in ["x", "Node 0 zone DMA 1", "Node x, zone DMA 1", "Node 0, zone", "node 0, zone DMA 1"] {
            assert!(error(text).starts_with(&format!("line 1: `{text}` is no zone")), "{text}");
        }
        assert!(error("Node 0, zone DMA 1 -2").starts_with("line 1, order 1: `-2` is no count"));
        assert!(error("Node 0, zone DMA 1 18446744073709551615").starts_with("line 1: more free frames"));
        assert!(
            error("Node 0, zone DMA 18446744073709551615\nNode 0, zone DMA32 1")
                .starts_with("line 2: more free frames")
        );
    }
}
