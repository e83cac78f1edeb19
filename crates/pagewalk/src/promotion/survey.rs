//! Context of a promotion: memory that is huge already or forbidden, settings of the host, assumed prices.

use crate::probe::{AssumedPrice, assumed_lines, assumed_values};
use pagewalk_live::pages::HUGE_BYTES;
use pagewalk_live::pages::settings::Setting;
use pagewalk_live::promote::{GrownBlocks, HugePageBan, Survey};
use pagewalk_report::Class;
use pagewalk_report::documents::process as documents;
use pagewalk_report::huge_pages::schema::{AssumedFigure, HostSetting};

/// Advice for memory that grows by less than huge pages.
pub const GROW_WHOLE: &str = "grow by whole 2 MiB: map, or open by mprotect, multiples of 2 MiB that begin on a \
     border of 2 MiB, and mark them before the first touch; for malloc's heap GLIBC_TUNABLES=glibc.malloc.hugetlb=1 \
     does so, and so does a plan of the heap";

/// Context of a promotion, besides samples.
pub struct PromotionContext {
    /// Of the process.
    pub survey: Survey,
    /// Assumed figures of this host's probe.
    pub assumed: Vec<AssumedPrice>,
}

/// Advice for a process that forbids huge pages.
pub const FORBIDS_ALL: &str = "the process itself forbids huge pages for all its memory \
     (prctl(PR_SET_THP_DISABLE): /proc/PID/status has THP_enabled: 0), by its own doing or its parent's, from which it \
     is inherited; nothing from outside changes that. To allow them start it without (redis: `disable-thp no` in its \
     configuration)";
const FORBIDS_UNMARKED: &str = "the process itself forbids huge pages for all memory that it does not mark \
     (prctl(PR_SET_THP_DISABLE) with PR_THP_DISABLE_EXCEPT_ADVISED): the kernel's mode is `always`, and none of its \
     mappings may have them. Marked memory may, and so may what `pagewalk apply` and `promote` collapse";

impl PromotionContext {
    /// Whether no memory of the process can be on huge pages.
    pub fn forbids_all(&self) -> bool {
        self.survey.forbids == Some(HugePageBan::All)
    }

    /// As text, one fact per line.
    pub fn lines(&self) -> Vec<String> {
        let Survey { pools, forbids, refused_bytes, grown } = &self.survey;
        let mut lines: Vec<String> = pools
            .iter()
            .map(|(&page, &bytes)| {
                format!(
                    "{} are on pages of {} already, which were set aside (hugetlb): nothing to gain there, and they \
                     are skipped",
                    size(bytes),
                    size(page)
                )
            })
            .collect();
        lines.extend(forbids.map(|forbids| match forbids {
            HugePageBan::All => FORBIDS_ALL.to_owned(),
            HugePageBan::Unmarked => FORBIDS_UNMARKED.to_owned(),
        }));
        if *refused_bytes > 0 {
            lines.push(format!(
                "{} are marked against huge pages by the program (MADV_NOHUGEPAGE)",
                size(*refused_bytes)
            ));
        }
        lines.extend(grown.as_ref().map(grown_line));
        lines.extend(assumed_lines(&self.assumed));
        lines
    }

    /// The same as data.
    pub fn survey_value(&self) -> documents::MemorySurvey {
        let Survey { pools, forbids, refused_bytes, grown } = &self.survey;
        documents::MemorySurvey {
            class: Class::Measured,
            hugetlb: pools
                .iter()
                .map(|(&page_bytes, &bytes)| documents::HugetlbPool { page_bytes, bytes })
                .collect(),
            process_forbids: forbids.map(|forbids| match forbids {
                HugePageBan::All => "all",
                HugePageBan::Unmarked => "unmarked",
            }),
            refused_bytes: *refused_bytes,
            grown: grown.map(|grown| documents::GradualMemory {
                blocks: grown.blocks,
                heap_blocks: grown.heap_blocks,
                bytes: grown.blocks * HUGE_BYTES,
                certain: grown.is_certain,
                why: grown_line(&grown),
            }),
        }
    }

    /// Assumed figures, as data.
    pub fn assumed_values(&self) -> Vec<AssumedFigure> {
        assumed_values(&self.assumed)
    }
}

/// Host settings that keep memory from huge pages, as data.
pub fn host_forbids(settings: &[Setting]) -> Vec<HostSetting> {
    let one = |setting: &Setting| {
        let Setting { file, value, effect, allow } = setting.clone();
        HostSetting { file, value, effect, allow }
    };
    settings.iter().map(one).collect()
}

fn grown_line(grown: &GrownBlocks) -> String {
    let GrownBlocks { blocks, heap_blocks, is_certain } = *grown;
    let heap = match heap_blocks {
        0 => String::new(),
        some => format!(", {some} of them in the heap"),
    };
    let why = if is_certain {
        "it grew by less than 2 MiB at a time, or was marked late: each block had small pages before it lay whole in a \
         mapping that may have huge ones, and the kernel keeps those"
    } else {
        "it grew by less than 2 MiB at a time, or was marked late, or the kernel had no huge page at that moment: it \
         has failed at least as often since it began"
    };
    format!(
        "{} ({blocks} blocks of 2 MiB{heap}) are on small pages though huge pages are allowed there: {why}; \
         {GROW_WHOLE}",
        size(blocks * HUGE_BYTES)
    )
}

/// Bytes in the unit that fits.
fn size(bytes: u64) -> String {
    const GIB: u64 = 1 << 30;
    match bytes {
        of if of >= GIB && of.is_multiple_of(GIB) => format!("{} GiB", of / GIB),
        of => format!("{} MiB", of.div_ceil(1 << 20)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_has_its_line() {
        let survey = Survey {
            pools: [(2 << 20, 64 << 20), (1 << 30, 2 << 30)].into(),
            forbids: Some(HugePageBan::All),
            refused_bytes: 4096,
            grown: Some(GrownBlocks { blocks: 120, heap_blocks: 3, is_certain: true }),
        };
        let beside = PromotionContext { survey, assumed: Vec::new() };
        let lines = beside.lines();
        let begins = [
            "64 MiB are on pages of 2 MiB already",
            "2 GiB are on pages of 1 GiB already",
            "the process itself forbids huge pages",
            "1 MiB are marked against",
            "240 MiB (120 blocks of 2 MiB, 3 of them in the heap)",
        ];
        assert_eq!(lines.len(), begins.len());
        assert!(lines.iter().zip(begins).all(|(line, begin)| line.starts_with(begin)), "{lines:#?}");
        assert!(lines[4].contains("grow by whole 2 MiB"), "{}", lines[4]);
        let value = beside.survey_value();
        assert_eq!((value.hugetlb[1].page_bytes, value.process_forbids), (1 << 30, Some("all")));
        assert!(PromotionContext { survey: Survey::default(), assumed: Vec::new() }.lines().is_empty());
    }
}
