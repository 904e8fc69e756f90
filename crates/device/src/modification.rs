//! A volume's modification while it runs, and how many there were: the rules of `ModifyVolume`.
//!
//! Amazon EBS user guide, "Monitor the progress of volume modifications" and API reference,
//! `ModifyVolume`, both read 2026-11-20: while it is optimising, a volume performs between source
//! and target, and not below the lesser of them; the size grows first; the next modification waits
//! for this one's completion, and there are at most four in any 24 hours.

use crate::config::{BurstConfig, ConfigError, LatencyConfig, MemberConfig};

const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;
const MOST_IN_24_H: usize = 4;
/// The way from source to target is gone in so many equal steps.
const STEPS: u64 = 64;

/// A modification that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modification {
    pub started_ns: u64,
    pub ends_ns: u64,
}

/// The modifications of one volume.
#[derive(Debug, Clone)]
pub struct Modifications {
    /// When each of the last ones began, the oldest first.
    begun_ns: Vec<u64>,
    present: Option<(Modification, MemberConfig)>,
    /// When the limits change next; never, where nothing is under way.
    pub next_step_ns: u64,
}

impl Modifications {
    pub fn none() -> Self {
        Self {
            begun_ns: Vec::new(),
            present: None,
            next_step_ns: u64::MAX,
        }
    }

    /// Begins one from `source`; refused while one is under way and after four in 24 hours.
    pub fn begin(
        &mut self,
        name: &str,
        source: MemberConfig,
        now_ns: u64,
        optimising_ns: u64,
    ) -> Result<(), ConfigError> {
        if let Some(present) = self.present(now_ns) {
            return Err(ConfigError::new(format!(
                "volume {name:?}: a modification is under way; the next is possible when it is \
                 complete, in {}",
                duration(present.ends_ns - now_ns)
            )));
        }
        self.begun_ns.retain(|&begun_ns| begun_ns + DAY_NS > now_ns);
        if self.begun_ns.len() >= MOST_IN_24_H {
            return Err(ConfigError::new(format!(
                "volume {name:?}: was modified {MOST_IN_24_H} times within 24 hours, and more is \
                 refused; the next is possible in {}",
                duration(self.begun_ns[0] + DAY_NS - now_ns)
            )));
        }
        self.begun_ns.push(now_ns);
        let times = Modification {
            started_ns: now_ns,
            ends_ns: now_ns.saturating_add(optimising_ns),
        };
        self.present = Some((times, source));
        self.next_step_ns = now_ns;
        Ok(())
    }

    /// What a member is at `now_ns`, on its way to `target`; sets when that changes.
    pub fn step(&mut self, target: &MemberConfig, now_ns: u64) -> MemberConfig {
        let Some((times, source)) = self.present.as_ref().filter(|(t, _)| now_ns < t.ends_ns)
        else {
            self.end();
            return target.clone();
        };
        let length_ns = times.ends_ns - times.started_ns;
        let step_ns = length_ns.div_ceil(STEPS);
        let done_ns = (now_ns - times.started_ns) / step_ns * step_ns;
        self.next_step_ns = (times.started_ns + done_ns + step_ns).min(times.ends_ns);
        between(source, target, done_ns as f64 / length_ns as f64)
    }

    /// Forgets the one under way; it still counts among those of 24 hours.
    pub fn end(&mut self) {
        self.present = None;
        self.next_step_ns = u64::MAX;
    }

    pub fn present(&self, now_ns: u64) -> Option<Modification> {
        let (times, _) = self.present.as_ref()?;
        (now_ns < times.ends_ns).then_some(*times)
    }

    pub fn in_24_h(&self, now_ns: u64) -> u32 {
        let recent = |&&begun_ns: &&u64| begun_ns + DAY_NS > now_ns;
        self.begun_ns.iter().filter(recent).count() as u32
    }
}

/// The member at `fraction` of its way; what has no middle is the source's until the end.
fn between(source: &MemberConfig, target: &MemberConfig, fraction: f64) -> MemberConfig {
    let middle = |from: f64, to: f64| from + fraction * (to - from);
    let limit = |from: Option<f64>, to: Option<f64>| Some(middle(from?, to.or(from)?));
    let iops = limit(source.iops, target.iops);
    let bytes_per_second = limit(source.bytes_per_second, target.bytes_per_second);
    let (from, to) = (&source.latency, &target.latency);
    MemberConfig {
        iops,
        bytes_per_second,
        latency: LatencyConfig {
            read_us_p50: middle(from.read_us_p50, to.read_us_p50),
            read_us_p99: middle(from.read_us_p99, to.read_us_p99),
            write_us_p50: middle(from.write_us_p50, to.write_us_p50),
            write_us_p99: middle(from.write_us_p99, to.write_us_p99),
            base_bytes: from.base_bytes,
            read_us_per_mib: middle(from.read_us_per_mib, to.read_us_per_mib),
            write_us_per_mib: middle(from.write_us_per_mib, to.write_us_per_mib),
        },
        burst: source.burst.as_ref().map(|burst| BurstConfig {
            // Credits last no longer than they would have: the baseline they save grows.
            burst_rate: burst
                .burst_rate
                .max(baseline(burst, iops, bytes_per_second)),
            refill_per_s: burst
                .refill_per_s
                .max(baseline(burst, iops, bytes_per_second)),
            ..burst.clone()
        }),
        ..source.clone()
    }
}

fn baseline(burst: &BurstConfig, iops: Option<f64>, bytes_per_second: Option<f64>) -> f64 {
    let rate = match burst.kind {
        crate::config::BurstKind::Iops => iops,
        crate::config::BurstKind::Bytes => bytes_per_second,
    };
    rate.unwrap_or(0.0)
}

fn duration(ns: u64) -> String {
    let seconds = ns.div_ceil(1_000_000_000);
    let minutes = seconds.div_ceil(60);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_up_and_short() {
        let shown = [1, 119, 120, 7199, 7861].map(|s| duration(s * 1_000_000_000));
        assert_eq!(shown, ["1 s", "119 s", "2 min", "120 min", "2 h 12 min"]);
        assert_eq!(duration(1), "1 s");
    }
}
