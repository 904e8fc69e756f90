//! What a simulation is asked: read from JSON, refused with one line where it cannot be.

use pgstow_device::{DeviceConfig, HostCapConfig};
use serde::Deserialize;

/// PostgreSQL's block and WAL page.
pub const PAGE_BYTES: u32 = 8192;
const CLIENTS_MAX: u32 = 1_000_000;
const SECONDS_MAX: f64 = 1e9; // keeps nanoseconds far from the end of u64
const MICROSECONDS_MAX: f64 = 1e12;
const PER_TRANSACTION_MAX: f64 = 1e6;

/// One simulation: the clients, the machine, its devices and what transactions ask of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    #[serde(default)]
    pub seed: u64,
    #[serde(default)]
    pub warmup_s: f64,
    pub duration_s: f64,
    pub clients: u32,
    #[serde(default)]
    pub think_us: f64,
    #[serde(default = "one")]
    pub cores: u32,
    #[serde(default)]
    pub cpu_us: f64,
    #[serde(default)]
    pub host: Option<HostCapConfig>,
    pub devices: Vec<DeviceConfig>,
    #[serde(default)]
    pub reads: Vec<Access>,
    #[serde(default)]
    pub classes: Vec<Class>,
    #[serde(default)]
    pub synchronous_writes: Vec<Access>,
    #[serde(default)]
    pub background_writes: Vec<Background>,
    #[serde(default = "default_depth")]
    pub background_depth: u32,
    #[serde(default)]
    pub wal: Option<Wal>,
    #[serde(default)]
    pub open: Vec<Open>,
}

/// I/O that the client waits for: a Poisson number with this mean in each transaction, or with
/// `is_even` the two whole numbers next to it, as of a transaction that always does the same.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    pub device: usize,
    pub per_transaction: f64,
    #[serde(default = "page")]
    pub bytes: u32,
    #[serde(default)]
    pub sequential: bool,
    #[serde(default)]
    pub is_even: bool,
}

/// A kind of transaction. `cpu_us` of `None`: as the whole configuration says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    pub weight: f64,
    #[serde(default)]
    pub writes: bool,
    #[serde(default)]
    pub reads: Vec<Access>,
    #[serde(default)]
    pub cpu_us: Option<f64>,
}

/// Writes nobody waits for, begun when so many have come together (`*_flush_after`); with a period
/// they are spread over the next one, as a checkpoint is.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    pub device: usize,
    pub per_transaction: f64,
    #[serde(default = "page")]
    pub bytes: u32,
    #[serde(default)]
    pub period_s: f64,
    #[serde(default = "one")]
    pub batch: u32,
}

/// I/O that comes whatever the clients do, as a backup's or a replica's: so many requests a second
/// at exponential intervals.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    pub device: usize,
    pub per_second: f64,
    #[serde(default = "page")]
    pub bytes: u32,
    #[serde(default)]
    pub writes: bool,
    #[serde(default)]
    pub sequential: bool,
}

/// The write-ahead log. `overhead_us` is what a sync takes beside the device, `handover_us` what
/// passes from one flush to the next that is waited for, and `commit_delay_us` what a leader waits
/// for others to join where at least `commit_siblings` other transactions are under way.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wal {
    pub device: usize,
    #[serde(default)]
    pub write_fraction: f64, // without classes: the share of transactions that commit
    pub bytes_per_transaction: f64,
    #[serde(default)]
    pub overhead_us: f64,
    #[serde(default)]
    pub handover_us: f64,
    #[serde(default)]
    pub commit_delay_us: f64,
    #[serde(default)]
    pub commit_siblings: u32,
}

fn one() -> u32 {
    1
}

fn page() -> u32 {
    PAGE_BYTES
}

fn default_depth() -> u32 {
    16
}

impl Config {
    /// Read and check a configuration; the error is one line that names the key.
    pub fn parse(json: &str) -> Result<Config, String> {
        let config: Config =
            serde_json::from_str(json).map_err(|error| format!("simulation: {error}"))?;
        config
            .check()
            .map_err(|text| format!("simulation: {text}"))?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        range("warmup_s", self.warmup_s, 0.0, SECONDS_MAX)?;
        range("duration_s", self.duration_s, 1e-6, SECONDS_MAX)?;
        range("clients", self.clients.into(), 1.0, CLIENTS_MAX.into())?;
        range("cores", self.cores.into(), 1.0, CLIENTS_MAX.into())?;
        range("think_us", self.think_us, 0.0, MICROSECONDS_MAX)?;
        range("cpu_us", self.cpu_us, 0.0, MICROSECONDS_MAX)?;
        range(
            "background_depth",
            self.background_depth.into(),
            1.0,
            65536.0,
        )?;
        for device in &self.devices {
            device.check().map_err(|error| error.to_string())?;
        }
        if let Some(host) = &self.host {
            host.check().map_err(|error| error.to_string())?;
        }
        self.check_accesses("reads", &self.reads)?;
        self.check_accesses("synchronous_writes", &self.synchronous_writes)?;
        for (index, source) in self.background_writes.iter().enumerate() {
            let at = format!("background_writes[{index}]");
            self.check_source(&at, source.device, source.bytes, source.per_transaction)?;
            range(&format!("{at}.period_s"), source.period_s, 0.0, SECONDS_MAX)?;
            range(&format!("{at}.batch"), source.batch.into(), 1.0, 1e9)?;
        }
        for (index, open) in self.open.iter().enumerate() {
            let at = format!("open[{index}]");
            self.check_source(&at, open.device, open.bytes, 0.0)?;
            range(&format!("{at}.per_second"), open.per_second, 0.0, 1e9)?;
        }
        self.check_classes()?;
        if let Some(wal) = &self.wal {
            self.check_source("wal", wal.device, PAGE_BYTES, 0.0)?;
            range("wal.write_fraction", wal.write_fraction, 0.0, 1.0)?;
            range(
                "wal.bytes_per_transaction",
                wal.bytes_per_transaction,
                0.0,
                1e12,
            )?;
            range("wal.overhead_us", wal.overhead_us, 0.0, MICROSECONDS_MAX)?;
            range("wal.handover_us", wal.handover_us, 0.0, MICROSECONDS_MAX)?;
            range(
                "wal.commit_delay_us",
                wal.commit_delay_us,
                0.0,
                MICROSECONDS_MAX,
            )?;
        }
        Ok(())
    }

    fn check_classes(&self) -> Result<(), String> {
        if self.classes.is_empty() {
            return Ok(());
        }
        if !self.reads.is_empty() {
            return Err("reads and classes are both given; put the reads into the classes".into());
        }
        for (index, class) in self.classes.iter().enumerate() {
            range(&format!("classes[{index}].weight"), class.weight, 0.0, 1e9)?;
            if let Some(cpu_us) = class.cpu_us {
                range(
                    &format!("classes[{index}].cpu_us"),
                    cpu_us,
                    0.0,
                    MICROSECONDS_MAX,
                )?;
            }
            self.check_accesses(&format!("classes[{index}].reads"), &class.reads)?;
        }
        if self.classes.iter().map(|class| class.weight).sum::<f64>() <= 0.0 {
            return Err("the weights of all classes are 0; give one of them a weight".into());
        }
        Ok(())
    }

    fn check_accesses(&self, name: &str, accesses: &[Access]) -> Result<(), String> {
        for (index, access) in accesses.iter().enumerate() {
            let at = format!("{name}[{index}]");
            self.check_source(&at, access.device, access.bytes, access.per_transaction)?;
        }
        Ok(())
    }

    fn check_source(
        &self,
        at: &str,
        device: usize,
        bytes: u32,
        per_transaction: f64,
    ) -> Result<(), String> {
        let count = self.devices.len();
        let Some(config) = self.devices.get(device) else {
            return Err(format!(
                "{at}.device is {device}, but there are {count} devices"
            ));
        };
        if bytes == 0 || u64::from(bytes) > config.size_bytes {
            return Err(format!(
                "{at}.bytes is {bytes}; it must be from 1 to the device's {}",
                config.size_bytes
            ));
        }
        range(
            &format!("{at}.per_transaction"),
            per_transaction,
            0.0,
            PER_TRANSACTION_MAX,
        )
    }
}

pub(crate) fn range(name: &str, value: f64, low: f64, high: f64) -> Result<(), String> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(format!(
        "{name} is {value}; it must be from {low} to {high}"
    ))
}
