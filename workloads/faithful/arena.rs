// Sorts, hashes and panics in a thread, with a large vector on the way. rustc -O -C strip=symbols arena.rs
use std::collections::HashMap;

fn main() {
    let mut state = 88172645463325252u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut values: Vec<u64> = (0..400_000).map(|_| next()).collect();
    values.sort_unstable();
    let mut counts = HashMap::new();
    for value in &values {
        *counts.entry(value % 1000).or_insert(0u64) += 1;
    }
    println!("{} {}", values[values.len() / 2], counts[&7]);
    let outcome = std::thread::Builder::new().name("doomed".into()).spawn(|| panic!("as planned")).unwrap().join();
    std::process::exit(if outcome.is_err() { 7 } else { 0 });
}
