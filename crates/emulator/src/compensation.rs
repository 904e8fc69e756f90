//! What the way to the server and back adds on this machine, taken off each latency.

use serde::{Deserialize, Serialize};

/// A second is far beyond any way to the server; more is a wrong unit.
const MAX_US: f64 = 1e6;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compensation {
    pub read_ns: u64,
    pub write_ns: u64,
}

/// As the protocol has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompensationUs {
    pub read_us: f64,
    pub write_us: f64,
}

impl Compensation {
    pub fn new(target: CompensationUs) -> Result<Self, String> {
        let ns = |name: &str, us: f64| {
            if (0.0..=MAX_US).contains(&us) {
                Ok((us * 1e3).round() as u64)
            } else {
                Err(format!(
                    "compensation {name} must be 0 to {MAX_US} us, not {us}"
                ))
            }
        };
        Ok(Self {
            read_ns: ns("read_us", target.read_us)?,
            write_ns: ns("write_us", target.write_us)?,
        })
    }

    pub fn us(self) -> CompensationUs {
        CompensationUs {
            read_us: self.read_ns as f64 / 1e3,
            write_us: self.write_ns as f64 / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused() {
        for us in [-1.0, f64::NAN, 2e6] {
            let read = CompensationUs {
                read_us: us,
                write_us: 0.0,
            };
            let write = CompensationUs {
                read_us: 0.0,
                write_us: us,
            };
            assert!(Compensation::new(read).unwrap_err().contains("read_us"));
            assert!(Compensation::new(write).unwrap_err().contains("write_us"));
        }
    }
}
