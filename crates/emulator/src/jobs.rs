//! What workers are given to do with files, and what comes of it.

use std::io;
use std::sync::Arc;

use crate::backing_file::{BackingFile, FileImage, FileOrder, Opened, Window};
use crate::buffer::AlignedBuffer;
use crate::undo::{MAX_PIECE_BYTES, Undoing};

pub enum Task {
    /// Opens a file for the command of this number.
    Open {
        ticket: u64,
        order: FileOrder,
    },
    Do(Job),
}

/// Something to be done with a volume's file.
pub struct Job {
    pub node: u64,
    /// The request that it is for, or a number of the volume's own.
    pub id: u64,
    pub file: Arc<BackingFile>,
    pub work: Work,
}

pub enum Work {
    Read {
        offset: u64,
        length: u64,
    },
    Write {
        offset: u64,
        data: AlignedBuffer,
        /// Ranges to read first, for the log of what is not flushed.
        before: Vec<(u64, u64)>,
    },
    Punch {
        offset: u64,
        length: u64,
        before: Vec<(u64, u64)>,
    },
    /// Takes back what a power cut lost.
    Restore(Undoing),
    Grow(u64),
    LookAtFreeSpace,
    /// The volume is gone; its file may go.
    Retire,
}

pub enum Finished {
    Opened {
        ticket: u64,
        result: Result<Opened, String>,
    },
    Done {
        node: u64,
        id: u64,
        output: Output,
    },
}

/// What a job came to; errors are errnos.
pub struct Output {
    pub result: Result<Option<Window>, i32>,
    /// What was there before a change; `None` where nothing was changed.
    pub before: Option<Vec<(u64, Box<[u8]>)>>,
}

/// Does a task; may block on a disk.
pub fn run(task: Task) -> Finished {
    match task {
        Task::Open { ticket, order } => Finished::Opened {
            ticket,
            result: BackingFile::open(&order),
        },
        Task::Do(job) => Finished::Done {
            node: job.node,
            id: job.id,
            output: work(&job.file, job.work),
        },
    }
}

fn work(file: &BackingFile, work: Work) -> Output {
    let done = |result: io::Result<()>| Output {
        result: result.map(|()| None).map_err(errno),
        before: None,
    };
    match work {
        Work::Read { offset, length } => Output {
            result: file.read(offset, length).map(Some).map_err(errno),
            before: None,
        },
        Work::Write {
            offset,
            data,
            before,
        } => change(file, &before, || file.write(offset, &data)),
        Work::Punch {
            offset,
            length,
            before,
        } => change(file, &before, || file.punch(offset, length)),
        Work::Restore(undoing) => done(undoing.run(&mut FileImage(file))),
        Work::Grow(size_bytes) => done(file.grow(size_bytes)),
        Work::LookAtFreeSpace => {
            file.look_at_free_space();
            done(Ok(()))
        }
        Work::Retire => {
            file.retire();
            done(Ok(()))
        }
    }
}

/// Changes the file after what is there was read.
fn change(
    file: &BackingFile,
    before: &[(u64, u64)],
    act: impl FnOnce() -> io::Result<()>,
) -> Output {
    let mut read = vec![];
    for &(offset, length) in before {
        let mut done = 0;
        while done < length {
            let part = MAX_PIECE_BYTES.min(length - done);
            match file.read(offset + done, part) {
                Ok(window) => read.push((offset + done, window.data().into())),
                Err(error) => {
                    return Output {
                        result: Err(errno(error)),
                        before: None,
                    };
                }
            }
            done += part;
        }
    }
    Output {
        result: act().map(|()| None).map_err(errno),
        before: Some(read),
    }
}

fn errno(error: io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
