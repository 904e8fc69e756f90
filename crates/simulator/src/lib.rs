//! Discrete-event simulation, in virtual time, of PostgreSQL on a layout's devices.
//!
//! A closed queueing network: clients think, compute on a station of processors, wait for reads
//! and for writes of their own, and commit through a log that one flush at a time makes durable;
//! checkpointer and background writer add writes that nobody waits for. The devices are those of
//! `pgstow_device`, so what the emulator shows in real time is here computed without waiting.

mod agenda;
mod background;
mod config;
mod devices;
mod engine;
mod exceeded;
mod forecast;
mod output;
mod replay;
mod sources;
mod stats;
mod wal;

pub use config::Config;
pub use forecast::forecast;
pub use output::{DeviceResult, Latency, Output};
pub use replay::replay;

use pgstow_device::{DeviceConfig, HostCapConfig, Timing};

/// Asked now and then whether to go on; an error ends the run and is its answer.
pub type GoOn<'a> = &'a mut dyn FnMut() -> Result<(), String>;

/// Refuses devices that cannot be and names given twice.
fn checked(devices: &[DeviceConfig], host: Option<&HostCapConfig>) -> Result<(), String> {
    if let Some(host) = host {
        host.check().map_err(|error| error.to_string())?;
    }
    for (index, device) in devices.iter().enumerate() {
        device.check().map_err(|error| error.to_string())?;
        if devices[..index]
            .iter()
            .any(|other| other.name == device.name)
        {
            return Err(format!("volume {:?} is given twice", device.name));
        }
    }
    Ok(())
}

/// Until when a request waits before each limit: the volume's on operations and on bytes, the
/// host's on operations and on bytes.
fn waits_until(now_ns: u64, timing: &Timing) -> [f64; 4] {
    let waits = timing.waits;
    [
        waits.volume_iops_ns,
        waits.volume_throughput_ns,
        waits.host_iops_ns,
        waits.host_throughput_ns,
    ]
    .map(|wait_ns| (now_ns + wait_ns) as f64)
}

/// Simulate one configuration. `go_on` is asked about every million events.
pub fn run(
    config: &Config,
    go_on: &mut dyn FnMut() -> Result<(), String>,
) -> Result<Output, String> {
    engine::Engine::new(config)?.run(go_on)
}

/// Simulate what the JSON says and put out JSON; an error is one line.
pub fn simulate(
    config_json: &str,
    go_on: &mut dyn FnMut() -> Result<(), String>,
) -> Result<String, String> {
    let output = run(&Config::parse(config_json)?, go_on)?;
    serde_json::to_string(&output).map_err(|error| format!("simulation: {error}"))
}
