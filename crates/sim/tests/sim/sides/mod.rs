//! Random machines that are data sides.

use crate::random::Random;
use pagewalk_translate::MachineSpec;

/// A machine; small, so that a short stream fills it.
pub fn machine(random: &mut Random, index: usize) -> MachineSpec {
    let tlb = |random: &mut Random, name: &str, level: u32, sizes: &str, coalesce: &str| {
        let ways = random.of(&[1, 2, 4, 8]);
        let entries = ways * random.of(&[1, 2, 4]);
        format!(
            "[[tlb]]\nname = \"{name}\"\nlevel = {level}\nserves = [\"load\", \"store\"]\npage_sizes = [{sizes}]\n\
             entries = {entries}\nways = {ways}\n{coalesce}"
        )
    };
    let aligned = |random: &mut Random| match random.below(3) {
        0 => format!("coalesce = {{ rule = \"aligned\", pages = {} }}\n", random.of(&[2, 4, 16])),
        _ => String::new(),
    };
    let mut text = format!("schema = 1\nname = \"m{index}\"\nside = \"data\"\n");
    let predicts = random.below(6) == 0;
    let (huge, whole) = match predicts {
        true => (1, String::new()),
        false => (random.below(7) / 2, aligned(random)),
    };
    let mut arrays = match huge {
        0 => vec![tlb(random, "a", 1, "\"4K\"", &whole)],
        1 => vec![tlb(random, "a", 1, "\"4K\", \"2M\"", &whole)],
        2 => vec![tlb(random, "a", 1, "\"4K\"", &whole), tlb(random, "b", 1, "\"2M\"", "")],
        // Base pages always miss level 1, unless a group of them is together.
        _ => vec![tlb(random, "a", 1, "\"2M\"", &whole)],
    };
    let group = match random.below(3) {
        0 => aligned(random),
        at => {
            let rule = ["clustered", "contiguous"][at as usize - 1];
            format!("coalesce = {{ rule = \"{rule}\", pages = {} }}\n", random.of(&[4, 8]))
        }
    };
    let second = if predicts { 2 } else { random.below(5) };
    arrays.extend(match second {
        0 => vec![tlb(random, "c", 2, "\"4K\"", &group), tlb(random, "d", 2, "\"2M\"", "")],
        1 => vec![tlb(random, "c", 2, "\"4K\"", &group)],
        2 => vec![tlb(random, "c", 2, "\"4K\", \"2M\"", &whole)],
        _ => {
            let distance = random.of(&[2, 8, 64, 1024]);
            let anchor = format!("coalesce = {{ rule = \"anchor\", pages = {distance} }}\n");
            let sizes = random.of(&["\"4K\"", "\"4K\", \"2M\""]);
            vec![tlb(random, "c", 2, sizes, &anchor)]
        }
    });
    // Levels stand in any order.
    let first = random.below(arrays.len() as u64) as usize;
    arrays.rotate_left(first);
    text += &arrays.concat();
    if predicts {
        text += &format!("[predictor]\nentries = {}\n", random.of(&[1, 2, 16]));
    }
    if second > 2 && random.below(2) == 0 {
        text += &format!("[anchors]\ninterval = {}\n", random.of(&[100, 400]));
    }
    if random.below(2) == 0 {
        let (interval, blocks) = (random.of(&[30, 200, 900]), random.of(&[1, 2, 8]));
        let pages = random.of(&[1, 2, 6]);
        text += &format!("[collapse]\ninterval = {interval}\nblocks = {blocks}\npages = {pages}\n");
    }
    let has_segment = random.below(5) == 0;
    if has_segment {
        text += &format!("[segment]\nalive = {}\n", random.of(&[0.0, 0.1, 0.5, 0.9]));
    }
    for (name, level) in [("r1", 1), ("r2", 2)] {
        if !has_segment && random.below(2) == 0 {
            let (entries, mru) = (1 + random.below(4), random.below(2) == 0);
            text += &format!(
                "[[range_tlb]]\nname = \"{name}\"\nlevel = {level}\nentries = {entries}\nmru = {mru}\n"
            );
        }
    }
    let (threshold, fill) = (random.of(&[1, 8, 300]), random.of(&["base", "mapped"]));
    text += &format!("[ranges]\nthreshold = {threshold}\nfill = \"{fill}\"\n");
    if random.below(2) == 0 {
        let (backing, size) = (random.of(&["eager", "demand"]), random.of(&["1M", "4M", "32M"]));
        text += &format!("backing = \"{backing}\"\nmemory = {{ size = \"{size}\" }}\n");
    }
    if random.below(2) == 0 {
        let tlbs = if huge == 2 { random.of(&["\"a\"", "\"b\", \"a\"", "\"a\", \"b\""]) } else { "\"a\"" };
        text += &format!(
            "[lite]\ntlbs = [{tlbs}]\nthreshold = {}\nrelative = {}\nfloor = {}\ninterval = {}\nreactivation = {}\n\
             seed = {}\nhistory = \"{}\"\n",
            random.of(&[0.1, 0.5, 20.0, 100.0]),
            random.below(2) == 0,
            random.of(&[0.0, 0.01, 30.0]),
            random.of(&[50, 200, 1000]),
            random.of(&[0.0, 0.1]),
            random.below(5),
            random.of(&["previous", "minimum"])
        );
    }
    let caches = random.of(&[
        "",
        "caches = { pde = { entries = 4, ways = 2 }, pdpte = { entries = 2 } }\n",
        "caches = { pde = { entries = 2 }, pml4 = { entries = 1 } }\n",
    ]);
    let levels = random.of(&[4, 5]);
    text +=
        &format!("[walker]\nkind = \"radix\"\nlevels = {levels}\n{caches}[cost]\nl2_hit = 7\nwalk = 50\n");
    MachineSpec::from_toml("test", &text).unwrap_or_else(|why| panic!("{why}\n{text}"))
}
