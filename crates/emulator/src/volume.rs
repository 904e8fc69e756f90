//! One emulated volume: its data, its timing and its counts.

use std::io;

use pgstow_device::{ConfigError, DeviceConfig, HostCap, Operation, OperationKind, Volume};
use serde::Serialize;

use crate::backing::Data;
use crate::fault::VolumeFaults;
use crate::pending::Kind;
use crate::undo::UndoLog;

pub struct EmulatedVolume {
    pub data: Data,
    pub timing: Volume,
    pub counts: Counts,
    /// How many have the file open; a loop device is one.
    pub openers: u64,
    /// What was written and not yet flushed; `None` where no cache is to be lost.
    pub undo: Option<UndoLog>,
    /// Writes refused because what they overwrote had no room in the log.
    pub undo_refused_writes: u64,
    /// What is wrong with the volume; `None` while nothing is.
    pub faults: Option<Box<VolumeFaults>>,
}

/// What the volume has done; times are from when a request came to when its reply went.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Counts {
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub read_us_total: f64,
    pub write_us_total: f64,
    /// By how much replies went later than the model said, in all.
    pub late_us_total: f64,
    pub in_flight: u64,
}

impl EmulatedVolume {
    pub fn new(timing: Volume, data: Data) -> Self {
        Self {
            data,
            timing,
            counts: Counts::default(),
            openers: 0,
            undo: None,
            undo_refused_writes: 0,
            faults: None,
        }
    }

    pub fn name(&self) -> &str {
        &self.timing.config().name
    }

    /// Changes limits, latency and, upwards, the size.
    pub fn set(&mut self, device: &DeviceConfig, now_ns: u64) -> Result<(), String> {
        let present = self.timing.config().clone();
        let refused = |error: ConfigError| error.to_string();
        self.timing.set_config(now_ns, device).map_err(refused)?;
        self.data
            .grow(device.size_bytes)
            .map_err(|error: io::Error| {
                self.timing
                    .set_config(now_ns, &present)
                    .expect("what was so may be so again");
                format!("volume {:?} cannot grow: {error}", device.name)
            })
    }

    /// Changes it as `ModifyVolume` does: the size at once, the limits over `optimising_ns`.
    pub fn modify(
        &mut self,
        device: &DeviceConfig,
        optimising_ns: u64,
        now_ns: u64,
    ) -> Result<(), String> {
        let before = self.timing.clone();
        self.timing
            .modify(now_ns, device, optimising_ns)
            .map_err(|error| error.to_string())?;
        self.data.grow(device.size_bytes).map_err(|error| {
            self.timing = before;
            format!("volume {:?} cannot grow: {error}", device.name)
        })
    }

    /// When the request is to be answered: as the model says, less what the way itself takes.
    ///
    /// Only the latency is shortened; the waits before the limits are what they must be.
    pub fn deadline_ns(
        &mut self,
        host: &mut HostCap,
        now_ns: u64,
        compensation_ns: u64,
        (kind, offset): (Kind, u64),
    ) -> u64 {
        let (kind, length) = match kind {
            Kind::Read { length, .. } => (OperationKind::Read, length),
            Kind::Write { length } => (OperationKind::Write, length),
            Kind::Flush => (OperationKind::Flush, 0),
            Kind::Discard | Kind::Failed(_) => return now_ns,
        };
        let timing = self.timing.schedule(
            host,
            now_ns,
            Operation {
                kind,
                offset,
                length,
            },
        );
        let mut completion_ns = timing.completion_ns;
        if let Some(faults) = &self.faults {
            let latency_ns = completion_ns.saturating_sub(timing.start_ns);
            completion_ns = timing.start_ns + faults.slowed_ns(latency_ns);
        }
        completion_ns
            .saturating_sub(compensation_ns)
            .max(timing.start_ns)
    }
}

impl Counts {
    pub fn add(&mut self, kind: Kind, (received_ns, deadline_ns, now_ns): (u64, u64, u64)) {
        let took_us = now_ns.saturating_sub(received_ns) as f64 / 1e3;
        match kind {
            Kind::Read { length, .. } => {
                self.reads += 1;
                self.read_bytes += u64::from(length);
                self.read_us_total += took_us;
            }
            Kind::Write { length } => {
                self.writes += 1;
                self.write_bytes += u64::from(length);
                self.write_us_total += took_us;
            }
            Kind::Flush => self.flushes += 1,
            Kind::Discard | Kind::Failed(_) => {}
        }
        self.late_us_total += now_ns.saturating_sub(deadline_ns) as f64 / 1e3;
        self.in_flight -= 1;
    }
}
