//! A volume in a file does as one in memory does, whatever is asked in whatever order.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use crate::backing::{Data, Freed};
use crate::fault_order::{Fault, Order};
use crate::file_data::Completion;
use crate::filesystem::{self, Outcome};
use crate::guard::MemoryGuard;
use crate::jobs::Finished;
use crate::pending::{Kind, Pending};
use crate::store::Store;
use crate::store::tests::device;
use crate::system;
use crate::undo::Loss;
use crate::wire::{Envelope, Request};

const SIZE: u64 = 40 * 4096 + 512;

/// A path of this test's own, removed at the end.
struct TestFile(PathBuf);

impl TestFile {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // A filesystem with blocks and direct I/O, which a temporary directory may not have.
        let target = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
        let name = format!("volume-{}-{number}", std::process::id());
        Self(target.canonicalize().unwrap().join(name))
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A store and the part of the server that takes in what workers have done.
struct Run {
    store: Store,
    unique: u64,
    opened: Option<Result<(), String>>,
}

impl Run {
    fn new() -> Self {
        Self {
            store: Store::new(MemoryGuard::new(0), 1),
            unique: 0,
            opened: None,
        }
    }

    fn add_file(&mut self, name: &str, place: &TestFile, keep: bool) -> Result<(), String> {
        let mut device = device(name);
        device.size_bytes = SIZE;
        self.store.open(&device, (place.0.clone(), keep))?;
        while self.opened.is_none() {
            self.pump();
        }
        self.opened.take().unwrap()
    }

    fn add_memory(&mut self, name: &str) {
        let mut device = device(name);
        device.size_bytes = SIZE;
        self.store.add(&device, 0).unwrap();
    }

    fn remove(&mut self, name: &str) {
        if self.store.remove(name).unwrap().is_some() {
            self.drain();
        }
    }

    /// Waits for something that workers do, and takes it in.
    fn pump(&mut self) {
        let bell = libc::pollfd {
            fd: self.store.files.bell(),
            events: libc::POLLIN,
            revents: 0,
        };
        system::poll(&mut [bell], None).unwrap();
        while let Some(finished) = self.store.files.take() {
            match finished {
                Finished::Opened { ticket, result } => {
                    self.opened = Some(self.store.opened(ticket, result, 0));
                }
                Finished::Done { node, id, output } => {
                    let freed = self.store.finished(node, id, output);
                    assert!(!matches!(freed, Freed::Request(_)), "asked for again below");
                }
            }
        }
    }

    fn drain(&mut self) {
        while self.store.files.workers.as_ref().unwrap().outstanding() > 0 {
            self.pump();
        }
    }

    fn ask(&mut self, name: &str, request: Request<'_>) -> Result<Pending, i32> {
        self.unique += 1;
        let envelope = Envelope {
            unique: self.unique,
            node: self.store.find(name.as_bytes()).unwrap(),
            request,
        };
        match filesystem::handle(&mut self.store, 0, &envelope) {
            Outcome::Later(pending) => Ok(pending),
            Outcome::Failed(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    /// Answers a request as the server does: what it read, or why it failed.
    fn answer(&mut self, pending: Pending) -> Result<Vec<u8>, i32> {
        if self.store.files.workers.is_some() {
            self.drain();
        }
        let volume = self.store.get_mut(pending.node).unwrap();
        let mut data = None;
        match &mut volume.data {
            Data::File(file) => match file.poll(&pending) {
                Completion::NotYet => panic!("workers have done everything"),
                Completion::Data(window) => data = window.map(|window| window.data().to_vec()),
                Completion::Failed(error) => return Err(error),
            },
            Data::Memory(memory) => {
                if let Kind::Read { offset, length } = pending.kind {
                    data = memory.read(offset, length as usize).map(<[u8]>::to_vec);
                }
            }
        }
        if let Kind::Failed(error) = pending.kind {
            return Err(error);
        }
        if let Some(undo) = &mut volume.undo {
            undo.answered(pending.unique);
        }
        Ok(data.unwrap_or_else(|| match pending.kind {
            Kind::Read { length, .. } => vec![0; length as usize],
            _ => vec![],
        }))
    }

    fn write(&mut self, name: &str, offset: u64, data: &[u8]) {
        let pending = self.ask(name, Request::Write { offset, data }).unwrap();
        self.answer(pending).unwrap();
    }

    /// Page by page: of a page that holds nothing, no disk is asked.
    fn content(&mut self, name: &str) -> Vec<u8> {
        let mut content = vec![];
        for offset in (0..SIZE).step_by(4096) {
            let pending = self.ask(name, Request::Read { offset, size: 4096 });
            content.extend(self.answer(pending.unwrap()).unwrap());
        }
        content
    }

    fn cut(&mut self, name: &str, loss: Loss, seed: u64) {
        let order = Order {
            fault: Fault::PowerLoss {
                loss,
                sector_bytes: 512,
                seed,
            },
            volumes: Some(vec![name.into()]),
            after_s: 0.0,
            for_s: None,
        };
        self.store.inject(order, 0).unwrap();
    }
}

#[derive(Debug, Clone)]
enum Step {
    Write(u64, u64),
    Discard(u64, u64),
    Read(u64, u64),
    Flush,
    /// The oldest in flight, or one of the next, is answered.
    Answer(usize),
}

fn step() -> impl Strategy<Value = Step> {
    // Any bytes, any sectors, whole pages: direct I/O takes only some of them as they are.
    let unit = prop_oneof![Just(1u64), Just(512), Just(4096)];
    let range = (0..SIZE, 1..20_000u64, unit).prop_map(|(offset, length, unit)| {
        let offset = offset / unit * unit;
        (offset, (length / unit).max(1) * unit)
    });
    prop_oneof![
        4 => range.clone().prop_map(|(offset, length)| Step::Write(offset, length)),
        1 => range.clone().prop_map(|(offset, length)| Step::Discard(offset, length)),
        2 => range.prop_map(|(offset, length)| Step::Read(offset, length)),
        1 => Just(Step::Flush),
        4 => (0..3usize).prop_map(Step::Answer),
    ]
}

fn loss() -> impl Strategy<Value = Option<Loss>> {
    prop_oneof![
        Just(None),
        Just(Some(Loss::All)),
        Just(Some(Loss::Subset)),
        Just(Some(Loss::Reorder)),
        Just(Some(Loss::Torn)),
    ]
}

fn ask(run: &mut Run, name: &str, step: &Step, fill: u8) -> Option<Pending> {
    let request = match *step {
        Step::Write(offset, length) => {
            let length = length.min(SIZE.saturating_sub(offset)).max(1);
            let data = vec![fill; length as usize];
            let request = Request::Write {
                offset: offset.min(SIZE - length),
                data: &data,
            };
            return Some(run.ask(name, request).unwrap());
        }
        Step::Discard(offset, length) => Request::Allocate {
            mode: (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u32,
            offset,
            length,
        },
        Step::Read(offset, length) => Request::Read {
            offset,
            size: length as u32,
        },
        Step::Flush => Request::Sync,
        Step::Answer(_) => return None,
    };
    Some(run.ask(name, request).unwrap())
}

fn first_difference(one: &[u8], other: &[u8]) -> Option<usize> {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).position(|(one, other)| one != other)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_file_does_as_memory_does(
        steps in prop::collection::vec(step(), 1..40), loss in loss(), seed: u64
    ) {
        let place = TestFile::new();
        let mut run = Run::new();
        run.add_memory("memory");
        run.add_file("file", &place, false).unwrap();
        run.store.set_volatile(loss.is_some(), None).unwrap();
        let mut in_flight: Vec<(Pending, Pending)> = vec![];
        for (number, step) in steps.iter().enumerate() {
            let fill = number as u8 + 1;
            if let Step::Read(..) = step {
                // A read while others write may find either; then the two need not agree.
                for (memory, file) in in_flight.drain(..) {
                    run.answer(memory).unwrap();
                    run.answer(file).unwrap();
                }
            }
            let memory = ask(&mut run, "memory", step, fill);
            let file = ask(&mut run, "file", step, fill);
            in_flight.extend(memory.zip(file));
            let answered = match step {
                Step::Answer(at) if !in_flight.is_empty() => at % in_flight.len(),
                Step::Read(..) => 0,
                _ => continue,
            };
            let (memory, file) = in_flight.remove(answered);
            let (memory, file) = (run.answer(memory).unwrap(), run.answer(file).unwrap());
            prop_assert_eq!(first_difference(&memory, &file), None);
        }
        if let Some(loss) = loss {
            // The seeds are the volumes' own: the same log and the same draw make the same loss.
            for name in ["memory", "file"] {
                let node = run.store.find(name.as_bytes()).unwrap();
                run.store.get_mut(node).unwrap().lose(loss, 512, seed);
            }
        }
        run.drain();
        let (memory, file) = (run.content("memory"), run.content("file"));
        prop_assert_eq!(first_difference(&memory, &file), None);
    }
}

#[test]
fn a_file_is_thin_and_goes_with_its_volume_unless_it_is_kept() {
    let place = TestFile::new();
    let mut run = Run::new();
    run.add_file("data", &place, true).unwrap();
    run.write("data", 8192, &[7; 5000]);
    let metadata = fs::metadata(&place.0).unwrap();
    assert_eq!(metadata.len(), SIZE);
    assert!(metadata.blocks() * 512 < SIZE / 2, "{}", metadata.blocks());
    let refused = run.add_file("again", &place, true).unwrap_err();
    assert!(refused.contains("another volume uses it"), "{refused}");
    run.remove("data");
    let refused = run.add_file("data", &place, false).unwrap_err();
    assert!(refused.contains("add it with keep"), "{refused}");
    run.add_file("data", &place, true).unwrap();
    let content = run.content("data");
    assert_eq!(content[8191..8194], [0, 7, 7]);
    assert_eq!(content[8192 + 4999..][..2], [7, 0]);
    run.remove("data");
    fs::remove_file(&place.0).unwrap();
    run.add_file("data", &place, false).unwrap();
    run.remove("data");
    assert!(!place.0.exists());
}

#[test]
fn what_cannot_be_a_volume_is_refused_in_one_line_and_left_alone() {
    let place = TestFile::new();
    let mut run = Run::new();
    fs::write(&place.0, vec![1; SIZE as usize + 4096]).unwrap();
    let refused = run.add_file("data", &place, true).unwrap_err();
    assert!(refused.contains("more than the volume's"), "{refused}");
    assert_eq!(fs::metadata(&place.0).unwrap().len(), SIZE + 4096);
    let nowhere = TestFile(place.0.join("below"));
    let refused = run.add_file("data", &nowhere, false).unwrap_err();
    assert!(refused.contains("cannot open"), "{refused}");
    let relative = TestFile("relative".into());
    let refused = run.add_file("data", &relative, false).unwrap_err();
    assert!(refused.contains("absolute"), "{refused}");
    let device = TestFile("/dev/null".into());
    let refused = run.add_file("data", &device, true).unwrap_err();
    assert!(!refused.contains('\n'), "{refused}");
    std::mem::forget(device);
}

#[test]
fn after_the_power_is_back_everything_waits_for_what_is_taken_back() {
    let place = TestFile::new();
    let mut run = Run::new();
    run.add_file("data", &place, false).unwrap();
    run.write("data", 0, &[1; 8192]);
    run.store.set_volatile(true, None).unwrap();
    run.write("data", 4096, &[2; 8192]);
    let in_flight = run.ask(
        "data",
        Request::Write {
            offset: 0,
            data: &[3; 4096],
        },
    );
    run.cut("data", Loss::All, 1);
    let refused = run
        .ask(
            "data",
            Request::Read {
                offset: 0,
                size: 10,
            },
        )
        .unwrap();
    assert_eq!(refused.kind, Kind::Failed(libc::EIO));
    run.store.clear_faults(None).unwrap();
    let read = run.ask(
        "data",
        Request::Read {
            offset: 0,
            size: 12288,
        },
    );
    let read = run.answer(read.unwrap()).unwrap();
    assert!(read[..8192].iter().all(|&byte| byte == 1));
    assert!(read[8192..].iter().all(|&byte| byte == 0));
    let node = in_flight.unwrap().node;
    assert_eq!(run.store.take_due(|_| true).len(), 0, "{node}");
}
