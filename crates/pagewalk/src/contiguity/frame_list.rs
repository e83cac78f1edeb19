//! Lists of a live process's frames, for simulations with its placement.

use super::{cannot_read, frames_needed};
use crate::error::Error;
use pagewalk_live::pagemap::{self, PageRun};
use pagewalk_live::probe::host::hypervisor;
use pagewalk_mm::frames::Frame;
use pagewalk_mm::placement::{FrameList, FrameRun};
use std::fmt::Write;

/// The frames of a running process's pages, as `placement.frames` of a simulated kernel takes them.
///
/// # Errors
/// If there is no such process, or frame numbers are unreadable.
pub fn list_frames(pid: i32) -> Result<String, Error> {
    let program = pagemap::program(pid);
    let runs = pagemap::page_runs(pid).map_err(cannot_read)?;
    let runs = runs.ok_or_else(|| frames_needed("a list of frames needs them"))?;
    Ok(text(&program, hypervisor(), &runs))
}

fn text(program: &str, is_guest: bool, runs: &[PageRun]) -> String {
    let (listed, repeated) = once(runs);
    let pages: u64 = listed.iter().map(|run| run.pages).sum();
    let program: String = program.chars().filter(|c| !c.is_control()).collect();
    let mut text = format!("{}4K\n# {pages} pages of {program}\n", FrameList::START);
    if repeated > 0 {
        text += &format!("# {repeated} more share a frame with one of these\n");
    }
    if is_guest {
        text += "# frames of a virtual machine: the host gives each a frame of its own, and may move it\n";
    }
    text += FrameList::TITLE;
    text.push('\n');
    for run in listed {
        writeln!(text, "{run}").expect("a text takes any line");
    }
    text
}

/// The runs by page, with each frame once, for the first page that has it; and how many pages that leaves out, such as
/// those of the frame of zeros.
fn once(runs: &[PageRun]) -> (Vec<FrameRun>, u64) {
    let mut by_frame: Vec<(u64, &PageRun)> = runs.iter().filter_map(|run| Some((run.frame?, run))).collect();
    by_frame.sort_by_key(|(frame, run)| (*frame, run.first));
    let (mut end, mut repeated, mut listed) = (0, 0, Vec::new());
    for (frame, run) in by_frame {
        let skipped = (end.max(frame) - frame).min(run.pages);
        repeated += skipped;
        if skipped < run.pages {
            end = frame + run.pages;
            let (page, pages) = (run.first + skipped, run.pages - skipped);
            listed.push(FrameRun { page, frame: Frame(frame + skipped), pages });
        }
    }
    listed.sort_by_key(|run| run.page);
    (listed, repeated)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u64, frame: u64, pages: u64) -> PageRun {
        PageRun { first, frame: Some(frame), pages, rights: 1, huge: false }
    }

    #[test]
    fn each_frame_is_listed_once_and_the_list_can_be_read() {
        // The frame of zeros twice, and a run that overlaps another.
        let runs = [run(1, 7, 1), run(2, 7, 1), run(4, 0x20, 4), run(16, 0x22, 4), run(32, 0x21, 1)];
        let text = text("/bin/x\ny", true, &runs);
        let lines = "0x1000 0x7 1\n0x4000 0x20 4\n0x12000 0x24 2\n";
        let start = "frames of 4K\n# 7 pages of /bin/xy\n# 4 more share a frame with one of these\n\
                     # frames of a virtual machine: the host gives each a frame of its own, and may move it\n\
                     # address frame pages\n";
        assert_eq!(text, format!("{start}{lines}"));
        let list: FrameList = text.parse().unwrap();
        assert_eq!((list.get(5, 1), list.get(2, 1), list.get(16, 1)), (Some(Frame(0x21)), None, None));
        assert_eq!(list.get(18, 2), Some(Frame(0x24)));
    }
}
