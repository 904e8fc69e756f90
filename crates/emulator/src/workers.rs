//! Threads that wait for disks, so that the server's thread never does.
//!
//! Work goes to them and comes back through queues without locks, with an eventfd as the bell: a
//! thread of ordinary priority that is held up can hold up no real-time one.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crossbeam_queue::SegQueue;

use crate::system;

/// Requests that one disk gets at once; enough for 16,000 IOPS of one that takes 1 ms.
const THREADS: usize = 16;
const STACK_BYTES: usize = 256 * 1024;

/// Runs jobs on threads of its own, in any order.
pub struct Workers<J, R> {
    shared: Arc<Shared<J, R>>,
}

/// A way to give jobs to workers.
pub struct JobSender<J, R> {
    shared: Arc<Shared<J, R>>,
}

struct Shared<J, R> {
    jobs: SegQueue<J>,
    results: SegQueue<R>,
    /// Counts jobs; each read takes one.
    work: File,
    /// Readable while there are results.
    done: File,
    /// Jobs given whose results were not taken.
    outstanding: AtomicUsize,
    is_over: AtomicBool,
}

impl<J: Send + 'static, R: Send + 'static> Workers<J, R> {
    pub fn start(run: fn(J) -> R) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            jobs: SegQueue::new(),
            results: SegQueue::new(),
            work: eventfd(libc::EFD_SEMAPHORE)?,
            done: eventfd(libc::EFD_NONBLOCK)?,
            outstanding: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        });
        for _ in 0..THREADS {
            let shared = shared.clone();
            thread::Builder::new()
                .name("pgstow-io".into())
                .stack_size(STACK_BYTES)
                .spawn(move || shared.work(run))?;
        }
        Ok(Self { shared })
    }

    pub fn giver(&self) -> JobSender<J, R> {
        let shared = self.shared.clone();
        JobSender { shared }
    }

    /// A result that has come, if one has.
    pub fn take(&self) -> Option<R> {
        let result = self.shared.results.pop()?;
        self.shared.outstanding.fetch_sub(1, Ordering::Relaxed);
        Some(result)
    }

    /// Silences the bell; before results are taken, so that none is missed.
    pub fn quiet(&self) {
        let _ = (&self.shared.done).read(&mut [0; 8]);
    }

    /// Readable while there are results.
    pub fn descriptor(&self) -> RawFd {
        self.shared.done.as_raw_fd()
    }

    pub fn outstanding(&self) -> usize {
        self.shared.outstanding.load(Ordering::Relaxed)
    }
}

impl<J, R> JobSender<J, R> {
    pub fn give(&self, job: J) {
        self.shared.outstanding.fetch_add(1, Ordering::Relaxed);
        self.shared.jobs.push(job);
        ring(&self.shared.work, 1);
    }
}

impl<J, R> Shared<J, R> {
    fn work(&self, run: fn(J) -> R) {
        system::become_io_flusher();
        while !self.is_over.load(Ordering::Acquire) {
            if (&self.work).read(&mut [0; 8]).is_err() {
                continue; // interrupted
            }
            if let Some(job) = self.jobs.pop() {
                self.results.push(run(job));
                ring(&self.done, 1);
            }
        }
    }
}

impl<J, R> Drop for Workers<J, R> {
    /// Lets the threads go when they are done with what they do; nobody waits for a disk here.
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        ring(&self.shared.work, THREADS as u64);
    }
}

fn ring(mut bell: &File, times: u64) {
    // Full at 2^64 - 2 rings, which nobody gives.
    let _ = bell.write(&times.to_ne_bytes());
}

fn eventfd(flags: libc::c_int) -> io::Result<File> {
    // SAFETY: a plain system call; the descriptor is new and nobody else's.
    unsafe {
        match libc::eventfd(0, flags | libc::EFD_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(File::from_raw_fd(descriptor)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_comes_back_and_the_bell_rings() {
        let workers: Workers<u64, u64> = Workers::start(|job| job * 2).unwrap();
        for job in 0..100 {
            workers.giver().give(job);
        }
        let mut results = vec![];
        while workers.outstanding() > 0 {
            let bell = libc::pollfd {
                fd: workers.descriptor(),
                events: libc::POLLIN,
                revents: 0,
            };
            system::poll(&mut [bell], None).unwrap();
            workers.quiet();
            results.extend(std::iter::from_fn(|| workers.take()));
        }
        results.sort_unstable();
        assert_eq!(results, (0..100).map(|job| job * 2).collect::<Vec<_>>());
    }
}
