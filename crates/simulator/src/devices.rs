//! The devices of a simulation under their machine's cap, and the count of what they did.

use crate::config::Config;
use crate::output::DeviceResult;
use crate::stats::Window;
use pgstow_device::{DeviceConfig, HostCap, HostCapConfig, Operation, OperationKind, Volume};

/// All devices of the machine; the clock is the caller's.
pub struct Devices {
    host: HostCap,
    host_config: Option<HostCapConfig>,
    stations: Vec<Station>,
    window: Window,
}

/// One device and what it did within the window.
struct Station {
    volume: Volume,
    config: DeviceConfig,
    accounting: Accounting,
    reads: u64,
    writes: u64,
    bytes: u64,
    units: u64, // operations as the limits count them
    cost: f64,  // the same of its own IOPS, of which a write may take more than one
    read_ns: f64,
    write_ns: f64,
    in_flight_ns: f64, // the integral of operations in flight
}

/// How many operations a request counts as: large ones are split, contiguous ones merged.
#[derive(Default)]
struct Accounting {
    previous: Option<(OperationKind, u64)>, // and where it ended
    run_bytes: u64,
}

impl Accounting {
    fn count(&mut self, config: &DeviceConfig, operation: Operation) -> u64 {
        let unit_bytes = config.member.io_unit_bytes;
        let length = u64::from(operation.length);
        let end = operation.offset + length;
        let continues = self.previous == Some((operation.kind, operation.offset));
        self.previous = Some((operation.kind, end));
        if continues {
            let begun_bytes = self.run_bytes % unit_bytes;
            self.run_bytes = begun_bytes + length;
            return self.run_bytes.div_ceil(unit_bytes) - begun_bytes.div_ceil(unit_bytes);
        }
        self.run_bytes = length;
        let chunks = end.div_ceil(config.chunk_bytes) - operation.offset / config.chunk_bytes;
        length
            .div_ceil(unit_bytes)
            .max(chunks.min(config.stripes.into()))
    }
}

impl Devices {
    /// The configuration's devices, idle and with their first credits.
    pub fn new(config: &Config, window: Window) -> Result<Devices, String> {
        let station = |(device, seed): (&DeviceConfig, u64)| {
            Ok(Station {
                volume: Volume::new(device, seed).map_err(|error| error.to_string())?,
                config: device.clone(),
                accounting: Accounting::default(),
                reads: 0,
                writes: 0,
                bytes: 0,
                units: 0,
                cost: 0.0,
                read_ns: 0.0,
                write_ns: 0.0,
                in_flight_ns: 0.0,
            })
        };
        let seeds = (1..).map(|index: u64| config.seed.wrapping_add(index << 32));
        Ok(Devices {
            host: HostCap::new(config.host.as_ref()),
            host_config: config.host.clone(),
            stations: config
                .devices
                .iter()
                .zip(seeds)
                .map(station)
                .collect::<Result<_, String>>()?,
            window,
        })
    }

    /// Submit one operation now and say when it is done.
    pub fn submit(&mut self, now_ns: u64, device: usize, operation: Operation) -> u64 {
        let station = &mut self.stations[device];
        let done_ns = station.volume.submit(&mut self.host, now_ns, operation);
        if operation.kind == OperationKind::Flush {
            station.accounting.previous = None;
            return done_ns;
        }
        let units = station.accounting.count(&station.config, operation);
        station.in_flight_ns += self.window.overlap_ns(now_ns, done_ns) as f64;
        if self.window.holds(done_ns) {
            station.note(operation, units, (done_ns - now_ns) as f64);
        }
        done_ns
    }

    /// What each device did, per second of the window.
    pub fn results(&self) -> Vec<DeviceResult> {
        self.stations
            .iter()
            .map(|station| station.result(self.window.seconds()))
            .collect()
    }

    /// The shares of the machine's sustained caps on operations and on bytes that were used.
    pub fn host_utilisation(&self) -> (Option<f64>, Option<f64>) {
        let network = || {
            self.stations
                .iter()
                .filter(|station| station.config.uses_host_cap)
        };
        let units: u64 = network().map(|station| station.units).sum();
        let bytes: u64 = network().map(|station| station.bytes).sum();
        let share = |done: u64, limit: f64| done as f64 / self.window.seconds() / limit;
        let cap = self.host_config.as_ref();
        (
            cap.and_then(|cap| cap.iops)
                .map(|limit| share(units, limit)),
            cap.and_then(|cap| cap.bytes_per_second)
                .map(|limit| share(bytes, limit)),
        )
    }
}

impl Station {
    fn note(&mut self, operation: Operation, units: u64, took_ns: f64) {
        if operation.kind == OperationKind::Read {
            self.reads += 1;
            self.read_ns += took_ns;
        } else {
            self.writes += 1;
            self.write_ns += took_ns;
        }
        self.bytes += u64::from(operation.length);
        self.units += units;
        self.cost += units as f64
            * match operation.kind {
                OperationKind::Write => self.config.member.write_cost(),
                _ => 1.0,
            };
    }

    fn result(&self, seconds: f64) -> DeviceResult {
        let mean_ms = |sum_ns: f64, count: u64| (count > 0).then(|| sum_ns / count as f64 / 1e6);
        let stripes = f64::from(self.config.stripes);
        let share = |done: f64, limit: f64| done / seconds / (limit * stripes);
        let member = &self.config.member;
        DeviceResult {
            name: self.config.name.clone(),
            reads_per_s: self.reads as f64 / seconds,
            writes_per_s: self.writes as f64 / seconds,
            bytes_per_s: self.bytes as f64 / seconds,
            read_ms: mean_ms(self.read_ns, self.reads),
            write_ms: mean_ms(self.write_ns, self.writes),
            iops_utilisation: member.iops.map(|limit| share(self.cost, limit)),
            bytes_utilisation: member
                .bytes_per_second
                .map(|limit| share(self.bytes as f64, limit)),
            queue: self.in_flight_ns / (seconds * 1e9),
        }
    }
}
