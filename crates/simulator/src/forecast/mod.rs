//! Credits and limits under a synthetic load, over hours or days of virtual time.

mod account;
mod demand;
mod pattern;
mod requests;
mod steps;

use pgstow_device::{BurstKind, DeviceConfig, HostCap, Volume};
use serde::Serialize;

use crate::GoOn;
use crate::replay::credits_percent;
use account::{Account, VolumeOutput};
use demand::{Config, Mode};
use pattern::Cost;

/// The volumes of a host and what they have done.
struct Run {
    host: HostCap,
    volumes: Vec<Volume>,
    accounts: Vec<Account>,
    costs: Vec<Option<Cost>>, // of a volume's load
    least_percent: Vec<f64>,  // of credits, which one request would take
    host_credits: HostSeries,
    interval_ns: f64,
}

/// The host's burst credits in percent, when each interval ended; nulls for a host without.
#[derive(Debug, Default, Serialize)]
struct HostSeries {
    end_s: Vec<f64>,
    iops_percent: Vec<Option<f64>>,
    throughput_percent: Vec<Option<f64>>,
}

#[derive(Debug, Serialize)]
struct Output {
    volumes: Vec<VolumeOutput>,
    host_credits: HostSeries,
}

/// Forecast what the JSON says and put out JSON; an error is one line.
pub fn forecast(config_json: &str, go_on: GoOn) -> Result<String, String> {
    let config = Config::parse(config_json)?;
    let mut run = Run::new(&config)?;
    match config.mode {
        Mode::Steps => steps::run(&config, &mut run, go_on)?,
        Mode::Requests => requests::run(&config, &mut run, go_on)?,
    }
    let volumes = config.devices.iter().zip(&run.accounts);
    let output = Output {
        volumes: volumes
            .map(|(device, account)| account.output(&device.name, config.end_ns()))
            .collect(),
        host_credits: run.host_credits,
    };
    serde_json::to_string(&output).map_err(|error| format!("forecast: {error}"))
}

impl Run {
    fn new(config: &Config) -> Result<Run, String> {
        let end_ns = config.end_ns();
        let (mut volumes, mut accounts, mut costs) = (Vec::new(), Vec::new(), Vec::new());
        let seeds = (1..).map(|index: u64| config.seed.wrapping_add(index << 32));
        for ((index, device), seed) in config.devices.iter().enumerate().zip(seeds) {
            volumes.push(Volume::new(device, seed).map_err(|error| error.to_string())?);
            let load = config.loads.iter().find(|load| load.device == index);
            let cost = load.map(|load| Cost::measured(load, device, config.seed));
            costs.push(cost.transpose()?);
            let timetable = load.map_or((vec![0, end_ns], vec![0]), |load| load.timetable(end_ns));
            let bytes = load.map_or(0.0, |load| load.bytes.into());
            accounts.push(Account::new(
                config.interval_s * 1e9,
                end_ns,
                timetable,
                bytes,
            ));
        }
        Ok(Run {
            host: HostCap::new(config.host.as_ref()),
            volumes,
            accounts,
            least_percent: costs
                .iter()
                .zip(&config.devices)
                .map(least_percent)
                .collect(),
            costs,
            host_credits: HostSeries::default(),
            interval_ns: config.interval_s * 1e9,
        })
    }

    /// Looks at all credits at the end of a step.
    fn sample(&mut self, from_ns: u64, until_ns: u64) {
        let mut at_host = (0.0, 0.0);
        for (index, volume) in self.volumes.iter().enumerate() {
            let account = &mut self.accounts[index];
            let mut queued = (0.0, 0.0);
            if let Some(cost) = self.costs[index] {
                let backlog = account.backlog(until_ns as f64);
                queued = (backlog * cost.counted, backlog * cost.bytes);
            }
            if volume.config().uses_host_cap {
                at_host = (at_host.0 + queued.0, at_host.1 + queued.1);
            }
            let percent = credits_percent(volume, until_ns, queued);
            account.sample(from_ns, until_ns, percent, self.least_percent[index]);
        }
        let left = self
            .host
            .credits_left(until_ns as f64, at_host.0, at_host.1);
        self.host_credits.sample(left, until_ns, self.interval_ns);
    }
}

/// What share of its credits a volume's next request takes, and a little that rounding leaves.
fn least_percent((cost, device): (&Option<Cost>, &DeviceConfig)) -> f64 {
    let Some(burst) = &device.member.burst else {
        return 0.0;
    };
    let counted = cost.map_or(0.0, |cost| cost.counted);
    let charged = match burst.kind {
        BurstKind::Iops => counted,
        BurstKind::Bytes => counted * device.member.io_unit_bytes as f64,
    };
    (charged * 1.001 / burst.capacity + 1e-6) * 100.0
}

impl HostSeries {
    /// Keeps the last sample of each interval.
    fn sample(
        &mut self,
        (iops, throughput): (Option<f64>, Option<f64>),
        now_ns: u64,
        interval_ns: f64,
    ) {
        let index = ((now_ns as f64 - 0.5) / interval_ns) as usize;
        let percent = |share: Option<f64>| share.map(|share| share * 100.0);
        while self.end_s.len() <= index {
            self.end_s.push(0.0);
            self.iops_percent.push(None);
            self.throughput_percent.push(None);
        }
        self.end_s[index] = now_ns as f64 / 1e9;
        self.iops_percent[index] = percent(iops);
        self.throughput_percent[index] = percent(throughput);
    }
}
