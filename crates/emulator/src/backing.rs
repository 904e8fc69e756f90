//! What a volume is made of: memory, or a file.

use std::collections::HashMap;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use pgstow_device::DeviceConfig;
use serde::{Deserialize, Serialize};

use crate::backing_file::{FileOrder, Opened};
use crate::file_data::FileData;
use crate::jobs::{self, Finished, Output, Task};
use crate::memory::Memory;
use crate::pages::PageMap;
use crate::pending::Pending;
use crate::store::Store;
use crate::workers::Workers;

/// What `add` asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Backing {
    #[default]
    Memory,
    File {
        path: PathBuf,
        #[serde(default)]
        keep: bool,
    },
}

/// A volume's data.
pub enum Data {
    Memory(Memory),
    File(Box<FileData>),
}

/// In the answer to `status`.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum BackingStatus<'a> {
    Memory,
    File {
        path: &'a Path,
        keep: bool,
        /// Past the page cache.
        direct_io: bool,
        /// Where the file is, when it was looked at last.
        free_bytes: u64,
        /// What a power cut lost could not be taken back: every request fails.
        broken: bool,
    },
}

impl Data {
    pub fn size_bytes(&self) -> u64 {
        match self {
            Self::Memory(memory) => memory.size_bytes(),
            Self::File(file) => file.size_bytes(),
        }
    }

    pub fn pages(&self) -> &PageMap {
        match self {
            Self::Memory(memory) => memory.pages(),
            Self::File(file) => file.pages(),
        }
    }

    pub fn resident_bytes(&self) -> u64 {
        self.pages().written_bytes()
    }

    pub fn grow(&mut self, size_bytes: u64) -> io::Result<()> {
        match self {
            Self::Memory(memory) => memory.grow(size_bytes),
            Self::File(file) => {
                file.grow(size_bytes);
                Ok(())
            }
        }
    }

    pub fn status(&self) -> BackingStatus<'_> {
        match self {
            Self::Memory(_) => BackingStatus::Memory,
            Self::File(data) => BackingStatus::File {
                path: data.file().path(),
                keep: data.file().keep(),
                direct_io: data.file().is_direct(),
                free_bytes: data.file().free_bytes(),
                broken: data.broken().is_some(),
            },
        }
    }
}

/// What a finished job lets go on.
pub enum Freed {
    Nothing,
    /// A request that waited for it alone.
    Request(Pending),
    /// The command of this ticket, which is done.
    Command(u64),
}

/// Files that are being opened, and who does it.
#[derive(Default)]
pub struct Files {
    /// Started with the first file.
    pub workers: Option<Workers<Task, Finished>>,
    opening: HashMap<u64, DeviceConfig>,
    /// Data of volumes that are gone, by their nodes, until their files are: the number of the job
    /// that sees to it, and the ticket of the command.
    retiring: HashMap<u64, (Box<FileData>, u64, Option<u64>)>,
    tickets: u64,
}

impl Files {
    /// Readable when workers have done something; -1, which poll(2) passes over, without any.
    pub fn bell(&self) -> RawFd {
        self.workers.as_ref().map_or(-1, Workers::descriptor)
    }

    pub fn next_ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Something that workers have done.
    pub fn take(&mut self) -> Option<Finished> {
        let workers = self.workers.as_ref()?;
        workers.take().or_else(|| {
            workers.quiet();
            workers.take()
        })
    }
}

impl Store {
    /// Takes in what a job came to.
    pub fn finished(&mut self, node: u64, id: u64, output: Output) -> Freed {
        if let Some(volume) = self.volumes.get_mut(&node) {
            let pending = match &mut volume.data {
                Data::File(data) => data.finished(id, output, volume.undo.as_mut()),
                Data::Memory(_) => None,
            };
            return pending.map_or(Freed::Nothing, Freed::Request);
        }
        let Some((data, last, ticket)) = self.files.retiring.get_mut(&node) else {
            return Freed::Nothing;
        };
        let (is_last, ticket) = (*last == id, *ticket);
        data.finished(id, output, None);
        if is_last {
            self.files.retiring.remove(&node);
        }
        match ticket {
            Some(ticket) if is_last => Freed::Command(ticket),
            _ => Freed::Nothing,
        }
    }

    /// Gives up a volume's data, and a file that is not to be kept. A ticket is answered when the
    /// file is gone; false where there is none to wait for.
    pub fn retire(&mut self, node: u64, data: Data, ticket: Option<u64>) -> bool {
        let Data::File(mut data) = data else {
            return false;
        };
        let last = data.retire();
        self.files.retiring.insert(node, (data, last, ticket));
        true
    }

    /// Takes out the requests of some volumes that wait for a disk alone.
    pub fn take_due(&mut self, of: impl Fn(u64) -> bool) -> Vec<Pending> {
        let volumes = self.volumes.iter_mut().filter(|entry| of(*entry.0));
        let due = volumes.map(|(_, volume)| match &mut volume.data {
            Data::File(data) => data.take_due(),
            Data::Memory(_) => vec![],
        });
        due.flatten().collect()
    }

    /// Begins to add a volume in a file; the answer is the ticket that its opening comes with.
    pub fn open(
        &mut self,
        device: &DeviceConfig,
        (path, keep): (PathBuf, bool),
    ) -> Result<u64, String> {
        self.check_name(&device.name)?;
        let files = &mut self.files;
        if files.workers.is_none() {
            let started = Workers::start(jobs::run);
            files.workers = Some(started.map_err(|error| format!("no threads: {error}"))?);
        }
        let ticket = files.next_ticket();
        files.opening.insert(ticket, device.clone());
        let order = FileOrder {
            path,
            size_bytes: device.size_bytes,
            keep,
        };
        let workers = files.workers.as_ref().expect("started above");
        workers.giver().give(Task::Open { ticket, order });
        Ok(ticket)
    }

    /// Adds the volume whose file was opened.
    pub fn opened(
        &mut self,
        ticket: u64,
        result: Result<Opened, String>,
        now_ns: u64,
    ) -> Result<(), String> {
        let device = self.files.opening.remove(&ticket);
        let device = device.expect("only what was asked for is opened");
        let opened = result.map_err(|why| format!("volume {:?}: {why}", device.name))?;
        let workers = self.files.workers.as_ref();
        let giver = workers.expect("one of them opened it").giver();
        let node = self.take_node();
        let data = FileData::new(opened, node, device.size_bytes, giver);
        self.add_with(&device, node, Data::File(Box::new(data)), now_ns)
    }

    /// Has the free space around files looked at, for the status after this one.
    pub fn look_at_free_space(&mut self) {
        for volume in self.volumes.values_mut() {
            if let Data::File(data) = &mut volume.data {
                data.look_at_free_space();
            }
        }
    }

    /// Removes the files that are not to be kept; when the server ends.
    pub fn retire_files(&mut self) {
        for volume in self.volumes.values() {
            if let Data::File(data) = &volume.data {
                data.file().retire();
            }
        }
    }
}
