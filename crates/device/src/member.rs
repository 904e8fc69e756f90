//! One member of a stripe: its limits, its accounting of operations, its latency.

use rand_xoshiro::Xoshiro256PlusPlus;

use crate::config::{BurstKind, LatencyConfig, MemberConfig};
use crate::disk::Disk;
use crate::host::HostCap;
use crate::latency::LogNormal;
use crate::rate::{BurstLimit, Credits, Span};
use crate::restore::Restore;
use crate::volume::{OperationKind, Room, Spans};

#[derive(Debug, Clone)]
pub struct Member {
    unit_bytes: u64,
    /// What a write takes of the limit on operations, of which a read takes 1.
    write_cost: f64,
    /// Byte credits are spent in whole units: a small random request costs a full one.
    charges_whole_units: bool,
    operations: Option<BurstLimit>,
    bytes: Option<BurstLimit>,
    latencies: Latencies,
    disk: Option<Disk>,
    restored: Option<Restore>,
    previous: Option<Previous>,
    last_start_ns: f64,
}

#[derive(Debug, Clone, Copy)]
struct Latencies {
    read: LogNormal,
    write: LogNormal,
    base_bytes: u64,
    read_ns_per_byte: f64,
    write_ns_per_byte: f64,
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
    pub fn new(config: &MemberConfig, size_bytes: u64, now_ns: f64) -> Self {
        let limit = |kind, baseline: Option<f64>| {
            baseline.map(|rate| BurstLimit::new(rate, credits(config, kind), now_ns))
        };
        Self {
            unit_bytes: config.io_unit_bytes,
            write_cost: config.write_cost(),
            charges_whole_units: charges_whole_units(config),
            operations: limit(BurstKind::Iops, config.iops),
            bytes: limit(BurstKind::Bytes, config.bytes_per_second),
            latencies: Latencies::new(&config.latency),
            disk: config
                .mechanics
                .as_ref()
                .map(|mechanics| Disk::new(mechanics, size_bytes)),
            restored: config
                .restored
                .as_ref()
                .map(|restored| Restore::new(restored, size_bytes, now_ns)),
            previous: None,
            last_start_ns: 0.0,
        }
    }

    /// Takes on changed limits and latencies; credits and what is scheduled are kept. What came
    /// from a snapshot stays so, and is all there where it no longer says so.
    pub fn set_config(&mut self, config: &MemberConfig, size_bytes: u64, now_ns: f64) {
        let change = |present: &Option<BurstLimit>, kind, baseline: Option<f64>| {
            baseline.map(|rate| match present {
                Some(limit) => limit.changed(rate, credits(config, kind), now_ns),
                None => BurstLimit::new(rate, credits(config, kind), now_ns),
            })
        };
        self.operations = change(&self.operations, BurstKind::Iops, config.iops);
        self.bytes = change(&self.bytes, BurstKind::Bytes, config.bytes_per_second);
        self.unit_bytes = config.io_unit_bytes;
        self.write_cost = config.write_cost();
        self.charges_whole_units = charges_whole_units(config);
        self.latencies = Latencies::new(&config.latency);
        self.disk = config.mechanics.as_ref().map(|mechanics| match &self.disk {
            Some(disk) => disk.changed(mechanics, size_bytes),
            None => Disk::new(mechanics, size_bytes),
        });
        if config.restored.is_none() {
            self.restored = None;
        }
    }

    /// Takes a read or write; the answer is when it starts, when it is done, and until when its
    /// limits and the host's hold it, if they do.
    pub fn take(
        &mut self,
        host: &mut HostCap,
        random: &mut Xoshiro256PlusPlus,
        now_ns: f64,
        (kind, offset, length): (OperationKind, u64, u64),
    ) -> (f64, f64, [f64; 4]) {
        let counted = self.count(kind, offset, length) as f64;
        let (pass_ns, [host_ns, host_bytes_ns]) = host.pass(now_ns, counted, length as f64);
        let cost = match kind {
            OperationKind::Write => counted * self.write_cost,
            _ => counted,
        };
        let (start_ns, [own_ns, own_bytes_ns]) = self.start(pass_ns, cost, length as f64);
        let mut done_ns = start_ns + self.latencies.draw_ns(random, kind, length);
        if self.restored.is_some() {
            done_ns += self.fetch_ns(random, start_ns, (kind, offset, length));
        }
        if let Some(disk) = &mut self.disk {
            done_ns = disk.take(random, done_ns, offset, length);
        }
        let holds_ns = [own_ns, own_bytes_ns, host_ns, host_bytes_ns];
        (start_ns, done_ns, holds_ns)
    }

    /// Starts a request that may from `now_ns` on: after those before it, when every limit opens.
    fn start(&mut self, now_ns: f64, counted: f64, bytes: f64) -> (f64, [f64; 2]) {
        let charged = self.charged(counted, bytes);
        let behind_ns = now_ns.max(self.last_start_ns);
        let opens_ns = [
            BurstLimit::holds(&self.operations, behind_ns, counted),
            BurstLimit::holds(&self.bytes, behind_ns, charged),
        ];
        let start_ns = behind_ns.max(opens_ns[0]).max(opens_ns[1]);
        if let Some(limit) = &mut self.operations {
            limit.start(start_ns, counted);
        }
        if let Some(limit) = &mut self.bytes {
            limit.start(start_ns, charged);
        }
        self.last_start_ns = start_ns;
        (start_ns, opens_ns)
    }

    /// Lets the time from `from_ns` to `until_ns` change neither credits nor what came from a
    /// snapshot.
    pub fn freeze(&mut self, from_ns: f64, until_ns: f64) {
        for limit in [&mut self.operations, &mut self.bytes]
            .into_iter()
            .flatten()
        {
            limit.freeze(from_ns, until_ns);
        }
        if let Some(restored) = &mut self.restored {
            restored.freeze(from_ns, until_ns);
        }
    }

    /// Fills the bucket of credits to a fraction of it; false for a member without.
    pub fn set_credits(&mut self, now_ns: f64, fraction: f64) -> bool {
        let mut found = false;
        for limit in [&mut self.operations, &mut self.bytes]
            .into_iter()
            .flatten()
        {
            found |= limit.set_credits(now_ns, fraction);
        }
        found
    }

    /// How long a request waits for data that are still in the snapshot.
    #[cold]
    fn fetch_ns(
        &mut self,
        random: &mut Xoshiro256PlusPlus,
        start_ns: f64,
        (kind, offset, length): (OperationKind, u64, u64),
    ) -> f64 {
        let Some(restored) = &mut self.restored else {
            return 0.0;
        };
        let is_write = kind == OperationKind::Write;
        let ready_ns = restored.take(random, start_ns, (is_write, offset, length));
        if restored.is_over(start_ns) {
            self.restored = None;
        }
        ready_ns - start_ns
    }

    /// The share of the data that is there, or `None` for a member that waits for none.
    pub fn restored(&self, now_ns: f64) -> Option<f64> {
        let restored = self.restored.as_ref()?;
        (!restored.is_over(now_ns)).then(|| restored.progress(now_ns))
    }

    /// Takes many requests at once, without latency: `counted` operations of `bytes` in all.
    pub fn take_many(&mut self, now_ns: f64, counted: f64, bytes: f64) -> Spans {
        let charged = self.charged(counted, bytes);
        let take = |limit: &mut Option<BurstLimit>, units| {
            limit.as_mut().map_or([Span::at(now_ns); 2], |limit| {
                limit.take_many(now_ns, units)
            })
        };
        Spans {
            operations: take(&mut self.operations, counted),
            bytes: take(&mut self.bytes, charged),
        }
    }

    /// Bytes that the byte limit takes for so many operations.
    fn charged(&self, counted: f64, bytes: f64) -> f64 {
        if self.charges_whole_units {
            counted * self.unit_bytes as f64
        } else {
            bytes
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
        if total <= self.unit_bytes {
            // The usual case, without a division.
            return u64::from(run_bytes == 0);
        }
        total.div_ceil(self.unit_bytes) - run_bytes.div_ceil(self.unit_bytes)
    }

    /// What was written before a flush cannot merge with what comes after it.
    pub fn end_run(&mut self) {
        if let Some(previous) = &mut self.previous {
            previous.mergeable = false;
        }
    }

    /// Credits left where `counted` operations of `bytes` were taken and have not started.
    pub fn credits_before(&self, now_ns: f64, counted: f64, bytes: f64) -> Option<f64> {
        let balance = |limit: &Option<BurstLimit>, queued| {
            limit
                .as_ref()
                .and_then(|limit| limit.balance_before(now_ns, queued))
        };
        let charged = self.charged(counted, bytes);
        balance(&self.operations, counted).or_else(|| balance(&self.bytes, charged))
    }

    /// Credits left, or `None` for a member without.
    pub fn credits(&self, now_ns: f64) -> Option<f64> {
        let balance = |limit: &Option<BurstLimit>| limit.as_ref().and_then(|l| l.balance(now_ns));
        balance(&self.operations).or_else(|| balance(&self.bytes))
    }
}

impl Latencies {
    fn new(latency: &LatencyConfig) -> Self {
        let ns_per_byte = |us_per_mib: f64| us_per_mib * 1e3 / f64::from(1 << 20);
        Self {
            read: LogNormal::new(latency.read_us_p50, latency.read_us_p99),
            write: LogNormal::new(latency.write_us_p50, latency.write_us_p99),
            base_bytes: latency.base_bytes,
            read_ns_per_byte: ns_per_byte(latency.read_us_per_mib),
            write_ns_per_byte: ns_per_byte(latency.write_us_per_mib),
        }
    }

    fn draw_ns(&self, random: &mut Xoshiro256PlusPlus, kind: OperationKind, length: u64) -> f64 {
        let (base, ns_per_byte) = match kind {
            OperationKind::Read => (&self.read, self.read_ns_per_byte),
            _ => (&self.write, self.write_ns_per_byte),
        };
        base.draw_ns(random) + length.saturating_sub(self.base_bytes) as f64 * ns_per_byte
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
