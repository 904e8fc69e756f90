//! The window of measurement, and the statistics of what is seen in it.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const SAMPLES_MAX: usize = 2_000_000;
const SLICES: usize = 20;

/// Durations in nanoseconds: their exact mean, and their percentiles from kept samples.
///
/// All are kept up to two million; beyond that a uniform reservoir of that size.
#[derive(Debug)]
pub struct Samples {
    kept_ns: Vec<u64>,
    count: u64,
    sum_ns: f64,
    random: Xoshiro256PlusPlus,
}

impl Samples {
    /// None yet; `seed` is for the reservoir alone.
    pub fn new(seed: u64) -> Samples {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Samples {
            kept_ns: Vec::new(),
            count: 0,
            sum_ns: 0.0,
            random,
        }
    }

    /// Add one.
    pub fn add(&mut self, duration_ns: u64) {
        self.count += 1;
        self.sum_ns += duration_ns as f64;
        if self.kept_ns.len() < SAMPLES_MAX {
            self.kept_ns.push(duration_ns);
        } else {
            let place = self.random.random_range(0..self.count) as usize;
            if place < SAMPLES_MAX {
                self.kept_ns[place] = duration_ns;
            }
        }
    }

    /// The mean in milliseconds; `None` where there is no sample.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns / self.count as f64 / 1e6)
    }

    /// The smallest kept sample that at least this share does not exceed, in milliseconds.
    pub fn percentile_ms(&mut self, share: f64) -> Option<f64> {
        let count = self.kept_ns.len();
        let rank = ((share * count as f64).ceil() as usize).clamp(1, count.max(1)) - 1;
        (count > 0).then(|| *self.kept_ns.select_nth_unstable(rank).1 as f64 / 1e6)
    }
}

/// The period that is measured, in virtual nanoseconds; its end is not part of it.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    pub start_ns: u64,
    pub end_ns: u64,
}

impl Window {
    /// Whether that moment is measured.
    pub fn holds(&self, now_ns: u64) -> bool {
        (self.start_ns..self.end_ns).contains(&now_ns)
    }

    /// The part of a span that is measured.
    pub fn overlap_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        to_ns
            .min(self.end_ns)
            .saturating_sub(from_ns.max(self.start_ns))
    }

    /// Its length.
    pub fn seconds(&self) -> f64 {
        (self.end_ns - self.start_ns) as f64 / 1e9
    }
}

/// Completed transactions in equal slices of the window: whether the load kept its level.
#[derive(Debug)]
pub struct Slices([u64; SLICES]);

impl Slices {
    pub fn new() -> Slices {
        Slices([0; SLICES])
    }

    /// Count one transaction that ended within the window.
    pub fn add(&mut self, window: &Window, now_ns: u64) {
        let length_ns = window.end_ns - window.start_ns;
        let at = u128::from(now_ns - window.start_ns) * SLICES as u128 / u128::from(length_ns);
        self.0[at as usize] += 1;
    }

    /// False where the level before and after a quarter point differs by over 5 % and by more
    /// than the noise between neighbours explains (which, unlike the overall spread, a single
    /// step hardly raises).
    pub fn are_level(&self) -> bool {
        let counts = self.0.map(|count| count as f64);
        let mean = counts.iter().sum::<f64>() / SLICES as f64;
        let steps = counts
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).powi(2))
            .sum::<f64>();
        let variance = steps / (2 * (SLICES - 1)) as f64;
        mean > 0.0
            && [SLICES / 4, SLICES / 2, SLICES * 3 / 4]
                .into_iter()
                .all(|split| {
                    let (early, late) = counts.split_at(split);
                    let (few, many) = (early.len() as f64, late.len() as f64);
                    let shift =
                        (early.iter().sum::<f64>() / few - late.iter().sum::<f64>() / many).abs();
                    let noise = (variance * (1.0 / few + 1.0 / many)).sqrt();
                    shift <= 0.05 * mean || shift <= 4.0 * noise
                })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact() {
        let mut samples = Samples::new(1);
        for value in (1..=1000_u64).rev() {
            samples.add(value * 1_000_000);
        }
        assert_eq!(samples.mean_ms(), Some(500.5));
        assert_eq!(samples.percentile_ms(0.5), Some(500.0));
        assert_eq!(samples.percentile_ms(0.99), Some(990.0));
        assert_eq!(Samples::new(1).percentile_ms(0.5), None);
    }

    #[test]
    fn a_reservoir_keeps_the_distribution() {
        let mut samples = Samples::new(7);
        for value in 0..4_000_000_u64 {
            samples.add(value);
        }
        let median_ns = samples.percentile_ms(0.5).unwrap() * 1e6;
        assert!((median_ns / 2e6 - 1.0).abs() < 0.01, "{median_ns}");
    }

    #[test]
    fn a_step_is_not_level_and_noise_is() {
        let window = Window {
            start_ns: 0,
            end_ns: 20_000,
        };
        let fill = |level: fn(u64) -> u64| {
            let mut slices = Slices::new();
            for slice in 0..20 {
                for _ in 0..level(slice) {
                    slices.add(&window, slice * 1000);
                }
            }
            slices.are_level()
        };
        assert!(fill(|_| 1000));
        assert!(fill(|slice| if slice % 2 == 0 { 900 } else { 1100 }));
        assert!(!fill(|slice| if slice < 13 { 3000 } else { 1000 }));
        assert!(!fill(|slice| 1000 + 20 * slice));
        assert!(!fill(|_| 0));
    }
}
