//! One emulated volume: its data, its timing and its counts.

use std::io;

use pgstow_device::{ConfigError, DeviceConfig, HostCap, Operation, OperationKind, Volume, Waits};

use crate::backing::Data;
use crate::compensation::Compensation;
use crate::fault::VolumeFaults;
use crate::pending::Kind;
use crate::statistics::Statistics;
use crate::undo::UndoLog;

pub struct EmulatedVolume {
    pub data: Data,
    pub timing: Volume,
    pub statistics: Statistics,
    /// How many have the file open; a loop device is one.
    pub openers: u64,
    /// What was written and not yet flushed; `None` where no cache is to be lost.
    pub undo: Option<UndoLog>,
    /// Writes refused because what they overwrote had no room in the log.
    pub undo_refused_writes: u64,
    /// What is wrong with the volume; `None` while nothing is.
    pub faults: Option<Box<VolumeFaults>>,
}

impl EmulatedVolume {
    pub fn new(timing: Volume, data: Data, now_ns: u64) -> Self {
        Self {
            data,
            timing,
            statistics: Statistics::new(now_ns),
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

    /// What is left of the burst credits in percent, of all members; `None` for a volume without.
    pub fn burst_balance_percent(&self, now_ns: u64) -> Option<f64> {
        let config = self.timing.config();
        let capacity = config.member.burst.as_ref()?.capacity * f64::from(config.stripes);
        Some(self.timing.credits(now_ns)? / capacity * 100.0)
    }

    /// Takes a request in; the answer is when it is to be answered: as the model says, less what
    /// the way itself takes.
    ///
    /// Only the latency is shortened; the waits before the limits are what they must be.
    pub fn submit(
        &mut self,
        host: &mut HostCap,
        now_ns: u64,
        compensation: Compensation,
        kind: Kind,
    ) -> u64 {
        let (operation, offset, length, compensation_ns) = match kind {
            Kind::Read { offset, length } => {
                (OperationKind::Read, offset, length, compensation.read_ns)
            }
            Kind::Write { offset, length } => {
                (OperationKind::Write, offset, length, compensation.write_ns)
            }
            Kind::Flush => (OperationKind::Flush, 0, 0, 0),
            Kind::Discard | Kind::Failed(_) => {
                self.statistics.arrive(now_ns, Waits::default());
                return now_ns;
            }
        };
        let operation = Operation {
            kind: operation,
            offset,
            length,
        };
        let timing = self.timing.schedule(host, now_ns, operation);
        self.statistics.arrive(now_ns, timing.waits);
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
