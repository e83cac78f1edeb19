//! Who runs on which core.

/// Threads, or threads of processes, in order of appearance: they are dealt to cores round robin.
#[derive(Clone, Debug)]
pub(crate) struct Deal<T>(Vec<T>);

impl<T> Default for Deal<T> {
    fn default() -> Deal<T> {
        Deal(Vec::new())
    }
}

impl<T: PartialEq> Deal<T> {
    /// The core of a thread, of so many.
    pub fn core_of(&mut self, thread: T, cores: usize) -> usize {
        let known = self.0.iter().position(|other| *other == thread);
        let number = known.unwrap_or_else(|| {
            self.0.push(thread);
            self.0.len() - 1
        });
        number % cores
    }
}
