//! The host's own cap, shared by all its volumes.

use crate::config::HostCapConfig;
use crate::rate::{BurstLimit, Credits, Span};
use crate::volume::{Room, Spans};

/// How long a host may burst from full credits.
const HOST_BURST_S: f64 = 1800.0;

/// The limits on all storage traffic of one host.
#[derive(Debug, Clone)]
pub struct HostCap {
    operations: Option<BurstLimit>,
    bytes: Option<BurstLimit>,
}

impl HostCap {
    /// A cap as configured, or none. The limits are taken as checked.
    pub fn new(config: Option<&HostCapConfig>) -> Self {
        let Some(config) = config else {
            return Self {
                operations: None,
                bytes: None,
            };
        };
        let limit = |baseline: Option<f64>, burst: Option<f64>| {
            baseline.map(|rate| BurstLimit::new(rate, credits(rate, burst, config), 0.0))
        };
        Self {
            operations: limit(config.iops, config.burst_iops),
            bytes: limit(config.bytes_per_second, config.burst_bytes_per_second),
        }
    }

    /// Takes a request at `now_ns`; the answer is when it may start.
    pub(crate) fn take(&mut self, now_ns: f64, operations: f64, bytes: f64) -> f64 {
        let mut start_ns = now_ns;
        if let Some(limit) = &mut self.operations {
            start_ns = start_ns.max(limit.take(now_ns, operations));
        }
        if let Some(limit) = &mut self.bytes {
            start_ns = start_ns.max(limit.take(now_ns, bytes));
        }
        start_ns
    }

    /// Takes many requests at `now_ns` at once: `operations` as counted, of `bytes` in all.
    pub fn take_many(&mut self, now_ns: f64, operations: f64, bytes: f64) -> Spans {
        let take = |limit: &mut Option<BurstLimit>, units| {
            limit
                .as_mut()
                .map_or(Span::at(now_ns), |limit| limit.take_many(now_ns, units))
        };
        Spans {
            operations: take(&mut self.operations, operations),
            bytes: take(&mut self.bytes, bytes),
        }
    }

    /// What more may start before `until_ns`.
    pub fn room(&self, now_ns: f64, until_ns: f64) -> Room {
        Room::of(&self.operations, &self.bytes, now_ns, until_ns)
    }

    /// What is left of the burst credits for operations and for bytes, as fractions.
    pub fn credits_left(&self, now_ns: f64) -> (Option<f64>, Option<f64>) {
        let fill = |limit: &Option<BurstLimit>| limit.as_ref().and_then(|limit| limit.fill(now_ns));
        (fill(&self.operations), fill(&self.bytes))
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
