//! Requests taken in whose time has not come: a heap by deadline.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A request's kind, for its reply and for the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read {
        offset: u64,
        length: u32,
    },
    Write {
        offset: u64,
        length: u32,
    },
    Flush,
    Discard,
    /// Fails with this errno.
    Failed(i32),
}

/// A request that is to be answered at its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    pub deadline_ns: u64,
    pub received_ns: u64,
    pub unique: u64,
    pub node: u64,
    pub kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    pending: Pending,
    sequence: u64,
}

impl Ord for Entry {
    /// The earliest first, and of equals the first taken in.
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |entry: &Self| (entry.pending.deadline_ns, entry.sequence);
        key(other).cmp(&key(self))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Debug, Default)]
pub struct Deadlines {
    heap: BinaryHeap<Entry>,
    sequence: u64,
}

impl Deadlines {
    pub fn push(&mut self, pending: Pending) {
        self.sequence += 1;
        self.heap.push(Entry {
            pending,
            sequence: self.sequence,
        });
    }

    pub fn len(&self) -> usize {
        self.heap.len()
    }

    pub fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|entry| entry.pending.deadline_ns)
    }

    /// Takes out every request.
    pub fn drain(&mut self) -> impl Iterator<Item = Pending> {
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        entries.sort_unstable_by_key(|entry| entry.sequence);
        entries.into_iter().map(|entry| entry.pending)
    }

    /// The next request that is due by `now_ns`.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<Pending> {
        if self.next_ns()? > now_ns {
            return None;
        }
        self.heap.pop().map(|entry| entry.pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_out_by_deadline_and_then_by_order() {
        let mut deadlines = Deadlines::default();
        for (unique, deadline_ns) in [(1, 30), (2, 10), (3, 10), (4, 20)] {
            let kind = Kind::Flush;
            deadlines.push(Pending {
                deadline_ns,
                received_ns: 0,
                unique,
                node: 2,
                kind,
            });
        }
        assert_eq!(deadlines.pop_due(5), None);
        let mut popped = vec![];
        while let Some(pending) = deadlines.pop_due(25) {
            popped.push(pending.unique);
        }
        assert_eq!(popped, [2, 3, 4]);
        assert_eq!(deadlines.next_ns(), Some(30));
    }
}
