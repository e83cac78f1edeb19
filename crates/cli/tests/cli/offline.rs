//! The policy that knows the future, on the command line: it rereads a trace, and its result appears with those of
//! kernels that decide as the stream runs.

use crate::harness::{BAD_INPUT, Place, USAGE, joined};
use serde_json::Value;

/// Visits 64 pages at random, and then a few of them.
const WORK: &str = "
    static unsigned char table[1 << 18];
    int main(void) {
        unsigned state = 1;
        for (int i = 0; i < 200000; i++) table[(state = state * 1664525u + 1013904223u) >> 14]++;
        for (int i = 0; i < 100000; i++) table[((state = state * 1664525u + 1013904223u) >> 30) << 12]++;
        return 0;
    }
";

const OFFLINE: &str = "offline:build_cycles_per_kib=30,max_page=64K";

fn recorded() -> Place {
    let (place, work) = Place::with_program("work", WORK);
    place.good(&["record", "-q", "-o", "t.pwt", "--", &work]);
    place
}

/// A machine of the library with a kernel of its own.
fn own(place: &Place, name: &str, os: &str) {
    let text = place.good(&["machines", "show", "--toml", "romer_1998"]).stdout;
    let text = text.replace("\"romer_1998\"", &format!("\"{name}\""));
    place.write(&format!("{name}.toml"), format!("{text}\n[os]\n{os}\n"));
}

fn rows(result: &Value) -> Vec<(String, Value)> {
    let rows = result["processes"][0]["kernels"].as_array().expect("rows").iter();
    rows.map(|row| (row["policy"].as_str().expect("a name").to_owned(), row["metrics"].clone())).collect()
}

#[test]
fn superpages_are_chosen_beside_kernels_that_do_not_know_the_future() {
    let place = recorded();
    let command = ["simulate", "-q", "-m", "romer_1998", "--thp", "never", "t.pwt"];
    let kernels = ["--os", "fixed", "--os", OFFLINE, "--os", "asap", "--os", "offline"];
    let outputs = ["-o", "r.json", "-o", "r.html"];
    let text = place.good(&joined(&[&command, &kernels, &outputs])).stdout;
    let result = place.json("r.json");
    let all = rows(&result);
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["host", "fixed", OFFLINE, "asap", "offline"]);
    let count = |row: usize, name: &str| all[row].1[name].as_u64().unwrap_or_else(|| panic!("no {name}"));
    assert!(count(2, "walks") * 4 < count(1, "walks"), "{} walks", count(2, "walks"));
    assert!(count(2, "kernel.promotions.64K") > 0);
    let cost = |row: usize| 30 * count(row, "walks") + count(row, "kernel.cycles");
    assert!(cost(2) < cost(1));
    let page = String::from_utf8(place.read("r.html")).expect("text");
    assert!(text.contains(OFFLINE) && page.contains(OFFLINE), "{text}");
    // The others are unchanged by it, and studies find the same.
    let without = place.good(&joined(&[&command, &["--os", "asap", "--json"]])).json();
    assert_eq!(rows(&without)[1], all[3]);
    let os = "[[os]]\npolicy = \"offline\"\nbuild_cycles_per_kib = 30\nmax_page = \"64K\"\n";
    let study = format!(
        "schema = 1\nname = \"s\"\ntraces = [\"t.pwt\"]\nmachines = [\"romer_1998\"]\nthp = \"never\"\n{os}"
    );
    place.write("s.toml", study);
    let cell = place.good(&["sweep", "-q", "--json", "-o", "out", "s.toml"]).json();
    for name in ["walks", "kernel.cycles", "kernel.promoted_bytes"] {
        assert_eq!(cell["machines"][0]["metrics"][name], all[2].1[name], "{name}");
    }
    own(&place, "own", "policy = \"offline\"\nbuild_cycles_per_kib = 30\nmax_page = \"64K\"");
    let own = place.good(&["simulate", "-q", "-m", "./own.toml", "--thp", "never", "--json", "t.pwt"]).json();
    assert_eq!(rows(&own)[1], ("offline".to_owned(), all[2].1.clone()));
}

#[test]
fn replays_see_the_region_that_is_asked_for_and_what_can_be_read() {
    let place = recorded();
    let run = |options: &[&str], code: i32| {
        let command = ["simulate", "-q", "-m", "romer_1998", "--json", "--os", "fixed", "--os", OFFLINE];
        let outcome = place.run(&joined(&[&command, options]));
        assert_eq!(outcome.code, code, "{}", outcome.stderr);
        let all = rows(&outcome.json());
        for name in ["instructions", "references_data", "references_fetch", "pages_touched"] {
            assert_eq!(all[2].1[name], all[1].1[name], "{name}");
        }
        all[2].1["instructions"].as_u64().expect("a count")
    };
    let whole = run(&["t.pwt"], 0);
    let region = run(&["--skip", "1000", "--max-instructions", "500000", "t.pwt"], 0);
    assert!((500_000..500_100).contains(&region) && region < whole, "{region} of {whole}");
    let bytes = place.read("t.pwt");
    place.write("cut.pwt", &bytes[..bytes.len() / 2]);
    assert!(run(&["cut.pwt"], BAD_INPUT) <= whole);
}

#[test]
fn what_cannot_be_read_again_is_refused_with_a_way_out() {
    let place = recorded();
    let simulate = |options: &[&str]| place.run(&joined(&[&["simulate", "-m", "romer_1998"], options]));
    let parts = ["policy `offline`", "only once", "pagewalk record"];
    simulate(&["--os", "offline", "--", "./work"]).refuses(USAGE, &parts);
    own(&place, "own", "policy = \"offline\"");
    place.run(&["simulate", "-m", "./own.toml", "--", "./work"]).refuses(USAGE, &parts);
    let status = std::process::Command::new("mkfifo").arg(place.path("pipe")).status().expect("it runs");
    assert!(status.success());
    let parts = ["pipe", "policy `offline`", "no file", "write it to a file first"];
    simulate(&["--os", "asap", "--os", "offline", "pipe"]).refuses(BAD_INPUT, &parts);
    simulate(&["--os", "offline", "none.pwt"]).refuses(BAD_INPUT, &["none.pwt", "No such file"]);
    simulate(&["--os", "offline:take=2", "t.pwt"]).refuses(USAGE, &["os.take is 2", "from 0 to 1"]);
    simulate(&["--os", "offline:memory.size=1G", "t.pwt"]).refuses(USAGE, &["`os.memory`", "take, replays"]);
    place
        .run(&["simulate", "-m", "mips_r2000", "--os", "offline", "t.pwt"])
        .refuses(USAGE, &["the policy builds superpages", "TLBs hold only 4K"]);
    own(&place, "wrong", "policy = \"offline\"\ntakes = 1");
    place.run(&["machines", "check", "./wrong.toml"]).refuses(BAD_INPUT, &["unknown key `os.takes`", "take"]);
}
