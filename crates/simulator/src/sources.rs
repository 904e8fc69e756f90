//! Where transactions read and write: Poisson counts, one choice among weighted sources, offsets.

use crate::config::{Access, Background, Open};
use pgstow_device::{Operation, OperationKind};
use rand::RngExt;
use rand_distr::{Distribution, Poisson};
use rand_xoshiro::Xoshiro256PlusPlus;

/// An index drawn by weight.
#[derive(Debug)]
pub struct Choice(Vec<f64>); // cumulative weights

impl Choice {
    pub fn new(weights: impl Iterator<Item = f64>) -> Choice {
        let add = |sum: &mut f64, weight| {
            *sum += weight;
            Some(*sum)
        };
        Choice(weights.scan(0.0, add).collect())
    }

    pub fn draw(&self, random: &mut Xoshiro256PlusPlus) -> usize {
        if self.0.len() <= 1 {
            return 0;
        }
        let at = random.random::<f64>() * self.0.last().expect("there is one");
        self.0
            .partition_point(|&sum| sum <= at)
            .min(self.0.len() - 1)
    }
}

/// One kind of I/O: where it goes next.
#[derive(Debug)]
struct Source {
    device: usize,
    kind: OperationKind,
    bytes: u32,
    step_bytes: u64, // from one place on the device to the next
    places: u64,
    cursor: Option<u64>,
}

impl Source {
    fn new(
        device: usize,
        kind: OperationKind,
        bytes: u32,
        cursor: Option<u64>,
        sizes_bytes: &[u64],
    ) -> Source {
        // A mean size is no page's. What is at random places is aligned so that it lies within one
        // chunk of a stripe, as pages do.
        let size_bytes = u64::from(bytes);
        let aligned_bytes = size_bytes.next_power_of_two();
        let step_bytes = if cursor.is_some() || aligned_bytes > sizes_bytes[device] {
            size_bytes
        } else {
            aligned_bytes
        };
        Source {
            device,
            kind,
            bytes,
            step_bytes,
            places: sizes_bytes[device] / step_bytes,
            cursor,
        }
    }
}

/// Independent Poisson sources as one: the sum's count, then which of them each I/O belongs to.
/// Even ones, each with its mean, are apart.
#[derive(Debug)]
pub struct Sources {
    sources: Vec<Source>,
    choice: Choice,
    count: Option<Poisson<f64>>,
    even: Vec<(u32, f64)>,
}

impl Sources {
    /// Reads and writes that clients wait for.
    pub fn synchronous(reads: &[Access], writes: &[Access], sizes_bytes: &[u64]) -> Sources {
        let sources = reads.iter().map(|a| (a, OperationKind::Read));
        let sources = sources.chain(writes.iter().map(|a| (a, OperationKind::Write)));
        Sources::new(sources.map(|(access, kind)| {
            let cursor = access.sequential.then_some(0);
            let source = Source::new(access.device, kind, access.bytes, cursor, sizes_bytes);
            (source, access.per_transaction, access.is_even)
        }))
    }

    /// Writes nobody waits for.
    pub fn background(writes: &[Background], sizes_bytes: &[u64]) -> Sources {
        Sources::new(writes.iter().map(|write| {
            let kind = OperationKind::Write;
            let source = Source::new(write.device, kind, write.bytes, None, sizes_bytes);
            (source, write.per_transaction, false)
        }))
    }

    /// I/O that comes by itself.
    pub fn open(open: &[Open], sizes_bytes: &[u64]) -> Sources {
        Sources::new(open.iter().map(|one| {
            let kind = if one.writes {
                OperationKind::Write
            } else {
                OperationKind::Read
            };
            let cursor = one.sequential.then_some(0);
            let source = Source::new(one.device, kind, one.bytes, cursor, sizes_bytes);
            (source, 0.0, false)
        }))
    }

    fn new(given: impl Iterator<Item = (Source, f64, bool)>) -> Sources {
        let (mut sources, mut rates, mut even) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (source, mean, is_even)) in (0..).zip(given) {
            sources.push(source);
            rates.push(if is_even { 0.0 } else { mean });
            if is_even {
                even.push((index, mean));
            }
        }
        let total: f64 = rates.iter().sum();
        let count = (total > 0.0).then(|| Poisson::new(total).expect("a checked rate"));
        Sources {
            sources,
            choice: Choice::new(rates.into_iter()),
            count,
            even,
        }
    }

    /// The sources of one transaction's I/Os.
    pub fn draw_all(&self, random: &mut Xoshiro256PlusPlus, found: &mut Vec<u32>) {
        found.clear();
        for _ in 0..self.draw_count(random) {
            found.push(self.draw(random) as u32);
        }
        for &(index, mean) in &self.even {
            let whole = mean.floor();
            let count = whole as usize + usize::from(random.random::<f64>() < mean - whole);
            found.extend(std::iter::repeat_n(index, count));
        }
    }

    /// How many I/Os one transaction makes at the Poisson sources.
    pub fn draw_count(&self, random: &mut Xoshiro256PlusPlus) -> u32 {
        self.count
            .map_or(0, |poisson| poisson.sample(random) as u32)
    }

    /// Which source the next of them is for.
    pub fn draw(&self, random: &mut Xoshiro256PlusPlus) -> usize {
        self.choice.draw(random)
    }

    /// The device and the operation of a source's next I/O.
    pub fn next(&mut self, index: usize, random: &mut Xoshiro256PlusPlus) -> (usize, Operation) {
        let source = &mut self.sources[index];
        let place = match &mut source.cursor {
            Some(cursor) => {
                let place = *cursor;
                *cursor = (place + 1) % source.places;
                place
            }
            None => random.random_range(0..source.places),
        };
        let (kind, length) = (source.kind, source.bytes);
        (
            source.device,
            Operation {
                kind,
                offset: place * source.step_bytes,
                length,
            },
        )
    }
}
