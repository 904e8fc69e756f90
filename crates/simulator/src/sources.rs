//! Where transactions read and write: Poisson counts, one choice among weighted sources, offsets.

use crate::config::{Access, Background};
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
    places: u64, // aligned ones on the device
    cursor: Option<u64>,
}

/// Independent Poisson sources as one: the sum's count, then which of them each I/O belongs to.
#[derive(Debug)]
pub struct Sources {
    sources: Vec<Source>,
    choice: Choice,
    count: Option<Poisson<f64>>,
}

impl Sources {
    /// Reads and writes that clients wait for.
    pub fn synchronous(reads: &[Access], writes: &[Access], sizes_bytes: &[u64]) -> Sources {
        let sources = reads.iter().map(|a| (a, OperationKind::Read));
        let sources = sources.chain(writes.iter().map(|a| (a, OperationKind::Write)));
        Sources::new(sources.map(|(access, kind)| {
            let places = sizes_bytes[access.device] / u64::from(access.bytes);
            let cursor = access.sequential.then_some(0);
            let (device, bytes) = (access.device, access.bytes);
            (
                Source {
                    device,
                    kind,
                    bytes,
                    places,
                    cursor,
                },
                access.per_transaction,
            )
        }))
    }

    /// Writes nobody waits for.
    pub fn background(writes: &[Background], sizes_bytes: &[u64]) -> Sources {
        Sources::new(writes.iter().map(|write| {
            let (device, bytes) = (write.device, write.bytes);
            let places = sizes_bytes[device] / u64::from(bytes);
            let source = Source {
                device,
                kind: OperationKind::Write,
                bytes,
                places,
                cursor: None,
            };
            (source, write.per_transaction)
        }))
    }

    fn new(sources: impl Iterator<Item = (Source, f64)>) -> Sources {
        let (sources, rates): (Vec<Source>, Vec<f64>) = sources.unzip();
        let total: f64 = rates.iter().sum();
        let count = (total > 0.0).then(|| Poisson::new(total).expect("a checked rate"));
        Sources {
            sources,
            choice: Choice::new(rates.into_iter()),
            count,
        }
    }

    /// How many I/Os one transaction makes.
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
                offset: place * u64::from(length),
                length,
            },
        )
    }
}
