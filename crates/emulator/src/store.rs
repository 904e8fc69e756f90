//! All volumes of the server, by name and by node, and the host that they share.

use std::collections::BTreeMap;
use std::path::Path;

use pgstow_device::{DeviceConfig, HostCap, HostCapConfig, Modification, Volume};
use serde::Serialize;
use serde_json::{Value, json};

use crate::backing::{BackingStatus, Data, Files};
use crate::compensation::{Compensation, CompensationUs};
use crate::fault::{FaultStatus, Faults};
use crate::guard::MemoryGuard;
use crate::memory::Memory;
use crate::recording::{Recorded, Recording};
use crate::statistics::{Counts, VolumeStatistics};
use crate::undo::{UndoLog, Unflushed};
use crate::volume::EmulatedVolume;

/// Below it are the root and the offsets of "." and "..".
const FIRST_NODE: u64 = 16;
const MAX_NAME_BYTES: usize = 255;
/// A week; the provider says up to 24 hours for most volumes.
const MAX_OPTIMISING_S: f64 = 7.0 * 24.0 * 3600.0;

pub struct Store {
    /// Nodes are never given twice.
    pub volumes: BTreeMap<u64, EmulatedVolume>,
    next_node: u64,
    pub host: HostCap,
    pub host_config: Option<HostCapConfig>,
    /// Since when no volume under the host's cap has had its limits on: its credits stand still.
    pub host_rests_since_ns: Option<u64>,
    pub guard: MemoryGuard,
    pub compensation: Compensation,
    /// Whether a volume that is added has its limits on.
    pub limits_enabled: bool,
    /// Whether a volume that is added keeps a log of what is not flushed.
    pub volatile: bool,
    pub faults: Faults,
    pub files: Files,
    pub recording: Option<Recording>,
    /// For how long the server's thread had nothing to do.
    pub idle_ns: u64,
    seed: u64,
}

/// The answer to `status`.
#[derive(Debug, Serialize)]
pub struct Status<'a> {
    pid: u32,
    compensation: CompensationUs,
    limits_enabled: bool,
    host: Option<&'a HostCapConfig>,
    volumes: Vec<VolumeStatus<'a>>,
    faults: Vec<FaultStatus<'a>>,
}

#[derive(Debug, Serialize)]
struct VolumeStatus<'a> {
    name: &'a str,
    size_bytes: u64,
    resident_bytes: u64,
    backing: BackingStatus<'a>,
    #[serde(flatten)]
    counts: &'a Counts,
    limits_enabled: bool,
    /// Burst credits left over all members; null for a volume without.
    credits: Option<f64>,
    volatile: bool,
    #[serde(flatten)]
    unflushed: Unflushed,
    undo_refused_writes: u64,
    device: &'a DeviceConfig,
    /// Null where none is under way.
    modification: Option<ModificationStatus>,
    modifications_24h: u32,
}

#[derive(Debug, Serialize)]
struct ModificationStatus {
    progress: f64,
    ends_in_s: f64,
}

impl ModificationStatus {
    fn new(modification: Modification, now_ns: u64) -> Self {
        let length_ns = modification.ends_ns - modification.started_ns;
        let left_ns = modification.ends_ns - now_ns;
        Self {
            progress: 1.0 - left_ns as f64 / length_ns as f64,
            ends_in_s: left_ns as f64 / 1e9,
        }
    }
}

impl Store {
    pub fn new(guard: MemoryGuard, seed: u64) -> Self {
        Self {
            volumes: BTreeMap::new(),
            next_node: FIRST_NODE,
            host: HostCap::new(None),
            host_config: None,
            host_rests_since_ns: Some(0),
            guard,
            compensation: Compensation::default(),
            limits_enabled: true,
            volatile: false,
            faults: Faults::default(),
            files: Files::default(),
            recording: None,
            idle_ns: 0,
            seed,
        }
    }

    /// Adds a volume in memory, all zeros.
    pub fn add(&mut self, device: &DeviceConfig, now_ns: u64) -> Result<(), String> {
        self.check_name(&device.name)?;
        let memory = Memory::new(device.size_bytes).map_err(|error| {
            let (name, bytes) = (&device.name, device.size_bytes);
            format!("volume {name:?}: no mapping of {bytes} bytes: {error}")
        })?;
        let node = self.take_node();
        self.add_with(device, node, Data::Memory(memory), now_ns)
    }

    /// Adds a volume that consists of `data`, of which there is nothing left if it is refused.
    pub fn add_with(
        &mut self,
        device: &DeviceConfig,
        node: u64,
        data: Data,
        now_ns: u64,
    ) -> Result<(), String> {
        let name = &device.name;
        let seed = seed_of(self.seed, name);
        let timing = self
            .check_name(name)
            .and_then(|()| Volume::new_at(device, seed, now_ns).map_err(|error| error.to_string()));
        let mut volume = match timing {
            Ok(timing) => EmulatedVolume::new(timing, data, now_ns),
            Err(message) => {
                self.retire(node, data, None);
                return Err(message);
            }
        };
        volume.timing.set_unlimited(now_ns, !self.limits_enabled);
        volume.undo = self.volatile.then(UndoLog::default);
        volume.faults = self.faults.of(name);
        self.volumes.insert(node, volume);
        self.let_host_rest(now_ns);
        Ok(())
    }

    /// Refuses a name that no file can have, or that another volume has.
    pub fn check_name(&self, name: &str) -> Result<(), String> {
        let unusable = name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains(['/', '\0']);
        if unusable || name == "." || name == ".." {
            return Err(format!("volume {name:?}: the name is no file's name"));
        }
        if self.find(name.as_bytes()).is_some() {
            return Err(format!("volume {name:?} exists already"));
        }
        Ok(())
    }

    /// A node for a volume that is to be added.
    pub fn take_node(&mut self) -> u64 {
        self.next_node += 1;
        self.next_node - 1
    }

    /// Takes a volume away, if nobody has it open. The answer is the ticket that the end of its
    /// file comes with, if it has one.
    pub fn remove(&mut self, name: &str) -> Result<Option<u64>, String> {
        let (node, volume) = self.named(name)?;
        if volume.openers > 0 {
            return Err(format!(
                "volume {name:?} is in use: detach its loop device first"
            ));
        }
        let volume = self.volumes.remove(&node).expect("named just now");
        let ticket = self.files.next_ticket();
        let waits = self.retire(node, volume.data, Some(ticket));
        Ok(waits.then_some(ticket))
    }

    pub fn set(&mut self, device: &DeviceConfig, now_ns: u64) -> Result<(), String> {
        self.named(&device.name)?.1.set(device, now_ns)
    }

    /// Changes a volume as `ModifyVolume` does: its limits over so many seconds.
    pub fn modify(
        &mut self,
        device: &DeviceConfig,
        optimising_s: f64,
        now_ns: u64,
    ) -> Result<(), String> {
        if !(0.0..=MAX_OPTIMISING_S).contains(&optimising_s) {
            return Err(format!(
                "optimising_s must be 0 to {MAX_OPTIMISING_S}, not {optimising_s}"
            ));
        }
        let optimising_ns = (optimising_s * 1e9).round() as u64;
        self.named(&device.name)?
            .1
            .modify(device, optimising_ns, now_ns)
    }

    pub fn set_compensation(&mut self, target: CompensationUs) -> Result<(), String> {
        self.compensation = Compensation::new(target)?;
        Ok(())
    }

    /// Begins to record the requests to some volumes, or to all that are there.
    pub fn start_recording(
        &mut self,
        path: &Path,
        names: Option<&[String]>,
        now_ns: u64,
    ) -> Result<(), String> {
        if self.recording.is_some() {
            return Err("a recording is under way: stop it first".into());
        }
        let nodes = match names {
            None => self.volumes.keys().copied().collect(),
            Some(names) => names
                .iter()
                .map(|name| Ok(self.named(name)?.0))
                .collect::<Result<Vec<_>, String>>()?,
        };
        let recorded = |node| (node, self.volumes[&node].name().to_owned());
        let volumes = nodes.iter().copied().map(recorded).collect();
        let about = self.describe(&nodes, now_ns);
        self.recording = Some(Recording::start(path, volumes, about)?);
        Ok(())
    }

    /// Ends the recording.
    pub fn stop_recording(&mut self) -> Result<Recorded, String> {
        let recording = self.recording.take().ok_or("no recording is under way")?;
        Ok(recording.stop())
    }

    /// What is needed to run recorded requests again: devices, host, credits, compensation.
    pub fn describe(&self, nodes: &[u64], now_ns: u64) -> Value {
        let volumes: Vec<_> = nodes.iter().map(|node| &self.volumes[node]).collect();
        let devices: Vec<_> = volumes
            .iter()
            .map(|volume| volume.timing.config())
            .collect();
        let credits: BTreeMap<_, _> = volumes
            .iter()
            .map(|volume| (volume.name(), volume.timing.credits(now_ns)))
            .collect();
        let host_ns = self.host_rests_since_ns.unwrap_or(now_ns) as f64;
        let (iops, bytes) = self.host.credits_left(host_ns, 0.0, 0.0);
        let host_credits = iops
            .or(bytes)
            .map(|_| json!({"iops": iops, "bytes": bytes}));
        json!({
            "version": 1, "seed": self.seed, "host": self.host_config, "devices": devices,
            "compensation": self.compensation.us(), "credits": credits,
            "host_credits": host_credits, "dropped": 0
        })
    }

    /// The sums of all volumes.
    pub fn statistics(&self, now_ns: u64) -> Vec<VolumeStatistics<'_>> {
        let reports = self.volumes.values().map(|volume| {
            let balance = volume.burst_balance_percent(now_ns);
            volume.statistics.report(volume.name(), now_ns, balance)
        });
        reports.collect()
    }

    pub fn status(&self, now_ns: u64) -> Status<'_> {
        let volumes = self.volumes.values().map(|volume| VolumeStatus {
            name: volume.name(),
            size_bytes: volume.data.size_bytes(),
            resident_bytes: volume.data.resident_bytes(),
            backing: volume.data.status(),
            counts: &volume.statistics.counts,
            limits_enabled: !volume.timing.is_unlimited(),
            credits: volume.timing.credits(now_ns),
            volatile: volume.undo.is_some(),
            unflushed: volume
                .undo
                .as_ref()
                .map(UndoLog::unflushed)
                .unwrap_or_default(),
            undo_refused_writes: volume.undo_refused_writes,
            device: volume.timing.config(),
            modification: volume
                .timing
                .modification(now_ns)
                .map(|modification| ModificationStatus::new(modification, now_ns)),
            modifications_24h: volume.timing.modifications_24h(now_ns),
        });
        let all_limited = self
            .volumes
            .values()
            .all(|volume| !volume.timing.is_unlimited());
        Status {
            pid: std::process::id(),
            compensation: self.compensation.us(),
            limits_enabled: all_limited && (self.limits_enabled || !self.volumes.is_empty()),
            host: self.host_config.as_ref(),
            volumes: volumes.collect(),
            faults: self.faults.status(now_ns),
        }
    }

    /// The node of a name.
    pub fn find(&self, name: &[u8]) -> Option<u64> {
        self.iter()
            .find(|(_, volume)| volume.name().as_bytes() == name)
            .map(|(node, _)| node)
    }

    pub fn get(&self, node: u64) -> Option<&EmulatedVolume> {
        self.volumes.get(&node)
    }

    pub fn get_mut(&mut self, node: u64) -> Option<&mut EmulatedVolume> {
        self.volumes.get_mut(&node)
    }

    /// A volume together with what all volumes share.
    pub fn parts_mut(
        &mut self,
        node: u64,
    ) -> Option<(&mut EmulatedVolume, &mut HostCap, &mut MemoryGuard)> {
        Some((
            self.volumes.get_mut(&node)?,
            &mut self.host,
            &mut self.guard,
        ))
    }

    /// All volumes in the order of their nodes.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &EmulatedVolume)> {
        self.volumes.iter().map(|(&node, volume)| (node, volume))
    }

    pub fn named(&mut self, name: &str) -> Result<(u64, &mut EmulatedVolume), String> {
        let node = self
            .find(name.as_bytes())
            .ok_or_else(|| format!("no volume {name:?}"))?;
        Ok((node, self.volumes.get_mut(&node).expect("found just now")))
    }
}

/// A seed of the volume's own that does not depend on the others or on their order (FNV-1a).
pub fn seed_of(seed: u64, name: &str) -> u64 {
    name.bytes()
        .fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

#[cfg(test)]
pub mod tests {
    use pgstow_device::{LatencyConfig, MemberConfig};

    use super::*;

    /// A plain device of 1 GiB without limits.
    pub fn device(name: &str) -> DeviceConfig {
        DeviceConfig {
            name: name.into(),
            size_bytes: 1 << 30,
            stripes: 1,
            chunk_bytes: 65536,
            member: MemberConfig {
                iops: None,
                write_iops: None,
                bytes_per_second: None,
                io_unit_bytes: 262_144,
                latency: LatencyConfig {
                    read_us_p50: 100.0,
                    read_us_p99: 100.0,
                    write_us_p50: 100.0,
                    write_us_p99: 100.0,
                    ..LatencyConfig::default()
                },
                burst: None,
                mechanics: None,
                restored: None,
            },
            uses_host_cap: true,
            has_volatile_cache: false,
        }
    }

    #[test]
    fn names_are_files_names_and_unique() {
        let mut store = Store::new(MemoryGuard::new(0), 1);
        store.add(&device("a \"b\"\n"), 0).unwrap();
        assert!(
            store
                .add(&device("a \"b\"\n"), 0)
                .unwrap_err()
                .contains("exists")
        );
        for name in ["", ".", "..", "a/b", "a\0b", &"x".repeat(256)] {
            assert!(store.add(&device(name), 0).is_err(), "{name:?}");
        }
        assert!(store.remove("gone").unwrap_err().contains("no volume"));
    }

    #[test]
    fn an_open_volume_stays() {
        let mut store = Store::new(MemoryGuard::new(0), 1);
        store.add(&device("a"), 0).unwrap();
        let node = store.find(b"a").unwrap();
        store.get_mut(node).unwrap().openers = 1;
        assert!(store.remove("a").unwrap_err().contains("in use"));
        store.get_mut(node).unwrap().openers = 0;
        store.remove("a").unwrap();
        store.add(&device("a"), 0).unwrap();
        assert_ne!(store.find(b"a").unwrap(), node);
    }

    #[test]
    fn compensation_shortens_the_latency_alone() {
        let mut store = Store::new(MemoryGuard::new(0), 1);
        let mut slow = device("a");
        slow.member.iops = Some(10.0);
        store.add(&slow, 0).unwrap();
        let compensate = |store: &mut Store, read_us, write_us| {
            let target = CompensationUs { read_us, write_us };
            store.set_compensation(target).unwrap();
        };
        let node = store.find(b"a").unwrap();
        let deadline_ns = |store: &mut Store, offset| {
            let compensation = store.compensation;
            let (volume, host, _) = store.parts_mut(node).unwrap();
            let kind = crate::pending::Kind::Write {
                offset,
                length: 8192,
            };
            volume.submit(host, 0, compensation, kind)
        };
        compensate(&mut store, 90.0, 40.0);
        assert_eq!(deadline_ns(&mut store, 0), 60_000);
        assert_eq!(deadline_ns(&mut store, 1 << 20), 90_000_000 + 60_000);
        compensate(&mut store, 0.0, 500.0);
        assert_eq!(deadline_ns(&mut store, 1 << 25), 190_000_000);
    }
}
