//! The timing model of a block volume, as a pure state machine with no clock of its own.
//!
//! The caller says what time it is and what is asked; [`Volume::submit`] answers when it is done.
//! The emulator runs it in real time, the simulator in virtual time. The same seed and the same
//! requests give the same answers.
//!
//! Each member of a stripe has an IOPS limit, a byte limit, burst credits and a latency of its
//! own; all volumes of a host share its [`HostCap`].

mod config;
mod disk;
mod host;
mod latency;
mod member;
mod modification;
mod rate;
mod restore;
mod stripe;
mod volume;

pub use config::{
    BurstConfig, BurstKind, ConfigError, DeviceConfig, HostCapConfig, LatencyConfig,
    MechanicsConfig, MemberConfig, RestoreConfig,
};
pub use host::HostCap;
pub use modification::Modification;
pub use rate::Span;
pub use volume::{Operation, OperationKind, Room, Spans, Timing, Volume, Waits};
