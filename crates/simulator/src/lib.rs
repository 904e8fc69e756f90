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
mod output;
mod sources;
mod stats;
mod wal;

pub use config::Config;
pub use output::{DeviceResult, Latency, Output};

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
