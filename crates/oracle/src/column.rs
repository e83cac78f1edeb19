//! Reference model of a column-associative array (Agarwal and Pudar 1993), place by place.

/// A line in its first place, or in its second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Empty,
    First(u64),
    Second(u64),
}

/// The array.
#[derive(Clone, Debug)]
pub struct Column(Vec<Place>);

impl Column {
    /// An empty array of so many lines, a power of two.
    pub fn new(lines: u64) -> Column {
        Column(vec![Place::Empty; lines as usize])
    }

    fn places(&self, line: u64) -> [usize; 2] {
        let lines = self.0.len() as u64;
        [(line % lines) as usize, ((line + lines / 2) % lines) as usize]
    }

    /// Looks a line up; returns whether the hit is slow.
    pub fn touch(&mut self, line: u64) -> Option<bool> {
        let [first, second] = self.places(line);
        match (self.0[first], self.0[second]) {
            (Place::First(held), _) if held == line => Some(false),
            (Place::First(other), Place::Second(held)) if held == line => {
                (self.0[first], self.0[second]) = (Place::First(line), Place::Second(other));
                Some(true)
            }
            (Place::Empty, Place::Second(held)) if held == line => {
                (self.0[first], self.0[second]) = (Place::First(line), Place::Empty);
                Some(true)
            }
            _ => None,
        }
    }

    /// Inserts a missing line; returns the one that leaves.
    pub fn fill(&mut self, line: u64) -> Option<u64> {
        let [first, second] = self.places(line);
        let left = match self.0[first] {
            Place::First(other) => std::mem::replace(&mut self.0[second], Place::Second(other)),
            place => place,
        };
        self.0[first] = Place::First(line);
        match left {
            Place::Empty => None,
            Place::First(line) | Place::Second(line) => Some(line),
        }
    }

    /// Whether it holds a line.
    pub fn contains(&self, line: u64) -> bool {
        self.0.contains(&Place::First(line)) || self.0.contains(&Place::Second(line))
    }

    /// Removes a line.
    pub fn remove(&mut self, line: u64) {
        let gone = [Place::First(line), Place::Second(line)];
        self.0.iter_mut().filter(|place| gone.contains(place)).for_each(|place| *place = Place::Empty);
    }
}
