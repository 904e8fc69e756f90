//! Latency of one operation: log-normal through a median and a 99th percentile.

use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The 99th percentile of the standard normal distribution.
const NORMAL_P99: f64 = 2.326_347_874_040_841;

#[derive(Debug, Clone, Copy)]
pub struct LogNormal {
    median_ns: f64,
    sigma: f64,
}

impl LogNormal {
    pub fn new(us_p50: f64, us_p99: f64) -> Self {
        let spread = if us_p50 > 0.0 { us_p99 / us_p50 } else { 1.0 };
        Self {
            median_ns: us_p50 * 1e3,
            sigma: spread.ln().max(0.0) / NORMAL_P99,
        }
    }

    pub fn draw_ns(&self, random: &mut Xoshiro256PlusPlus) -> f64 {
        let normal: f64 = StandardNormal.sample(random);
        self.median_ns * (self.sigma * normal).exp()
    }
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn draws_have_the_median_and_the_tail_asked_for() {
        let latency = LogNormal::new(1000.0, 3000.0);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut draws: Vec<f64> = (0..100_000).map(|_| latency.draw_ns(&mut random)).collect();
        draws.sort_by(f64::total_cmp);
        assert!(
            (draws[50_000] / 1e6 - 1.0).abs() < 0.02,
            "{}",
            draws[50_000]
        );
        assert!(
            (draws[99_000] / 3e6 - 1.0).abs() < 0.05,
            "{}",
            draws[99_000]
        );
    }

    #[test]
    fn equal_percentiles_are_a_constant() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        assert_eq!(LogNormal::new(250.0, 250.0).draw_ns(&mut random), 250_000.0);
        assert_eq!(LogNormal::new(0.0, 10.0).draw_ns(&mut random), 0.0);
    }
}
