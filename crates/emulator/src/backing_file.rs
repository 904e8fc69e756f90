//! A file that holds a volume: sparse, past the page cache where its filesystem lets it.
//!
//! Everything here may block on a disk, so only workers call it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::buffer::{ALIGNMENT, AlignedBuffer};
use crate::pages::{PAGE_BYTES, PageMap};
use crate::undo::Image;

/// What `add` asks for.
#[derive(Debug, Clone)]
pub struct FileOrder {
    pub path: PathBuf,
    pub size_bytes: u64,
    pub keep: bool,
}

#[derive(Debug)]
pub struct BackingFile {
    file: File,
    path: PathBuf,
    keep: bool,
    /// What offsets and lengths must be multiples of; 1 through the page cache.
    alignment: u64,
    /// Free where the file is, when it was looked at last.
    free_bytes: AtomicU64,
}

/// A file that was opened, and where data is in it.
#[derive(Debug)]
pub struct Opened {
    pub file: BackingFile,
    pub pages: PageMap,
}

impl BackingFile {
    /// Opens or makes the file; the reason in one line where that is not to be.
    pub fn open(order: &FileOrder) -> Result<Opened, String> {
        let name = order.path.display();
        let failed = |what: &str, error: io::Error| format!("file {name:?}: {what}: {error}");
        if !order.path.is_absolute() {
            return Err(format!("file {name:?}: give an absolute path"));
        }
        let exists = order.path.symlink_metadata().is_ok();
        if exists && !order.keep {
            return Err(format!(
                "file {name:?} exists: remove it, or add it with keep to go on with its content"
            ));
        }
        let (file, is_direct) = open(&order.path, !exists).map_err(|e| failed("cannot open", e))?;
        let opened = Self::prepare(file, is_direct, order).map_err(|error| match error {
            Refusal::Message(message) => format!("file {name:?}: {message}"),
            Refusal::Failed(error) => failed("cannot be used", error),
        });
        if opened.is_err() && !exists {
            let _ = fs::remove_file(&order.path); // made just now, and empty
        }
        opened
    }

    fn prepare(file: File, is_direct: bool, order: &FileOrder) -> Result<Opened, Refusal> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(Refusal::Message("it is no ordinary file".into()));
        }
        lock(&file)?;
        // A volume whose last sectors are no whole page may have had them written as one.
        let longest = order.size_bytes.next_multiple_of(PAGE_BYTES);
        if metadata.len() > longest {
            let (has, expected) = (metadata.len(), order.size_bytes);
            return Err(Refusal::Message(format!(
                "it has {has} bytes, more than the volume's {expected}: add a volume of its size"
            )));
        }
        if metadata.len() < order.size_bytes {
            file.set_len(order.size_bytes)?;
        }
        let alignment = if is_direct { alignment(&file) } else { 1 };
        let pages = written_pages(&file, longest)?;
        let file = Self {
            file,
            path: order.path.clone(),
            keep: order.keep,
            alignment,
            free_bytes: AtomicU64::new(0),
        };
        file.look_at_free_space();
        Ok(Opened { file, pages })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn keep(&self) -> bool {
        self.keep
    }

    pub fn is_direct(&self) -> bool {
        self.alignment > 1
    }

    pub fn free_bytes(&self) -> u64 {
        self.free_bytes.load(Ordering::Relaxed)
    }

    pub fn look_at_free_space(&self) {
        let mut space = MaybeUninit::<libc::statvfs>::zeroed();
        // SAFETY: an open descriptor and a structure of the right type.
        let free = unsafe {
            match libc::fstatvfs(self.file.as_raw_fd(), space.as_mut_ptr()) {
                0 => {
                    let space = space.assume_init();
                    space.f_bavail * space.f_frsize
                }
                _ => return,
            }
        };
        self.free_bytes.store(free, Ordering::Relaxed);
    }

    /// Reads a range; what was never written, or is beyond the end, is zeros.
    pub fn read(&self, offset: u64, length: u64) -> io::Result<Window> {
        let mut window = Window::around(offset, length, self.alignment);
        let mut done = 0;
        while done < window.buffer.len() {
            match self
                .file
                .read_at(&mut window.buffer[done..], window.offset + done as u64)
            {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.is_direct() && !(done as u64).is_multiple_of(self.alignment) {
                break; // the end of the file: the rest is zeros
            }
        }
        Ok(window)
    }

    /// Writes a range; what direct I/O cannot write alone is written with what is around it.
    pub fn write(&self, offset: u64, data: &AlignedBuffer) -> io::Result<()> {
        let length = data.len() as u64;
        if offset.is_multiple_of(self.alignment) && length.is_multiple_of(self.alignment) {
            return self.file.write_all_at(data, offset);
        }
        let mut window = self.read(offset, length)?;
        window.data_mut().copy_from_slice(data);
        self.file.write_all_at(&window.buffer, window.offset)
    }

    /// Makes a range zero and gives its blocks back.
    pub fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (offset, length) = (offset as libc::off_t, length as libc::off_t);
        // SAFETY: an open descriptor and numbers.
        match unsafe { libc::fallocate(self.file.as_raw_fd(), mode, offset, length) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub fn grow(&self, size_bytes: u64) -> io::Result<()> {
        if self.file.metadata()?.len() < size_bytes {
            self.file.set_len(size_bytes)?;
        }
        Ok(())
    }

    /// Removes the file, unless it is to be kept, and lets others have it.
    pub fn retire(&self) {
        if !self.keep {
            let _ = fs::remove_file(&self.path); // gone already is well too
            // Blocks are given back here and not where the file is closed.
            let _ = self.file.set_len(0);
        }
        // SAFETY: an open descriptor.
        unsafe { libc::flock(self.file.as_raw_fd(), libc::LOCK_UN) };
    }
}

/// The image that a power cut takes changes back from.
pub struct FileImage<'a>(pub &'a BackingFile);

impl Image for FileImage<'_> {
    fn read(&mut self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        Ok(self.0.read(offset, length)?.data().to_vec())
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, &AlignedBuffer::copy_of(data))
    }

    fn punch(&mut self, offset: u64, length: u64) -> io::Result<()> {
        self.0.punch(offset, length)
    }
}

/// A range, and around it what must be read and written with it.
#[derive(Debug)]
pub struct Window {
    buffer: AlignedBuffer,
    offset: u64,
    start: usize,
    length: usize,
}

impl Window {
    fn around(offset: u64, length: u64, alignment: u64) -> Self {
        let first = offset / alignment * alignment;
        let end = (offset + length).next_multiple_of(alignment);
        Self {
            buffer: AlignedBuffer::zeroed((end - first) as usize),
            offset: first,
            start: (offset - first) as usize,
            length: length as usize,
        }
    }

    pub fn data(&self) -> &[u8] {
        &self.buffer[self.start..][..self.length]
    }

    fn data_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..][..self.length]
    }
}

enum Refusal {
    Message(String),
    Failed(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Opens past the page cache, or through it where there is no other way.
fn open(path: &Path, make: bool) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create_new(make).mode(0o600);
    let flags = libc::O_CLOEXEC | libc::O_NOFOLLOW;
    match options
        .clone()
        .custom_flags(flags | libc::O_DIRECT)
        .open(path)
    {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            // Where direct I/O is refused, the file is there already.
            let file = options
                .create_new(false)
                .create(make)
                .custom_flags(flags)
                .open(path)?;
            Ok((file, false))
        }
        opened => Ok((opened?, true)),
    }
}

fn lock(file: &File) -> Result<(), Refusal> {
    // SAFETY: an open descriptor.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => Err(Refusal::Message("another volume uses it".into())),
    }
}

/// What the filesystem asks of direct I/O (statx's `STATX_DIOALIGN`), or a page where it does not
/// say.
fn alignment(file: &File) -> u64 {
    let mut status = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: an open descriptor, an empty path, a structure of the right type.
    let status = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            status.as_mut_ptr(),
        );
        status.assume_init()
    };
    let is_known = status.stx_mask & libc::STATX_DIOALIGN != 0;
    match u64::from(status.stx_dio_offset_align) {
        align if is_known && align.is_power_of_two() && align <= ALIGNMENT as u64 => align.max(512),
        _ => ALIGNMENT as u64,
    }
}

/// Where the file has data (`SEEK_DATA`).
fn written_pages(file: &File, size_bytes: u64) -> io::Result<PageMap> {
    let mut pages = PageMap::new(size_bytes);
    let seek = |offset: u64, whence| {
        // SAFETY: an open descriptor and numbers.
        let found = unsafe { libc::lseek(file.as_raw_fd(), offset as libc::off_t, whence) };
        match u64::try_from(found) {
            Ok(found) => Ok(Some(found)),
            Err(_) => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
                error => Err(error),
            },
        }
    };
    let mut offset = 0;
    while let Some(start) = seek(offset, libc::SEEK_DATA)? {
        let end = seek(start, libc::SEEK_HOLE)?
            .unwrap_or(size_bytes)
            .min(size_bytes);
        if start >= end {
            break;
        }
        pages.mark(start, end - start);
        offset = end;
    }
    Ok(pages)
}
