//! The kernel's FUSE protocol: requests read from bytes, replies written to bytes.
//!
//! Layouts and numbers are those of `linux/fuse.h`, protocol 7. Nothing here trusts a length.

pub const ROOT_NODE: u64 = 1;
pub const MAX_TRANSFER_BYTES: usize = 1024 * 1024;
/// A write request of the largest size, its headers, and room for what a newer kernel adds.
pub const REQUEST_BUFFER_BYTES: usize = MAX_TRANSFER_BYTES + 64 * 1024;

const HEADER_BYTES: usize = 40;
const MAJOR: u32 = 7;
const MINOR: u32 = 38;
/// The first with `max_pages`, which a request of more than 128 KiB needs (Linux 4.20).
const MINOR_LEAST: u32 = 28;
const PAGE_BYTES: usize = 4096;

const INIT_ASYNC_READ: u32 = 1 << 0;
const INIT_BIG_WRITES: u32 = 1 << 5;
const INIT_ASYNC_DIO: u32 = 1 << 15;
const INIT_PARALLEL_DIROPS: u32 = 1 << 18;
const INIT_MAX_PAGES: u32 = 1 << 22;
const MAX_BACKGROUND: u16 = 8192;

const OPEN_DIRECT_IO: u32 = 1 << 0;
const OPEN_NOFLUSH: u32 = 1 << 5;
const OPEN_PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

const SETATTR_MODE_UID_GID: u32 = 0b111;
const SETATTR_SIZE: u32 = 1 << 3;

/// A request and what to address its reply to.
#[derive(Debug)]
pub struct Envelope<'a> {
    pub unique: u64,
    pub node: u64,
    pub request: Request<'a>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Request<'a> {
    Init {
        major: u32,
        minor: u32,
        max_readahead: u32,
        flags: u32,
    },
    Lookup {
        name: &'a [u8],
    },
    GetAttributes,
    SetAttributes {
        size: Option<u64>,
        changes_owner_or_mode: bool,
    },
    Open,
    Release,
    OpenDirectory,
    ReadDirectory {
        offset: u64,
        size: u32,
    },
    Read {
        offset: u64,
        size: u32,
    },
    Write {
        offset: u64,
        data: &'a [u8],
    },
    Sync,
    Allocate {
        mode: u32,
        offset: u64,
        length: u64,
    },
    FileSystemStatus,
    /// Answered with success: access, closing a directory, the end of the connection.
    Nothing,
    /// Never answered: forget, interrupt.
    Silent,
    /// Makes, removes or renames what the control socket alone makes.
    Forbidden,
    Unknown,
    /// Shorter than its kind must be.
    Malformed,
}

/// Reads a request; `None` where even the header is not whole.
pub fn parse(bytes: &[u8]) -> Option<Envelope<'_>> {
    let declared = u32_at(bytes, 0)? as usize;
    let (opcode, unique, node) = (u32_at(bytes, 4)?, u64_at(bytes, 8)?, u64_at(bytes, 16)?);
    let body = bytes.get(HEADER_BYTES..declared.min(bytes.len()))?;
    let request = parse_body(opcode, body).unwrap_or(Request::Malformed);
    Some(Envelope {
        unique,
        node,
        request,
    })
}

fn parse_body(opcode: u32, body: &[u8]) -> Option<Request<'_>> {
    Some(match opcode {
        1 => Request::Lookup {
            name: body.split(|&byte| byte == 0).next()?,
        },
        2 | 36 | 42 => Request::Silent,
        3 => Request::GetAttributes,
        4 => {
            let valid = u32_at(body, 0)?;
            let size = u64_at(body, 16)?;
            Request::SetAttributes {
                size: (valid & SETATTR_SIZE != 0).then_some(size),
                changes_owner_or_mode: valid & SETATTR_MODE_UID_GID != 0,
            }
        }
        6 | 8..=13 | 35 | 45 | 51 => Request::Forbidden,
        14 => Request::Open,
        15 => Request::Read {
            offset: u64_at(body, 8)?,
            size: u32_at(body, 16)?,
        },
        16 => {
            let (offset, size) = (u64_at(body, 8)?, u32_at(body, 16)? as usize);
            Request::Write {
                offset,
                data: body.get(40..40usize.checked_add(size)?)?,
            }
        }
        17 => Request::FileSystemStatus,
        18 => Request::Release,
        20 => Request::Sync,
        26 => Request::Init {
            major: u32_at(body, 0)?,
            minor: u32_at(body, 4)?,
            // A kernel of a newer major version sends these two alone at first.
            max_readahead: u32_at(body, 8).unwrap_or(0),
            flags: u32_at(body, 12).unwrap_or(0),
        },
        27 => Request::OpenDirectory,
        28 => Request::ReadDirectory {
            offset: u64_at(body, 8)?,
            size: u32_at(body, 16)?,
        },
        29 | 30 | 34 | 38 => Request::Nothing,
        43 => Request::Allocate {
            offset: u64_at(body, 8)?,
            length: u64_at(body, 16)?,
            mode: u32_at(body, 24)?,
        },
        _ => Request::Unknown,
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The header before every reply of `body_bytes`; `error` is 0 or a positive errno.
pub fn reply_header(unique: u64, error: i32, body_bytes: usize) -> [u8; 16] {
    let mut header = [0; 16];
    header[..4].copy_from_slice(&((16 + body_bytes) as u32).to_ne_bytes());
    header[4..8].copy_from_slice(&(-error).to_ne_bytes());
    header[8..].copy_from_slice(&unique.to_ne_bytes());
    header
}

/// A reply's body under construction.
#[derive(Debug, Default)]
struct Body(Vec<u8>);

impl Body {
    fn u16(mut self, value: u16) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn zeros(mut self, bytes: usize) -> Self {
        self.0.resize(self.0.len() + bytes, 0);
        self
    }

    /// `struct fuse_attr`.
    fn attributes(self, node: u64, size_bytes: u64, resident_bytes: u64) -> Self {
        let (mode, links) = match node {
            ROOT_NODE => (libc::S_IFDIR | 0o755, 2),
            _ => (libc::S_IFREG | 0o600, 1),
        };
        // Owner, times and device number stay zero: root's, and of no age.
        self.u64(node)
            .u64(size_bytes)
            .u64(resident_bytes / 512)
            .zeros(3 * 8 + 3 * 4)
            .u32(mode)
            .u32(links)
            .zeros(3 * 4)
            .u32(PAGE_BYTES as u32)
            .u32(0)
    }
}

/// The answer to `Init`, or the errno to refuse it with.
pub fn init(major: u32, minor: u32, max_readahead: u32, flags: u32) -> Result<Vec<u8>, i32> {
    if major < MAJOR || (major == MAJOR && minor < MINOR_LEAST) {
        return Err(libc::EPROTO);
    }
    let requested =
        INIT_ASYNC_READ | INIT_BIG_WRITES | INIT_ASYNC_DIO | INIT_PARALLEL_DIROPS | INIT_MAX_PAGES;
    let body = Body::default()
        .u32(MAJOR)
        .u32(MINOR)
        .u32(max_readahead)
        .u32(requested & flags)
        .u16(MAX_BACKGROUND)
        .u16(MAX_BACKGROUND / 4 * 3)
        .u32(MAX_TRANSFER_BYTES as u32)
        .u32(1)
        .u16((MAX_TRANSFER_BYTES / PAGE_BYTES) as u16)
        .zeros(2 + 4 + 7 * 4);
    Ok(body.0)
}

/// The answer to `Lookup`. Names and attributes may change at any time, so none is to be cached.
pub fn entry(node: u64, size_bytes: u64, resident_bytes: u64) -> Vec<u8> {
    let validity = 8 + 8 + 4 + 4;
    let head = Body::default().u64(node).u64(0).zeros(validity);
    head.attributes(node, size_bytes, resident_bytes).0
}

/// The answer to `GetAttributes` and `SetAttributes`.
pub fn attributes(node: u64, size_bytes: u64, resident_bytes: u64) -> Vec<u8> {
    Body::default()
        .zeros(16)
        .attributes(node, size_bytes, resident_bytes)
        .0
}

/// The answer to `Open`: straight to the server, many at a time, with nothing to do at a close.
pub fn opened_file() -> Vec<u8> {
    let flags = OPEN_DIRECT_IO | OPEN_NOFLUSH | OPEN_PARALLEL_DIRECT_WRITES;
    Body::default().u64(0).u32(flags).u32(0).0
}

/// The answer to `OpenDirectory`.
pub fn opened_directory() -> Vec<u8> {
    Body::default().zeros(16).0
}

/// The answer to `Write`.
pub fn written(bytes: u32) -> [u8; 8] {
    let mut body = [0; 8];
    body[..4].copy_from_slice(&bytes.to_ne_bytes());
    body
}

/// The answer to `FileSystemStatus`.
pub fn file_system_status(size_bytes: u64, resident_bytes: u64, files: u64) -> Vec<u8> {
    let page = PAGE_BYTES as u64;
    let (blocks, free) = (
        size_bytes / page,
        size_bytes.saturating_sub(resident_bytes) / page,
    );
    let counts = Body::default()
        .u64(blocks)
        .u64(free)
        .u64(free)
        .u64(files)
        .u64(0);
    counts
        .u32(PAGE_BYTES as u32)
        .u32(255)
        .u32(PAGE_BYTES as u32)
        .zeros(4 + 6 * 4)
        .0
}

/// Adds a directory entry if it fits; `next` is the offset to go on from after it.
pub fn push_entry(body: &mut Vec<u8>, limit: usize, (node, name): (u64, &[u8]), next: u64) -> bool {
    let padded = (24 + name.len()).next_multiple_of(8);
    if body.len() + padded > limit {
        return false;
    }
    let kind = if node == ROOT_NODE {
        libc::DT_DIR
    } else {
        libc::DT_REG
    };
    let head = Body(std::mem::take(body)).u64(node).u64(next);
    let mut entry = head.u32(name.len() as u32).u32(u32::from(kind));
    entry.0.extend_from_slice(name);
    *body = entry.zeros(padded - 24 - name.len()).0;
    true
}
