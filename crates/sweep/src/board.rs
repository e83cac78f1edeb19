//! What has come of a worker's jobs, for its threads.

use crate::error::SweepError;
use crate::jobs::{Claim, Claims, Job};
use crate::pass::Outcomes;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The jobs of a worker.
pub struct Board {
    /// All of them.
    pub jobs: Vec<Job>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether each job is still to be claimed, here or by another worker.
    open: Vec<bool>,
    /// By the job's number.
    ended: Vec<(usize, Result<Outcomes, SweepError>)>,
    /// What stopped this worker.
    failure: Option<SweepError>,
}

/// What a thread does next.
pub enum Next {
    /// The job of this number, which is now claimed. Without a claim: another worker has kept all its outcomes.
    Job(usize, Option<Claim>),
    /// Other workers have all that is left. They may die.
    Wait,
    /// All jobs are done.
    Nothing,
}

impl Board {
    /// A board on which all jobs are open.
    pub fn new(jobs: Vec<Job>) -> Board {
        let state = State { open: vec![true; jobs.len()], ..State::default() };
        Board { jobs, state: Mutex::new(state) }
    }

    /// Claims the first open job that no other worker has. If others have all, finds one that `is_kept`: its worker may
    /// hold the claim for longer than it needs it.
    pub fn next(
        &self,
        claims: &Claims,
        title: impl Fn(&Job) -> String,
        is_kept: impl Fn(&Job) -> bool,
    ) -> Result<Next, SweepError> {
        let mut state = self.lock();
        let mut waits = false;
        for (number, job) in self.jobs.iter().enumerate() {
            if !state.open[number] {
                continue;
            }
            if let Some(claim) = claims.claim(&job.name(), &title(job))? {
                state.open[number] = false;
                return Ok(Next::Job(number, Some(claim)));
            }
            waits = true;
        }
        if let Some(number) =
            (0..self.jobs.len()).find(|&number| state.open[number] && is_kept(&self.jobs[number]))
        {
            state.open[number] = false;
            return Ok(Next::Job(number, None));
        }
        Ok(if waits { Next::Wait } else { Next::Nothing })
    }

    /// Takes the outcome of a job.
    pub fn end(&self, number: usize, outcome: Result<Outcomes, SweepError>) {
        self.lock().ended.push((number, outcome));
    }

    /// Stops all threads before their next job.
    pub fn fail(&self, error: SweepError) {
        let mut state = self.lock();
        state.open.fill(false);
        state.failure.get_or_insert(error);
    }

    /// The outcomes of all jobs with their streams, or the first error in the order of the jobs.
    pub fn finish(self) -> Result<Vec<(usize, Outcomes)>, SweepError> {
        let State { mut ended, failure, .. } =
            self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        ended.sort_by_key(|(number, _)| *number);
        let stream = |number: usize| self.jobs[number].stream;
        let all: Result<Vec<_>, SweepError> =
            ended.into_iter().map(|(number, outcome)| Ok((stream(number), outcome?))).collect();
        failure.map_or(all, Err)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
