//! Group commit as PostgreSQL does it: one flush at a time, whose leader takes all that wait.

use crate::config;
use pgstow_device::{Operation, OperationKind};

const PAGE_BYTES: u64 = config::PAGE_BYTES as u64;
const WRITE_BYTES_MAX: u64 = 1 << 20; // of one request of the kernel's

/// A client that waits until its commit record is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    pub client: u32,
    pub requested_ns: u64,
}

/// What one flush writes: whole pages, the last flush's partly filled one among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flush {
    pub offset: u64,
    pub bytes: u64,
}

impl Flush {
    /// The writes it makes, all submitted at once.
    pub fn operations(self) -> impl Iterator<Item = Operation> {
        let end = self.offset + self.bytes;
        (self.offset..end)
            .step_by(WRITE_BYTES_MAX as usize)
            .map(move |offset| Operation {
                kind: OperationKind::Write,
                offset,
                length: (end - offset).min(WRITE_BYTES_MAX) as u32,
            })
    }
}

/// The log: how far it is written, who waits, who is being served. It has no clock.
#[derive(Debug)]
pub struct Wal {
    size_bytes: u64, // whole pages of the device, at whose end the log starts again
    bytes_per_commit: f64,
    inserted: f64, // bytes since the start
    flushed: f64,
    waiting: Vec<Commit>,
    covered: Vec<Commit>, // by the running flush
    is_flushing: bool,    // or about to
}

impl Wal {
    /// A log on a device of that size, each commit adding so many bytes.
    pub fn new(size_bytes: u64, bytes_per_commit: f64) -> Wal {
        Wal {
            size_bytes: size_bytes - size_bytes % PAGE_BYTES,
            bytes_per_commit,
            inserted: 0.0,
            flushed: 0.0,
            waiting: Vec::new(),
            covered: Vec::new(),
            is_flushing: false,
        }
    }

    /// A client asks for its commit to be made durable; says whether it is to lead a flush.
    pub fn request(&mut self, commit: Commit) -> bool {
        self.inserted += self.bytes_per_commit;
        self.waiting.push(commit);
        !std::mem::replace(&mut self.is_flushing, true)
    }

    /// The running flush ended: those it covered go into `done`. Says whether others wait, of whom
    /// one is to lead the next flush.
    pub fn finish(&mut self, done: &mut Vec<Commit>) -> bool {
        assert!(self.is_flushing, "a flush ended that never began");
        done.clear();
        std::mem::swap(done, &mut self.covered);
        self.is_flushing = !self.waiting.is_empty();
        self.is_flushing
    }

    /// The leader takes all that wait.
    pub fn lead(&mut self) -> Flush {
        std::mem::swap(&mut self.waiting, &mut self.covered);
        let first = (self.flushed / PAGE_BYTES as f64).floor() as u64;
        let end = (self.inserted / PAGE_BYTES as f64).ceil() as u64;
        self.flushed = self.inserted;
        let pages = self.size_bytes / PAGE_BYTES;
        let count = end.saturating_sub(first).clamp(1, pages);
        let mut page = first % pages;
        if page + count > pages {
            page = 0; // a new segment at the start
        }
        Flush {
            offset: page * PAGE_BYTES,
            bytes: count * PAGE_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(client: u32) -> Commit {
        Commit {
            client,
            requested_ns: u64::from(client),
        }
    }

    #[test]
    fn the_first_leads_and_the_rest_share_the_next_flush() {
        let mut wal = Wal::new(1 << 20, 1000.0);
        let mut done = Vec::new();
        let flush = |offset, bytes| Flush { offset, bytes };
        assert!(wal.request(commit(0)));
        assert_eq!(wal.lead(), flush(0, 8192));
        for client in 1..10 {
            assert!(!wal.request(commit(client)));
        }
        assert!(wal.finish(&mut done));
        assert_eq!(done, vec![commit(0)]);
        // 1,000 bytes are flushed: the next one rewrites that page and reaches byte 10,000.
        assert_eq!(wal.lead(), flush(0, 16384));
        assert!(!wal.finish(&mut done));
        assert_eq!(done, (1..10).map(commit).collect::<Vec<_>>());
        assert!(wal.request(commit(3)));
        assert_eq!(wal.lead(), flush(8192, 8192));
    }

    #[test]
    fn who_comes_while_a_leader_waits_is_in_its_flush() {
        let mut wal = Wal::new(1 << 20, 8192.0);
        assert!(wal.request(commit(0)));
        assert!(!wal.request(commit(1)));
        assert_eq!(wal.lead().bytes, 2 * 8192);
        let mut done = Vec::new();
        assert!(!wal.finish(&mut done));
        assert_eq!(done.len(), 2);
    }

    #[test]
    fn the_log_starts_again_at_the_end_of_its_device() {
        let mut wal = Wal::new(3 * 8192 + 100, 8192.0);
        let mut done = Vec::new();
        let mut offsets = Vec::new();
        for client in 0..5 {
            assert!(wal.request(commit(client)));
            offsets.push(wal.lead().offset);
            assert!(!wal.finish(&mut done));
        }
        assert_eq!(offsets, [0, 8192, 16384, 0, 8192]);
    }
}
