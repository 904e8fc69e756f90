//! The host's own cap, shared by all its volumes.

use crate::config::HostCapConfig;
use crate::rate::{BurstLimit, Credits, Span};
use crate::volume::{Room, Spans};

/// How long a host may burst from full credits: 30 minutes, at least once in 24 hours (Amazon EC2
/// user guide, "Amazon EBS-optimized instances", read 2026-11-20). How they come back is not
/// published. At the baseline, the least of instances (t3.nano: 43 of 2,085 Mbit/s) has them all
/// after 23.7 idle hours, as those 24 hours ask.
const HOST_BURST_S: f64 = 1800.0;

/// The limits on all storage traffic of one host.
#[derive(Debug, Clone)]
pub struct HostCap {
    operations: Option<BurstLimit>,
    bytes: Option<BurstLimit>,
    last_pass_ns: f64,
}

impl HostCap {
    /// A cap as configured, or none, from time 0 on. The limits are taken as checked.
    pub fn new(config: Option<&HostCapConfig>) -> Self {
        Self::new_at(config, 0)
    }

    /// One that comes into being at `now_ns`, with its initial credits then.
    pub fn new_at(config: Option<&HostCapConfig>, now_ns: u64) -> Self {
        let Some(config) = config else {
            return Self {
                operations: None,
                bytes: None,
                last_pass_ns: 0.0,
            };
        };
        let limit = |baseline: Option<f64>, burst: Option<f64>| {
            baseline.map(|rate| BurstLimit::new(rate, credits(rate, burst, config), now_ns as f64))
        };
        Self {
            operations: limit(config.iops, config.burst_iops),
            bytes: limit(config.bytes_per_second, config.burst_bytes_per_second),
            last_pass_ns: 0.0,
        }
    }

    /// Lets a request of so many operations and bytes pass; the answer is when it does, and from
    /// when on each limit that holds it would let it.
    ///
    /// Requests pass the cap in the order they come in, and then queue for their volumes: where a
    /// volume holds some back, the cap has let them through already.
    pub(crate) fn pass(&mut self, now_ns: f64, operations: f64, bytes: f64) -> (f64, [f64; 2]) {
        let behind_ns = now_ns.max(self.last_pass_ns);
        let limits = [(&self.operations, operations), (&self.bytes, bytes)];
        let opens_ns = limits.map(|(limit, units)| BurstLimit::holds(limit, behind_ns, units));
        let pass_ns = behind_ns.max(opens_ns[0]).max(opens_ns[1]);
        for (limit, units) in [(&mut self.operations, operations), (&mut self.bytes, bytes)] {
            if let Some(limit) = limit {
                limit.start(pass_ns, units);
            }
        }
        self.last_pass_ns = pass_ns;
        (pass_ns, opens_ns)
    }

    /// Takes many requests at `now_ns` at once: `operations` as counted, of `bytes` in all.
    pub fn take_many(&mut self, now_ns: f64, operations: f64, bytes: f64) -> Spans {
        let take = |limit: &mut Option<BurstLimit>, units| {
            limit.as_mut().map_or([Span::at(now_ns); 2], |limit| {
                limit.take_many(now_ns, units)
            })
        };
        Spans {
            operations: take(&mut self.operations, operations),
            bytes: take(&mut self.bytes, bytes),
        }
    }

    /// Neither gives nor takes burst credits from `from_ns` to `until_ns`.
    pub fn freeze(&mut self, from_ns: f64, until_ns: f64) {
        for limit in [&mut self.operations, &mut self.bytes]
            .into_iter()
            .flatten()
        {
            limit.freeze(from_ns, until_ns);
        }
    }

    /// What more may start before `until_ns`.
    pub fn room(&self, now_ns: f64, until_ns: f64) -> Room {
        Room::of(&self.operations, &self.bytes, now_ns, until_ns)
    }

    /// What is left of the burst credits for operations and for bytes, as fractions, where
    /// `operations` and `bytes` were taken and have not started.
    pub fn credits_left(
        &self,
        now_ns: f64,
        operations: f64,
        bytes: f64,
    ) -> (Option<f64>, Option<f64>) {
        let fill = |limit: &Option<BurstLimit>, queued| {
            limit
                .as_ref()
                .and_then(|limit| limit.fill_before(now_ns, queued))
        };
        (fill(&self.operations, operations), fill(&self.bytes, bytes))
    }
}

fn credits(baseline: f64, burst: Option<f64>, config: &HostCapConfig) -> Option<Credits> {
    let (burst_rate, initial) = (burst?, config.burst_initial?);
    (burst_rate > baseline).then_some(Credits {
        capacity: (burst_rate - baseline) * HOST_BURST_S,
        refill_per_s: baseline,
        burst_rate,
        initial,
    })
}
