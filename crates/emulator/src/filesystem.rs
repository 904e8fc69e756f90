//! What each request means: one flat directory with a file for each volume.

use crate::backing::Data;
use crate::fault_order::Operation;
use crate::pending::{Kind, Pending};
use crate::store::Store;
use crate::wire::{self, Envelope, ROOT_NODE, Request};

const PUNCH_MODES: u32 =
    (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE) as u32;
const PUNCHING: u32 = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) as u32;

/// What to do about a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Reply with this body.
    Body(Vec<u8>),
    /// Reply with this errno.
    Failed(i32),
    /// Reply when the time has come.
    Later(Pending),
    /// Do not reply.
    Silent,
}

/// Takes in one request. Whatever is in it, there is an outcome.
pub fn handle(store: &mut Store, now_ns: u64, envelope: &Envelope<'_>) -> Outcome {
    answer(store, now_ns, envelope).unwrap_or_else(Outcome::Failed)
}

fn answer(store: &mut Store, now_ns: u64, envelope: &Envelope<'_>) -> Result<Outcome, i32> {
    let node = envelope.node;
    Ok(match envelope.request {
        Request::Init {
            major,
            minor,
            max_readahead,
            flags,
        } => Outcome::Body(wire::init(major, minor, max_readahead, flags)?),
        Request::Lookup { name } => {
            if node != ROOT_NODE {
                return Err(libc::ENOTDIR);
            }
            let found = store.find(name).ok_or(libc::ENOENT)?;
            let (size_bytes, resident_bytes) = sizes(store, found)?;
            Outcome::Body(wire::entry(found, size_bytes, resident_bytes))
        }
        Request::GetAttributes => attributes(store, node)?,
        Request::SetAttributes {
            size,
            changes_owner_or_mode,
        } => {
            let (present, _) = sizes(store, node)?;
            if changes_owner_or_mode || size.is_some_and(|size| size != present) {
                return Err(libc::EPERM);
            }
            attributes(store, node)?
        }
        Request::Open => {
            store.get_mut(node).ok_or(libc::ENOENT)?.openers += 1;
            Outcome::Body(wire::opened_file())
        }
        Request::Release => {
            if let Some(volume) = store.get_mut(node) {
                volume.openers = volume.openers.saturating_sub(1);
            }
            Outcome::Body(vec![])
        }
        Request::OpenDirectory => Outcome::Body(wire::opened_directory()),
        Request::ReadDirectory { offset, size } => Outcome::Body(directory(store, offset, size)),
        Request::Read { offset, size } => read(store, now_ns, envelope, (offset, size))?,
        Request::Write { offset, data } => write(store, now_ns, envelope, (offset, data))?,
        Request::Sync => flush(store, now_ns, envelope)?,
        Request::Allocate {
            mode,
            offset,
            length,
        } => allocate(store, now_ns, envelope, (mode, offset, length))?,
        Request::FileSystemStatus => {
            let size_bytes = store
                .iter()
                .map(|(_, volume)| volume.data.size_bytes())
                .sum();
            let resident = store
                .iter()
                .map(|(_, volume)| volume.data.resident_bytes())
                .sum();
            let files = store.iter().count() as u64;
            Outcome::Body(wire::file_system_status(size_bytes, resident, files))
        }
        Request::Nothing => Outcome::Body(vec![]),
        Request::Silent => Outcome::Silent,
        Request::Forbidden => return Err(libc::EPERM),
        Request::Unknown => return Err(libc::ENOSYS),
        Request::Malformed => return Err(libc::EINVAL),
    })
}

/// A node's size and memory in use.
fn sizes(store: &Store, node: u64) -> Result<(u64, u64), i32> {
    if node == ROOT_NODE {
        return Ok((0, 0));
    }
    let data = &store.get(node).ok_or(libc::ENOENT)?.data;
    Ok((data.size_bytes(), data.resident_bytes()))
}

fn attributes(store: &Store, node: u64) -> Result<Outcome, i32> {
    let (size_bytes, resident_bytes) = sizes(store, node)?;
    Ok(Outcome::Body(wire::attributes(
        node,
        size_bytes,
        resident_bytes,
    )))
}

fn directory(store: &Store, offset: u64, size: u32) -> Vec<u8> {
    let limit = (size as usize).min(wire::MAX_TRANSFER_BYTES);
    let dots = [(1, ROOT_NODE, &b"."[..]), (2, ROOT_NODE, &b".."[..])];
    let files = store
        .iter()
        .map(|(node, volume)| (node, node, volume.name().as_bytes()));
    let mut body = vec![];
    for (position, node, name) in dots.into_iter().chain(files) {
        if position > offset && !wire::push_entry(&mut body, limit, (node, name), position) {
            break;
        }
    }
    body
}

fn read(
    store: &mut Store,
    now_ns: u64,
    envelope: &Envelope<'_>,
    (offset, size): (u64, u32),
) -> Result<Outcome, i32> {
    let (size_bytes, _) = file(store, envelope.node)?;
    let length = size_bytes.saturating_sub(offset).min(u64::from(size)) as u32;
    let length = length.min(wire::MAX_TRANSFER_BYTES as u32);
    let volume = store.get_mut(envelope.node).ok_or(libc::ENOENT)?;
    let kind = match volume.refusal(Operation::Read, (offset, u64::from(length))) {
        Some(error) => Kind::Failed(error),
        None => Kind::Read { offset, length },
    };
    if let (Kind::Read { .. }, Data::File(file)) = (kind, &mut volume.data) {
        file.read(envelope.unique, (offset, u64::from(length)));
    }
    later(store, now_ns, envelope, kind)
}

fn write(
    store: &mut Store,
    now_ns: u64,
    envelope: &Envelope<'_>,
    (offset, data): (u64, &[u8]),
) -> Result<Outcome, i32> {
    let (size_bytes, _) = file(store, envelope.node)?;
    let end = offset.checked_add(data.len() as u64).ok_or(libc::EFBIG)?;
    if end > size_bytes {
        return Err(libc::EFBIG);
    }
    let length = data.len() as u32;
    let (volume, _, guard) = store.parts_mut(envelope.node).ok_or(libc::ENOENT)?;
    let range = (offset, u64::from(length));
    if let Some(error) = volume.refusal(Operation::Write, range) {
        return later(store, now_ns, envelope, Kind::Failed(error));
    }
    volume.write(guard, envelope.unique, (offset, data))?;
    later(store, now_ns, envelope, Kind::Write { offset, length })
}

fn later(
    store: &mut Store,
    now_ns: u64,
    envelope: &Envelope<'_>,
    kind: Kind,
) -> Result<Outcome, i32> {
    file(store, envelope.node)?;
    let compensation = store.compensation;
    let (volume, host, _) = store.parts_mut(envelope.node).ok_or(libc::ENOENT)?;
    let deadline_ns = volume.submit(host, now_ns, compensation, kind);
    Ok(Outcome::Later(Pending {
        deadline_ns,
        received_ns: now_ns,
        unique: envelope.unique,
        node: envelope.node,
        kind,
    }))
}

fn flush(store: &mut Store, now_ns: u64, envelope: &Envelope<'_>) -> Result<Outcome, i32> {
    file(store, envelope.node)?;
    let volume = store.get_mut(envelope.node).ok_or(libc::ENOENT)?;
    let kind = match volume.refusal(Operation::Flush, (0, 0)) {
        Some(error) => Kind::Failed(error),
        None => Kind::Flush,
    };
    if let (Kind::Flush, Some(undo)) = (kind, &mut volume.undo) {
        undo.flush_received(envelope.unique);
    }
    later(store, now_ns, envelope, kind)
}

fn allocate(
    store: &mut Store,
    now_ns: u64,
    envelope: &Envelope<'_>,
    (mode, offset, length): (u32, u64, u64),
) -> Result<Outcome, i32> {
    let (size_bytes, _) = file(store, envelope.node)?;
    let end = offset.checked_add(length).ok_or(libc::EFBIG)?;
    if mode & !PUNCH_MODES != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    let keeps_size = mode & libc::FALLOC_FL_KEEP_SIZE as u32 != 0;
    if end > size_bytes && !keeps_size {
        return Err(libc::EFBIG);
    }
    if mode & PUNCHING == 0 {
        return Ok(Outcome::Body(vec![]));
    }
    let (volume, _, guard) = store.parts_mut(envelope.node).ok_or(libc::ENOENT)?;
    let kind = match volume.refusal(Operation::Write, (offset, length)) {
        Some(error) => Kind::Failed(error),
        None => Kind::Discard,
    };
    if kind == Kind::Discard {
        volume.discard(guard, envelope.unique, (offset, length))?;
    }
    later(store, now_ns, envelope, kind)
}

/// The sizes of a node that must be a file.
fn file(store: &Store, node: u64) -> Result<(u64, u64), i32> {
    if node == ROOT_NODE {
        Err(libc::EISDIR)
    } else {
        sizes(store, node)
    }
}

#[cfg(test)]
mod tests {
    use pgstow_device::DeviceConfig;
    use proptest::prelude::*;

    use super::*;
    use crate::guard::MemoryGuard;
    use crate::store::tests::device;

    const SIZE: u64 = 1 << 20;

    fn store() -> Store {
        let mut store = Store::new(MemoryGuard::new(0), 1);
        store
            .add(
                &DeviceConfig {
                    size_bytes: SIZE,
                    ..device("data")
                },
                0,
            )
            .unwrap();
        store
    }

    fn ask(store: &mut Store, node: u64, request: Request<'_>) -> Outcome {
        handle(
            store,
            0,
            &Envelope {
                unique: 1,
                node,
                request,
            },
        )
    }

    #[test]
    fn reads_and_writes_end_at_the_end_of_the_volume() {
        let mut store = store();
        let node = store.find(b"data").unwrap();
        for (offset, size, expected) in [
            (0, 8192, 8192),
            (SIZE - 100, 8192, 100),
            (SIZE, 1, 0),
            (u64::MAX, 1, 0),
        ] {
            let Outcome::Later(pending) = ask(&mut store, node, Request::Read { offset, size })
            else {
                panic!("a read is answered in its time")
            };
            assert_eq!(
                pending.kind,
                Kind::Read {
                    offset,
                    length: expected
                }
            );
        }
        for offset in [SIZE - 1, SIZE, u64::MAX] {
            let request = Request::Write {
                offset,
                data: &[1, 2],
            };
            assert_eq!(ask(&mut store, node, request), Outcome::Failed(libc::EFBIG));
        }
    }

    #[test]
    fn nothing_is_made_or_resized_or_renamed_through_the_mount() {
        let mut store = store();
        let node = store.find(b"data").unwrap();
        assert_eq!(
            ask(&mut store, ROOT_NODE, Request::Forbidden),
            Outcome::Failed(libc::EPERM)
        );
        let resize = Request::SetAttributes {
            size: Some(0),
            changes_owner_or_mode: false,
        };
        assert_eq!(ask(&mut store, node, resize), Outcome::Failed(libc::EPERM));
        let same = Request::SetAttributes {
            size: Some(SIZE),
            changes_owner_or_mode: false,
        };
        assert!(matches!(ask(&mut store, node, same), Outcome::Body(_)));
    }

    #[test]
    fn a_punched_hole_gives_its_memory_back() {
        let mut store = store();
        let node = store.find(b"data").unwrap();
        ask(
            &mut store,
            node,
            Request::Write {
                offset: 0,
                data: &[1; 8192],
            },
        );
        assert_eq!(store.get(node).unwrap().data.resident_bytes(), 8192);
        let mode = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u32;
        let punch = Request::Allocate {
            mode,
            offset: 0,
            length: 4096,
        };
        assert!(matches!(ask(&mut store, node, punch), Outcome::Later(_)));
        assert_eq!(store.get(node).unwrap().data.resident_bytes(), 4096);
    }

    #[test]
    fn a_volume_too_big_for_the_machine_is_full() {
        let mut store = Store::new(MemoryGuard::new(u64::MAX), 1);
        store.add(&device("data"), 0).unwrap();
        let node = store.find(b"data").unwrap();
        let write = Request::Write {
            offset: 0,
            data: &[1],
        };
        assert_eq!(ask(&mut store, node, write), Outcome::Failed(libc::ENOSPC));
    }

    #[test]
    fn a_directory_can_be_read_an_entry_at_a_time() {
        let mut store = store();
        store.add(&device("wal"), 0).unwrap();
        let (mut names, mut offset) = (vec![], 0);
        loop {
            let body = directory(&store, offset, 32);
            if body.is_empty() {
                break;
            }
            offset = u64::from_ne_bytes(body[8..16].try_into().unwrap());
            let length = u32::from_ne_bytes(body[16..20].try_into().unwrap()) as usize;
            names.push(String::from_utf8(body[24..24 + length].to_vec()).unwrap());
        }
        assert_eq!(names, [".", "..", "data", "wal"]);
    }

    proptest! {
        #[test]
        fn no_request_breaks_it(
            opcode in 0u32..60, node in 0u64..20, declared in 0u32..300,
            body in prop::collection::vec(prop_oneof![Just(0u8), Just(255u8), any::<u8>()], 0..200)
        ) {
            let mut bytes = vec![];
            bytes.extend_from_slice(&declared.to_ne_bytes());
            bytes.extend_from_slice(&opcode.to_ne_bytes());
            bytes.extend_from_slice(&9u64.to_ne_bytes());
            bytes.extend_from_slice(&node.to_ne_bytes());
            bytes.resize(40, 0);
            bytes.extend_from_slice(&body);
            let mut store = store();
            if let Some(envelope) = wire::parse(&bytes) {
                let outcome = handle(&mut store, 0, &envelope);
                if let Outcome::Body(body) = outcome {
                    prop_assert!(body.len() <= wire::MAX_TRANSFER_BYTES);
                }
            }
        }

        #[test]
        fn no_bytes_break_the_parser(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            wire::parse(&bytes);
        }
    }
}
