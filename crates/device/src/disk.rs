//! The mechanics of a hard disk: seeks, rotation, transfer, one actuator.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

use crate::config::MechanicsConfig;

/// The mean of the square root of the distance between two random positions on a disk.
const MEAN_ROOT_DISTANCE: f64 = 8.0 / 15.0;

/// A seek's time grows with the root of its distance: the actuator accelerates half of the way and
/// slows down the other half (Ruemmler and Wilkes, "An introduction to disk drive modeling", 1994).
#[derive(Debug, Clone)]
pub struct Disk {
    track_seek_ns: f64,
    /// What a seek over the whole disk takes beyond one to the next track.
    stroke_ns: f64,
    rotation_ns: f64,
    ns_per_byte: f64,
    size_bytes: f64,
    is_serial: bool,
    /// Where the head is: after what was asked for last.
    head: u64,
    busy_until_ns: f64,
}

impl Disk {
    pub fn new(config: &MechanicsConfig, size_bytes: u64) -> Self {
        Self {
            track_seek_ns: config.track_seek_us * 1e3,
            stroke_ns: (config.mean_seek_us - config.track_seek_us) * 1e3 / MEAN_ROOT_DISTANCE,
            rotation_ns: config.turn_us * 1e3,
            ns_per_byte: 1e9 / config.bytes_per_second,
            size_bytes: size_bytes as f64,
            is_serial: config.is_serial,
            head: 0,
            busy_until_ns: 0.0,
        }
    }

    /// The same head and queue with other mechanics.
    pub fn changed(&self, config: &MechanicsConfig, size_bytes: u64) -> Self {
        Self {
            head: self.head,
            busy_until_ns: self.busy_until_ns,
            ..Self::new(config, size_bytes)
        }
    }

    /// Moves `length` bytes at `offset`, from `start_ns` on; the answer is when that is done.
    pub fn take(
        &mut self,
        random: &mut Xoshiro256PlusPlus,
        start_ns: f64,
        offset: u64,
        length: u64,
    ) -> f64 {
        let mut service_ns = length as f64 * self.ns_per_byte;
        if offset != self.head {
            let distance = offset.abs_diff(self.head) as f64 / self.size_bytes;
            service_ns += self.track_seek_ns + self.stroke_ns * distance.min(1.0).sqrt();
            service_ns += self.rotation_ns * uniform(random);
        }
        self.head = offset + length;
        if !self.is_serial {
            return start_ns + service_ns;
        }
        self.busy_until_ns = self.busy_until_ns.max(start_ns) + service_ns;
        self.busy_until_ns
    }
}

/// From 0 to 1.
fn uniform(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}
