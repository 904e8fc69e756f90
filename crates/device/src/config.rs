//! What a volume and a host are, as the Python side describes them in JSON.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A configuration that no device can have; says which value of which volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(String);

impl ConfigError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// One volume: its members and how they are striped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceConfig {
    pub name: String,
    /// Of the whole array.
    pub size_bytes: u64,
    pub stripes: u32,
    pub chunk_bytes: u64,
    pub member: MemberConfig,
    /// False for disks inside the host, whose traffic does not pass the host's cap.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub uses_host_cap: bool,
    /// Whether what was answered may still be in a cache that a power loss takes. The model asks
    /// nothing of it; whoever shows the volume to a kernel does.
    #[serde(default, skip_serializing_if = "is_no")]
    pub has_volatile_cache: bool,
}

fn yes() -> bool {
    true
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_yes(value: &bool) -> bool {
    *value
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_no(value: &bool) -> bool {
    !*value
}

/// One member of a stripe. A limit of `None` is no limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberConfig {
    pub iops: Option<f64>,
    /// Of writes alone, where it is not that of reads; a mixed load shares the time between both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_iops: Option<f64>,
    pub bytes_per_second: Option<f64>,
    /// A request counts as `ceil(bytes / io_unit_bytes)` operations.
    pub io_unit_bytes: u64,
    pub latency: LatencyConfig,
    #[serde(default)]
    pub burst: Option<BurstConfig>,
    /// Set for hard disks: what seeks and rotation add to the latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mechanics: Option<MechanicsConfig>,
    /// Set for a volume made from a snapshot whose data are not there yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<RestoreConfig>,
}

/// Base latency of one operation; log-normal through the median and the 99th percentile.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyConfig {
    pub read_us_p50: f64,
    pub read_us_p99: f64,
    pub write_us_p50: f64,
    pub write_us_p99: f64,
    /// Up to this size the percentiles hold; each MiB beyond it takes so much more.
    #[serde(default)]
    pub base_bytes: u64,
    #[serde(default)]
    pub read_us_per_mib: f64,
    #[serde(default)]
    pub write_us_per_mib: f64,
}

/// A hard disk: its seek, rotation and transfer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MechanicsConfig {
    /// From one track to the next, and between two random positions.
    pub track_seek_us: f64,
    pub mean_seek_us: f64,
    /// One revolution; the rotational latency of a request is up to one.
    pub turn_us: f64,
    /// What passes below the head.
    pub bytes_per_second: f64,
    /// One actuator, one request after the other. False where many disks are behind a volume.
    pub is_serial: bool,
}

/// How the data of a restored volume come, block by block at their first touch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RestoreConfig {
    pub block_bytes: u64,
    /// One block from the snapshot: median and 99th percentile.
    pub us_p50: f64,
    pub us_p99: f64,
    /// The most that comes on demand; none is no limit.
    #[serde(default)]
    pub bytes_per_second: Option<f64>,
    /// What comes by itself, from the volume's begin to its end; none: only what is touched.
    #[serde(default)]
    pub background_bytes_per_second: Option<f64>,
}

/// What a burst credit is: one operation (gp2) or one byte (st1, sc1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BurstKind {
    Iops,
    Bytes,
}

/// A bucket of credits: an operation takes what it counts, time puts back `refill_per_s`.
///
/// While it lasts the limit is `burst_rate`; when it is empty, the member's limit, which is the
/// baseline. Providers refill at the baseline, so a burst drains at `burst_rate - baseline`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BurstConfig {
    pub kind: BurstKind,
    pub capacity: f64,
    pub refill_per_s: f64,
    pub burst_rate: f64,
    /// The fill at the start, as a fraction of the capacity.
    #[serde(default = "full")]
    pub initial: f64,
}

fn full() -> f64 {
    1.0
}

/// The host's own cap on storage traffic, shared by all its volumes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostCapConfig {
    pub iops: Option<f64>,
    pub bytes_per_second: Option<f64>,
    #[serde(default)]
    pub burst_iops: Option<f64>,
    #[serde(default)]
    pub burst_bytes_per_second: Option<f64>,
    /// The fraction of the host's burst credits at the start. Without it the host never bursts:
    /// half an hour a day must not flatter a measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_initial: Option<f64>,
}

impl DeviceConfig {
    pub(crate) fn member_bytes(&self) -> u64 {
        self.size_bytes.div_ceil(u64::from(self.stripes))
    }

    /// Refuses what cannot be: no size, no members, limits that are not positive.
    pub fn check(&self) -> Result<(), ConfigError> {
        let fail = |what: &str| Err(ConfigError::new(format!("volume {:?}: {what}", self.name)));
        if self.size_bytes == 0 {
            return fail("size_bytes must be positive");
        }
        if !(1..=128).contains(&self.stripes) {
            return fail("stripes must be 1 to 128");
        }
        if self.chunk_bytes == 0 {
            return fail("chunk_bytes must be positive");
        }
        self.member.check().or_else(|what| fail(&what))
    }

    /// Refuses a change that would move data that is already there.
    pub(crate) fn check_change(&self, changed: &Self) -> Result<(), ConfigError> {
        let fail = |what: &str| Err(ConfigError::new(format!("volume {:?}: {what}", self.name)));
        if changed.name != self.name {
            return fail("the name cannot change");
        }
        if changed.stripes != self.stripes || changed.chunk_bytes != self.chunk_bytes {
            return fail("striping cannot change while the volume exists");
        }
        if changed.size_bytes < self.size_bytes {
            return fail("the size can only grow");
        }
        Ok(())
    }
}

impl MemberConfig {
    /// How many operations of `iops` one write takes the time of.
    #[must_use]
    pub fn write_cost(&self) -> f64 {
        match (self.iops, self.write_iops) {
            (Some(iops), Some(write_iops)) => iops / write_iops,
            _ => 1.0,
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.io_unit_bytes == 0 {
            return Err("io_unit_bytes must be positive".into());
        }
        check_limit("iops", self.iops)?;
        check_limit("write_iops", self.write_iops)?;
        if self.write_iops.is_some() && (self.iops.is_none() || self.burst.is_some()) {
            return Err("write_iops needs iops, and no burst".into());
        }
        check_limit("bytes_per_second", self.bytes_per_second)?;
        self.latency.check()?;
        if let Some(mechanics) = &self.mechanics {
            mechanics.check()?;
        }
        if let Some(restored) = &self.restored {
            restored.check()?;
        }
        let Some(burst) = &self.burst else {
            return Ok(());
        };
        check_limit("burst.capacity", Some(burst.capacity))?;
        check_limit("burst.refill_per_s", Some(burst.refill_per_s))?;
        check_limit("burst.burst_rate", Some(burst.burst_rate))?;
        if !(0.0..=1.0).contains(&burst.initial) {
            return Err("burst.initial must be between 0 and 1".into());
        }
        let (name, baseline) = match burst.kind {
            BurstKind::Iops => ("iops", self.iops),
            BurstKind::Bytes => ("bytes_per_second", self.bytes_per_second),
        };
        match baseline {
            None => Err(format!(
                "a burst of {name} needs a baseline: {name} is null"
            )),
            Some(rate) if burst.burst_rate < rate => {
                Err(format!("burst.burst_rate is below the baseline {name}"))
            }
            Some(_) => Ok(()),
        }
    }
}

impl LatencyConfig {
    fn check(&self) -> Result<(), String> {
        let pairs = [
            ("read", self.read_us_p50, self.read_us_p99),
            ("write", self.write_us_p50, self.write_us_p99),
        ];
        for (name, p50, p99) in pairs {
            if !(p50.is_finite() && p99.is_finite() && p50 >= 0.0 && p99 >= p50) {
                return Err(format!(
                    "latency {name}_us must be 0 <= p50 <= p99, not {p50} and {p99}"
                ));
            }
        }
        for us in [self.read_us_per_mib, self.write_us_per_mib] {
            if !(us.is_finite() && us >= 0.0) {
                return Err(format!("latency us_per_mib must not be negative, not {us}"));
            }
        }
        Ok(())
    }
}

impl MechanicsConfig {
    fn check(&self) -> Result<(), String> {
        let (track, mean) = (self.track_seek_us, self.mean_seek_us);
        if !(mean.is_finite() && 0.0 <= track && track <= mean) {
            return Err(format!(
                "mechanics must have 0 <= track_seek_us <= mean_seek_us, not {track} and {mean}"
            ));
        }
        if !(self.turn_us.is_finite() && self.turn_us >= 0.0) {
            return Err("mechanics.turn_us must not be negative".into());
        }
        check_limit("mechanics.bytes_per_second", Some(self.bytes_per_second))
    }
}

impl RestoreConfig {
    fn check(&self) -> Result<(), String> {
        if self.block_bytes == 0 {
            return Err("restored.block_bytes must be positive".into());
        }
        if !(self.us_p99.is_finite() && 0.0 <= self.us_p50 && self.us_p50 <= self.us_p99) {
            return Err("restored must have 0 <= us_p50 <= us_p99".into());
        }
        check_limit("restored.bytes_per_second", self.bytes_per_second)?;
        check_limit(
            "restored.background_bytes_per_second",
            self.background_bytes_per_second,
        )
    }
}

impl HostCapConfig {
    /// Refuses limits that are not positive.
    pub fn check(&self) -> Result<(), ConfigError> {
        let checks = [
            ("iops", self.iops),
            ("bytes_per_second", self.bytes_per_second),
            ("burst_iops", self.burst_iops),
            ("burst_bytes_per_second", self.burst_bytes_per_second),
        ];
        for (name, rate) in checks {
            check_limit(name, rate).map_err(|what| ConfigError::new(format!("host: {what}")))?;
        }
        match self.burst_initial {
            Some(fill) if !(0.0..=1.0).contains(&fill) => Err(ConfigError::new(
                "host: burst_initial must be between 0 and 1",
            )),
            _ => Ok(()),
        }
    }
}

fn check_limit(name: &str, rate: Option<f64>) -> Result<(), String> {
    match rate {
        Some(rate) if !(rate.is_finite() && rate > 0.0) => {
            Err(format!("{name} must be a positive number, not {rate}"))
        }
        _ => Ok(()),
    }
}
