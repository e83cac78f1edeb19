//! Memory that a plan marks but that gets no huge pages, each time for the reported reason.

use crate::common::Lab;
use crate::lab::{MIB, anonymous, applied, applied_to, host_can, options, plan};
use pagewalk_live::pages::{Mode, PagesRun, Reason, mode};
use pagewalk_live::tracing::ProcessEnd;
use pagewalk_skip::{Need, skip};
use std::fs;
use std::path::{Path, PathBuf};

/// A program that maps `bytes` at `address`, runs `before`, touches a byte every `step` and waits briefly.
fn program(lab: &Lab, name: &str, [address, bytes, step]: [u64; 3], before: &str) -> String {
    let source = format!(
        "#include <sys/mman.h>
        #include <sys/prctl.h>
        #include <unistd.h>
        int main(void) {{
            long size = {bytes};
            char *all = mmap((void *){address}, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (all == MAP_FAILED) return 1;
            {before}
            for (long i = 0; i < size; i += {step}) all[i] = 1;
            usleep(300000);
            return 7;
        }}"
    );
    lab.compile(name, &source, &[])
}

fn assert_reason(run: &PagesRun, reason: Reason) {
    assert_eq!(run.timed.end, ProcessEnd::Exit(7), "{run:#x?}");
    assert_eq!(run.images[0].ranges[0].reason, Some(reason), "{run:#x?}");
}

#[test]
fn the_programs_own_doing_is_told() {
    let lab = Lab::new();
    if !host_can() {
        return;
    }
    // From half a huge page on, so that it contains no whole one.
    let between = [0x7f00_0010_0000, 2 * MIB + 4096, 4096];
    let cases = [
        (between, "", Reason::NotAligned),
        ([0, MIB, 4096], "", Reason::TooShort(1024)),
        ([0, 32 * MIB, 4096], "madvise(all, size, MADV_NOHUGEPAGE);", Reason::Refused),
        ([0, 32 * MIB, 4096], "prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);", Reason::Disabled),
        ([0, 32 * MIB, 64 << 20], "size = 0;", Reason::NeverTouched),
    ];
    for (number, (memory, before, reason)) in cases.into_iter().enumerate() {
        let program = program(&lab, &format!("p{number}"), memory, before);
        assert_reason(&applied_to(&[&program], &[anonymous(memory[1], 1)]), reason);
    }
}

/// A cgroup of this test, removed with it.
struct Group(PathBuf);

impl Group {
    /// With a memory limit; none where we may not create one.
    fn new(limit: u64) -> Option<Group> {
        let roots = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        roots.iter().find_map(|(root, file)| {
            let folder = Path::new(root).join(format!("pagewalk-test-{}", std::process::id()));
            fs::create_dir(&folder).ok()?;
            let group = Group(folder);
            fs::write(group.0.join(file), limit.to_string()).is_ok().then_some(group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It is empty once its programs have ended; a failure cannot be helped.
        let _ = fs::remove_dir(&self.0);
    }
}

/// One page in sixteen is touched: everything fits the limit on small pages, but not on huge ones. The rest, on small
/// pages, must fit beside the huge ones, or the kernel kills the program.
#[test]
fn a_limit_that_is_reached_is_told() {
    let lab = Lab::new();
    if !host_can() {
        return;
    }
    let Some(group) = Group::new(48 * MIB) else {
        return skip(Need::ControlGroups, "none can be made here, as root is needed");
    };
    let program = program(&lab, "p", [0, 64 * MIB, 65536], "");
    let script = format!("echo $$ > {}/cgroup.procs && exec {program}", group.0.display());
    let plan = plan(&program, &[anonymous(64 * MIB, 1)]);
    let run = applied(&["sh", "-c", &script], &plan, &options(&program)).unwrap();
    assert_reason(&run, Reason::Limited);
}

/// Restores the host's setting.
struct Setting(String);

const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

impl Setting {
    fn new(word: &str) -> Setting {
        let before = mode().expect("there are huge pages").name().to_owned();
        fs::write(ENABLED, word).expect("as root");
        Setting(before)
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        fs::write(ENABLED, &self.0).expect("as root");
    }
}

/// Where marks have no effect, ranges are collapsed once they exist.
#[test]
#[ignore = "changes the host's setting while it runs; as root, by hand, with nothing else running"]
fn every_mode_of_the_host_is_met() {
    let lab = Lab::new();
    let program = program(&lab, "p", [0, 32 * MIB, 4096], "");
    for (word, found) in [("always", Mode::Always), ("madvise", Mode::Madvise), ("never", Mode::Never)] {
        let _setting = Setting::new(word);
        assert_eq!(mode(), Some(found));
        let run = applied_to(&[&program], &[anonymous(32 * MIB, 1)]);
        assert_eq!(
            (run.timed.end, &run.images[0].ranges[0].reason),
            (ProcessEnd::Exit(7), &None),
            "{word}: {run:#x?}"
        );
    }
}
