//! What was written and not yet flushed, so that a power cut can take it back.
//!
//! A volume without a volatile cache keeps no log. With one, each write and each discard leaves
//! what was there before it. A flush forgets the changes that were answered before it came in; a
//! cut takes the others back, all or as its mode says.

use std::collections::HashMap;
use std::io;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// The largest piece that is held in one part, so that a large discard is taken bit by bit.
pub const MAX_PIECE_BYTES: u64 = 1024 * 1024;

/// Which of the changes at risk a power cut takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// Every one.
    All,
    /// Each by the toss of a coin.
    Subset,
    /// Each by the toss of a coin; the others reach the medium in another order.
    Reorder,
    /// A quarter wholly, a quarter not at all, and of the others each sector by a coin.
    Torn,
}

/// What a range held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    /// Nothing: it was never written, or discarded.
    Zeros,
    Bytes(Box<[u8]>),
    /// Something; a worker is still to read it.
    Unread,
}

/// A part of what one change overwrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub offset: u64,
    pub length: u64,
    pub before: Before,
}

/// What did it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Write,
    Discard,
}

/// A write or discard at risk.
#[derive(Debug)]
struct Entry {
    sequence: u64,
    unique: u64,
    change: Change,
    /// They cover its range, less what later durable changes overwrote.
    pieces: Vec<Piece>,
    /// How many changes had been answered when this one was; `None` in flight.
    answered: Option<u64>,
}

/// The changes at risk, in the order in which they were done.
#[derive(Debug, Default)]
pub struct UndoLog {
    entries: Vec<Entry>,
    next_sequence: u64,
    answered: u64,
    /// Requests in flight: a change's sequence number, by its request.
    in_flight: HashMap<u64, u64>,
    /// Flushes in flight: how many changes had been answered when each came in.
    flushes: HashMap<u64, u64>,
}

/// How much is at risk. Discards are not counted: nothing is lost with them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Unflushed {
    pub unflushed_writes: u64,
    pub unflushed_bytes: u64,
}

/// What a cut took, and what had been at risk.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lost {
    #[serde(flatten)]
    pub unflushed: Unflushed,
    /// Writes of which anything was lost.
    pub lost_writes: u64,
    pub lost_bytes: u64,
}

/// A medium that can be put back to what it was.
pub trait Image {
    fn read(&mut self, offset: u64, length: u64) -> io::Result<Vec<u8>>;
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()>;
    fn punch(&mut self, offset: u64, length: u64) -> io::Result<()>;
}

impl UndoLog {
    /// Notes a change that is about to be done for a request.
    pub fn record(&mut self, unique: u64, change: Change, pieces: Vec<Piece>) {
        self.in_flight.insert(unique, self.next_sequence);
        self.entries.push(Entry {
            sequence: self.next_sequence,
            unique,
            change,
            pieces,
            answered: None,
        });
        self.next_sequence += 1;
    }

    /// Notes what a request overwrote, which was not known when it came in.
    pub fn fill(&mut self, unique: u64, before: &[(u64, Box<[u8]>)]) {
        fill(&mut self.entries, unique, before);
    }

    /// Notes that a request has not been done: there is nothing to take back.
    pub fn withdraw(&mut self, unique: u64) {
        withdraw(&mut self.entries, unique);
    }

    /// Notes that a flush came in.
    pub fn flush_received(&mut self, unique: u64) {
        self.flushes.insert(unique, self.answered);
    }

    /// Notes that a request is being answered; of a flush, what it covers is durable from now.
    pub fn answered(&mut self, unique: u64) {
        if let Some(sequence) = self.in_flight.remove(&unique) {
            let found = self
                .entries
                .binary_search_by_key(&sequence, |entry| entry.sequence);
            self.entries[found.expect("what is in flight is in the log")].answered =
                Some(self.answered);
            self.answered += 1;
        } else if let Some(before) = self.flushes.remove(&unique) {
            self.make_durable(before);
        }
    }

    /// Notes that a request fails: a flush covers nothing, a change may have been done.
    pub fn failed(&mut self, unique: u64) {
        if self.flushes.remove(&unique).is_none() {
            self.answered(unique);
        }
    }

    /// Forgets the changes of which fewer than `before` had been answered when they were.
    fn make_durable(&mut self, before: u64) {
        let is_durable = |entry: &Entry| entry.answered.is_some_and(|count| count < before);
        let mut kept: Vec<Entry> = vec![];
        for entry in std::mem::take(&mut self.entries) {
            if !is_durable(&entry) {
                kept.push(entry);
                continue;
            }
            // What is at risk and older would be undone to what was before the durable change.
            for older in &mut kept {
                for piece in &entry.pieces {
                    older.forget(piece.offset, piece.offset + piece.length);
                }
            }
        }
        self.entries = kept;
    }

    pub fn unflushed(&self) -> Unflushed {
        let writes = || {
            self.entries
                .iter()
                .filter(|entry| entry.change == Change::Write && !entry.pieces.is_empty())
        };
        Unflushed {
            unflushed_writes: writes().count() as u64,
            unflushed_bytes: writes().map(Entry::bytes).sum(),
        }
    }

    /// Ends the log with a power cut: what was lost, and what is to be done to the medium.
    ///
    /// The same log, mode and seed always lose the same.
    pub fn cut(&mut self, loss: Loss, sector_bytes: u64, seed: u64) -> (Lost, Undoing) {
        let log = std::mem::take(self);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut lost = Lost {
            unflushed: log.unflushed(),
            ..Lost::default()
        };
        let mut survivors = vec![];
        for (index, entry) in log.entries.iter().enumerate() {
            let ranges = entry.survives(loss, sector_bytes, &mut random);
            let kept: u64 = ranges.iter().map(|range| range.1).sum();
            if entry.change == Change::Write && kept < entry.bytes() {
                lost.lost_writes += 1;
                lost.lost_bytes += entry.bytes() - kept;
            }
            if !ranges.is_empty() {
                survivors.push(Survivor { index, ranges });
            }
        }
        if loss == Loss::Reorder {
            for last in (1..survivors.len()).rev() {
                survivors.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
            }
        }
        let entries = log.entries;
        (lost, Undoing { entries, survivors })
    }
}

fn fill(entries: &mut [Entry], unique: u64, before: &[(u64, Box<[u8]>)]) {
    // It is among the latest.
    if let Some(entry) = entries
        .iter_mut()
        .rev()
        .find(|entry| entry.unique == unique)
    {
        entry.pieces = std::mem::take(&mut entry.pieces)
            .into_iter()
            .flat_map(|piece| piece.filled(before))
            .collect();
    }
}

fn withdraw(entries: &mut [Entry], unique: u64) {
    if let Some(entry) = entries
        .iter_mut()
        .rev()
        .find(|entry| entry.unique == unique)
    {
        entry.pieces.clear();
    }
}

impl Entry {
    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.length).sum()
    }

    /// Takes `start..end` out of what this entry covers.
    fn forget(&mut self, start: u64, end: u64) {
        let overlaps = |piece: &Piece| piece.offset < end && start < piece.offset + piece.length;
        if !self.pieces.iter().any(overlaps) {
            return;
        }
        let mut pieces = vec![];
        for piece in std::mem::take(&mut self.pieces) {
            if overlaps(&piece) {
                pieces.extend(piece.part(piece.offset, start));
                pieces.extend(piece.part(end, piece.offset + piece.length));
            } else {
                pieces.push(piece);
            }
        }
        self.pieces = pieces;
    }

    /// The ranges of this entry that reach the medium all the same: offset and length.
    fn survives(
        &self,
        loss: Loss,
        sector_bytes: u64,
        random: &mut Xoshiro256PlusPlus,
    ) -> Vec<(u64, u64)> {
        let whole = || {
            self.pieces
                .iter()
                .map(|piece| (piece.offset, piece.length))
                .collect()
        };
        // The high bits: the generator's best.
        let draw = random.next_u64() >> 62;
        match (loss, draw) {
            (Loss::All, _) | (Loss::Torn, 0) => vec![],
            (Loss::Torn, 1) => whole(),
            (Loss::Torn, _) => self.torn(sector_bytes, random),
            (Loss::Subset | Loss::Reorder, 0 | 1) => vec![],
            (Loss::Subset | Loss::Reorder, _) => whole(),
        }
    }

    /// Each sector by a coin of its own.
    fn torn(&self, sector_bytes: u64, random: &mut Xoshiro256PlusPlus) -> Vec<(u64, u64)> {
        if self.change == Change::Discard {
            // Of a discard only what it took away matters; pieces of it are enough.
            let kept = |_: &&Piece| random.next_u64() >> 63 == 1;
            let pieces = self.pieces.iter().filter(kept);
            return pieces.map(|piece| (piece.offset, piece.length)).collect();
        }
        let (mut ranges, mut sector, mut survives) = (vec![], None, false);
        for piece in &self.pieces {
            let (mut offset, end) = (piece.offset, piece.offset + piece.length);
            while offset < end {
                // Two pieces may share a sector, which is whole or not at all.
                let present = offset / sector_bytes;
                if sector != Some(present) {
                    (sector, survives) = (Some(present), random.next_u64() >> 63 == 1);
                }
                let next = ((present + 1) * sector_bytes).min(end);
                if survives {
                    ranges.push((offset, next - offset));
                }
                offset = next;
            }
        }
        ranges
    }
}

impl Piece {
    /// It, cut up as what was read for it is.
    fn filled(self, before: &[(u64, Box<[u8]>)]) -> Vec<Self> {
        if self.before != Before::Unread {
            return vec![self];
        }
        let read = before.iter().filter_map(|(offset, bytes)| {
            let read = Self {
                offset: *offset,
                length: bytes.len() as u64,
                before: Before::Bytes(bytes.clone()),
            };
            read.part(self.offset, self.offset + self.length)
        });
        read.collect()
    }

    /// The part of it within `start..end`, if there is any.
    fn part(&self, start: u64, end: u64) -> Option<Self> {
        let start = start.max(self.offset);
        let end = end.min(self.offset + self.length);
        if start >= end {
            return None;
        }
        let before = match &self.before {
            Before::Zeros => Before::Zeros,
            Before::Unread => Before::Unread,
            Before::Bytes(bytes) => {
                let range = (start - self.offset) as usize..(end - self.offset) as usize;
                Before::Bytes(bytes[range].into())
            }
        };
        Some(Self {
            offset: start,
            length: end - start,
            before,
        })
    }
}

/// What a cut is to do to a medium: take everything back, then let the survivors reach it.
#[derive(Debug)]
pub struct Undoing {
    entries: Vec<Entry>,
    /// In the order in which they reach the medium.
    survivors: Vec<Survivor>,
}

#[derive(Debug)]
struct Survivor {
    index: usize,
    ranges: Vec<(u64, u64)>,
}

impl Undoing {
    #[cfg(test)]
    pub fn order(&self) -> Vec<usize> {
        self.survivors
            .iter()
            .map(|survivor| survivor.index)
            .collect()
    }

    /// What the medium held where something was overwritten: offset and length.
    pub fn data_ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        let pieces = self.entries.iter().flat_map(|entry| &entry.pieces);
        let data = pieces.filter(|piece| piece.before != Before::Zeros);
        data.map(|piece| (piece.offset, piece.length))
    }

    /// As [`UndoLog::fill`], for a request in flight when the power went.
    pub fn fill(&mut self, unique: u64, before: &[(u64, Box<[u8]>)]) {
        fill(&mut self.entries, unique, before);
    }

    /// As [`UndoLog::withdraw`].
    pub fn withdraw(&mut self, unique: u64) {
        withdraw(&mut self.entries, unique);
    }

    /// Does it. Takes about as much memory as the log had.
    pub fn run(self, image: &mut impl Image) -> io::Result<()> {
        let mut ranges: HashMap<usize, &[(u64, u64)]> = self
            .survivors
            .iter()
            .map(|survivor| (survivor.index, &survivor.ranges[..]))
            .collect();
        let mut written: HashMap<usize, Vec<(u64, Vec<u8>)>> = HashMap::new();
        let changes: Vec<Change> = self.entries.iter().map(|entry| entry.change).collect();
        for (index, entry) in self.entries.into_iter().enumerate().rev() {
            // Just now the medium holds what this change wrote.
            if entry.change == Change::Write {
                for &(offset, length) in ranges.remove(&index).unwrap_or(&[]) {
                    let data = image.read(offset, length)?;
                    written.entry(index).or_default().push((offset, data));
                }
            }
            for piece in entry.pieces {
                match piece.before {
                    Before::Zeros => image.punch(piece.offset, piece.length)?,
                    Before::Bytes(bytes) => image.write(piece.offset, &bytes)?,
                    Before::Unread => return Err(io::Error::other("a change was never done")),
                }
            }
        }
        for survivor in &self.survivors {
            match changes[survivor.index] {
                Change::Write => {
                    for (offset, data) in written.remove(&survivor.index).unwrap_or_default() {
                        image.write(offset, &data)?;
                    }
                }
                Change::Discard => {
                    for &(offset, length) in &survivor.ranges {
                        image.punch(offset, length)?;
                    }
                }
            }
        }
        Ok(())
    }
}
