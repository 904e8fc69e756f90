//! What the server is started with.

use std::path::PathBuf;

use pgstow_device::{DeviceConfig, HostCapConfig};
use serde::Deserialize;

use crate::Error;
use crate::compensation::CompensationUs;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// An existing directory to mount on.
    pub mountpoint: PathBuf,
    /// Where to make the control socket.
    pub control: PathBuf,
    #[serde(default)]
    pub host: Option<HostCapConfig>,
    #[serde(default)]
    pub seed: u64,
    #[serde(default)]
    pub volumes: Vec<DeviceConfig>,
    /// Taken off each latency: what the way to the server and back adds on this machine.
    #[serde(default)]
    pub compensation: CompensationUs,
    /// Memory to leave to the rest of the machine: below it, volumes are full.
    #[serde(default = "default_reserve")]
    pub memory_reserve_bytes: u64,
}

fn default_reserve() -> u64 {
    512 * 1024 * 1024
}

impl ServerConfig {
    pub fn parse(json: &str) -> Result<Self, Error> {
        serde_json::from_str(json)
            .map_err(|error| Error::Config(format!("the emulator's configuration: {error}")))
    }
}
