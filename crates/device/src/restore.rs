//! A volume restored from a snapshot: a block that was never touched comes from afar first.

use std::collections::BTreeMap;

use rand_xoshiro::Xoshiro256PlusPlus;

use crate::config::RestoreConfig;
use crate::latency::LogNormal;
use crate::rate::RateLimit;

/// Over so many blocks on their way, those that have come are forgotten.
const MOST_REMEMBERED: usize = 256;

/// Which blocks of a member are there.
#[derive(Debug, Clone)]
pub struct Restore {
    block_bytes: u64,
    blocks: u64,
    /// A bit for each block that was touched; it grows as far as was touched.
    touched: Vec<u64>,
    untouched: u64,
    coming_ns: BTreeMap<u64, f64>,
    latency: LogNormal,
    rate: Option<RateLimit>,
    began_ns: f64,
    background_blocks_per_ns: f64,
}

impl Restore {
    /// A member of `size_bytes`, all of it still in the snapshot at `now_ns`.
    pub fn new(config: &RestoreConfig, size_bytes: u64, now_ns: f64) -> Self {
        let blocks = size_bytes.div_ceil(config.block_bytes);
        let blocks_per_s = |rate: f64| rate / config.block_bytes as f64;
        Self {
            block_bytes: config.block_bytes,
            blocks,
            touched: Vec::new(),
            untouched: blocks,
            coming_ns: BTreeMap::new(),
            latency: LogNormal::new(config.us_p50, config.us_p99),
            rate: config
                .bytes_per_second
                .map(|rate| RateLimit::new(blocks_per_s(rate))),
            began_ns: now_ns,
            background_blocks_per_ns: config
                .background_bytes_per_second
                .map_or(0.0, |rate| blocks_per_s(rate) / 1e9),
        }
    }

    /// When the data of a request that starts at `start_ns` are there.
    ///
    /// A write brings the rest of a block that it changes in part; what it covers it replaces.
    pub fn take(
        &mut self,
        random: &mut Xoshiro256PlusPlus,
        start_ns: f64,
        (is_write, offset, length): (bool, u64, u64),
    ) -> f64 {
        let (first, last) = (
            offset / self.block_bytes,
            (offset + length - 1) / self.block_bytes,
        );
        let in_background = self.in_background(start_ns);
        let mut ready_ns = start_ns;
        for block in first..=last.min(self.blocks - 1) {
            if !self.touch(block) {
                if let Some(&came_ns) = self.coming_ns.get(&block) {
                    ready_ns = ready_ns.max(came_ns);
                }
                continue;
            }
            let covers = is_write
                && offset <= block * self.block_bytes
                && (block + 1) * self.block_bytes <= offset + length;
            if covers || block < in_background {
                continue;
            }
            let sent_ns = match &mut self.rate {
                Some(rate) => rate.take(start_ns, 1.0),
                None => start_ns,
            };
            let came_ns = sent_ns + self.latency.draw_ns(random);
            self.remember(block, came_ns, start_ns);
            ready_ns = ready_ns.max(came_ns);
        }
        ready_ns
    }

    /// Whether nothing is left to wait for at `now_ns`.
    pub fn is_over(&self, now_ns: f64) -> bool {
        (self.untouched == 0 || self.in_background(now_ns) >= self.blocks)
            && self.coming_ns.values().all(|&came_ns| came_ns <= now_ns)
    }

    /// The share of the blocks that is there, or on its way.
    pub fn progress(&self, now_ns: f64) -> f64 {
        let touched = (self.blocks - self.untouched) as f64;
        let blocks = self.blocks as f64;
        // Touched blocks are taken to be anywhere.
        let background = (self.in_background(now_ns) as f64 / blocks).min(1.0);
        background + (1.0 - background) * touched / blocks
    }

    /// Brings nothing by itself from `from_ns` to `until_ns`.
    pub fn freeze(&mut self, from_ns: f64, until_ns: f64) {
        self.began_ns += until_ns - from_ns;
    }

    fn in_background(&self, now_ns: f64) -> u64 {
        ((now_ns - self.began_ns) * self.background_blocks_per_ns) as u64
    }

    /// Marks a block; whether it was not touched before.
    fn touch(&mut self, block: u64) -> bool {
        let (word, bit) = ((block / 64) as usize, 1 << (block % 64));
        if self.touched.len() <= word {
            self.touched.resize(word + 1, 0);
        }
        let is_new = self.touched[word] & bit == 0;
        self.touched[word] |= bit;
        self.untouched -= u64::from(is_new);
        is_new
    }

    fn remember(&mut self, block: u64, came_ns: f64, now_ns: f64) {
        if self.coming_ns.len() >= MOST_REMEMBERED {
            self.coming_ns.retain(|_, &mut came_ns| came_ns > now_ns);
        }
        self.coming_ns.insert(block, came_ns);
    }
}
