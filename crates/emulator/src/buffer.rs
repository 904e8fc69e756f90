//! Memory at addresses that direct I/O takes.

use std::alloc::{self, Layout};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// No device asks for more.
pub const ALIGNMENT: usize = 4096;

/// Bytes that begin at a multiple of [`ALIGNMENT`].
#[derive(Debug)]
pub struct AlignedBuffer {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: it owns its bytes, as a box does.
unsafe impl Send for AlignedBuffer {}

impl AlignedBuffer {
    /// All zeros.
    pub fn zeroed(length: usize) -> Self {
        let layout = layout(length);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else {
            alloc::handle_alloc_error(layout)
        };
        Self { start, length }
    }

    pub fn copy_of(data: &[u8]) -> Self {
        let mut buffer = Self::zeroed(data.len());
        buffer.copy_from_slice(data);
        buffer
    }
}

fn layout(length: usize) -> Layout {
    Layout::from_size_align(length.max(1), ALIGNMENT).expect("a buffer is far below the limit")
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: our own bytes, all of them initialised.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: made with this very layout.
        unsafe { alloc::dealloc(self.start.as_ptr(), layout(self.length)) };
    }
}
