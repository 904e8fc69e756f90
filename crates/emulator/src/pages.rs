//! Which pages of a volume were written: a bit each, so that it is known without a look at them.

pub const PAGE_BYTES: u64 = 4096;

#[derive(Debug, Default)]
pub struct PageMap {
    words: Vec<u64>,
    written: u64,
}

impl PageMap {
    pub fn new(size_bytes: u64) -> Self {
        Self {
            words: vec![0; words(size_bytes)],
            written: 0,
        }
    }

    pub fn grow(&mut self, size_bytes: u64) {
        self.words.resize(words(size_bytes), 0);
    }

    pub fn written_bytes(&self) -> u64 {
        self.written * PAGE_BYTES
    }

    /// Marks the pages of a range as written.
    pub fn mark(&mut self, offset: u64, length: u64) {
        for page in pages(offset, length) {
            let (word, bit) = (&mut self.words[(page / 64) as usize], 1 << (page % 64));
            self.written += u64::from(*word & bit == 0);
            *word |= bit;
        }
    }

    /// Marks pages `first..last` as not written, a word at a time.
    pub fn forget(&mut self, first: u64, last: u64) {
        let mut page = first;
        while page < last {
            let upto = (page / 64 * 64 + 64).min(last);
            let mask = (u64::MAX >> (64 - (upto - page))) << (page % 64);
            let word = &mut self.words[(page / 64) as usize];
            if *word & mask != 0 {
                self.written -= u64::from((*word & mask).count_ones());
                *word &= !mask;
            }
            page = upto;
        }
    }

    /// Cuts a range where what was written and what was not meet: offset, length, whether written.
    pub fn runs(&self, offset: u64, length: u64) -> Vec<(u64, u64, bool)> {
        let end = offset + length;
        let pages = pages(offset, length);
        let (mut runs, mut page) = (vec![], pages.start);
        while page < pages.end {
            let (start, is_written) = ((page * PAGE_BYTES).max(offset), self.has(page));
            page = self.run_end(page).min(pages.end);
            runs.push((start, (page * PAGE_BYTES).min(end) - start, is_written));
        }
        runs
    }

    /// The next page that is not as this one, written or not; or one past the end.
    fn run_end(&self, mut page: u64) -> u64 {
        let same = if self.has(page) { u64::MAX } else { 0 };
        while let Some(word) = self.words.get((page / 64) as usize) {
            let differing = (word ^ same) >> (page % 64);
            if differing != 0 {
                return page + u64::from(differing.trailing_zeros());
            }
            page = (page / 64 + 1) * 64;
        }
        page
    }

    /// Pages of a range that were not written.
    pub fn missing(&self, offset: u64, length: u64) -> u64 {
        pages(offset, length)
            .filter(|&page| !self.has(page))
            .count() as u64
    }

    pub fn any(&self, offset: u64, length: u64) -> bool {
        pages(offset, length).any(|page| self.has(page))
    }

    fn has(&self, page: u64) -> bool {
        self.words[(page / 64) as usize] & (1 << (page % 64)) != 0
    }

    #[cfg(test)]
    pub fn count(&self) -> u64 {
        let ones = self.words.iter().map(|word| u64::from(word.count_ones()));
        ones.sum()
    }
}

fn pages(offset: u64, length: u64) -> std::ops::Range<u64> {
    offset / PAGE_BYTES..(offset + length).div_ceil(PAGE_BYTES)
}

fn words(size_bytes: u64) -> usize {
    size_bytes.div_ceil(PAGE_BYTES * 64) as usize
}
