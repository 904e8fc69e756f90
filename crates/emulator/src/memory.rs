//! A volume's data: an anonymous mapping that takes memory only where something was written.

use std::io;
use std::ptr::{self, NonNull};

use crate::pages::{PAGE_BYTES, PageMap};
use crate::system;

/// The largest volume that any provider sells; half of what a process can address.
const MAX_BYTES: u64 = 64 << 40;

/// Zero-filled bytes of a fixed size, thin.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    size_bytes: u64,
    written: PageMap,
}

impl Memory {
    pub fn new(size_bytes: u64) -> io::Result<Self> {
        check_size(size_bytes)?;
        let length = size_bytes as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new anonymous mapping, of no address in use.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A huge page for each scattered block written would take 512 times the memory.
        // SAFETY: the mapping just made; a refusal changes nothing but memory use.
        unsafe { libc::madvise(start, length, libc::MADV_NOHUGEPAGE) };
        // SAFETY: the same mapping.
        unsafe { system::unlock(start, length) };
        let start = NonNull::new(start.cast()).expect("mmap gives no null");
        Ok(Self {
            start,
            size_bytes,
            written: PageMap::new(size_bytes),
        })
    }

    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    #[cfg(test)]
    fn resident_bytes(&self) -> u64 {
        self.written.written_bytes()
    }

    /// Makes room at the end; the data stays.
    pub fn grow(&mut self, size_bytes: u64) -> io::Result<()> {
        assert!(size_bytes >= self.size_bytes, "a volume only grows");
        check_size(size_bytes)?;
        let (old, new) = (self.size_bytes as usize, size_bytes as usize);
        // SAFETY: our own mapping of the old length; no reference into it lives across this call.
        let start =
            unsafe { libc::mremap(self.start.as_ptr().cast(), old, new, libc::MREMAP_MAYMOVE) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.start = NonNull::new(start.cast()).expect("mremap gives no null");
        self.size_bytes = size_bytes;
        self.written.grow(size_bytes);
        Ok(())
    }

    /// The bytes of a range, or `None` where nothing in it was ever written: all zeros.
    ///
    /// Zeros are told apart so that reading them does not fill page tables.
    pub fn read(&self, offset: u64, length: usize) -> Option<&[u8]> {
        assert!(self.holds(offset, length), "a read is within the volume");
        if !self.written.any(offset, length as u64) {
            return None;
        }
        // SAFETY: within the mapping, which lives as long as `self`; writes need `&mut self`.
        Some(unsafe {
            std::slice::from_raw_parts(self.start.add(offset as usize).as_ptr(), length)
        })
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        assert!(
            self.holds(offset, data.len()),
            "a write is within the volume"
        );
        // SAFETY: within the mapping; `data` is the caller's and cannot overlap it.
        unsafe {
            let target = self.start.add(offset as usize).as_ptr();
            ptr::copy_nonoverlapping(data.as_ptr(), target, data.len());
        }
        self.written.mark(offset, data.len() as u64);
    }

    /// Which pages were written.
    pub fn pages(&self) -> &PageMap {
        &self.written
    }

    /// Makes a range zero and gives its memory back.
    pub fn punch(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length).min(self.size_bytes);
        if offset >= end || self.written.written_bytes() == 0 {
            return;
        }
        let (first, last) = (offset.div_ceil(PAGE_BYTES), end / PAGE_BYTES);
        if first >= last {
            return self.zero(offset, end);
        }
        self.zero(offset, first * PAGE_BYTES);
        self.zero(last * PAGE_BYTES, end);
        // SAFETY: whole pages within the mapping, which is private and anonymous.
        let given_back = unsafe {
            let begin = self.start.add((first * PAGE_BYTES) as usize).as_ptr();
            let bytes = ((last - first) * PAGE_BYTES) as usize;
            libc::madvise(begin.cast(), bytes, libc::MADV_DONTNEED) == 0
        };
        if given_back {
            self.written.forget(first, last);
        } else {
            // Somebody has locked it in memory since.
            self.zero(first * PAGE_BYTES, last * PAGE_BYTES);
        }
    }

    /// Writes zeros, if there is anything to overwrite.
    fn zero(&mut self, offset: u64, end: u64) {
        if offset < end && self.written.any(offset, end - offset) {
            // SAFETY: within the mapping.
            unsafe {
                ptr::write_bytes(
                    self.start.add(offset as usize).as_ptr(),
                    0,
                    (end - offset) as usize,
                );
            }
        }
    }

    fn holds(&self, offset: u64, length: usize) -> bool {
        offset
            .checked_add(length as u64)
            .is_some_and(|end| end <= self.size_bytes)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nothing refers to any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.size_bytes as usize) };
    }
}

fn check_size(size_bytes: u64) -> io::Result<()> {
    if size_bytes > MAX_BYTES {
        return Err(io::Error::other("a volume has at most 64 TiB"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_terabyte_takes_no_memory_until_written() {
        let mut memory = Memory::new(1 << 40).unwrap();
        assert_eq!(memory.read(1 << 39, 8192), None);
        memory.write((1 << 39) + 100, &[7; 10]);
        assert_eq!(memory.resident_bytes(), 4096);
        assert_eq!(memory.read((1 << 39) + 99, 3).unwrap(), [0, 7, 7]);
        memory.grow((1 << 40) + 4096).unwrap();
        assert_eq!(memory.read((1 << 39) + 99, 3).unwrap(), [0, 7, 7]);
        memory.punch(0, 1 << 40);
        assert_eq!(memory.resident_bytes(), 0);
        assert!(memory.grow(u64::MAX).is_err());
        assert!(Memory::new(u64::MAX).is_err());
    }

    #[test]
    fn what_was_given_back_is_zero_though_the_server_is_locked_in_memory() {
        let _lock = system::MemoryLock::take();
        let mut memory = Memory::new(1 << 40).unwrap();
        memory.write(8192, &[7; 8192]);
        memory.grow(1 << 41).unwrap();
        memory.punch(8192, 8192);
        memory.write(8192, &[1]);
        assert!(
            memory.read(8192, 4096).unwrap()[1..]
                .iter()
                .all(|&byte| byte == 0)
        );
    }

    #[test]
    fn what_was_discarded_is_zero_though_the_memory_was_locked_meanwhile() {
        let mut memory = Memory::new(1 << 20).unwrap();
        memory.write(8192, &[7; 8192]);
        let _lock = system::MemoryLock::take();
        memory.punch(8192, 8192);
        memory.write(8192, &[1]);
        assert!(
            memory.read(8192, 4096).unwrap()[1..]
                .iter()
                .all(|&byte| byte == 0)
        );
    }

    #[derive(Debug, Clone)]
    enum Step {
        Write(u64, Vec<u8>),
        Punch(u64, u64),
    }

    const SIZE: u64 = 300 * 4096 + 512;

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let write = (
            0..SIZE - 10_000,
            prop::collection::vec(any::<u8>(), 1..10_000),
        )
            .prop_map(|(offset, data)| Step::Write(offset, data));
        let punch = (0..SIZE, 0..2 * SIZE).prop_map(|(offset, length)| Step::Punch(offset, length));
        prop::collection::vec(prop_oneof![write, punch], 1..12)
    }

    proptest! {
        #[test]
        fn it_reads_what_a_plain_array_would(steps in steps()) {
            let mut memory = Memory::new(SIZE).unwrap();
            let mut plain = vec![0u8; SIZE as usize];
            for step in steps {
                match step {
                    Step::Write(offset, data) => {
                        let missing = memory.pages().missing(offset, data.len() as u64);
                        let before = memory.resident_bytes();
                        memory.write(offset, &data);
                        prop_assert_eq!(memory.resident_bytes(), before + missing * 4096);
                        plain[offset as usize..][..data.len()].copy_from_slice(&data);
                    }
                    Step::Punch(offset, length) => {
                        memory.punch(offset, length);
                        let end = (offset + length).min(SIZE) as usize;
                        plain[(offset as usize).min(end)..end].fill(0);
                    }
                }
            }
            match memory.read(0, SIZE as usize) {
                Some(bytes) => prop_assert_eq!(bytes, &plain[..]),
                None => prop_assert!(plain.iter().all(|&byte| byte == 0)),
            }
            prop_assert_eq!(memory.written.count() * 4096, memory.resident_bytes());
        }
    }
}
