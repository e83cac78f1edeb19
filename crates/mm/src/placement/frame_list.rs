//! Lists of frames: which page of a process lies in which frame.
//!
//! ```text
//! frames of 4K
//! # address frame pages
//! 0x55d0c0000000 0x1a2b3c 1
//! 0x7f00c0000000 0x80000 512
//! ```
//!
//! A line is a run of pages in successive frames: the first page's address and its frame, in hexadecimal as `/proc`
//! writes them, and how many pages. `pagewalk contiguity --frames` writes such a list of a live process.

use crate::frames::{Frame, MAX_FRAMES};
use pagewalk_units::PageSize;
use std::fmt;
use std::str::FromStr;

/// Successive pages in successive frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRun {
    /// The number of the first page.
    pub page: u64,
    /// Its frame.
    pub frame: Frame,
    /// Pages.
    pub pages: u64,
}

/// The frames of a process's pages. No page and no frame stands in it twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameList {
    /// The size of pages and frames.
    pub page: PageSize,
    /// By page; neighbours in pages and frames are one.
    runs: Vec<FrameRun>,
    /// The last frame, and its line in the text.
    last: Option<(Frame, usize)>,
}

/// Why a text is no list of frames.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameListError {
    /// It does not begin as it must.
    #[error("line 1: `{0}`: expected `frames of SIZE`, such as `frames of 4K`")]
    Start(String),
    /// A line is no run.
    #[error(
        "line {line}: `{text}`: expected an address and a frame in hexadecimal, and how many pages: {EXAMPLE}"
    )]
    Line {
        /// From 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// An address inside a page.
    #[error("line {line}: address {address:#x} begins no page of {page}")]
    Address {
        /// From 1.
        line: usize,
        /// The address.
        address: u64,
        /// The size of pages.
        page: PageSize,
    },
    /// A frame that no memory has.
    #[error(
        "line {line}: frame {frame:#x} lies beyond the largest memory: choose frames below {MAX_FRAMES:#x}"
    )]
    Beyond {
        /// From 1.
        line: usize,
        /// The frame.
        frame: u64,
    },
    /// Named twice.
    #[error("line {line}: {what} {number:#x} stands in line {before} already: list each once")]
    Twice {
        /// From 1.
        line: usize,
        /// A page or a frame.
        what: &'static str,
        /// Its address, or its number.
        number: u64,
        /// The other line.
        before: usize,
    },
}

const EXAMPLE: &str = "`0x7f00c0000000 0x80000 512`";

impl FrameList {
    /// How the text of a list begins; the name of a file does not.
    pub const START: &str = "frames of ";

    /// A line before the runs, for people.
    pub const TITLE: &str = "# address frame pages";

    /// The frame of a page that begins `pages` successive ones, if all of them lie in successive frames.
    pub fn get(&self, page: u64, pages: u64) -> Option<Frame> {
        let run = self.runs[..self.runs.partition_point(|run| run.page <= page)].last()?;
        let step = page - run.page;
        (step.saturating_add(pages) <= run.pages).then_some(Frame(run.frame.0 + step))
    }

    /// How many frames a memory needs to have all of them.
    pub fn frames_end(&self) -> u64 {
        self.last.map_or(0, |(frame, _)| frame.0 + 1)
    }

    /// The line of the first frame of the text's that a memory with so many frames lacks.
    pub fn line_beyond(&self, frames: u64) -> Option<usize> {
        self.last.filter(|(frame, _)| frame.0 >= frames).map(|(_, line)| line)
    }
}

impl FromStr for FrameList {
    type Err = FrameListError;

    /// Empty lines and those that begin with `#` are skipped.
    fn from_str(text: &str) -> Result<FrameList, FrameListError> {
        let first = text.lines().next().unwrap_or_default();
        let page = first.strip_prefix(FrameList::START).and_then(|size| size.trim().parse().ok());
        let page: PageSize = page.ok_or_else(|| FrameListError::Start(shortened(first)))?;
        let mut runs = Vec::new();
        let lines = text.lines().zip(1..).skip(1).map(|(text, line)| (text.trim(), line));
        for (text, line) in lines.filter(|(text, _)| !text.is_empty() && !text.starts_with('#')) {
            runs.push((run(text, line, page)?, line));
        }
        once(&mut runs, |run| run.frame.0, ("frame", 0))?;
        let last = runs.last().map(|(run, line)| (Frame(run.frame.0 + run.pages - 1), *line));
        once(&mut runs, |run| run.page, ("page", page.shift()))?;
        let mut joined: Vec<FrameRun> = Vec::new();
        for (run, _) in runs {
            match joined.last_mut() {
                Some(before)
                    if before.page + before.pages == run.page
                        && before.frame.0 + before.pages == run.frame.0 =>
                {
                    before.pages += run.pages;
                }
                _ => joined.push(run),
            }
        }
        Ok(FrameList { page, runs: joined, last })
    }
}

fn run(text: &str, line: usize, size: PageSize) -> Result<FrameRun, FrameListError> {
    let hexadecimal = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let words: Vec<&str> = text.split_whitespace().collect();
    let numbers = match words[..] {
        [address, frame, pages] => hexadecimal(address).zip(hexadecimal(frame)).zip(pages.parse().ok()),
        _ => None,
    };
    let numbers = numbers.filter(|&((address, _), pages): &((u64, u64), u64)| {
        pages > 0 && (address >> size.shift()).checked_add(pages).is_some()
    });
    let ((address, frame), pages) =
        numbers.ok_or_else(|| FrameListError::Line { line, text: shortened(text) })?;
    if !address.is_multiple_of(size.bytes()) {
        return Err(FrameListError::Address { line, address, page: size });
    }
    if frame.checked_add(pages).is_none_or(|end| end > MAX_FRAMES) {
        return Err(FrameListError::Beyond { line, frame });
    }
    Ok(FrameRun { page: address >> size.shift(), frame: Frame(frame), pages })
}

/// Sorts runs by a number, and checks that they do not overlap.
fn once(
    runs: &mut [(FrameRun, usize)],
    number: fn(&FrameRun) -> u64,
    (what, shift): (&'static str, u32),
) -> Result<(), FrameListError> {
    runs.sort_by_key(|(run, _)| number(run));
    for pair in runs.windows(2) {
        let ((before, first), (run, second)) = (pair[0], pair[1]);
        if number(&before) + before.pages > number(&run) {
            let number = number(&run) << shift;
            return Err(FrameListError::Twice {
                line: first.max(second),
                what,
                number,
                before: first.min(second),
            });
        }
    }
    Ok(())
}

/// A line as messages show it: the file may be anything.
fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

impl fmt::Display for FrameRun {
    /// A line, for pages of 4 KiB.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} {:#x} {}", self.page << PageSize::FOUR_KIB.shift(), self.frame.0, self.pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(lines: &str) -> Result<FrameList, String> {
        format!("frames of 4K\n{lines}").parse().map_err(|error: FrameListError| error.to_string())
    }

    #[test]
    fn pages_lie_where_the_list_says() {
        let list = list("# address frame pages\n\n0x5000 0x10 2\n 0x7000 0x12 1\n0x2000 0x30 1\n").unwrap();
        let frame = |page, pages| list.get(page, pages).map(|frame| frame.0);
        assert_eq!(
            (0..9).map(|page| frame(page, 1)).collect::<Vec<_>>(),
            [None, None, Some(0x30), None, None, Some(0x10), Some(0x11), Some(0x12), None]
        );
        assert_eq!(
            (frame(5, 3), frame(6, 2), frame(6, 3), frame(2, 2)),
            (Some(0x10), Some(0x11), None, None)
        );
        assert_eq!(
            (list.frames_end(), list.line_beyond(0x31), list.line_beyond(0x30)),
            (0x31, None, Some(6))
        );
        let empty: FrameList = "frames of 64K".parse().unwrap();
        assert_eq!((empty.page.bytes(), empty.frames_end(), empty.get(0, 1)), (65_536, 0, None));
    }

    #[test]
    fn what_is_written_is_read() {
        let run = FrameRun { page: 0x7_f00c_0000, frame: Frame(0x80000), pages: 512 };
        assert_eq!(format!("`{run}`"), EXAMPLE);
        assert_eq!(list(&run.to_string()).unwrap().runs, [run]);
    }

    #[test]
    fn what_is_wrong_where_and_the_choices() {
        let start = "address frame".parse::<FrameList>().unwrap_err().to_string();
        assert_eq!(start, "line 1: `address frame`: expected `frames of SIZE`, such as `frames of 4K`");
        assert!("".parse::<FrameList>().unwrap_err().to_string().starts_with("line 1: ``: expected"));
        for text in
            ["0x5000 0x10", "5000 0x10 1", "0x5000 0x10 0", "0x5000 0x10 1 1", "0x5000 0xg 1", "0x1 0x1 -1"]
        {
            let expected = format!("line 3: `{text}`: expected an address and a frame in hexadecimal");
            assert!(list(&format!("\n{text}")).unwrap_err().starts_with(&expected), "{text}");
        }
        let error = |lines: &str| list(lines).unwrap_err();
        assert_eq!(error("0x5001 0x10 1"), "line 2: address 0x5001 begins no page of 4K");
        let beyond =
            "line 2: frame 0x100000000 lies beyond the largest memory: choose frames below 0x100000000";
        assert_eq!(error("0x5000 0x100000000 1"), beyond);
        assert!(error("0x5000 0xffffffff 2").contains("beyond the largest memory"));
        assert!(error("0x5000 0xffffffffffffffff 1").contains("beyond the largest memory"));
        let twice = "line 3: frame 0x11 stands in line 2 already: list each once";
        assert_eq!(error("0x5000 0x10 2\n0x9000 0x11 1"), twice);
        assert_eq!(
            error("0x9000 0x11 1\n0x5000 0x10 2"),
            "line 3: frame 0x11 stands in line 2 already: list each once"
        );
        assert!(error("0x5000 0x10 2\n0x6000 0x30 1").starts_with("line 3: page 0x6000 stands in line 2"));
    }
}
