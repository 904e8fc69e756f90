//! One member of a stripe: its limits, its accounting of operations, its latency.

use rand_xoshiro::Xoshiro256PlusPlus;

use crate::config::{BurstKind, MemberConfig};
use crate::host::HostCap;
use crate::latency::LogNormal;
use crate::rate::{BurstLimit, Credits, Span};
use crate::volume::{OperationKind, Room, Spans};

#[derive(Debug, Clone)]
pub struct Member {
    unit_bytes: u64,
    /// Byte credits are spent in whole units: a small random request costs a full one.
    charges_whole_units: bool,
    operations: Option<BurstLimit>,
    bytes: Option<BurstLimit>,
    latencies: Latencies,
    previous: Option<Previous>,
}

#[derive(Debug, Clone, Copy)]
struct Latencies {
    read: LogNormal,
    write: LogNormal,
    sequential_read: LogNormal,
    sequential_write: LogNormal,
}

/// The request before this one, to see what continues it.
#[derive(Debug, Clone, Copy)]
struct Previous {
    kind: OperationKind,
    end: u64,
    /// Bytes of the run of contiguous requests that may merge into one operation.
    run_bytes: u64,
    mergeable: bool,
}

impl Member {
    pub fn new(config: &MemberConfig, now_ns: f64) -> Self {
        let limit = |kind, baseline: Option<f64>| {
            baseline.map(|rate| BurstLimit::new(rate, credits(config, kind), now_ns))
        };
        Self {
            unit_bytes: config.io_unit_bytes,
            charges_whole_units: charges_whole_units(config),
            operations: limit(BurstKind::Iops, config.iops),
            bytes: limit(BurstKind::Bytes, config.bytes_per_second),
            latencies: Latencies::new(config),
            previous: None,
        }
    }

    /// Takes on changed limits and latencies; credits and what is scheduled are kept.
    pub fn set_config(&mut self, config: &MemberConfig, now_ns: f64) {
        let change = |present: &Option<BurstLimit>, kind, baseline: Option<f64>| {
            baseline.map(|rate| match present {
                Some(limit) => limit.changed(rate, credits(config, kind), now_ns),
                None => BurstLimit::new(rate, credits(config, kind), now_ns),
            })
        };
        self.operations = change(&self.operations, BurstKind::Iops, config.iops);
        self.bytes = change(&self.bytes, BurstKind::Bytes, config.bytes_per_second);
        self.unit_bytes = config.io_unit_bytes;
        self.charges_whole_units = charges_whole_units(config);
        self.latencies = Latencies::new(config);
    }

    /// Takes a read or write; the answer is when it starts and how long it then takes.
    pub fn take(
        &mut self,
        host: &mut HostCap,
        random: &mut Xoshiro256PlusPlus,
        now_ns: f64,
        (kind, offset, length): (OperationKind, u64, u64),
    ) -> (f64, f64) {
        let sequential = self.previous.is_some_and(|previous| previous.end == offset);
        let counted = self.count(kind, offset, length) as f64;
        let mut start_ns = host.take(now_ns, counted, length as f64);
        if let Some(limit) = &mut self.operations {
            start_ns = start_ns.max(limit.take(now_ns, counted));
        }
        if let Some(limit) = &mut self.bytes {
            let whole = counted * self.unit_bytes as f64;
            let charged = if self.charges_whole_units {
                whole
            } else {
                length as f64
            };
            start_ns = start_ns.max(limit.take(now_ns, charged));
        }
        let latency = self.latencies.of(kind, sequential);
        (start_ns, latency.draw_ns(random))
    }

    /// Takes many requests at once, without latency: `counted` operations of `bytes` in all.
    pub fn take_many(&mut self, now_ns: f64, counted: f64, bytes: f64) -> Spans {
        let charged = if self.charges_whole_units {
            counted * self.unit_bytes as f64
        } else {
            bytes
        };
        let take = |limit: &mut Option<BurstLimit>, units| {
            limit
                .as_mut()
                .map_or(Span::at(now_ns), |limit| limit.take_many(now_ns, units))
        };
        Spans {
            operations: take(&mut self.operations, counted),
            bytes: take(&mut self.bytes, charged),
        }
    }

    /// What more may start before `until_ns`; bytes that are charged in whole units are counted.
    pub fn room(&self, now_ns: f64, until_ns: f64) -> Room {
        let mut room = Room::of(&self.operations, &self.bytes, now_ns, until_ns);
        if self.charges_whole_units {
            room.operations = room.operations.min(room.bytes / self.unit_bytes as f64);
            room.bytes = f64::INFINITY;
        }
        room
    }

    /// Operations that a request counts, beyond those its run has counted already.
    fn count(&mut self, kind: OperationKind, offset: u64, length: u64) -> u64 {
        let run_bytes = match self.previous {
            Some(previous)
                if previous.mergeable && previous.kind == kind && previous.end == offset =>
            {
                // Whole units are done with; only the one begun can take more.
                previous.run_bytes % self.unit_bytes
            }
            _ => 0,
        };
        let total = run_bytes + length;
        let end = offset + length;
        self.previous = Some(Previous {
            kind,
            end,
            run_bytes: total,
            mergeable: true,
        });
        total.div_ceil(self.unit_bytes) - run_bytes.div_ceil(self.unit_bytes)
    }

    /// What was written before a flush cannot merge with what comes after it.
    pub fn end_run(&mut self) {
        if let Some(previous) = &mut self.previous {
            previous.mergeable = false;
        }
    }

    /// Credits left, or `None` for a member without.
    pub fn credits(&self, now_ns: f64) -> Option<f64> {
        let balance = |limit: &Option<BurstLimit>| limit.as_ref().and_then(|l| l.balance(now_ns));
        balance(&self.operations).or_else(|| balance(&self.bytes))
    }
}

impl Latencies {
    fn new(config: &MemberConfig) -> Self {
        let latency = &config.latency;
        let read = LogNormal::new(latency.read_us_p50, latency.read_us_p99);
        let write = LogNormal::new(latency.write_us_p50, latency.write_us_p99);
        let sequential = |random: LogNormal, us_p50: Option<f64>| {
            us_p50.map_or(random, |us_p50| random.with_median(us_p50))
        };
        Self {
            read,
            write,
            sequential_read: sequential(read, latency.sequential_read_us_p50),
            sequential_write: sequential(write, latency.sequential_write_us_p50),
        }
    }

    fn of(&self, kind: OperationKind, sequential: bool) -> &LogNormal {
        match (kind, sequential) {
            (OperationKind::Read, false) => &self.read,
            (OperationKind::Read, true) => &self.sequential_read,
            (_, false) => &self.write,
            (_, true) => &self.sequential_write,
        }
    }
}

fn charges_whole_units(config: &MemberConfig) -> bool {
    config
        .burst
        .as_ref()
        .is_some_and(|burst| burst.kind == BurstKind::Bytes)
}

fn credits(config: &MemberConfig, kind: BurstKind) -> Option<Credits> {
    let burst = config.burst.as_ref().filter(|burst| burst.kind == kind)?;
    Some(Credits {
        capacity: burst.capacity,
        refill_per_s: burst.refill_per_s,
        burst_rate: burst.burst_rate,
        initial: burst.initial,
    })
}
