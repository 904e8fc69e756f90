//! What is to happen and when: a binary heap in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens, and to which client or background source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    ThinkDone(u32),
    Computed(u32),
    Accessed(u32),
    WalLed,
    WalWritten,
    WalSynced,
    PeriodBegins(u32),
    SpreadDue(u32),
    BackgroundWritten(u32),
    OpenDue(u32),
}

/// Events in order of time; those of equal times in the order in which they were scheduled.
#[derive(Debug, Default)]
pub struct EventList {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
}

impl EventList {
    /// Let something happen at that time.
    pub fn schedule(&mut self, at_ns: u64, event: Event) {
        self.scheduled += 1;
        self.heap.push(Reverse((at_ns, self.scheduled, event)));
    }

    /// Take the next event, if it is before the end.
    pub fn next_before(&mut self, end_ns: u64) -> Option<(u64, Event)> {
        let &Reverse((at_ns, _, event)) = self.heap.peek()?;
        if at_ns >= end_ns {
            return None;
        }
        self.heap.pop();
        Some((at_ns, event))
    }
}
