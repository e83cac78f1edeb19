//! Reference model of a set-associative array with any replacement policy, one set and one way at a time.

use std::collections::VecDeque;

/// A set-associative array of keys.
#[derive(Clone, Debug)]
pub struct ReplacementModel {
    /// The bits of the index that each bit of a number flips.
    flips: Vec<usize>,
    sets: Vec<Set>,
    generator: Generator,
    duel: Option<Duel>,
}

/// Set duelling of two policies. Leader sets are `Some(true)` for the bimodal policy. `score` is a 10-bit counter that
/// rises with each miss of the other policy's leaders.
#[derive(Clone, Debug)]
struct Duel {
    leads: Vec<Option<bool>>,
    score: u32,
}

impl Duel {
    fn new(sets: usize) -> Duel {
        let mut leads = vec![None; sets];
        let regions = if sets < 128 { sets / 4 } else { 32 };
        for region in 0..regions {
            let size = sets / regions;
            let (first, at) = (region * size, region % size);
            leads[first + at] = Some(false);
            leads[first + size - 1 - at] = Some(true);
        }
        Duel { leads, score: 511 }
    }

    /// Records a miss in this set; returns whether its fill is bimodal.
    fn missed(&mut self, set: usize) -> bool {
        match self.leads[set] {
            Some(false) if self.score < 1023 => self.score += 1,
            Some(true) if self.score > 0 => self.score -= 1,
            _ => {}
        }
        self.leads[set].unwrap_or(self.score / 512 == 1)
    }
}

/// One set.
#[derive(Clone, Debug)]
struct Set {
    ways: Vec<Option<u64>>,
    state: State,
}

/// The state of a replacement policy for one set.
#[derive(Clone, Debug)]
enum State {
    /// Keys, most recently used first.
    Lru(VecDeque<u64>),
    /// Keys, oldest fill first.
    Fifo(VecDeque<u64>),
    /// No state.
    Random,
    /// For each way, whether it was used recently.
    Bits(Vec<bool>),
    /// The nodes of the tree as a heap: the root is 1, and node n has the children 2n and 2n + 1. True points to the
    /// second child.
    Tree(Vec<bool>),
    /// Three groups of ways, each with its tree, and the order of the groups, most recently used first. If `next`, the
    /// second group gives the victim, else the last.
    Trees { trees: Vec<Vec<bool>>, order: VecDeque<usize>, next: bool },
    /// The most recently used way, which is not replaced.
    Spared(usize),
    /// Each way's age, and the rule that changes ages.
    Ages(Vec<u8>, AgeRule),
    /// The predicted distance to the next use of each way, and the largest value.
    Intervals(Vec<u32>, u32),
}

/// A QLRU variant as named by Abel and Reineke: `QLRU_Hxy_Mx_Rx_Ux`.
#[derive(Clone, Copy, Debug)]
struct AgeRule {
    hit_of_3: u8,
    hit_of_2: u8,
    fill: u8,
    find: u8,
    update: u8,
}

impl AgeRule {
    fn named(name: &str) -> AgeRule {
        let digits: Vec<u8> = name.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0').collect();
        let [hit_of_3, hit_of_2, fill, find, update] = digits[..] else { panic!("{name}?") };
        AgeRule { hit_of_3, hit_of_2, fill, find, update }
    }

    /// The ages of a set after the update step; `used` is the way just used.
    fn updated(self, ages: &[u8], used: usize) -> Vec<u8> {
        if ages.contains(&3) {
            return ages.to_vec();
        }
        let spares = |way: usize| self.update % 2 == 1 && way == used;
        let others = ages.iter().enumerate().filter(|(way, _)| !spares(*way));
        let step = if self.update >= 2 { 1 } else { 3 - others.map(|(_, age)| *age).max().unwrap_or(3) };
        ages.iter().enumerate().map(|(way, age)| if spares(way) { *age } else { age + step }).collect()
    }
}

/// A SplitMix64 generator.
#[derive(Clone, Copy, Debug)]
struct Generator {
    seed: u64,
    draws: u64,
}

impl Generator {
    /// A random number below `n`: the next number as a fraction of 2^64, times `n`.
    fn below(&mut self, n: usize) -> usize {
        self.draws += 1;
        let mut z = u128::from(self.seed) + u128::from(self.draws) * 0x9e37_79b9_7f4a_7c15;
        for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb), (31, 1)] {
            z %= 1 << 64;
            z = (z ^ (z >> shift)) * factor;
        }
        (z * n as u128 / (1 << 64)) as usize
    }
}

impl Set {
    fn new(ways: usize, replacement: &str) -> Set {
        let state = match replacement {
            "lru" => State::Lru(VecDeque::new()),
            "fifo" => State::Fifo(VecDeque::new()),
            "random" => State::Random,
            "bit-plru" => State::Bits(vec![false; ways]),
            "tree-plru" => State::Tree(vec![false; ways]),
            "mru3-plru" | "lru3-plru" => State::Trees {
                trees: vec![vec![false; ways / 3]; 3],
                order: VecDeque::from([2, 1, 0]),
                next: replacement == "mru3-plru",
            },
            "not-mru" => State::Spared(0),
            name if name.starts_with("qlru") => State::Ages(vec![3; ways], AgeRule::named(name)),
            "srrip" | "drrip" => State::Intervals(vec![3; ways], 3),
            "srrip-3" => State::Intervals(vec![7; ways], 7),
            other => panic!("{other}?"),
        };
        Set { ways: vec![None; ways], state }
    }

    fn way_of(&self, key: u64) -> Option<usize> {
        self.ways.iter().position(|&held| held == Some(key))
    }

    /// Records a hit or a fill of `way`.
    fn used(&mut self, way: usize, filled: bool) {
        let key = self.ways[way].unwrap();
        match &mut self.state {
            State::Lru(order) => {
                order.retain(|&held| held != key);
                order.push_front(key);
            }
            State::Fifo(order) if filled => order.push_back(key),
            State::Fifo(_) | State::Random => {}
            State::Bits(bits) => {
                bits[way] = true;
                if bits.iter().all(|&bit| bit) {
                    bits.fill(false);
                    bits[way] = true;
                }
            }
            State::Tree(nodes) => point_away(nodes, way),
            State::Trees { trees, order, .. } => {
                let (tree, leaf) = (way / trees[0].len(), way % trees[0].len());
                point_away(&mut trees[tree], leaf);
                order.retain(|&other| other != tree);
                order.push_front(tree);
            }
            State::Spared(spared) => *spared = way,
            State::Ages(ages, rule) => {
                ages[way] = match (filled, ages[way]) {
                    (true, _) => rule.fill,
                    (false, 3) => rule.hit_of_3,
                    (false, 2) => rule.hit_of_2,
                    (false, _) => 0,
                };
                *ages = rule.updated(ages, way);
            }
            State::Intervals(intervals, distant) => intervals[way] = if filled { *distant - 1 } else { 0 },
        }
    }

    fn victim(&mut self, generator: &mut Generator) -> usize {
        if let State::Intervals(intervals, distant) = &mut self.state {
            while !intervals.contains(distant) {
                intervals.iter_mut().for_each(|interval| *interval += 1);
            }
        }
        match &self.state {
            State::Lru(order) => self.way_of(*order.back().unwrap()).unwrap(),
            State::Fifo(order) => self.way_of(*order.front().unwrap()).unwrap(),
            State::Random => generator.below(self.ways.len()),
            State::Bits(bits) => bits.iter().position(|&bit| !bit).unwrap_or(0),
            State::Tree(nodes) => pointed_to(nodes),
            State::Trees { trees, order, next } => {
                let tree = if *next { (order[0] + 1) % 3 } else { order[2] };
                tree * trees[0].len() + pointed_to(&trees[tree])
            }
            State::Spared(spared) => {
                // Draws even if there is only one way.
                let others: Vec<usize> = (0..self.ways.len()).filter(|way| way != spared).collect();
                let drawn = generator.below(others.len().max(1));
                others.get(drawn).copied().unwrap_or(0)
            }
            State::Ages(ages, rule) => {
                let oldest: Vec<usize> = (0..ages.len()).filter(|&way| ages[way] == 3).collect();
                let way = if rule.find == 2 { oldest.last() } else { oldest.first() };
                way.copied().unwrap_or(0)
            }
            State::Intervals(intervals, distant) => {
                intervals.iter().position(|interval| interval == distant).unwrap()
            }
        }
    }

    fn empty(&mut self, way: usize) -> Option<u64> {
        let gone = self.ways[way].take();
        match &mut self.state {
            State::Lru(order) | State::Fifo(order) => order.retain(|&held| Some(held) != gone),
            State::Ages(ages, _) => ages[way] = 3,
            _ => {}
        }
        gone
    }
}

/// Makes all nodes above a leaf point away from it.
fn point_away(nodes: &mut [bool], leaf: usize) {
    let mut node = nodes.len() + leaf;
    while node > 1 {
        nodes[node / 2] = node.is_multiple_of(2);
        node /= 2;
    }
}

/// The leaf to which the nodes lead.
fn pointed_to(nodes: &[bool]) -> usize {
    let mut node = 1;
    while node < nodes.len() {
        node = 2 * node + usize::from(nodes[node]);
    }
    node - nodes.len()
}

/// The bits of an index of `width` bits that this bit of a number flips.
fn flips(bit: u32, index: &str, width: u32) -> usize {
    let one = |bit: u32| if bit < width { 1 << bit } else { 0 };
    match index {
        "modulo" => one(bit),
        "xor-fold" => one(bit % width.max(1)),
        xor => {
            let n: u32 = xor.strip_prefix("xor-").unwrap().parse().unwrap();
            // Such a bit flips its own bit of the index and a lower one.
            one(bit) ^ if (n..2 * n).contains(&bit) { one(bit - n) } else { 0 }
        }
    }
}

impl ReplacementModel {
    /// An empty array. `replacement` and `index` are names from machine files; `seed` is for policies that draw random
    /// numbers.
    pub fn new(sets: usize, ways: usize, replacement: &str, seed: u64, index: &str) -> ReplacementModel {
        let duel = (replacement == "drrip").then(|| Duel::new(sets));
        let flips = (0..64).map(|bit| flips(bit, index, sets.ilog2())).collect();
        let sets = vec![Set::new(ways, replacement); sets];
        ReplacementModel { flips, sets, generator: Generator { seed, draws: 0 }, duel }
    }

    /// The set of `number`: each of its bits flips some bits of the index, or none.
    pub fn set_of(&self, number: u64) -> usize {
        self.flips
            .iter()
            .enumerate()
            .fold(0, |set, (bit, flips)| set ^ (flips * (number >> bit & 1) as usize))
    }

    /// How many sets there are.
    pub fn sets(&self) -> u64 {
        self.sets.len() as u64
    }

    /// Whether the array holds `key`.
    pub fn contains(&self, number: u64, key: u64) -> bool {
        self.sets[self.set_of(number)].way_of(key).is_some()
    }

    /// Looks up a key; returns whether it hits.
    pub fn touch(&mut self, number: u64, key: u64) -> bool {
        let set = self.set_of(number);
        let Some(way) = self.sets[set].way_of(key) else { return false };
        self.sets[set].used(way, false);
        true
    }

    /// Inserts a key; returns the victim.
    pub fn fill(&mut self, number: u64, key: u64) -> Option<u64> {
        if self.touch(number, key) {
            return None;
        }
        let at = self.set_of(number);
        let set = &mut self.sets[at];
        let empty = set.ways.iter().position(Option::is_none);
        let way = empty.unwrap_or_else(|| set.victim(&mut self.generator));
        let gone = set.empty(way);
        set.ways[way] = Some(key);
        set.used(way, true);
        let bimodal = self.duel.as_mut().is_some_and(|duel| duel.missed(at));
        if let (State::Intervals(intervals, distant), true) = (&mut set.state, bimodal)
            && self.generator.below(32) != 0
        {
            intervals[way] = *distant;
        }
        gone
    }

    /// Removes a key; returns whether it was there.
    pub fn remove(&mut self, number: u64, key: u64) -> bool {
        let set = self.set_of(number);
        let Some(way) = self.sets[set].way_of(key) else { return false };
        self.sets[set].empty(way);
        true
    }

    /// Removes every key for which `gone` holds.
    pub fn remove_where(&mut self, gone: impl Fn(u64) -> bool) {
        for set in &mut self.sets {
            for way in 0..set.ways.len() {
                if set.ways[way].is_some_and(&gone) {
                    set.empty(way);
                }
            }
        }
    }

    /// The keys held, set by set, lowest way first.
    pub fn keys(&self) -> Vec<u64> {
        self.sets.iter().flat_map(|set| set.ways.iter().flatten().copied()).collect()
    }
}
