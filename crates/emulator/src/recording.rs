//! A record of every request, as CSV with what is needed to run it again beside it.
//!
//! A thread of its own writes: the server hands it blocks of records and never waits for a disk.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use serde::Serialize;
use serde_json::{Value, json};

use crate::pending::{Kind, Pending};

/// Records handed over at a time: 1.25 MiB.
const BLOCK_RECORDS: usize = 32 * 1024;
/// Blocks that may wait for the disk: 80 MiB, some 2 million requests.
const BLOCKS: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Record {
    received_ns: u64,
    completed_ns: u64,
    offset: u64,
    node: u64,
    length: u32,
    kind: &'static str,
}

/// A recording that is under way.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    /// Names of the nodes that are recorded.
    volumes: BTreeMap<u64, String>,
    block: Vec<Record>,
    blocks: SyncSender<Vec<Record>>,
    summary: SyncSender<Value>,
    about: Value,
    records: u64,
    dropped: u64,
}

/// What a recording has.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Recorded {
    path: PathBuf,
    records: u64,
    /// Requests that came faster than they could be written.
    dropped: u64,
}

impl Recording {
    /// Begins to record into a new file. `about` is its sidecar, `PATH.json`.
    pub fn start(
        path: &Path,
        volumes: BTreeMap<u64, String>,
        about: Value,
    ) -> Result<Self, String> {
        let refused = |error: io::Error| format!("cannot record to {}: {error}", path.display());
        if !path.is_absolute() {
            return Err(format!(
                "the path of a recording must be absolute, not {path:?}"
            ));
        }
        if let Some(name) = volumes
            .values()
            .find(|name| name.contains([',', '"', '\n', '\r']))
        {
            return Err(format!(
                "volume {name:?}: a recording cannot hold such a name"
            ));
        }
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(refused)?;
        let (blocks, received) = sync_channel(BLOCKS);
        let (summary, ending) = sync_channel(1);
        let (names, written) = (volumes.clone(), path.to_owned());
        thread::Builder::new()
            .name("recording".into())
            .spawn(move || write(&written, file, &names, &received, &ending))
            .map_err(refused)?;
        Ok(Self {
            path: path.to_owned(),
            volumes,
            block: Vec::with_capacity(BLOCK_RECORDS),
            blocks,
            summary,
            about,
            records: 0,
            dropped: 0,
        })
    }

    /// Notes a request that was answered.
    pub fn note(&mut self, pending: &Pending, completed_ns: u64) {
        let (kind, offset, length) = match pending.kind {
            Kind::Read { offset, length } => ("read", offset, length),
            Kind::Write { offset, length } => ("write", offset, length),
            Kind::Flush => ("flush", 0, 0),
            Kind::Discard | Kind::Failed(_) => return,
        };
        if !self.volumes.contains_key(&pending.node) {
            return;
        }
        self.block.push(Record {
            received_ns: pending.received_ns,
            completed_ns,
            offset,
            node: pending.node,
            length,
            kind,
        });
        if self.block.len() == BLOCK_RECORDS {
            self.hand_over(Vec::with_capacity(BLOCK_RECORDS));
        }
    }

    fn hand_over(&mut self, next: Vec<Record>) {
        let block = std::mem::replace(&mut self.block, next);
        let count = block.len() as u64;
        match self.blocks.try_send(block) {
            Ok(()) => self.records += count,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.dropped += count,
        }
    }

    /// Ends it. What is left is written meanwhile, and `PATH.json` last.
    pub fn stop(mut self) -> Recorded {
        self.hand_over(vec![]);
        self.about["dropped"] = self.dropped.into();
        let _ = self.summary.try_send(self.about);
        Recorded {
            path: self.path,
            records: self.records,
            dropped: self.dropped,
        }
    }
}

fn write(
    path: &Path,
    file: File,
    names: &BTreeMap<u64, String>,
    blocks: &Receiver<Vec<Record>>,
    summary: &Receiver<Value>,
) {
    let written = write_records(file, names, blocks);
    // Without one the server ended in the middle: what is there is not whole.
    let Ok(mut about) = summary.recv() else {
        return;
    };
    if let Err(error) = written {
        about["error"] = json!(error.to_string());
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".json");
    let draft = path.with_extension("json.new");
    let _ = std::fs::write(&draft, format!("{about:#}\n"))
        .and_then(|()| std::fs::rename(&draft, PathBuf::from(beside)));
}

fn write_records(
    file: File,
    names: &BTreeMap<u64, String>,
    blocks: &Receiver<Vec<Record>>,
) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    writeln!(file, "received_ns,volume,kind,offset,length,completed_ns")?;
    while let Ok(block) = blocks.recv() {
        for record in block {
            let Record {
                received_ns,
                completed_ns,
                offset,
                node,
                length,
                kind,
            } = record;
            let name = &names[&node];
            writeln!(
                file,
                "{received_ns},{name},{kind},{offset},{length},{completed_ns}"
            )?;
        }
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn temporary(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("pgstow-recording-{name}-{}", std::process::id()))
    }

    fn pending(node: u64, kind: Kind) -> Pending {
        Pending {
            deadline_ns: 0,
            received_ns: 5,
            unique: 1,
            node,
            kind,
        }
    }

    #[test]
    fn what_was_answered_is_in_the_file_and_the_rest_beside_it() {
        let path = temporary("whole");
        let beside = PathBuf::from(format!("{}.json", path.display()));
        let volumes = BTreeMap::from([(16, "data".to_owned())]);
        let mut recording = Recording::start(&path, volumes, json!({"seed": 3})).unwrap();
        assert!(Recording::start(&path, BTreeMap::new(), json!({})).is_err());
        let read = Kind::Read {
            offset: 4096,
            length: 512,
        };
        recording.note(&pending(16, read), 9);
        recording.note(&pending(17, read), 9);
        recording.note(&pending(16, Kind::Failed(5)), 9);
        recording.note(&pending(16, Kind::Flush), 11);
        let recorded = recording.stop();
        assert_eq!((recorded.records, recorded.dropped), (2, 0));
        let patience = Instant::now() + Duration::from_secs(10);
        while !beside.exists() && Instant::now() < patience {
            thread::sleep(Duration::from_millis(5));
        }
        let about: Value = serde_json::from_slice(&std::fs::read(&beside).unwrap()).unwrap();
        assert_eq!(about, json!({"seed": 3, "dropped": 0}));
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "received_ns,volume,kind,offset,length,completed_ns\n\
             5,data,read,4096,512,9\n5,data,flush,0,0,11\n"
        );
        std::fs::remove_file(path).unwrap();
        std::fs::remove_file(beside).unwrap();
    }

    #[test]
    fn a_path_that_cannot_be_is_refused() {
        for path in ["relative.csv", "/nowhere/at/all.csv"] {
            let refused = Recording::start(Path::new(path), BTreeMap::new(), json!({}));
            assert!(refused.unwrap_err().contains(path));
        }
    }
}
