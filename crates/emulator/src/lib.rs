//! The emulator's server: volumes of memory behind a device model, as files for loop devices.
//!
//! One thread serves the FUSE protocol, the deadlines of the device model and a control socket,
//! so nothing needs a lock; only for volumes in files are there others, which wait for the disk. It speaks the kernel's protocol itself: a request is read, its data
//! copied at once, and its reply held back until the model says that it is done.

mod backing;
mod backing_file;
mod buffer;
mod changes;
mod commands;
mod compensation;
mod config;
mod control;
mod fault;
mod fault_order;
mod file_data;
#[cfg(test)]
mod file_tests;
mod filesystem;
mod guard;
mod job_order;
mod jobs;
mod limits;
mod memory;
mod mount;
mod pages;
mod pending;
mod recording;
mod server;
mod statistics;
mod store;
mod system;
mod undo;
mod volume;
mod wire;
mod workers;

use std::fmt;
use std::io;

pub use server::serve;

/// Why the server could not start or go on, in one line.
#[derive(Debug)]
pub enum Error {
    /// The configuration is wrong.
    Config(String),
    /// The system refused something.
    System { what: String, source: io::Error },
}

impl Error {
    fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(message) => formatter.write_str(message),
            Self::System { what, source } => write!(formatter, "{what}: {source}"),
        }
    }
}

impl std::error::Error for Error {}
