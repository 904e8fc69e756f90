//! Writes nobody waits for: at once, or collected over a period and spread evenly over the next.

/// The pace of one source of background writes; it has no clock.
#[derive(Debug)]
pub struct Pace {
    pub period_ns: u64, // 0: at once
    batch: u64,
    depth: u32,
    in_flight: u32,
    due: u64,       // to be written as soon as the depth allows
    gathered: u64,  // of a batch that is not whole
    collected: u64, // of this period, for the next
    spread: u64,    // of the last period, not yet due
    interval_ns: u64,
    is_first: bool,
}

impl Pace {
    pub fn new(period_ns: u64, depth: u32, batch: u32) -> Pace {
        Pace {
            period_ns,
            batch: batch.into(),
            depth,
            in_flight: 0,
            due: 0,
            gathered: 0,
            collected: 0,
            spread: 0,
            interval_ns: 0,
            is_first: true,
        }
    }

    /// A transaction made a page dirty.
    ///
    /// The first period has no predecessor whose writes it could make: its own stand for them.
    pub fn dirty(&mut self) {
        if self.period_ns == 0 {
            self.gather();
        } else {
            self.collected += 1;
            if self.is_first {
                self.gather();
            }
        }
    }

    /// One write more is to be made; those of a batch are due together.
    fn gather(&mut self) {
        self.gathered += 1;
        if self.gathered >= self.batch {
            self.due += std::mem::take(&mut self.gathered);
        }
    }

    /// A period began: what the last one collected is spread over it. Says when the first is due.
    pub fn begin_period(&mut self) -> Option<u64> {
        self.is_first = false;
        self.spread = std::mem::take(&mut self.collected);
        self.interval_ns = self.period_ns / (self.spread + 1);
        (self.spread > 0).then_some(self.interval_ns)
    }

    /// A spread write is due now. Says how long until the next one.
    pub fn fall_due(&mut self) -> Option<u64> {
        self.gather();
        self.spread -= 1;
        (self.spread > 0).then_some(self.interval_ns)
    }

    /// Take one due write to submit it, if the depth allows.
    pub fn begin(&mut self) -> bool {
        let may = self.due > 0 && self.in_flight < self.depth;
        if may {
            self.due -= 1;
            self.in_flight += 1;
        }
        may
    }

    /// A write ended.
    pub fn end(&mut self) {
        self.in_flight -= 1;
    }

    /// Writes that are due and not submitted.
    pub fn backlog(&self) -> u64 {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_without_a_period_go_at_once_up_to_the_depth() {
        let mut pace = Pace::new(0, 2, 1);
        (0..3).for_each(|_| pace.dirty());
        assert_eq!(
            [pace.begin(), pace.begin(), pace.begin()],
            [true, true, false]
        );
        assert_eq!(pace.backlog(), 1);
        pace.end();
        assert!(pace.begin());
    }

    #[test]
    fn a_batch_is_due_together() {
        let mut pace = Pace::new(0, 16, 3);
        (0..2).for_each(|_| pace.dirty());
        assert!(!pace.begin());
        pace.dirty();
        assert_eq!(pace.backlog(), 3);
        assert!((0..3).all(|_| pace.begin()));
        assert!(!pace.begin());
    }

    #[test]
    fn a_period_writes_what_the_last_one_collected() {
        let mut pace = Pace::new(1000, 16, 1);
        (0..4).for_each(|_| pace.dirty());
        assert_eq!(pace.backlog(), 4); // the first period's
        while pace.begin() {}
        let mut now_ns = pace.begin_period().unwrap();
        let mut written = 0;
        loop {
            let next_ns = pace.fall_due();
            assert!(pace.begin());
            written += 1;
            match next_ns {
                Some(wait_ns) => now_ns += wait_ns,
                None => break,
            }
        }
        assert_eq!((written, now_ns), (4, 800));
        assert_eq!(pace.begin_period(), None);
    }
}
