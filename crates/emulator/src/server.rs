//! The loop: requests in, deadlines out, commands between them.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::AsRawFd;

use crate::Error;
use crate::backing::{Data, Freed};
use crate::backing_file::Window;
use crate::commands;
use crate::config::ServerConfig;
use crate::control::Control;
use crate::file_data::Completion;
use crate::filesystem::{self, Outcome};
use crate::guard::MemoryGuard;
use crate::jobs::Finished;
use crate::mount::Mount;
use crate::pending::{Deadlines, Kind, Pending};
use crate::store::Store;
use crate::system::{self, Clock, MemoryLock, Priority, Signals};
use crate::wire;

/// Requests taken in before the others are looked at again.
const BATCH: usize = 64;
/// With so many requests in flight, those due within the next moment are answered at once. A sleep
/// costs more than ten answers do, and a moment is less than a busy machine's own jitter: at 16
/// volumes of 3,000 IOPS it gives 1.4 times the requests per second of CPU. Limits are not touched.
const CROWD: usize = 32;
const MOMENT_NS: u64 = 20_000;
/// How long the server's end waits for disks.
const DISK_PATIENCE_NS: u64 = 10_000_000_000;
static ZEROS: [u8; wire::MAX_TRANSFER_BYTES] = [0; wire::MAX_TRANSFER_BYTES];

/// Serves volumes until it is asked to end, by command or signal, or is unmounted.
pub fn serve(config_json: &str) -> Result<(), Error> {
    let config = ServerConfig::parse(config_json)?;
    let clock = Clock::start();
    let _memory = MemoryLock::take();
    let mut store = Store::new(MemoryGuard::new(config.memory_reserve_bytes), config.seed);
    store
        .set_host(config.host, clock.now_ns())
        .map_err(Error::Config)?;
    store
        .set_compensation(config.compensation)
        .map_err(Error::Config)?;
    for device in &config.volumes {
        store.add(device, clock.now_ns()).map_err(Error::Config)?;
    }
    let signals = Signals::catch().map_err(Error::system("cannot handle signals"))?;
    let control = Control::new(&config.control)?;
    let mount = Mount::new(&config.mountpoint)?;
    let _priority = Priority::raise();
    let buffer = vec![0; wire::REQUEST_BUFFER_BYTES];
    Server {
        clock,
        store,
        mount,
        deadlines: Deadlines::default(),
        buffer,
        parked: vec![],
    }
    .run(control, &signals)
}

struct Server {
    clock: Clock,
    store: Store,
    mount: Mount,
    deadlines: Deadlines,
    buffer: Vec<u8>,
    /// Requests whose time has come, on volumes that stall.
    parked: Vec<Pending>,
}

/// Whether the file system is still mounted.
#[derive(Debug, PartialEq, Eq)]
enum Connection {
    Open,
    Closed,
}

impl Server {
    fn run(&mut self, mut control: Control, signals: &Signals) -> Result<(), Error> {
        let ended = self.serve_until_ended(&mut control, signals);
        self.store.clear_faults(None).expect("all can always go");
        self.apply_faults();
        // Nobody is left waiting: the data is where it should be, only the time has not come.
        while let Some(pending) = self.deadlines.pop_due(u64::MAX) {
            self.complete(pending, self.clock.now_ns());
        }
        self.finish_files(&mut control);
        ended
    }

    /// Waits for the disks, for a time, and gives up the files that are not to be kept.
    fn finish_files(&mut self, control: &mut Control) {
        let patience_ns = self.clock.now_ns() + DISK_PATIENCE_NS;
        while let Some(workers) = &self.store.files.workers {
            let now_ns = self.clock.now_ns();
            if workers.outstanding() == 0 || now_ns >= patience_ns {
                break;
            }
            let bell = interest(workers.descriptor(), libc::POLLIN);
            let _ = system::poll(&mut [bell], Some(patience_ns - now_ns));
            self.take_finished(control);
        }
        for pending in self.store.take_due(|_| true) {
            reply(&self.mount, pending.unique, libc::EIO, &[]);
        }
        self.store.retire_files();
    }

    fn serve_until_ended(&mut self, control: &mut Control, signals: &Signals) -> Result<(), Error> {
        let mut polled = vec![];
        loop {
            polled.clear();
            polled.push(interest(self.mount.channel.as_raw_fd(), libc::POLLIN));
            polled.push(interest(signals.descriptor(), libc::POLLIN));
            polled.push(interest(self.store.files.bell(), libc::POLLIN));
            polled.extend(
                control
                    .polled()
                    .map(|(descriptor, events)| interest(descriptor, events)),
            );
            let now_ns = self.clock.now_ns();
            let next_ns = [self.deadlines.next_ns(), self.store.faults.next_ns()];
            let next_ns = next_ns.into_iter().flatten().min();
            let wait_ns = next_ns.map(|next_ns| next_ns.saturating_sub(now_ns));
            system::poll(&mut polled, wait_ns).map_err(Error::system("cannot poll"))?;

            let woken_ns = self.clock.now_ns();
            self.store.idle_ns += woken_ns.saturating_sub(now_ns);
            self.store.advance_faults(woken_ns);
            self.apply_faults();
            self.complete_due();
            if polled[2].revents != 0 {
                self.take_finished(control);
            }
            if polled[1].revents != 0 {
                return Ok(());
            }
            if polled[0].revents != 0 && self.take_in()? == Connection::Closed {
                return Ok(());
            }
            if polled[3..].iter().any(|descriptor| descriptor.revents != 0) {
                let (store, clock) = (&mut self.store, self.clock);
                let ends = control.serve(|line| commands::execute(store, clock.now_ns(), line));
                self.apply_faults();
                if ends {
                    return Ok(());
                }
            }
        }
    }

    /// Takes in the requests that wait, and between them replies to those that are due.
    fn take_in(&mut self) -> Result<Connection, Error> {
        for _ in 0..BATCH {
            let count = match self.mount.channel.read(&mut self.buffer) {
                Ok(count) => count,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => break,
                    // The request was taken back, or a signal came: look again.
                    Some(libc::ENOENT | libc::EINTR) => continue,
                    Some(libc::ENODEV | libc::ECONNABORTED) => return Ok(Connection::Closed),
                    _ => return Err(Error::system("cannot read /dev/fuse")(error)),
                },
            };
            let now_ns = self.clock.now_ns();
            let Some(envelope) = wire::parse(&self.buffer[..count]) else {
                continue;
            };
            let unique = envelope.unique;
            match filesystem::handle(&mut self.store, now_ns, &envelope) {
                Outcome::Body(body) => reply(&self.mount, unique, 0, &body),
                Outcome::Failed(error) => reply(&self.mount, unique, error, &[]),
                Outcome::Later(pending) if pending.deadline_ns <= now_ns => {
                    self.complete(pending, now_ns);
                }
                Outcome::Later(pending) => self.deadlines.push(pending),
                Outcome::Silent => {}
            }
            self.complete_due();
        }
        Ok(Connection::Open)
    }

    /// Takes in what workers have done, and replies where only that was waited for.
    fn take_finished(&mut self, control: &mut Control) {
        let now_ns = self.clock.now_ns();
        while let Some(finished) = self.store.files.take() {
            match finished {
                Finished::Opened { ticket, result } => {
                    let added = self.store.opened(ticket, result, now_ns);
                    control.answer(ticket, &commands::outcome(added));
                }
                Finished::Done { node, id, output } => {
                    match self.store.finished(node, id, output) {
                        Freed::Nothing => {}
                        Freed::Request(pending) => self.complete(pending, now_ns),
                        Freed::Command(ticket) => {
                            control.answer(ticket, &commands::outcome(Ok(())));
                        }
                    }
                }
            }
        }
    }

    /// Does what faults that started or ended mean for the requests in flight.
    fn apply_faults(&mut self) {
        let Some(changed) = self.store.faults.take_changed() else {
            return;
        };
        let parked = std::mem::take(&mut self.parked);
        let now_ns = self.clock.now_ns();
        let waiting = self.store.take_due(|node| changed.cut_off.contains(&node));
        let held = parked.into_iter().chain(waiting);
        let in_flight: Vec<Pending> = self.deadlines.drain().chain(held).collect();
        for mut pending in in_flight {
            if changed.cut_off.contains(&pending.node) {
                pending.kind = Kind::Failed(libc::EIO);
                pending.deadline_ns = now_ns;
            }
            self.deadlines.push(pending);
        }
        self.complete_due();
    }

    fn complete_due(&mut self) {
        while self.deadlines.next_ns().is_some() {
            let now_ns = self.clock.now_ns();
            let is_crowded = self.deadlines.len() >= CROWD;
            let due_ns = now_ns + if is_crowded { MOMENT_NS } else { 0 };
            let Some(pending) = self.deadlines.pop_due(due_ns) else {
                break;
            };
            self.complete(pending, now_ns);
        }
    }

    fn complete(&mut self, pending: Pending, now_ns: u64) {
        let Pending {
            unique, mut kind, ..
        } = pending;
        let Some(volume) = self.store.get_mut(pending.node) else {
            return reply(&self.mount, unique, libc::EIO, &[]);
        };
        if volume.faults.as_ref().is_some_and(|faults| faults.stalled) {
            return self.parked.push(pending);
        }
        let mut window = None;
        if let Data::File(file) = &mut volume.data {
            match file.poll(&pending) {
                Completion::NotYet => return,
                Completion::Data(data) => window = data,
                Completion::Failed(error) => kind = Kind::Failed(error),
            }
        }
        if let Some(undo) = &mut volume.undo {
            match kind {
                Kind::Failed(_) => undo.failed(unique),
                _ => undo.answered(unique),
            }
        }
        match kind {
            Kind::Read { offset, length } => {
                let data = match &volume.data {
                    Data::Memory(memory) => memory.read(offset, length as usize),
                    Data::File(_) => window.as_ref().map(Window::data),
                };
                let zeros = &ZEROS[..length as usize];
                reply(&self.mount, unique, 0, data.unwrap_or(zeros));
            }
            Kind::Write { length, .. } => reply(&self.mount, unique, 0, &wire::written(length)),
            Kind::Flush | Kind::Discard => reply(&self.mount, unique, 0, &[]),
            Kind::Failed(error) => reply(&self.mount, unique, error, &[]),
        }
        let times_ns = (pending.received_ns, pending.deadline_ns, now_ns);
        volume.statistics.depart(kind, times_ns);
        if let Some(recording) = &mut self.store.recording {
            recording.note(&pending, now_ns);
        }
    }
}

/// Sends a reply. A request that was taken back meanwhile (ENOENT) has nobody waiting for it, and
/// a connection that is gone shows when it is read next; there is nothing to do about either.
fn reply(mount: &Mount, unique: u64, error: i32, body: &[u8]) {
    let header = wire::reply_header(unique, error, body.len());
    let parts = [IoSlice::new(&header), IoSlice::new(body)];
    loop {
        match (&mount.channel).write_vectored(&parts) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

fn interest(fd: std::os::fd::RawFd, events: i16) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}
