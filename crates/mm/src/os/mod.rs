//! Users' descriptions of kernels: an `[os]` table, or a policy's name with keys on the command line.

mod collapse;
mod files;
mod keys;
mod manual;
mod memory;
mod offline;
mod page;
mod place;
mod placement;
mod policies;
mod sharing;

pub use files::read_files;
pub use manual::PolicyKey;
pub use page::policies_page;

use crate::promotion::OfflineSettings;
use crate::{Kernel, KernelCosts};
use keys::Keys;
use pagewalk_units::{Paging, names};
use policies::{Entry, POLICIES, throttled};
use thiserror::Error;
use toml::{Table, Value};

/// Why a description of a kernel is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OsError {
    /// No policy of this name.
    #[error("no kernel policy `{name}`: {choice}")]
    Name {
        /// The name given.
        name: String,
        /// The available names, the closest first.
        choice: String,
    },
    /// A key that the policy lacks.
    #[error("unknown key `{key}`: {choice}")]
    Key {
        /// The key.
        key: String,
        /// The available keys, the closest first.
        choice: String,
    },
    /// A value out of range.
    #[error("{key} is {given}: expected {expected}")]
    Value {
        /// The key.
        key: String,
        /// What was given.
        given: String,
        /// The allowed values.
        expected: String,
    },
    /// A text of the wrong form.
    #[error("`{text}`: expected `POLICY` or `POLICY:KEY=VALUE,KEY=VALUE`")]
    Text {
        /// The text.
        text: String,
    },
    /// A key given twice.
    #[error("`{text}` gives `{key}` twice: give it once")]
    Twice {
        /// The text.
        text: String,
        /// The key.
        key: String,
    },
    /// A key with a value, and keys below it.
    #[error("`{text}` gives `{key}` both a value and keys of its own: give it one of them")]
    Both {
        /// The text.
        text: String,
        /// The key.
        key: String,
    },
    /// A setting that the policy refuses.
    #[error("{0}")]
    Policy(String),
    /// An invalid memory.
    #[error("{0}")]
    Memory(String),
}

/// A kernel built from its description.
#[derive(Clone)]
pub enum OsKernel {
    /// A kernel that decides during the run.
    Running(Box<Kernel>),
    /// A kernel that knows the future: replays of the stream find its superpages.
    Offline(OfflineSettings),
}

/// A checked description of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct OsSpec {
    /// Its name in results: the policy's name with the given keys.
    pub name: String,
    table: Table,
}

impl OsSpec {
    /// All policies, with a few words on each.
    pub fn policies() -> impl Iterator<Item = (&'static str, &'static str)> {
        let running = POLICIES.iter().map(|entry| (entry.name, entry.title));
        running.chain([(offline::NAME, offline::TITLE)])
    }

    /// Parses `POLICY` or `POLICY:KEY=VALUE,KEY=VALUE`. Keys of tables have the form `throttle.window=1000000`, lists
    /// `memory.initial.fragmentation=[1.0,0.5]`.
    pub fn from_text(text: &str) -> Result<OsSpec, OsError> {
        let wrong = || OsError::Text { text: text.to_owned() };
        let (name, keys) = text.split_once(':').unwrap_or((text, ""));
        let mut table = Table::new();
        for pair in split_outside_brackets(keys).filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(wrong)?;
            let value = value.parse::<Value>().unwrap_or_else(|_| Value::String(value.to_owned()));
            let mut at = &mut table;
            let mut path = key.split('.').peekable();
            while let Some(part) = path.next() {
                if path.peek().is_none() {
                    if at.insert(part.to_owned(), value).is_some() {
                        return Err(OsError::Twice { text: text.to_owned(), key: key.to_owned() });
                    }
                    break;
                }
                let inner = at.entry(part.to_owned()).or_insert_with(|| Value::Table(Table::new()));
                let both = || OsError::Both { text: text.to_owned(), key: part.to_owned() };
                at = inner.as_table_mut().ok_or_else(both)?;
            }
        }
        table.insert("policy".to_owned(), Value::String(name.to_owned()));
        Ok(OsSpec { name: text.to_owned(), table })
    }

    /// Reads an `[os]` table.
    pub fn from_table(mut table: Table) -> Result<OsSpec, OsError> {
        let name = match table.remove("name") {
            Some(Value::String(name)) => Some(name),
            None => None,
            Some(other) => {
                let (key, expected) = ("os.name".to_owned(), "a text".to_owned());
                return Err(OsError::Value { key, given: other.to_string(), expected });
            }
        };
        let policy = table.get("policy").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(OsSpec { name: name.unwrap_or(policy), table })
    }

    /// Builds the kernel for a new process on a machine with these pages, whose TLBs hold orders `held` (one bit each).
    /// Policies choose among these sizes.
    pub fn build(&self, paging: Paging, held: u32) -> Result<OsKernel, OsError> {
        if !self.replays() {
            return self.kernel(paging, held).map(|kernel| OsKernel::Running(Box::new(kernel)));
        }
        self.offline(Keys::new("os", self.table.clone(), paging, held)).map(OsKernel::Offline)
    }

    fn offline(&self, mut keys: Keys) -> Result<OfflineSettings, OsError> {
        keys.take("policy");
        let settings = offline::settings(&mut keys)?;
        keys.finish()?;
        Ok(settings)
    }

    /// Whether it needs replays of the stream.
    pub fn replays(&self) -> bool {
        self.policy() == offline::NAME
    }

    fn policy(&self) -> &str {
        self.table.get("policy").and_then(Value::as_str).unwrap_or_default()
    }

    /// [`OsSpec::build`] for a policy that decides during the run.
    pub fn kernel(&self, paging: Paging, held: u32) -> Result<Kernel, OsError> {
        if self.replays() {
            let why = "`offline` replays the stream: it cannot decide while the stream runs";
            return Err(OsError::Policy(why.to_owned()));
        }
        self.running(Keys::new("os", self.table.clone(), paging, held))
    }

    fn running(&self, mut keys: Keys) -> Result<Kernel, OsError> {
        keys.take("policy");
        let name = self.policy();
        let entry = POLICIES.iter().find(|entry| entry.name == name).ok_or_else(|| OsError::Name {
            name: name.to_owned(),
            choice: names::choice_of(name, &OsSpec::policies().collect::<Vec<_>>()),
        })?;
        let policy = (entry.make)(&mut keys)?;
        let policy = throttled(&mut keys, policy)?;
        let (policy, placement) = placement::placed(&mut keys, policy)?;
        let backs_areas = policy.rules().backs_areas;
        let costs = costs(&mut keys, entry)?;
        let memory = memory::memory(&mut keys)?;
        let kernel = Kernel::new(keys.paging.base(), policy, costs);
        let kernel = match placement {
            Some(placement) => placement.give(kernel, memory.as_ref().map(|(memory, _)| memory))?,
            None => kernel,
        };
        let kernel = sharing::sharing(&mut keys, entry.around, kernel)?;
        keys.finish()?;
        if backs_areas && memory.is_none() {
            let why =
                format!("os.memory: `{name}` backs areas when they are mapped: give memory.size, such as 4G");
            return Err(OsError::Memory(why));
        }
        Ok(match memory {
            Some((memory, rules)) => kernel.with_memory(memory, rules),
            None => kernel,
        })
    }

    /// Reads the [files](read_files) that the description names. Call it before [`OsSpec::kernel`].
    pub fn read_files<E: std::fmt::Display>(
        &mut self,
        read: impl FnMut(&str) -> Result<String, E>,
    ) -> Result<(), OsError> {
        read_files(&mut self.table, read).map_err(|why| OsError::Memory(format!("os.{why}")))
    }
}

/// Splits at commas outside brackets.
fn split_outside_brackets(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |c| {
        depth += i32::from(matches!(c, '[' | '{')) - i32::from(matches!(c, ']' | '}'));
        c == ',' && depth == 0
    })
}

fn costs(keys: &mut Keys, entry: &Entry) -> Result<KernelCosts, OsError> {
    let usual = entry.costs;
    let whole = "what the kernel's work costs, in cycles";
    let Some(mut of) = keys.table("costs", whole, false)? else { return Ok(usual) };
    let mut cycles = |key, meaning, usual| of.count(key, meaning, usual, 0..=u64::MAX);
    let copy = "building a superpage elsewhere, for each KiB of it";
    let recolor = "moving a page to another color, for each KiB, without waits for memory";
    let copy_backed = "the same, for each KiB of it that was backed before";
    let costs = KernelCosts {
        fault: cycles("fault", "a page fault, without clearing", usual.fault)?,
        zero_per_kib: cycles("zero_per_kib", "clearing 1 KiB", usual.zero_per_kib)?,
        copy_per_kib: cycles("copy_per_kib", copy, usual.copy_per_kib)?,
        copy_backed_per_kib: cycles("copy_backed_per_kib", copy_backed, usual.copy_backed_per_kib)?,
        map: cycles("map", "building a superpage where its pages lie already", usual.map)?,
        flush: cycles("flush", "dropping a translation from the TLBs", usual.flush)?,
        recolor_per_kib: cycles("recolor_per_kib", recolor, usual.recolor_per_kib)?,
        recolor_map: cycles("recolor_map", "changing the mapping of that page", usual.recolor_map)?,
    };
    of.finish()?;
    Ok(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let kernel = OsSpec::from_text(text).and_then(|os| os.build(Paging::FOUR_KIB, u32::MAX));
        kernel.map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn every_policy_is_made_with_its_defaults() {
        for (name, _) in OsSpec::policies() {
            let memory = if name == "eager" { ":memory.size=1G" } else { "" };
            let build = |text: &str| {
                let os = OsSpec::from_text(text).unwrap().build(Paging::FOUR_KIB, u32::MAX);
                os.unwrap_or_else(|error| panic!("{text}: {error}"))
            };
            build(&format!("{name}{memory}"));
            if name != "offline" {
                let separator = if memory.is_empty() { ":" } else { "," };
                let OsKernel::Running(kernel) =
                    build(&format!("{name}{memory}{separator}throttle.window=1000"))
                else {
                    panic!("{name} decides while the stream runs")
                };
                assert!(kernel.watches_tlbs(), "{name}: what is throttled counts misses");
            }
        }
    }

    #[test]
    fn keys_of_tables_can_be_given() {
        let os = OsSpec::from_text("approx-online:threshold=0.25,max_page=64K,throttle.window=1000").unwrap();
        assert_eq!(os.kernel(Paging::FOUR_KIB, u32::MAX).unwrap().orders(), 0b11111);
        for deferred in ["true", "{eager_page=\"64K\",batch=0.5}"] {
            let os = OsSpec::from_text(&format!("approx-online:deferred={deferred}")).unwrap();
            assert!(os.kernel(Paging::FOUR_KIB, u32::MAX).is_ok(), "{deferred}");
        }
        let os = OsSpec::from_text("linux:thp=never,sizes.64K=always,khugepaged=false").unwrap();
        assert_eq!(os.kernel(Paging::FOUR_KIB, u32::MAX).unwrap().orders() & (1 << 4), 1 << 4);
        // khugepaged runs while a size that it collapses to is enabled.
        for (mthp, wakes) in
            [("never", None), ("strict", Some(10_000_000_000)), ("scaled", Some(10_000_000_000))]
        {
            let text = format!("linux:thp=never,sizes.64K=always,khugepaged.mthp={mthp}");
            let kernel = OsSpec::from_text(&text).unwrap().kernel(Paging::FOUR_KIB, u32::MAX).unwrap();
            assert_eq!(kernel.wakes(), wakes, "{mthp}");
        }
    }

    #[test]
    fn what_knows_the_future_is_asked_for_in_the_same_way() {
        let os =
            OsSpec::from_text("offline:take=0.5,max_page=16K,build_cycles_per_kib=10,replays=3").unwrap();
        let OsKernel::Offline(settings) = os.build(Paging::FOUR_KIB, 0b1_0000_0101).unwrap() else {
            panic!("it replays the stream")
        };
        let usual = OfflineSettings::default();
        let costs = KernelCosts { copy_per_kib: 10, ..usual.costs };
        let (take, orders) = (crate::promotion::ChoicesPerReplay::Share(0.5), Some(0b100));
        assert_eq!(settings, OfflineSettings { orders, take, costs, replays: 3, ..usual });
        let running = os.kernel(Paging::FOUR_KIB, u32::MAX).map(|_| ()).unwrap_err().to_string();
        assert!(running.contains("replays the stream"), "{running}");
        assert_eq!(refusal("offline:take=2"), "os.take is 2: expected a number from 0 to 1");
        assert!(
            refusal("offline:memory.size=1G")
                .starts_with("unknown key `os.memory`: choose from policy, max_page")
        );
        let small = os.build(Paging::FOUR_KIB, 1).map(|_| ()).unwrap_err().to_string();
        assert!(small.contains("they hold 4K"), "{small}");
    }

    #[test]
    fn a_memory_can_be_described() {
        let text = "linux:memory.size=64M,memory.initial.fragmentation=[1.0,0.5],memory.initial.free=0.5,\
                    memory.compact=false,thp=always";
        let kernel = OsSpec::from_text(text).unwrap().kernel(Paging::FOUR_KIB, u32::MAX).unwrap();
        let memory = kernel.memory().expect("it is described");
        assert_eq!((memory.frames(), memory.free_frames()), (16384, 8192));
        assert_eq!(memory.largest_free_order(), Some(1));
        let mut os = OsSpec::from_text("linux:memory.size=1G,memory.initial.buddyinfo=host.txt").unwrap();
        let missing = os.read_files(|_| Err::<String, _>("no such file")).unwrap_err().to_string();
        assert_eq!(missing, "os.memory: buddyinfo = \"host.txt\": no such file");
        let unread = os.kernel(Paging::FOUR_KIB, u32::MAX).map(|_| ()).unwrap_err().to_string();
        assert_eq!(unread, "os.memory: buddyinfo = \"host.txt\": the file was not read");
        os.read_files(|path| {
            if path == "host.txt" { Ok("Node 0, zone DMA 1 2 3") } else { Err("?") }.map(str::to_owned)
        })
        .unwrap();
        os.read_files(|path| Err::<String, _>(path.to_owned())).expect("the text itself is left as it is");
        assert_eq!(
            os.kernel(Paging::FOUR_KIB, u32::MAX).unwrap().memory().unwrap().free_frames(),
            1 + 4 + 12
        );
    }

    #[test]
    fn a_list_of_frames_is_read_and_what_is_wrong_is_named() {
        let listed = "fixed:placement.policy=listed,placement.frames=x.frames";
        let after = |text: &str, list: &str| {
            let mut os = OsSpec::from_text(text).unwrap();
            os.read_files(|_| Ok::<_, String>(list.to_owned()))?;
            os.kernel(Paging::FOUR_KIB, u32::MAX)
        };
        let wrong = |text: &str, list: &str| after(text, list).map(|_| ()).unwrap_err().to_string();
        let list = "frames of 4K\n0x5000 0x10 2\n";
        assert!(after(listed, list).is_ok_and(|kernel| kernel.has_frames()));
        assert!(after(&format!("{listed},placement.others=bin-hopping,memory.size=1M"), list).is_ok());
        let mut os = OsSpec::from_text(listed).unwrap();
        let missing = os.read_files(|_| Err::<String, _>("no such file")).unwrap_err().to_string();
        assert_eq!(missing, "os.placement.frames = \"x.frames\": no such file");
        let twice = wrong(listed, &format!("{list}0x9000 0x11 1"));
        let expected = "os.placement.frames = \"x.frames\": line 3: frame 0x11 stands in line 2 already";
        assert!(twice.starts_with(expected), "{twice}");
        let beyond = wrong(&format!("{listed},memory.size=64K"), list);
        assert!(
            beyond.starts_with("os.placement.frames: line 2: a frame beyond the 16 of the memory"),
            "{beyond}"
        );
        let granule = wrong(listed, "frames of 64K\n0x10000 0x1 1\n");
        assert!(
            granule.starts_with("os.placement.frames: frames of 64K, and base pages of 4K: choose"),
            "{granule}"
        );
        assert_eq!(refusal(listed), "os.placement.frames: the file was not read");
        assert!(
            refusal("fixed:placement.policy=listed").starts_with("os.placement.frames: missing: `listed`")
        );
        assert!(
            refusal(&format!("{listed},placement.others=listed"))
                .contains("expected one of page-coloring, bin")
        );
        let other = "fixed:placement.policy=careful,placement.frames=x";
        assert!(refusal(other).starts_with("unknown key `os.placement.frames`: choose from policy, strict"));
        let strict = "fixed:placement.policy=careful,placement.strict=true";
        assert!(refusal(strict).starts_with("os.placement.strict without a memory"));
        assert!(after(&format!("{strict},memory.size=1M"), "").is_ok());
        let mut os = OsSpec::from_text("linux:memory.size=1G,memory.initial.buddyinfo=host.txt").unwrap();
        let zones = os.read_files(|_| Ok::<_, String>("no zones".to_owned())).unwrap_err().to_string();
        assert!(zones.starts_with("os.memory: buddyinfo = \"host.txt\": line 1: `no zones`"), "{zones}");
    }

    #[test]
    fn pages_are_shared_under_kernels_of_today() {
        let shares = |text: &str| {
            OsSpec::from_text(text).unwrap().kernel(Paging::FOUR_KIB, u32::MAX).unwrap().shares()
        };
        let all = "files.cache=cold,files.around=16K,files.read_ahead=1M,files.read_cycles=9,\
                   fork.inherited=none,fork.protects=false,fork.child_instructions=7";
        assert!(shares("linux") && shares(&format!("hawkeye:{all}")) && shares("linux:fork=false"));
        assert!(!shares("asap") && !shares("linux:files=false,fork=false"));
        assert!(shares("asap:files=true") && shares("fixed:fork.protects=false"));
        assert_eq!(refusal("linux:files.cache=hot"), "os.files.cache is \"hot\": expected one of warm, cold");
        assert_eq!(
            refusal("linux:fork.inherited=some"),
            "os.fork.inherited is \"some\": expected one of all, none"
        );
        assert!(
            refusal("linux:files.around=3K").starts_with("os.files.around is \"3K\": expected a page size")
        );
        assert!(refusal("linux:files.read_cycles=3").starts_with("os.files: read_cycles with a warm cache"));
        assert!(
            refusal("linux:files.arround=4K")
                .contains("did you mean `around`? choose from cache, around, read_ahead")
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_the_choices() {
        let refused = refusal("asop");
        assert!(refused.starts_with("no kernel policy `asop`: did you mean `asap`"), "{refused}");
        assert!(refused.contains("choose from fixed, asap"), "{refused}");
        assert_eq!(
            refusal("fixed:pages=4K"),
            "unknown key `os.pages`: did you mean `page`? choose from policy, page, throttle, placement, \
             recoloring, costs, memory, files, fork"
        );
        assert_eq!(
            refusal("asap:max_page=3K"),
            "os.max_page is \"3K\": expected a page size, a power of two from 8K to 32M"
        );
        assert_eq!(
            refusal("approx-online:throttle.trip=2"),
            "os.throttle.trip is 2: expected a number from 0 to 1"
        );
        assert_eq!(
            refusal("approx-online:deferred.eager_page=4K"),
            "os.deferred.eager_page is \"4K\": expected a page size, a power of two from 8K to 32M"
        );
        assert!(refusal("approx-online:deferred.batch=0").contains("above 0"));
        assert_eq!(
            refusal("linux:khugepaged.max_ptes_none=512"),
            "os.khugepaged.max_ptes_none is 512: expected a whole number, 0 to 511"
        );
        assert_eq!(
            refusal("linux:khugepaged.mthp=always"),
            "os.khugepaged.mthp is \"always\": expected one of never, strict, scaled"
        );
        let small = OsSpec::from_text("asap").unwrap().kernel(Paging::FOUR_KIB, 1).map(|_| ()).unwrap_err();
        let why = "the policy builds superpages, and the machine's TLBs hold only 4K (`linux` runs there)";
        assert_eq!(small.to_string(), why);
        let larger = OsSpec::from_text("online:max_page=16M").unwrap().kernel(Paging::FOUR_KIB, 0b1001);
        assert_eq!(
            larger.map(|_| ()).unwrap_err().to_string(),
            "os.max_page is \"16M\": expected a superpage that the TLBs hold: they hold 4K 32K"
        );
        assert_eq!(
            refusal("linux:collapse.start=0x10000"),
            "os.collapse.bytes is missing: expected a whole number, 0 or more"
        );
        assert!(refusal("linux:collapse=7").ends_with("expected a table, or a list of tables"));
        assert!(refusal("linux:collapse.from=7").starts_with("os.collapse.start is missing"));
        let call = "{at=9,start=0x200000,bytes=0x200000}";
        assert!(OsSpec::from_text(&format!("linux:collapse=[{call},{call}]")).is_ok_and(|os| {
            os.kernel(Paging::FOUR_KIB, u32::MAX).is_ok_and(|kernel| kernel.wakes() == Some(9))
        }));
        assert_eq!(
            refusal("eager"),
            "os.memory: `eager` backs areas when they are mapped: give memory.size, such as 4G"
        );
        assert_eq!(refusal("linux:memory=true"), "os.memory: missing field `size`");
        assert!(
            refusal("linux:memory.size=1G,memory.initial.free=0.5")
                .starts_with("os.memory: initial = { free }")
        );
        assert!(
            refusal("linux:memory.size=3").starts_with("os.memory: size = 3 bytes with frames of 4096 bytes")
        );
        let none = "linux:memory.size=1M,memory.initial={fragmentation=[1.0],free=0}";
        assert!(refusal(none).starts_with("os.memory: nothing is free at the start"));
        assert_eq!(
            refusal("linux:memory.size=1G,memory.when_full=panic"),
            "os.memory.when_full is \"panic\": expected one of swap, oom"
        );
        assert!(
            refusal("linux:memory.size=1G,memory.when_full=oom,memory.swap_cycles=1")
                .starts_with("os.memory: swap_cycles with when_full")
        );
        assert!(refusal("asap:max_page").starts_with("`asap:max_page`: expected `POLICY` or"));
        assert!(refusal("linux:throttle=true,throttle.window=9").contains("keys of its own"));
    }
}
