//! What a volume has done, as the provider counts it: cumulative, never reset.

use pgstow_device::Waits;
use serde::Serialize;

use crate::pending::Kind;

/// Bins of powers of two: from 1 µs, and the last from 2^30 µs (18 min) on.
const BINS: usize = 32;
/// Each of them in so many equal parts, for percentiles.
const PARTS: usize = 32;

/// The sums of one volume. Times are from when a request came to when its reply went.
#[derive(Debug, Default, Clone)]
pub struct Statistics {
    pub counts: Counts,
    /// Up to when the times below are computed.
    updated_ns: u64,
    idle_ns: u64,
    /// The integral of the queue's length over time.
    queue_ns: u64,
    exceeded: Exceeded,
    read_latency: Histogram,
    write_latency: Histogram,
}

/// What `status` tells too.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Counts {
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub read_us_total: f64,
    pub write_us_total: f64,
    /// By how much replies went later than the model says, in all.
    pub late_us_total: f64,
    pub in_flight: u64,
}

/// For how long demand was beyond each limit.
#[derive(Debug, Default, Clone, Copy)]
struct Exceeded {
    volume_iops: Union,
    volume_throughput: Union,
    instance_iops: Union,
    instance_throughput: Union,
}

/// The length of a union of intervals that are told in the order of their beginnings.
#[derive(Debug, Default, Clone, Copy)]
struct Union {
    total_ns: u64,
    covered_until_ns: u64,
}

impl Union {
    fn add(&mut self, from_ns: u64, length_ns: u64) {
        let until_ns = from_ns + length_ns;
        let new_from_ns = from_ns.max(self.covered_until_ns);
        if until_ns > new_from_ns {
            self.total_ns += until_ns - new_from_ns;
            self.covered_until_ns = until_ns;
        }
    }

    /// The part of it before `now_ns`: what waits has not waited to the end yet.
    fn us(self, now_ns: u64) -> f64 {
        let ahead_ns = self.covered_until_ns.saturating_sub(now_ns);
        self.total_ns.saturating_sub(ahead_ns) as f64 / 1e3
    }
}

#[derive(Debug, Clone)]
struct Histogram {
    bins: [u64; BINS],
    parts: Box<[[u64; PARTS]; BINS]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            bins: [0; BINS],
            parts: Box::new([[0; PARTS]; BINS]),
        }
    }
}

impl Histogram {
    fn add(&mut self, latency_ns: u64) {
        let us = latency_ns / 1000;
        let bin = ((u64::BITS - us.leading_zeros()) as usize).min(BINS - 1);
        self.bins[bin] += 1;
        let (low_ns, width_ns) = (low_us(bin) * 1000, low_us(bin).max(1) * 1000);
        let part = (latency_ns - low_ns) / width_ns.div_ceil(PARTS as u64);
        self.parts[bin][(part as usize).min(PARTS - 1)] += 1;
    }

    /// The bins up to the last one that holds something.
    fn bins(&self) -> Vec<Bin> {
        let used = self.bins.iter().rposition(|&count| count > 0);
        let upto = used.map_or(0, |last| last + 1);
        (0..upto)
            .map(|bin| Bin {
                low_us: low_us(bin),
                high_us: (bin + 1 < BINS).then(|| low_us(bin + 1)),
                count: self.bins[bin],
            })
            .collect()
    }

    /// The parts that hold something: from where on, in microseconds, how wide, and how many.
    fn parts(&self) -> Vec<(f64, f64, u64)> {
        let mut found = vec![];
        for (bin, parts) in self.parts.iter().enumerate() {
            let width_us = (low_us(bin).max(1) * 1000).div_ceil(PARTS as u64) as f64 / 1e3;
            let counted = parts.iter().enumerate().filter(|(_, count)| **count > 0);
            found.extend(counted.map(|(part, &count)| {
                (low_us(bin) as f64 + part as f64 * width_us, width_us, count)
            }));
        }
        found
    }
}

/// Where a bin begins.
fn low_us(bin: usize) -> u64 {
    if bin == 0 { 0 } else { 1 << (bin - 1) }
}

/// Requests of `low_us` and more that took less than `high_us`; the last bin has no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bin {
    low_us: u64,
    high_us: Option<u64>,
    count: u64,
}

/// One volume in the answer to `stats`.
#[derive(Debug, Serialize)]
pub struct VolumeStatistics<'a> {
    name: &'a str,
    #[serde(flatten)]
    counts: &'a Counts,
    idle_us_total: f64,
    queue_length: u64,
    queue_us_total: f64,
    exceeded_us: ExceededUs,
    read_latency_histogram: Vec<Bin>,
    write_latency_histogram: Vec<Bin>,
    /// The same in finer parts: from where on in microseconds, how wide, how many.
    read_latency_parts: Vec<(f64, f64, u64)>,
    write_latency_parts: Vec<(f64, f64, u64)>,
    burst_balance_percent: Option<f64>,
}

#[derive(Debug, Serialize)]
struct ExceededUs {
    volume_iops: f64,
    volume_throughput: f64,
    instance_iops: f64,
    instance_throughput: f64,
}

impl Statistics {
    /// Of a volume that begins at `now_ns`.
    pub fn new(now_ns: u64) -> Self {
        Self {
            updated_ns: now_ns,
            ..Self::default()
        }
    }

    /// A request came in.
    pub fn arrive(&mut self, now_ns: u64, waits: Waits) {
        self.update(now_ns);
        self.counts.in_flight += 1;
        if waits != Waits::default() {
            let exceeded = &mut self.exceeded;
            exceeded.volume_iops.add(now_ns, waits.volume_iops_ns);
            exceeded
                .volume_throughput
                .add(now_ns, waits.volume_throughput_ns);
            exceeded.instance_iops.add(now_ns, waits.host_iops_ns);
            exceeded
                .instance_throughput
                .add(now_ns, waits.host_throughput_ns);
        }
    }

    /// A request was answered.
    pub fn depart(&mut self, kind: Kind, (received_ns, deadline_ns, now_ns): (u64, u64, u64)) {
        self.update(now_ns);
        let took_ns = now_ns.saturating_sub(received_ns);
        let counts = &mut self.counts;
        match kind {
            Kind::Read { length, .. } => {
                counts.reads += 1;
                counts.read_bytes += u64::from(length);
                counts.read_us_total += took_ns as f64 / 1e3;
                self.read_latency.add(took_ns);
            }
            Kind::Write { length, .. } => {
                counts.writes += 1;
                counts.write_bytes += u64::from(length);
                counts.write_us_total += took_ns as f64 / 1e3;
                self.write_latency.add(took_ns);
            }
            Kind::Flush => counts.flushes += 1,
            Kind::Discard | Kind::Failed(_) => {}
        }
        counts.late_us_total += now_ns.saturating_sub(deadline_ns) as f64 / 1e3;
        counts.in_flight -= 1;
    }

    fn update(&mut self, now_ns: u64) {
        let (passed_ns, waiting) = self.since_updated(now_ns);
        self.queue_ns += passed_ns * waiting;
        self.idle_ns += if waiting == 0 { passed_ns } else { 0 };
        self.updated_ns = self.updated_ns.max(now_ns);
    }

    fn since_updated(&self, now_ns: u64) -> (u64, u64) {
        let passed_ns = now_ns.saturating_sub(self.updated_ns);
        (passed_ns, self.counts.in_flight)
    }

    /// All of it at `now_ns`.
    pub fn report<'a>(
        &'a self,
        name: &'a str,
        now_ns: u64,
        burst_balance_percent: Option<f64>,
    ) -> VolumeStatistics<'a> {
        let mut present = self.clone();
        present.update(now_ns);
        let exceeded = self.exceeded;
        VolumeStatistics {
            name,
            counts: &self.counts,
            idle_us_total: present.idle_ns as f64 / 1e3,
            queue_length: self.counts.in_flight,
            queue_us_total: present.queue_ns as f64 / 1e3,
            exceeded_us: ExceededUs {
                volume_iops: exceeded.volume_iops.us(now_ns),
                volume_throughput: exceeded.volume_throughput.us(now_ns),
                instance_iops: exceeded.instance_iops.us(now_ns),
                instance_throughput: exceeded.instance_throughput.us(now_ns),
            },
            read_latency_histogram: self.read_latency.bins(),
            write_latency_histogram: self.write_latency.bins(),
            read_latency_parts: self.read_latency.parts(),
            write_latency_parts: self.write_latency.parts(),
            burst_balance_percent,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const READ: Kind = Kind::Read {
        offset: 0,
        length: 8192,
    };

    #[test]
    fn queue_and_idle_time_are_integrals() {
        let mut statistics = Statistics::new(1_000_000);
        statistics.arrive(3_000_000, Waits::default());
        statistics.arrive(4_000_000, Waits::default());
        statistics.depart(READ, (3_000_000, 6_000_000, 6_500_000));
        let report = statistics.report("data", 7_000_000, None);
        assert_eq!(report.idle_us_total, 2000.0);
        assert_eq!(report.queue_us_total, 1000.0 + 2.0 * 2500.0 + 500.0);
        assert_eq!((report.queue_length, report.counts.reads), (1, 1));
        assert_eq!(report.counts.read_us_total, 3500.0);
        assert_eq!(report.counts.late_us_total, 500.0);
        let bins = &report.read_latency_histogram;
        let last = bins.last().unwrap();
        assert_eq!((last.low_us, last.high_us), (2048, Some(4096)));
        assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), 1);
    }

    #[test]
    fn time_beyond_a_limit_counts_once_and_not_before_it_has_passed() {
        let mut statistics = Statistics::new(0);
        let wait = |ns| Waits {
            volume_iops_ns: ns,
            ..Waits::default()
        };
        statistics.arrive(0, wait(1_000_000));
        statistics.arrive(500_000, wait(1_500_000));
        let exceeded = |now_ns| {
            let report = statistics.report("data", now_ns, None);
            (
                report.exceeded_us.volume_iops,
                report.exceeded_us.instance_iops,
            )
        };
        assert_eq!(exceeded(500_000), (500.0, 0.0));
        assert_eq!(exceeded(9_000_000), (2000.0, 0.0));
    }

    proptest! {
        #[test]
        fn a_latency_lies_in_its_bin(latency_ns in any::<u64>()) {
            let mut histogram = Histogram::default();
            histogram.add(latency_ns);
            let bins = histogram.bins();
            let bin = bins.last().unwrap();
            prop_assert_eq!(bin.count, 1);
            prop_assert!(bin.low_us <= latency_ns / 1000);
            prop_assert!(bin.high_us.is_none_or(|high_us| latency_ns / 1000 < high_us));
            let [(low_us, width_us, 1)] = histogram.parts()[..] else {
                panic!("one part holds it")
            };
            let latency_us = latency_ns as f64 / 1e3;
            prop_assert!(low_us <= latency_us * (1.0 + 1e-9));
            prop_assert!(bin.high_us.is_none() || latency_us <= (low_us + width_us) * (1.0 + 1e-9));
            prop_assert!(bin.low_us == 0 || width_us <= bin.low_us as f64 / 16.0);
        }

        #[test]
        fn a_union_is_no_longer_than_its_intervals_or_their_span(
            mut intervals in prop::collection::vec((0..1000u64, 0..100u64), 1..30)
        ) {
            intervals.sort_unstable();
            let mut union = Union::default();
            let mut covered = [false; 1100];
            for (from_ns, length_ns) in intervals {
                union.add(from_ns, length_ns);
                covered[from_ns as usize..(from_ns + length_ns) as usize].fill(true);
            }
            let expected = covered.iter().filter(|&&covered| covered).count() as u64;
            prop_assert_eq!(union.total_ns, expected);
        }
    }
}
