//! The faults that can be asked for, and when and of what.

use serde::{Deserialize, Serialize};

use crate::undo::Loss;

const SECTOR_BYTES: u64 = 512;
/// A century: more is a wrong unit, and what is less can be added up.
const MAX_S: f64 = 3.2e9;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    Read,
    /// Discards too.
    Write,
    Flush,
}

/// One kind of fault, as the control protocol has it.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// What was not flushed is lost, and until it is cleared the power is off.
    PowerLoss {
        loss: Loss,
        #[serde(default = "sector")]
        sector_bytes: u64,
        #[serde(default)]
        seed: u64,
    },
    /// Nothing is answered.
    Stall {},
    /// These operations fail with EIO, where they touch the range.
    Error {
        #[serde(default = "reads_and_writes")]
        operations: Vec<Operation>,
        #[serde(default)]
        offset: u64,
        #[serde(default)]
        length: Option<u64>,
    },
    /// Latencies, not the waits before the limits, times a factor.
    Slow { factor: f64 },
    /// The device is gone.
    Disappear {},
    /// There is no room for anything new.
    Full {},
}

fn sector() -> u64 {
    SECTOR_BYTES
}

fn reads_and_writes() -> Vec<Operation> {
    vec![Operation::Read, Operation::Write]
}

/// What a command asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    pub fault: Fault,
    /// `None`: all, those added later too.
    pub volumes: Option<Vec<String>>,
    pub after_s: f64,
    /// `None`: until it is cleared.
    pub for_s: Option<f64>,
}

impl Fault {
    fn check(&self) -> Result<(), String> {
        match self {
            Self::PowerLoss { sector_bytes, .. } if ![512, 4096].contains(sector_bytes) => Err(
                format!("a sector has 512 or 4096 bytes, not {sector_bytes}"),
            ),
            Self::Slow { factor } if !(0.0..=1e6).contains(factor) => {
                Err(format!("a factor must be 0 to 1000000, not {factor}"))
            }
            Self::Error { operations, .. } if operations.is_empty() => {
                Err("an error needs operations: read, write, flush".into())
            }
            _ => Ok(()),
        }
    }

    /// Whether it fails what is in flight, too.
    pub fn cuts_off(&self) -> bool {
        matches!(self, Self::PowerLoss { .. } | Self::Disappear {})
    }
}

impl Order {
    pub fn check(&self) -> Result<(), String> {
        self.fault.check()?;
        if !(0.0..=MAX_S).contains(&self.after_s) {
            return Err("after_s must be 0 s or more, and less than a century".into());
        }
        if self
            .for_s
            .is_some_and(|seconds| !(0.001..=MAX_S).contains(&seconds))
        {
            return Err("for_s must be 0.001 s or more, and less than a century, or null".into());
        }
        Ok(())
    }
}
