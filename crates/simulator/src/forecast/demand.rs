//! What a forecast is asked: devices, and for each volume a load in phases.

use pgstow_device::{DeviceConfig, HostCapConfig};
use serde::Deserialize;

use crate::checked;
use crate::config::range;

const SECONDS_MAX: f64 = 1e8; // three years
const STEPS_MAX: f64 = 5e7;
const INTERVALS_MAX: f64 = 1e5;
const IOPS_MAX: f64 = 1e8;
const DEPTH_MAX: u32 = 1 << 20;

/// One forecast.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    #[serde(default)]
    pub seed: u64,
    #[serde(default)]
    pub mode: Mode,
    pub duration_s: f64,
    #[serde(default = "one_second")]
    pub step_s: f64,
    /// Of the series that are put out.
    #[serde(default = "five_minutes")]
    pub interval_s: f64,
    #[serde(default)]
    pub host: Option<HostCapConfig>,
    pub devices: Vec<DeviceConfig>,
    pub loads: Vec<Load>,
}

/// Whether requests are taken one by one, or all those of a step at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    #[default]
    Steps,
    Requests,
}

/// What one volume is asked. Its phases follow each other and begin again after the last.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    pub device: usize,
    #[serde(default = "page")]
    pub bytes: u32,
    #[serde(default = "all")]
    pub read_share: f64,
    #[serde(default)]
    pub sequential: bool,
    #[serde(default)]
    pub arrivals: Arrivals,
    pub phases: Vec<Phase>,
}

/// How requests of a given rate come; in steps they come evenly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    #[default]
    Poisson,
    Constant,
}

/// Either `iops` requests a second, whether answered or not, or `depth` of them always under way.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    pub duration_s: f64,
    #[serde(default)]
    pub iops: Option<f64>,
    #[serde(default)]
    pub depth: Option<u32>,
}

/// What a phase asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Asked {
    Rate(f64),
    Depth(u32),
}

impl Phase {
    pub fn asked(&self) -> Asked {
        match self.depth {
            Some(depth) => Asked::Depth(depth),
            None => Asked::Rate(self.iops.unwrap_or(0.0)),
        }
    }
}

fn one_second() -> f64 {
    1.0
}

fn five_minutes() -> f64 {
    300.0
}

fn page() -> u32 {
    crate::config::PAGE_BYTES
}

fn all() -> f64 {
    1.0
}

impl Config {
    /// Read and check a configuration; the error is one line that names the key.
    pub fn parse(json: &str) -> Result<Config, String> {
        let config: Config =
            serde_json::from_str(json).map_err(|error| format!("forecast: {error}"))?;
        config.check().map_err(|text| format!("forecast: {text}"))?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        range("duration_s", self.duration_s, 1e-3, SECONDS_MAX)?;
        range("step_s", self.step_s, 1e-3, self.duration_s)?;
        range("interval_s", self.interval_s, 1e-3, SECONDS_MAX)?;
        range(
            "duration_s / step_s",
            self.duration_s / self.step_s,
            1.0,
            STEPS_MAX,
        )?;
        range(
            "duration_s / interval_s",
            self.duration_s / self.interval_s,
            0.0,
            INTERVALS_MAX,
        )?;
        checked(&self.devices, self.host.as_ref())?;
        let mut loaded = vec![false; self.devices.len()];
        for (index, load) in self.loads.iter().enumerate() {
            let at = format!("loads[{index}]");
            load.check(&at, &self.devices, self.duration_s)?;
            if std::mem::replace(&mut loaded[load.device], true) {
                return Err(format!("{at}: device {} has a load already", load.device));
            }
        }
        Ok(())
    }

    pub fn end_ns(&self) -> u64 {
        (self.duration_s * 1e9) as u64
    }
}

impl Load {
    fn check(&self, at: &str, devices: &[DeviceConfig], duration_s: f64) -> Result<(), String> {
        let Some(device) = devices.get(self.device) else {
            return Err(format!(
                "{at}.device is {}, but there are {} devices",
                self.device,
                devices.len()
            ));
        };
        range(
            &format!("{at}.bytes"),
            self.bytes.into(),
            1.0,
            device.size_bytes as f64,
        )?;
        range(&format!("{at}.read_share"), self.read_share, 0.0, 1.0)?;
        if self.sequential && self.read_share != 0.0 && self.read_share != 1.0 {
            return Err(format!(
                "{at}.read_share is {}; a sequential load reads or writes: 1 or 0",
                self.read_share
            ));
        }
        for (index, phase) in self.phases.iter().enumerate() {
            phase.check(&format!("{at}.phases[{index}]"))?;
        }
        let cycle_s: f64 = self.phases.iter().map(|phase| phase.duration_s).sum();
        if self.phases.is_empty() {
            return Err(format!("{at} has no phases"));
        }
        let count = self.phases.len() as f64 * (duration_s / cycle_s).ceil();
        range(&format!("{at}: phases in all"), count, 1.0, INTERVALS_MAX)
    }

    /// Which phase begins when, until the end: the last entry is the end itself.
    pub fn timetable(&self, end_ns: u64) -> (Vec<u64>, Vec<usize>) {
        let (mut bounds_ns, mut phases, mut at_s) = (Vec::new(), Vec::new(), 0.0);
        for index in (0..self.phases.len()).cycle() {
            let at_ns = (at_s * 1e9) as u64;
            if at_ns >= end_ns {
                break;
            }
            bounds_ns.push(at_ns);
            phases.push(index);
            at_s += self.phases[index].duration_s;
        }
        bounds_ns.push(end_ns);
        (bounds_ns, phases)
    }
}

impl Phase {
    fn check(&self, at: &str) -> Result<(), String> {
        range(
            &format!("{at}.duration_s"),
            self.duration_s,
            1e-3,
            SECONDS_MAX,
        )?;
        match (self.iops, self.depth) {
            (Some(iops), None) => range(&format!("{at}.iops"), iops, 0.0, IOPS_MAX),
            (None, Some(depth)) => {
                range(&format!("{at}.depth"), depth.into(), 0.0, DEPTH_MAX.into())
            }
            _ => Err(format!("{at} needs either iops or depth")),
        }
    }
}
