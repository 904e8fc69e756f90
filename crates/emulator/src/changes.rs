//! Writes and discards of a volume, and what a power cut needs to undo them.

use std::io;

use crate::backing::Data;
use crate::fault::VolumeLost;
use crate::guard::MemoryGuard;
use crate::memory::Memory;
use crate::pages::PAGE_BYTES;
use crate::undo::{Before, Change, Image, Loss, MAX_PIECE_BYTES, Piece};
use crate::volume::EmulatedVolume;

impl EmulatedVolume {
    /// Writes, in memory at once; the errno where there is no memory for it, or for the log.
    pub fn write(
        &mut self,
        guard: &mut MemoryGuard,
        unique: u64,
        (offset, data): (u64, &[u8]),
    ) -> Result<(), i32> {
        let length = data.len() as u64;
        let missing = self.data.pages().missing(offset, length);
        if missing > 0 && self.faults.as_ref().is_some_and(|faults| faults.full) {
            return Err(libc::ENOSPC);
        }
        let taken = match self.data {
            Data::Memory(_) => missing * PAGE_BYTES,
            Data::File(_) => 0,
        };
        let mut before = vec![];
        if let Some(undo) = &mut self.undo {
            let runs = self.data.pages().runs(offset, length);
            before = data_of(&runs);
            let overwritten: u64 = before.iter().map(|run| run.1).sum();
            if !guard.may_take(taken + overwritten) {
                self.undo_refused_writes += u64::from(overwritten > 0);
                return Err(libc::ENOSPC);
            }
            let pieces = runs.into_iter().map(|run| piece(&self.data, run));
            undo.record(unique, Change::Write, pieces.collect());
        } else if taken > 0 && !guard.may_take(taken) {
            return Err(libc::ENOSPC);
        }
        match &mut self.data {
            Data::Memory(memory) => memory.write(offset, data),
            Data::File(file) => file.write(unique, (offset, data), before),
        }
        Ok(())
    }

    /// Makes a range zero, in memory at once; the errno where there is no memory for the log.
    pub fn discard(
        &mut self,
        guard: &mut MemoryGuard,
        unique: u64,
        (offset, length): (u64, u64),
    ) -> Result<(), i32> {
        let end = offset.saturating_add(length).min(self.data.size_bytes());
        if offset >= end {
            return Ok(());
        }
        let range = (offset, end - offset);
        let mut before = vec![];
        if let Some(undo) = &mut self.undo {
            let runs = self.data.pages().runs(range.0, range.1);
            let pieces = match &mut self.data {
                Data::Memory(memory) => move_out(memory, runs),
                Data::File(_) => {
                    before = data_of(&runs);
                    if !may_take_all(guard, before.iter().map(|run| run.1).sum()) {
                        self.undo_refused_writes += 1;
                        return Err(libc::ENOSPC);
                    }
                    let pieces = runs.into_iter().map(|run| piece(&self.data, run));
                    pieces.collect()
                }
            };
            undo.record(unique, Change::Discard, pieces);
        }
        match &mut self.data {
            Data::Memory(memory) => memory.punch(range.0, range.1),
            Data::File(file) => file.discard(unique, range, before),
        }
        Ok(())
    }

    /// Loses what was not flushed, as the power goes; `None` for a volume that loses nothing.
    ///
    /// A file is put back by a worker; until then whatever comes after waits.
    pub fn lose(&mut self, loss: Loss, sector_bytes: u64, seed: u64) -> Option<VolumeLost> {
        let (lost, undoing) = self.undo.as_mut()?.cut(loss, sector_bytes, seed);
        match &mut self.data {
            Data::Memory(memory) => {
                let done = undoing.run(memory);
                done.expect("memory can always be put back");
            }
            Data::File(file) => file.restore(undoing),
        }
        Some(VolumeLost {
            name: self.name().to_owned(),
            lost,
        })
    }
}

/// Those of the runs that hold something: offset and length.
fn data_of(runs: &[(u64, u64, bool)]) -> Vec<(u64, u64)> {
    let data = runs.iter().filter(|run| run.2);
    data.map(|run| (run.0, run.1)).collect()
}

fn piece(data: &Data, (offset, length, written): (u64, u64, bool)) -> Piece {
    let before = match data {
        _ if !written => Before::Zeros,
        Data::Memory(memory) => {
            let bytes = memory.read(offset, length as usize);
            bytes.map_or(Before::Zeros, |bytes| Before::Bytes(bytes.into()))
        }
        Data::File(_) => Before::Unread,
    };
    Piece {
        offset,
        length,
        before,
    }
}

/// What a discard takes away, moved bit by bit, so that never much more memory is taken than was
/// given back.
fn move_out(memory: &mut Memory, runs: Vec<(u64, u64, bool)>) -> Vec<Piece> {
    let mut pieces = vec![];
    for (mut offset, mut length, written) in runs {
        while length > 0 {
            let part = if written {
                length.min(MAX_PIECE_BYTES)
            } else {
                length
            };
            let bytes = match written {
                true => Memory::read(memory, offset, part as usize),
                false => None,
            };
            pieces.push(Piece {
                offset,
                length: part,
                before: bytes.map_or(Before::Zeros, |bytes| Before::Bytes(bytes.into())),
            });
            memory.punch(offset, part);
            (offset, length) = (offset + part, length - part);
        }
    }
    pieces
}

/// Whether so much may be taken, of any size; what was granted before a refusal is not used.
fn may_take_all(guard: &mut MemoryGuard, mut bytes: u64) -> bool {
    while bytes > MAX_PIECE_BYTES {
        if !guard.may_take(MAX_PIECE_BYTES) {
            return false;
        }
        bytes -= MAX_PIECE_BYTES;
    }
    guard.may_take(bytes)
}

impl Image for Memory {
    fn read(&mut self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let bytes = Self::read(self, offset, length as usize);
        Ok(bytes.map_or_else(|| vec![0; length as usize], <[u8]>::to_vec))
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        Self::write(self, offset, data);
        Ok(())
    }

    fn punch(&mut self, offset: u64, length: u64) -> io::Result<()> {
        Self::punch(self, offset, length);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pgstow_device::Volume;
    use proptest::prelude::*;

    use super::*;
    use crate::store::tests::device;

    const SECTOR: u64 = 512;
    const SECTORS: u64 = 64;
    const SIZE: u64 = SECTORS * SECTOR;

    fn volume() -> EmulatedVolume {
        let mut device = device("data");
        device.size_bytes = SIZE;
        let data = Data::Memory(Memory::new(SIZE).unwrap());
        let mut volume = EmulatedVolume::new(Volume::new(&device, 1).unwrap(), data, 0);
        volume.undo = Some(Default::default());
        volume
    }

    fn content(volume: &EmulatedVolume) -> Vec<u8> {
        let Data::Memory(memory) = &volume.data else {
            panic!("made of memory")
        };
        let bytes = memory.read(0, SIZE as usize);
        bytes.map_or_else(|| vec![0; SIZE as usize], <[u8]>::to_vec)
    }

    #[derive(Debug, Clone)]
    enum Step {
        Write(u64, u64),
        Discard(u64, u64),
        /// The oldest, or one of the next, of the changes in flight is answered.
        Answer(usize),
        /// A flush is answered at once, or after another change was.
        Flush(bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        let range = (0..SECTORS, 1..24u64);
        prop_oneof![
            6 => range.clone().prop_map(|(first, count)| Step::Write(first, count)),
            1 => range.prop_map(|(first, count)| Step::Discard(first, count)),
            6 => (0..3usize).prop_map(Step::Answer),
            1 => any::<bool>().prop_map(Step::Flush),
        ]
    }

    /// What each sector may hold after a cut: what is durable, or any later change.
    #[derive(Debug, Clone)]
    struct Legal {
        durable: u8,
        /// Number of the change that made it so.
        durable_by: u64,
        /// Number of the change, what it wrote, and how many were answered before it was.
        later: Vec<(u64, u8, Option<u64>)>,
    }

    struct Model {
        volume: EmulatedVolume,
        guard: MemoryGuard,
        sectors: Vec<Legal>,
        in_flight: Vec<u64>,
        answered: u64,
        next: u64,
    }

    impl Model {
        fn new() -> Self {
            let legal = Legal {
                durable: 0,
                durable_by: 0,
                later: vec![],
            };
            Self {
                volume: volume(),
                guard: MemoryGuard::new(0),
                sectors: vec![legal; SECTORS as usize],
                in_flight: vec![],
                answered: 0,
                next: 1,
            }
        }

        fn change(&mut self, (first, count): (u64, u64), fill: Option<u8>) {
            let (number, count) = (self.next, count.min(SECTORS - first));
            self.next += 1;
            let range = (first * SECTOR, count * SECTOR);
            match fill {
                Some(byte) => {
                    let data = vec![byte; range.1 as usize];
                    let written = self.volume.write(&mut self.guard, number, (range.0, &data));
                    written.unwrap();
                }
                None => self.volume.discard(&mut self.guard, number, range).unwrap(),
            }
            for sector in &mut self.sectors[first as usize..(first + count) as usize] {
                sector.later.push((number, fill.unwrap_or(0), None));
            }
            self.in_flight.push(number);
        }

        fn answer(&mut self, position: usize) {
            if self.in_flight.is_empty() {
                return;
            }
            let number = self.in_flight.remove(position % self.in_flight.len());
            self.volume.undo.as_mut().unwrap().answered(number);
            for change in self.sectors.iter_mut().flat_map(|sector| &mut sector.later) {
                if change.0 == number {
                    change.2 = Some(self.answered);
                }
            }
            self.answered += 1;
        }

        fn flush(&mut self, late: bool) {
            let (number, before) = (self.next, self.answered);
            self.next += 1;
            self.volume.undo.as_mut().unwrap().flush_received(number);
            if late {
                self.answer(0);
            }
            self.volume.undo.as_mut().unwrap().answered(number);
            for sector in &mut self.sectors {
                let durable = sector.later.iter().rev();
                let mut durable = durable.filter(|change| change.2.is_some_and(|at| at < before));
                if let Some(&(by, fill, _)) = durable.next() {
                    (sector.durable, sector.durable_by) = (fill, by);
                    sector.later.retain(|change| change.0 > by);
                }
            }
        }

        fn step(&mut self, step: &Step) {
            match *step {
                // 251 is prime to 256, so neighbours differ and no two of a test's are equal.
                Step::Write(first, count) => {
                    self.change((first, count), Some((self.next * 251 % 255 + 1) as u8));
                }
                Step::Discard(first, count) => self.change((first, count), None),
                Step::Answer(position) => self.answer(position),
                Step::Flush(late) => self.flush(late),
            }
        }
    }

    fn is_all_of(bytes: &[u8], allowed: &BTreeSet<u8>) -> bool {
        allowed.contains(&bytes[0]) && bytes.iter().all(|byte| *byte == bytes[0])
    }

    fn loss() -> impl Strategy<Value = Loss> {
        prop_oneof![
            Just(Loss::All),
            Just(Loss::Subset),
            Just(Loss::Reorder),
            Just(Loss::Torn)
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn each_sector_holds_a_version_that_it_may_hold(
            steps in prop::collection::vec(step(), 1..60), loss in loss(), seed: u64
        ) {
            let mut model = Model::new();
            for step in &steps {
                model.step(step);
            }
            let unflushed = model.volume.undo.as_ref().unwrap().unflushed();
            let lost = model.volume.lose(loss, SECTOR, seed).unwrap().lost;
            prop_assert_eq!(lost.unflushed, unflushed);
            prop_assert!(lost.lost_writes <= unflushed.unflushed_writes);
            prop_assert!(lost.lost_bytes <= unflushed.unflushed_bytes);
            if loss == Loss::All {
                prop_assert_eq!(lost.lost_bytes, unflushed.unflushed_bytes);
            }
            for (number, bytes) in content(&model.volume).chunks(SECTOR as usize).enumerate() {
                let legal = &model.sectors[number];
                let mut allowed = BTreeSet::from([legal.durable]);
                if loss != Loss::All {
                    allowed.extend(legal.later.iter().map(|change| change.1));
                }
                prop_assert!(
                    is_all_of(bytes, &allowed),
                    "sector {} holds {:?}, not {:?}", number, &bytes[..4], legal
                );
            }
            let after = model.volume.undo.as_ref().unwrap().unflushed();
            prop_assert_eq!(after.unflushed_writes, 0);
        }

        #[test]
        fn equal_seeds_lose_the_same(
            steps in prop::collection::vec(step(), 1..40), loss in loss(), seed: u64
        ) {
            let cut = || {
                let mut model = Model::new();
                steps.iter().for_each(|step| model.step(step));
                let lost = model.volume.lose(loss, SECTOR, seed).unwrap().lost;
                (lost, content(&model.volume))
            };
            prop_assert_eq!(cut(), cut());
        }
    }

    /// Ten writes of two sectors each, answered, over what was flushed.
    fn ten_writes() -> EmulatedVolume {
        let mut model = Model::new();
        model.change((0, SECTORS), Some(200));
        model.answer(0);
        model.flush(false);
        for number in 0..10 {
            model.change((number * 2, 2), Some(number as u8 + 1));
            model.answer(0);
        }
        model.volume
    }

    fn kept(volume: &EmulatedVolume) -> Vec<u8> {
        let sectors = content(volume);
        (0..20).map(|n| sectors[n * SECTOR as usize]).collect()
    }

    #[test]
    fn a_subset_loses_some_and_keeps_some_whole() {
        let mut volume = ten_writes();
        let lost = volume.lose(Loss::Subset, SECTOR, 7).unwrap().lost;
        assert_eq!(lost.unflushed.unflushed_writes, 10);
        assert!((1..10).contains(&lost.lost_writes), "{lost:?}");
        assert_eq!(lost.lost_bytes, lost.lost_writes * 1024);
        assert!(kept(&volume).chunks(2).all(|pair| pair[0] == pair[1]));
    }

    #[test]
    fn a_tear_leaves_halves_of_writes_but_whole_sectors() {
        let torn = |sector_bytes| {
            let mut volume = ten_writes();
            volume.lose(Loss::Torn, sector_bytes, 7).unwrap();
            let halves = kept(&volume);
            halves.chunks(2).filter(|pair| pair[0] != pair[1]).count()
        };
        assert!(torn(512) > 0);
        assert_eq!(torn(4096), 0);
    }

    #[test]
    fn another_order_lets_older_writes_win() {
        let newest_lost = (0..20).filter(|&seed| {
            let mut model = Model::new();
            for fill in 1..=6 {
                model.change((0, 1), Some(fill));
                model.answer(0);
            }
            let mut log = model.volume.undo.take().unwrap();
            let (_, undoing) = log.cut(Loss::Reorder, SECTOR, seed);
            let order = undoing.order();
            let Data::Memory(memory) = &mut model.volume.data else {
                panic!("made of memory")
            };
            undoing.run(memory).unwrap();
            let last = order.last().map_or(0, |&index| index as u8 + 1);
            assert_eq!(content(&model.volume)[0], last);
            order.iter().max() != order.last()
        });
        assert!(newest_lost.count() > 3);
    }

    #[test]
    fn without_memory_for_the_log_a_write_over_data_fails_and_is_counted() {
        let mut model = Model::new();
        model.change((0, 8), Some(1));
        let mut none = MemoryGuard::new(u64::MAX);
        let refused = model.volume.write(&mut none, 99, (0, &[2; 512]));
        assert_eq!(refused, Err(libc::ENOSPC));
        assert_eq!(model.volume.undo_refused_writes, 1);
        assert_eq!(content(&model.volume)[0], 1);
    }

    #[test]
    fn a_discard_gives_memory_back_and_a_cut_takes_it_again() {
        let mut model = Model::new();
        model.change((0, SECTORS), Some(3));
        model.answer(0);
        model.flush(false);
        model.change((0, SECTORS), None);
        assert_eq!(model.volume.data.resident_bytes(), 0);
        model.volume.lose(Loss::All, SECTOR, 1).unwrap();
        assert!(content(&model.volume).iter().all(|&byte| byte == 3));
    }
}
