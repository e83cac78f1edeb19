//! Tests of specifications and of drawn visits.

use super::*;
use pagewalk_trace::call_number;
use pagewalk_units::Kind;

const TWO_SERVERS: &str = r#"
schema = 1
name = "two"
seed = 7

[kernel]
touches = { file = 3, other = 1, tick = 2 }
data = { pages = 40, hot = 4, hot_share = 0.5 }
regions = 2
stores = 0.5
message_pages = 3
tick_instructions = 1000

[[server]]
name = "unix"
share = { file = 1.0 }
text = { touches = 4, pages = 10 }
data = { touches = 2, pages = 20 }
stack = { touches = 1, pages = 2 }
resumes = 0.5
kernel_touches = 1
message_touches = 2

[[server]]
name = "afs"
share = { file = 0.5 }
text = { touches = 1, pages = 1 }
data = { touches = 1, pages = 1 }
stack = { touches = 1, pages = 1 }
message_touches = 1
"#;

fn spec(text: &str) -> StructureSpec {
    StructureSpec::from_toml("two.toml", text).unwrap()
}

fn call(generator: &mut Generator, name: &str) -> Vec<(Visitor, Vec<Reference>)> {
    let mut visits = Visits::default();
    generator.call(call_number(name).unwrap(), &mut visits);
    visits.iter().map(|(who, references)| (who, references.to_vec())).collect()
}

#[test]
fn a_call_goes_through_its_servers_and_back() {
    let mut generator = Generator::new(spec(TWO_SERVERS));
    let shapes: Vec<Vec<(Visitor, usize)>> = (0..50)
        .map(|_| {
            let visits = call(&mut generator, "read");
            visits.into_iter().map(|(who, references)| (who, references.len())).collect()
        })
        .collect();
    let (kernel, unix, afs) = (Visitor::Kernel, Visitor::Server(0), Visitor::Server(1));
    // The call and its message; the server; its kernel touch and the answer.
    let one = vec![(kernel, 3 + 2), (unix, 7), (kernel, 1 + 2)];
    // In between: the message to the other server, its answer, and half of the first server's references again.
    let two =
        vec![(kernel, 5), (unix, 7), (kernel, 1 + 1), (afs, 3), (kernel, 1), (unix, 2 + 1 + 1), (kernel, 2)];
    assert!(shapes.iter().all(|shape| *shape == one || *shape == two), "{shapes:?}");
    let inner = shapes.iter().filter(|shape| **shape == two).count();
    assert!((15..35).contains(&inner), "{inner} of 50 calls went to the second server, half of them were to");
    assert_eq!(call(&mut generator, "getpid").len(), 1);
    assert_eq!(call(&mut generator, "brk"), []);
}

#[test]
fn pages_lie_where_they_belong() {
    let mut generator = Generator::new(spec(TWO_SERVERS));
    let mut kernel_pages = std::collections::BTreeSet::new();
    for _ in 0..500 {
        for (who, references) in call(&mut generator, "read") {
            for Reference { address, kind } in references {
                match who {
                    Visitor::Kernel => {
                        assert!(address >= KERNEL_START && kind != Kind::Fetch);
                        kernel_pages.insert(address.0 - KERNEL_START.0);
                    }
                    Visitor::Server(_) => {
                        let is_text = address.0 < 0x1000_0000;
                        assert!(address < KERNEL_START);
                        assert_eq!(kind == Kind::Fetch, is_text, "{address}");
                    }
                }
            }
        }
    }
    assert_eq!(kernel_pages.len(), 40 + 3, "all data and all buffers");
    let regions: std::collections::BTreeSet<u64> = kernel_pages.iter().map(|at| at >> 22).collect();
    assert_eq!(regions.into_iter().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn one_seed_gives_one_sequence() {
    let draw = |seed: u64| {
        let mut generator = Generator::new(StructureSpec { seed, ..spec(TWO_SERVERS) });
        (0..20).map(|_| call(&mut generator, "write")).collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn unmapped_data_make_no_references() {
    let unmapped = TWO_SERVERS.replace("regions = 2", "regions = 2\nunmapped = 1.0");
    let mut generator = Generator::new(spec(&unmapped));
    assert_eq!(call(&mut generator, "getpid"), []);
    // The clock's tick does not either.
    assert_eq!(call(&mut generator, "mmap"), []);
}

#[test]
fn hot_pages_get_their_share() {
    let mut generator = Generator::new(spec(TWO_SERVERS));
    let (mut hot, mut all) = (0, 0);
    for _ in 0..2000 {
        for (_, references) in call(&mut generator, "getpid") {
            // Pages 0 to 3 are the first two of each region.
            hot += references.iter().filter(|r| (r.address.0 - KERNEL_START.0) >> 12 & 1023 < 2).count();
            all += references.len();
        }
    }
    assert_eq!(all, 2000);
    assert!((900..1100).contains(&hot), "{hot}");
}

#[test]
fn bad_descriptions_are_named() {
    let why = |from: &str, to: &str| {
        assert!(TWO_SERVERS.contains(from), "{from}");
        StructureSpec::from_toml("two.toml", &TWO_SERVERS.replace(from, to)).unwrap_err().to_string()
    };
    let cases = [
        ("schema = 1", "schema = 2", ["schema = 2", "expected 1"]),
        ("name = \"two\"", "name = \"\"", ["name = \"\"", "mach3"]),
        ("regions = 2", "region = 2", ["unknown field `region`", "`regions`"]),
        ("other = 1", "others = 1", ["unknown field `others`", "`other`"]),
        ("stores = 0.5", "stores = 1.5", ["kernel.stores = 1.5", "0.0 to 1.0"]),
        ("stores = 0.5", "stores = nan", ["kernel.stores = NaN", "0.0 to 1.0"]),
        ("regions = 2", "regions = 0", ["kernel.regions = 0", "from 1 to 1024"]),
        ("pages = 40", "pages = 4000", ["kernel.data.pages = 4000", "at most 2048"]),
        ("hot = 4", "hot = 41", ["kernel.data.hot = 41", "at most 40"]),
        ("hot = 4", "hot = 0", ["kernel.data.hot = 0", "1 or more"]),
        ("message_pages = 3", "message_pages = 0", ["server `unix`: message_touches = 2", "0 where"]),
        ("message_pages = 3", "message_pages = 2009", ["kernel.message_pages = 2009", "at most 2008"]),
        ("file = 0.5 ", "file = -1.0 ", ["server `afs`: share.file = -1", "0.0 to 1.0"]),
        ("pages = 10", "pages = 0", ["server `unix`: text.pages = 0", "1 or more"]),
        ("pages = 20", "pages = 1025", ["server `unix`: data.pages = 1025", "at most 1024"]),
        ("touches = 4", "touches = 100001", ["server `unix`: text.touches = 100001", "at most 100000"]),
        ("name = \"afs\"", "name = \"unix\"", ["server.name = unix", "no other server"]),
    ];
    for (from, to, parts) in cases {
        let why = why(from, to);
        assert!(why.starts_with("two.toml: "), "{why}");
        parts.iter().for_each(|part| assert!(why.contains(part), "{to}: {why}"));
    }
}
