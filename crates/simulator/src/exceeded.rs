//! For how long requests waited before each limit.

use serde::Serialize;

/// Time in which something was so, noted piece by piece; what overlaps counts once.
#[derive(Debug, Default, Clone, Copy)]
pub struct Covered {
    until_ns: f64,
    total_ns: f64,
}

impl Covered {
    /// Notes a piece that begins no earlier than those before it; the answer is what of it is new.
    pub fn note(&mut self, from_ns: f64, until_ns: f64) -> (f64, f64) {
        let from_ns = from_ns.max(self.until_ns);
        if until_ns <= from_ns {
            return (from_ns, from_ns);
        }
        self.until_ns = until_ns;
        self.total_ns += until_ns - from_ns;
        (from_ns, until_ns)
    }

    fn seconds(&self, end_ns: f64) -> f64 {
        // What was noted last may reach past the end; pieces before it cannot.
        (self.total_ns - (self.until_ns - end_ns).max(0.0)).max(0.0) / 1e9
    }
}

/// The four limits that a request passes, and any of them.
#[derive(Debug, Default, Clone, Copy)]
pub struct Exceeded {
    pub volume_iops: Covered,
    pub volume_throughput: Covered,
    pub host_iops: Covered,
    pub host_throughput: Covered,
    pub any: Covered,
}

/// The sums, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ExceededSeconds {
    pub volume_iops: f64,
    pub volume_throughput: f64,
    pub host_iops: f64,
    pub host_throughput: f64,
    /// Seconds in which at least one of them was exceeded.
    pub any: f64,
}

impl Exceeded {
    /// Notes that until these moments one request waited before each limit; the answer is the
    /// piece of time that was not yet seen to exceed any.
    pub fn note(
        &mut self,
        now_ns: f64,
        [iops, throughput, host_iops, host_throughput]: [f64; 4],
    ) -> (f64, f64) {
        self.volume_iops.note(now_ns, iops);
        self.volume_throughput.note(now_ns, throughput);
        self.host_iops.note(now_ns, host_iops);
        self.host_throughput.note(now_ns, host_throughput);
        let last_ns = iops.max(throughput).max(host_iops).max(host_throughput);
        self.any.note(now_ns, last_ns)
    }

    /// The sums up to a moment.
    pub fn seconds(&self, end_ns: f64) -> ExceededSeconds {
        ExceededSeconds {
            volume_iops: self.volume_iops.seconds(end_ns),
            volume_throughput: self.volume_throughput.seconds(end_ns),
            host_iops: self.host_iops.seconds(end_ns),
            host_throughput: self.host_throughput.seconds(end_ns),
            any: self.any.seconds(end_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_counts_once_and_nothing_past_the_end() {
        let mut exceeded = Exceeded::default();
        exceeded.note(0.0, [2e9, 0.0, 0.0, 0.0]);
        assert_eq!(exceeded.note(1e9, [3e9, 1e9, 2e9, 1e9]), (2e9, 3e9));
        exceeded.note(8e9, [20e9, 8e9, 8e9, 9e9]);
        let seconds = exceeded.seconds(10e9);
        let expected = ExceededSeconds {
            volume_iops: 5.0,
            volume_throughput: 0.0,
            host_iops: 1.0,
            host_throughput: 1.0,
            any: 5.0,
        };
        assert_eq!(seconds, expected);
    }
}
