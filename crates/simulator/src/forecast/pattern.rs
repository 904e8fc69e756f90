//! Where a load's requests go, and what they cost by the device model's own account.

use pgstow_device::{DeviceConfig, HostCap, HostCapConfig, Operation, OperationKind, Volume};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::demand::Load;

const PROBES: u32 = 8192;
const LATENCY_MIN_NS: f64 = 1e3; // a device without latency still takes its time
const FAR_NS: f64 = 1e18;

/// The requests of one load, one after the other.
#[derive(Debug)]
pub struct Pattern {
    bytes: u32,
    read_share: f64,
    slots: u64, // aligned to the requests' size
    cursor: Option<u64>,
}

impl Pattern {
    pub fn new(load: &Load, device: &DeviceConfig) -> Pattern {
        Pattern {
            bytes: load.bytes,
            read_share: load.read_share,
            slots: device.size_bytes / u64::from(load.bytes),
            cursor: load.sequential.then_some(0),
        }
    }

    pub fn next(&mut self, random: &mut Xoshiro256PlusPlus) -> Operation {
        let is_read = self.read_share >= 1.0 || random.random::<f64>() < self.read_share;
        let slot = match &mut self.cursor {
            None => random.random_range(0..self.slots),
            Some(cursor) => {
                let slot = *cursor;
                *cursor = (slot + 1) % self.slots;
                slot
            }
        };
        Operation {
            kind: if is_read {
                OperationKind::Read
            } else {
                OperationKind::Write
            },
            offset: slot * u64::from(self.bytes),
            length: self.bytes,
        }
    }
}

/// What one request of a load takes in the mean.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Operations as the limits count them, over all members.
    pub counted: f64,
    /// The same as the volume's own limit charges them, where its writes are fewer than its reads.
    pub charged: f64,
    pub bytes: f64,
    /// After the waits before limits, with nobody else about.
    pub latency_ns: f64,
    /// Where disks do one request after the other: from one to the next, over all members.
    pub serial_ns: Option<f64>,
}

impl Cost {
    /// Asks the model: a device without limits of its own, whose data are all there.
    pub fn measured(load: &Load, device: &DeviceConfig, seed: u64) -> Result<Cost, String> {
        let mut free = device.clone();
        free.uses_host_cap = true;
        let member = &mut free.member;
        (member.iops, member.write_iops) = (None, None);
        (member.bytes_per_second, member.burst) = (None, None);
        member.restored = None;
        let mechanics = free.member.mechanics.as_ref();
        let is_serial = mechanics.is_some_and(|mechanics| mechanics.is_serial);
        let counted = counted(load, &free, seed)?;
        Ok(Cost {
            counted,
            charged: counted * mean_charge(load, device),
            bytes: load.bytes.into(),
            latency_ns: mean_ns(load, &free, seed, true)?.max(LATENCY_MIN_NS),
            serial_ns: match is_serial {
                true => Some(mean_ns(load, &free, seed, false)?),
                false => None,
            },
        })
    }
}

/// What an operation of a load is charged in reads, in the mean.
fn mean_charge(load: &Load, device: &DeviceConfig) -> f64 {
    match (device.member.iops, device.member.write_iops) {
        (Some(iops), Some(write_iops)) => {
            load.read_share + (1.0 - load.read_share) * iops / write_iops
        }
        _ => 1.0,
    }
}

/// Operations counted, by a host that does nothing else.
fn counted(load: &Load, device: &DeviceConfig, seed: u64) -> Result<f64, String> {
    let mut volume = Volume::new(device, seed).map_err(|error| error.to_string())?;
    let mut counter = HostCap::new(Some(&HostCapConfig {
        iops: Some(1.0),
        bytes_per_second: None,
        burst_iops: None,
        burst_bytes_per_second: None,
        burst_initial: None,
    }));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut pattern = Pattern::new(load, device);
    let before = counter.room(0.0, FAR_NS).operations;
    for _ in 0..PROBES {
        volume.schedule(&mut counter, 0, pattern.next(&mut random));
    }
    Ok((before - counter.room(0.0, FAR_NS).operations) / f64::from(PROBES))
}

/// How long many requests take, for each of them: one after the other, or asked all at once.
fn mean_ns(load: &Load, device: &DeviceConfig, seed: u64, one_by_one: bool) -> Result<f64, String> {
    let mut volume = Volume::new(device, seed).map_err(|error| error.to_string())?;
    let mut host = HostCap::new(None);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut pattern = Pattern::new(load, device);
    let (mut now_ns, mut done_ns) = (0, 0);
    for _ in 0..PROBES {
        let one_ns = volume.submit(&mut host, now_ns, pattern.next(&mut random));
        done_ns = one_ns.max(done_ns);
        if one_by_one {
            now_ns = one_ns;
        }
    }
    Ok(done_ns as f64 / f64::from(PROBES))
}
