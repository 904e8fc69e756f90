//! A volume's data in a file, as the server's thread sees it: what is asked of workers, and when
//! what they did may be answered.

use std::collections::HashMap;
use std::sync::Arc;

use crate::backing_file::{BackingFile, Opened, Window};
use crate::buffer::AlignedBuffer;
use crate::job_order::{Claim, JobOrder};
use crate::jobs::{Finished, Job, Output, Task, Work};
use crate::pages::{PAGE_BYTES, PageMap};
use crate::pending::{Kind, Pending};
use crate::undo::{UndoLog, Undoing};
use crate::workers::JobSender;

/// Numbers of jobs that are for no request. The kernel counts its requests up from zero.
const OWN_JOBS: u64 = 1 << 63;

pub type FileGiver = JobSender<Task, Finished>;

pub struct FileData {
    file: Arc<BackingFile>,
    node: u64,
    size_bytes: u64,
    /// Pages that may hold something; what is not in here is zeros and asked of no disk.
    pages: PageMap,
    giver: FileGiver,
    order: JobOrder<Job>,
    /// Requests that a disk has to do with.
    requests: HashMap<u64, Progress>,
    own_jobs: u64,
    /// The errno with which what a power cut lost could not be taken back.
    broken: Option<i32>,
}

enum Progress {
    /// Its time has not come, and its work is not done.
    Busy,
    /// Its time has come.
    Due(Pending),
    /// Its work is done.
    Done(Result<Option<Window>, i32>),
}

/// What a request whose time has come is answered with.
pub enum Completion {
    NotYet,
    Data(Option<Window>),
    Failed(i32),
}

impl FileData {
    pub fn new(opened: Opened, node: u64, size_bytes: u64, giver: FileGiver) -> Self {
        Self {
            file: Arc::new(opened.file),
            node,
            size_bytes,
            pages: opened.pages,
            giver,
            order: JobOrder::default(),
            requests: HashMap::new(),
            own_jobs: OWN_JOBS,
            broken: None,
        }
    }

    pub fn file(&self) -> &BackingFile {
        &self.file
    }

    pub fn pages(&self) -> &PageMap {
        &self.pages
    }

    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub fn broken(&self) -> Option<i32> {
        self.broken
    }

    pub fn grow(&mut self, size_bytes: u64) {
        self.size_bytes = size_bytes;
        self.pages.grow(size_bytes);
        // Beyond the file's end it reads as zeros until then.
        self.submit_own(0..0, Work::Grow(size_bytes));
    }

    pub fn look_at_free_space(&mut self) {
        self.submit_own(0..0, Work::LookAtFreeSpace);
    }

    pub fn read(&mut self, unique: u64, (offset, length): (u64, u64)) {
        if length > 0 && self.pages.any(offset, length) {
            self.submit(unique, (offset, length), Work::Read { offset, length });
        }
    }

    pub fn write(&mut self, unique: u64, (offset, data): (u64, &[u8]), before: Vec<(u64, u64)>) {
        let range = (offset, data.len() as u64);
        if range.1 == 0 {
            return;
        }
        self.pages.mark(range.0, range.1);
        let data = AlignedBuffer::copy_of(data);
        let work = Work::Write {
            offset,
            data,
            before,
        };
        self.submit(unique, range, work);
    }

    /// Discards a range within the volume.
    pub fn discard(&mut self, unique: u64, range: (u64, u64), before: Vec<(u64, u64)>) {
        let (offset, length) = range;
        self.pages
            .forget(offset.div_ceil(PAGE_BYTES), (offset + length) / PAGE_BYTES);
        let work = Work::Punch {
            offset,
            length,
            before,
        };
        self.submit(unique, range, work);
    }

    /// Takes back what a power cut lost, after all that was asked before and before all after.
    pub fn restore(&mut self, undoing: Undoing) {
        for (offset, length) in undoing.data_ranges() {
            self.pages.mark(offset, length);
        }
        self.submit_own(0..u64::MAX, Work::Restore(undoing));
    }

    /// What to answer a request with whose time has come; it is asked again when it is done.
    pub fn poll(&mut self, pending: &Pending) -> Completion {
        if let Kind::Failed(_) = pending.kind {
            self.requests.remove(&pending.unique);
            return Completion::Data(None);
        }
        match self.requests.remove(&pending.unique) {
            None => Completion::Data(None),
            Some(Progress::Done(Ok(data))) => Completion::Data(data),
            Some(Progress::Done(Err(error))) => Completion::Failed(error),
            Some(Progress::Busy | Progress::Due(_)) => {
                self.requests
                    .insert(pending.unique, Progress::Due(*pending));
                Completion::NotYet
            }
        }
    }

    /// Takes out the requests that wait for a disk alone.
    pub fn take_due(&mut self) -> Vec<Pending> {
        let due = self
            .requests
            .values()
            .filter_map(|progress| match progress {
                Progress::Due(pending) => Some(*pending),
                _ => None,
            });
        let due: Vec<Pending> = due.collect();
        for pending in &due {
            self.requests.insert(pending.unique, Progress::Busy);
        }
        due
    }

    /// Takes in what a job came to; the request is given back if it waited for this alone.
    pub fn finished(
        &mut self,
        id: u64,
        output: Output,
        undo: Option<&mut UndoLog>,
    ) -> Option<Pending> {
        self.note_before(id, output.before, undo);
        let (claim, ready) = self.order.finish(id);
        for job in ready {
            self.giver.give(Task::Do(job));
        }
        if id >= OWN_JOBS {
            if let Err(error) = output.result {
                self.broken = Some(error);
            }
            return None;
        }
        if output.result.is_err() {
            // What a discard did not take away is still there.
            let end = claim.range.end.min(self.size_bytes);
            self.pages.mark(claim.range.start, end - claim.range.start);
        }
        match self.requests.insert(id, Progress::Done(output.result)) {
            Some(Progress::Due(pending)) => Some(pending),
            Some(_) => None,
            None => {
                self.requests.remove(&id); // answered already: it was cut off
                None
            }
        }
    }

    fn note_before(
        &mut self,
        id: u64,
        before: Option<Vec<(u64, Box<[u8]>)>>,
        undo: Option<&mut UndoLog>,
    ) {
        let undoings = self
            .order
            .waiting_mut()
            .filter_map(|job| match &mut job.work {
                Work::Restore(undoing) => Some(undoing),
                _ => None,
            });
        match before {
            // Only one of them knows the request.
            Some(before) if !before.is_empty() => {
                undoings.for_each(|undoing| undoing.fill(id, &before));
                if let Some(undo) = undo {
                    undo.fill(id, &before);
                }
            }
            Some(_) => {}
            None => {
                undoings.for_each(|undoing| undoing.withdraw(id));
                if let Some(undo) = undo {
                    undo.withdraw(id);
                }
            }
        }
    }

    /// Gives the file up, once everything asked before is done: a worker removes it, unless it is
    /// to be kept. The answer is the job's number.
    pub fn retire(&mut self) -> u64 {
        self.submit_own(0..u64::MAX, Work::Retire);
        self.own_jobs
    }

    fn submit_own(&mut self, range: std::ops::Range<u64>, work: Work) {
        self.own_jobs += 1;
        let claim = Claim {
            id: self.own_jobs,
            range,
            reads_only: false,
        };
        self.put(claim, work);
    }

    fn submit(&mut self, unique: u64, (offset, length): (u64, u64), work: Work) {
        self.requests.insert(unique, Progress::Busy);
        // Whole pages: what is not aligned is read and written with what is around it.
        let first = offset / PAGE_BYTES * PAGE_BYTES;
        let claim = Claim {
            id: unique,
            range: first..(offset + length).next_multiple_of(PAGE_BYTES),
            reads_only: matches!(work, Work::Read { .. }),
        };
        self.put(claim, work);
    }

    fn put(&mut self, claim: Claim, work: Work) {
        let job = Job {
            node: self.node,
            id: claim.id,
            file: self.file.clone(),
            work,
        };
        if let Some(job) = self.order.submit(claim, job) {
            self.giver.give(Task::Do(job));
        }
    }
}
