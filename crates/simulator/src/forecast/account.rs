//! What a volume was asked and did, by interval and by phase.

use std::collections::VecDeque;

use serde::Serialize;

use crate::exceeded::{Exceeded, ExceededSeconds};

/// What came about within one span of time.
#[derive(Debug, Default, Clone, Copy)]
struct Bin {
    offered: f64,
    served: f64,
    wait_ns: f64,
    wait_max_ns: f64,
    exceeded_ns: f64,
    credits_percent: Option<f64>, // when it ended
}

/// Spans of time that follow each other, from 0 to the end.
#[derive(Debug)]
struct Bins {
    bounds_ns: Vec<f64>, // one more than bins
    bins: Vec<Bin>,
    near: usize,
}

impl Bins {
    fn new(bounds_ns: Vec<f64>) -> Bins {
        let bins = vec![Bin::default(); bounds_ns.len() - 1];
        Bins {
            bounds_ns,
            bins,
            near: 0,
        }
    }

    /// The bin of a moment, `None` past the end. The search begins at the last one found.
    fn index_at(&mut self, at_ns: f64) -> Option<usize> {
        while self.near > 0 && at_ns < self.bounds_ns[self.near] {
            self.near -= 1;
        }
        while self.near < self.bins.len() && at_ns >= self.bounds_ns[self.near + 1] {
            self.near += 1;
        }
        if self.near == self.bins.len() {
            self.near -= 1;
            return None;
        }
        Some(self.near)
    }

    fn at(&mut self, at_ns: f64) -> Option<&mut Bin> {
        let number = self.index_at(at_ns)?;
        Some(&mut self.bins[number])
    }

    /// Spreads an amount evenly over a span; what of it is past the end is lost.
    fn spread(&mut self, from_ns: f64, until_ns: f64, amount: f64, add: fn(&mut Bin, f64)) {
        let Some(first) = self.index_at(from_ns) else {
            return;
        };
        if until_ns <= from_ns {
            return add(&mut self.bins[first], amount);
        }
        for number in first..self.bins.len() {
            let low_ns = from_ns.max(self.bounds_ns[number]);
            let high_ns = until_ns.min(self.bounds_ns[number + 1]);
            if high_ns <= low_ns {
                break;
            }
            let share = (high_ns - low_ns) / (until_ns - from_ns);
            add(&mut self.bins[number], amount * share);
        }
    }
}

/// Many requests that came evenly within a time, or one request.
#[derive(Debug, Clone)]
pub struct Cohort {
    pub count: f64,
    pub came_ns: (f64, f64),
    /// When requests left the queues before limits: shares of the count, from 0 to 1, and times,
    /// evenly between them.
    pub started: Vec<(f64, f64)>,
    /// Until when the last waited before each limit.
    pub limits_ns: [f64; 4],
}

/// The account of one volume.
#[derive(Debug)]
pub struct Account {
    intervals: Bins,
    phases: Bins,
    phase_indices: Vec<usize>,
    exceeded: Exceeded,
    /// What has not started, or not all of it.
    waiting: VecDeque<(f64, f64, f64)>, // from, until, how many
    waiting_count: f64,
    latency_ns: f64,
    bytes: f64,
    credits_first_empty_ns: Option<u64>,
    credits_empty_ns: u64,
}

#[derive(Debug, Serialize)]
pub struct VolumeOutput {
    name: String,
    offered: f64,
    served: f64,
    bytes_per_request: f64,
    wait_ms_mean: Option<f64>,
    wait_ms_max: f64,
    latency_ms_mean: Option<f64>,
    exceeded_s: ExceededSeconds,
    credits_first_empty_s: Option<f64>,
    credits_empty_s: f64,
    phases: Vec<PhaseOutput>,
    series: Series,
}

#[derive(Debug, Serialize)]
struct PhaseOutput {
    index: usize,
    start_s: f64,
    end_s: f64,
    offered_iops: f64,
    served_iops: f64,
    wait_ms_mean: Option<f64>,
    wait_ms_max: f64,
    exceeded_s: f64,
    credits_percent_end: Option<f64>,
}

/// One value an interval.
#[derive(Debug, Default, Serialize)]
struct Series {
    end_s: Vec<f64>,
    offered_iops: Vec<f64>,
    served_iops: Vec<f64>,
    backlog: Vec<f64>, // when the interval ended
    wait_ms_mean: Vec<Option<f64>>,
    exceeded_s: Vec<f64>,
    credits_percent: Vec<Option<f64>>, // when the interval ended
}

impl Account {
    pub fn new(
        interval_ns: f64,
        end_ns: u64,
        (bounds_ns, phase_indices): (Vec<u64>, Vec<usize>),
        bytes: f64,
    ) -> Self {
        let count = (end_ns as f64 / interval_ns).ceil().max(1.0) as usize;
        let mut ends: Vec<f64> = (0..count).map(|index| index as f64 * interval_ns).collect();
        ends.push(end_ns as f64);
        Self {
            intervals: Bins::new(ends),
            phases: Bins::new(bounds_ns.iter().map(|&at_ns| at_ns as f64).collect()),
            phase_indices,
            exceeded: Exceeded::default(),
            waiting: VecDeque::new(),
            waiting_count: 0.0,
            latency_ns: 0.0,
            bytes,
            credits_first_empty_ns: None,
            credits_empty_ns: 0,
        }
    }

    /// Takes note of requests. `latency_ns` of each is what followed its wait.
    pub fn note(&mut self, cohort: &Cohort, latency_ns: f64) {
        let (count, came_ns) = (cohort.count, cohort.came_ns);
        let (mut waited_ns, mut longest_ns) = (0.0, 0.0_f64);
        for pair in cohort.started.windows(2) {
            let [(from, from_ns), (to, to_ns)] = [pair[0], pair[1]];
            let came = |share: f64| came_ns.0 + share * (came_ns.1 - came_ns.0);
            let (first_ns, last_ns) = (from_ns - came(from), to_ns - came(to));
            waited_ns += (to - from) * (first_ns + last_ns) / 2.0;
            longest_ns = longest_ns.max(first_ns).max(last_ns);
            self.note_started((to - from) * count, (from_ns, to_ns), came_ns.1);
        }
        self.note_waiting(count, came_ns.0, waited_ns.max(0.0), longest_ns);
        self.latency_ns += count * latency_ns;
        let (from_ns, until_ns) = self.exceeded.note(came_ns.0, cohort.limits_ns);
        if until_ns > from_ns {
            for bins in [&mut self.intervals, &mut self.phases] {
                bins.spread(from_ns, until_ns, until_ns - from_ns, |bin, ns| {
                    bin.exceeded_ns += ns;
                });
            }
        }
    }

    fn note_started(&mut self, count: f64, (from_ns, until_ns): (f64, f64), came_ns: f64) {
        for bins in [&mut self.intervals, &mut self.phases] {
            bins.spread(from_ns, until_ns, count, |bin, count| bin.served += count);
        }
        if until_ns > came_ns {
            self.waiting.push_back((from_ns, until_ns, count));
            self.waiting_count += count;
        }
    }

    /// Takes note of requests that a closed loop asked and that all started within the step.
    pub fn note_closed(&mut self, cohort: &Cohort, wait_ns: f64, latency_ns: f64) {
        self.note(cohort, latency_ns);
        for bins in [&mut self.intervals, &mut self.phases] {
            if let Some(bin) = bins.at(cohort.came_ns.0) {
                bin.wait_ns += cohort.count * wait_ns;
                bin.wait_max_ns = bin.wait_max_ns.max(wait_ns);
            }
        }
    }

    /// How many have come and not started by a moment that is no earlier than the last asked for.
    pub fn backlog(&mut self, now_ns: f64) -> f64 {
        while let Some(&(_, until_ns, count)) = self.waiting.front() {
            if until_ns > now_ns {
                break;
            }
            self.waiting.pop_front();
            self.waiting_count -= count;
        }
        if self.waiting.is_empty() {
            self.waiting_count = 0.0; // forgets what rounding has left
        }
        let begun = self
            .waiting
            .iter()
            .take_while(|(from_ns, ..)| *from_ns < now_ns)
            .map(|(from_ns, until_ns, count)| {
                count * ((now_ns - from_ns) / (until_ns - from_ns)).min(1.0)
            });
        (self.waiting_count - begun.sum::<f64>()).max(0.0)
    }

    fn note_waiting(&mut self, count: f64, came_ns: f64, wait_ns: f64, longest_ns: f64) {
        for bins in [&mut self.intervals, &mut self.phases] {
            if let Some(bin) = bins.at(came_ns) {
                bin.offered += count;
                bin.wait_ns += count * wait_ns;
                bin.wait_max_ns = bin.wait_max_ns.max(longest_ns);
            }
        }
    }

    /// Takes note of the credits at the end of a step.
    ///
    /// Credits of at most `least_percent` are none.
    pub fn sample(
        &mut self,
        from_ns: u64,
        until_ns: u64,
        credits_percent: Option<f64>,
        least_percent: f64,
    ) {
        let Some(percent) = credits_percent else {
            return;
        };
        if percent <= least_percent {
            self.credits_empty_ns += until_ns - from_ns;
            self.credits_first_empty_ns.get_or_insert(until_ns);
        }
        for bins in [&mut self.intervals, &mut self.phases] {
            // The step's end belongs to the span that it ends.
            if let Some(bin) = bins.at(until_ns as f64 - 0.5) {
                bin.credits_percent = Some(percent);
            }
        }
    }

    pub fn output(&self, name: &str, end_ns: u64) -> VolumeOutput {
        let total = |value: fn(&Bin) -> f64| self.phases.bins.iter().map(value).sum::<f64>();
        let offered = total(|bin| bin.offered);
        let wait_ns = total(|bin| bin.wait_ns);
        VolumeOutput {
            name: name.into(),
            offered,
            served: total(|bin| bin.served),
            bytes_per_request: self.bytes,
            wait_ms_mean: mean_ms(wait_ns, offered),
            wait_ms_max: self
                .phases
                .bins
                .iter()
                .fold(0.0, |max: f64, bin| max.max(bin.wait_max_ns))
                / 1e6,
            latency_ms_mean: mean_ms(wait_ns + self.latency_ns, offered),
            exceeded_s: self.exceeded.seconds(end_ns as f64),
            credits_first_empty_s: self.credits_first_empty_ns.map(|at_ns| at_ns as f64 / 1e9),
            credits_empty_s: self.credits_empty_ns as f64 / 1e9,
            phases: self.phase_outputs(),
            series: self.series(),
        }
    }

    fn phase_outputs(&self) -> Vec<PhaseOutput> {
        let mut outputs = Vec::new();
        for (number, bin) in self.phases.bins.iter().enumerate() {
            let (start_s, end_s) = (
                self.phases.bounds_ns[number] / 1e9,
                self.phases.bounds_ns[number + 1] / 1e9,
            );
            outputs.push(PhaseOutput {
                index: self.phase_indices[number],
                start_s,
                end_s,
                offered_iops: bin.offered / (end_s - start_s),
                served_iops: bin.served / (end_s - start_s),
                wait_ms_mean: mean_ms(bin.wait_ns, bin.offered),
                wait_ms_max: bin.wait_max_ns / 1e6,
                exceeded_s: bin.exceeded_ns / 1e9,
                credits_percent_end: bin.credits_percent,
            });
        }
        outputs
    }

    fn series(&self) -> Series {
        let (mut series, mut backlog) = (Series::default(), 0.0);
        for (number, bin) in self.intervals.bins.iter().enumerate() {
            let end_s = self.intervals.bounds_ns[number + 1] / 1e9;
            let seconds = end_s - self.intervals.bounds_ns[number] / 1e9;
            backlog += bin.offered - bin.served;
            series.end_s.push(end_s);
            series.offered_iops.push(bin.offered / seconds);
            series.served_iops.push(bin.served / seconds);
            series
                .backlog
                .push(if backlog < 1e-6 * bin.offered.max(1.0) {
                    0.0
                } else {
                    backlog
                });
            series.wait_ms_mean.push(mean_ms(bin.wait_ns, bin.offered));
            series.exceeded_s.push(bin.exceeded_ns / 1e9);
            series.credits_percent.push(bin.credits_percent);
        }
        series
    }
}

fn mean_ms(sum_ns: f64, count: f64) -> Option<f64> {
    (count > 0.0).then(|| sum_ns / count / 1e6)
}
