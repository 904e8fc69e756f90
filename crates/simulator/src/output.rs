//! What a simulation counts within its window, and what it puts out.

use crate::config::Config;
use crate::stats::{Samples, Slices, Window};
use serde::Serialize;

/// What is counted within the window.
pub struct Counts {
    pub window: Window,
    pub latency: Samples,
    pub read: Samples,
    pub commit: Samples,
    pub slices: Slices,
    pub transactions: u64,
    pub flushes: u64,
    pub commits: u64,
    pub wal_write_ns: f64,
    pub wal_sync_ns: f64,
    pub backlog_at_start: Option<u64>,
}

impl Counts {
    /// Nothing yet.
    pub fn new(config: &Config, window: Window) -> Counts {
        let samples = |stream: u64| Samples::new(config.seed ^ stream);
        Counts {
            window,
            latency: samples(1),
            read: samples(2),
            commit: samples(3),
            slices: Slices::new(),
            transactions: 0,
            flushes: 0,
            commits: 0,
            wal_write_ns: 0.0,
            wal_sync_ns: 0.0,
            backlog_at_start: None,
        }
    }

    /// A sum over all flushes as a mean; `None` where there was none.
    pub fn per_flush(&self, sum: f64) -> Option<f64> {
        (self.flushes > 0).then(|| sum / self.flushes as f64)
    }

    /// Whether the throughput kept its level and background writes kept up.
    pub fn are_stationary(&self, backlog: u64) -> bool {
        let growth = backlog.saturating_sub(self.backlog_at_start.unwrap_or(0));
        self.slices.are_level() && growth as f64 <= 64.0 + 0.01 * self.transactions as f64
    }
}

/// A mean and percentiles, as put out.
#[derive(Debug, Clone, Serialize)]
pub struct Latency {
    pub mean: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95: Option<f64>,
    pub p99: Option<f64>,
}

impl Latency {
    /// Mean and 99th percentile.
    pub fn brief(samples: &mut Samples) -> Latency {
        let (mean, p99) = (samples.mean_ms(), samples.percentile_ms(0.99));
        Latency {
            mean,
            p50: None,
            p95: None,
            p99,
        }
    }

    /// Median and 95th percentile as well.
    pub fn full(samples: &mut Samples) -> Latency {
        let (p50, p95) = (samples.percentile_ms(0.5), samples.percentile_ms(0.95));
        Latency {
            p50,
            p95,
            ..Latency::brief(samples)
        }
    }
}

/// One device's result; a utilisation of `None`: it has no such limit.
#[derive(Debug, Clone, Serialize)]
pub struct DeviceResult {
    pub name: String,
    pub reads_per_s: f64,
    pub writes_per_s: f64,
    pub bytes_per_s: f64,
    pub read_ms: Option<f64>,
    pub write_ms: Option<f64>,
    pub iops_utilisation: Option<f64>,
    pub bytes_utilisation: Option<f64>,
    pub queue: f64,
}

/// A simulation's result; `None`: there was nothing to measure, or no limit to hold it against.
#[derive(Debug, Clone, Serialize)]
pub struct Output {
    pub tps: f64,
    pub transactions: u64,
    pub latency_ms: Latency,
    pub read_ms: Latency,
    pub commit_ms: Option<Latency>,
    pub wal_write_us: Option<f64>,
    pub wal_sync_us: Option<f64>,
    pub flushes_per_s: f64,
    pub commits_per_flush: Option<f64>,
    pub cpu_utilisation: f64,
    pub devices: Vec<DeviceResult>,
    pub host_iops_utilisation: Option<f64>,
    pub host_bytes_utilisation: Option<f64>,
    pub background_backlog: u64,
    pub events: u64,
    pub stationary: bool,
}
