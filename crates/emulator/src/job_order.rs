//! The order of a file's jobs: those whose ranges meet go one after another, the others at once.

use std::collections::VecDeque;
use std::ops::Range;

/// What orders a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub id: u64,
    pub range: Range<u64>,
    /// Two that only read may go at once.
    pub reads_only: bool,
}

impl Claim {
    fn conflicts(&self, other: &Self) -> bool {
        let meet = self.range.start < other.range.end && other.range.start < self.range.end;
        meet && !(self.reads_only && other.reads_only)
    }
}

#[derive(Debug)]
pub struct JobOrder<J> {
    running: Vec<Claim>,
    waiting: VecDeque<(Claim, J)>,
}

impl<J> Default for JobOrder<J> {
    fn default() -> Self {
        Self {
            running: vec![],
            waiting: VecDeque::new(),
        }
    }
}

impl<J> JobOrder<J> {
    /// Takes a job; given back if it is to run now.
    pub fn submit(&mut self, claim: Claim, job: J) -> Option<J> {
        let mut before = self
            .running
            .iter()
            .chain(self.waiting.iter().map(|entry| &entry.0));
        if before.any(|other| claim.conflicts(other)) {
            self.waiting.push_back((claim, job));
            return None;
        }
        self.running.push(claim);
        Some(job)
    }

    /// Notes the end of a job; the answer is what it claimed, and those that are to run now.
    pub fn finish(&mut self, id: u64) -> (Claim, Vec<J>) {
        let found = self.running.iter().position(|claim| claim.id == id);
        let finished = self
            .running
            .swap_remove(found.expect("it was given out to run"));
        let mut ready = vec![];
        let mut waiting: VecDeque<(Claim, J)> = VecDeque::new();
        for (claim, job) in std::mem::take(&mut self.waiting) {
            let mut before = self
                .running
                .iter()
                .chain(waiting.iter().map(|entry| &entry.0));
            if before.any(|other| claim.conflicts(other)) {
                waiting.push_back((claim, job));
            } else {
                self.running.push(claim);
                ready.push(job);
            }
        }
        self.waiting = waiting;
        (finished, ready)
    }

    #[cfg(test)]
    fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// The jobs that wait, to add to them what has come since.
    pub fn waiting_mut(&mut self) -> impl Iterator<Item = &mut J> {
        self.waiting.iter_mut().map(|entry| &mut entry.1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn jobs_that_meet_run_in_their_order_and_all_run(
            jobs in prop::collection::vec((0..40u64, 1..20u64, any::<bool>()), 1..40),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 40)
        ) {
            let claims: Vec<Claim> = jobs.iter().enumerate().map(|(id, &(start, length, reads))| {
                Claim { id: id as u64, range: start..start + length, reads_only: reads }
            }).collect();
            let mut order = JobOrder::default();
            let mut running: Vec<u64> = claims.iter()
                .filter_map(|claim| order.submit(claim.clone(), claim.id)).collect();
            let mut finished = vec![];
            for pick in picks {
                if running.is_empty() {
                    break;
                }
                for (at, &one) in running.iter().enumerate() {
                    for &other in &running[at + 1..] {
                        prop_assert!(!claims[one as usize].conflicts(&claims[other as usize]));
                    }
                }
                let id = running.swap_remove(pick.index(running.len()));
                finished.push(id);
                running.extend(order.finish(id).1);
            }
            prop_assert_eq!(finished.len(), claims.len());
            prop_assert!(order.is_idle());
            for (at, &later) in finished.iter().enumerate() {
                for &earlier in &finished[..at] {
                    let swapped = earlier > later;
                    prop_assert!(
                        !(swapped && claims[earlier as usize].conflicts(&claims[later as usize]))
                    );
                }
            }
        }
    }
}
