//! The simulation: clients, processors, devices and the log, joined by one heap of events.

use crate::agenda::{Event, EventList};
use crate::background::Pace;
use crate::config::{Background, Class, Config};
use crate::devices::Devices;
use crate::output::{Counts, Latency, Output};
use crate::sources::{Choice, Sources};
use crate::stats::Window;
use crate::wal::{Commit, Wal};
use pgstow_device::{Operation, OperationKind};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::VecDeque;

const EVENTS_PER_CHECK: u64 = 1 << 20;
const EVENTS_AT_ONE_TIME_MAX: u64 = 50_000_000;

#[derive(Debug, Clone, Default)]
struct Client {
    class: usize,
    started_ns: u64,
    accesses: Vec<u32>, // still to be made, the next one last
    slice_mean_ns: f64,
    commits: bool,
}

struct ClassState {
    sources: Sources,
    cpu_ns: f64,
    commit_share: f64,
}

/// The write-ahead log with its running flush.
struct LogState {
    wal: Wal,
    device: usize,
    overhead_ns: u64,
    handover_ns: u64,
    commit_delay_ns: u64,
    commit_siblings: u32,
    flush_began_ns: u64,
    write_ended_ns: u64,
}

/// A first-come, first-served station of several processors; one service is one slice of CPU.
struct Processors {
    idle: u32,
    queue: VecDeque<(u32, u64)>,
    busy_ns: f64,
}

/// The whole state; `run` takes it from the first event to the window's end.
pub struct Engine<'a> {
    config: &'a Config,
    now_ns: u64,
    agenda: EventList,
    random: Xoshiro256PlusPlus,
    devices: Devices,
    processors: Processors,
    clients: Vec<Client>,
    class_choice: Choice,
    classes: Vec<ClassState>,
    log: Option<LogState>,
    background: Sources,
    open: Sources,
    paces: Vec<Pace>,
    counts: Counts,
    committed: Vec<Commit>,
    under_way: u32, // transactions
}

impl<'a> Engine<'a> {
    /// The start: every client thinks, every queue is empty.
    pub fn new(config: &'a Config) -> Result<Engine<'a>, String> {
        let start_ns = nanoseconds(config.warmup_s * 1e6);
        let window = Window {
            start_ns,
            end_ns: start_ns + nanoseconds(config.duration_s * 1e6),
        };
        let sizes: Vec<u64> = config
            .devices
            .iter()
            .map(|device| device.size_bytes)
            .collect();
        let classes = classes_of(config);
        let pace = |write: &Background| {
            let period_ns = nanoseconds(write.period_s * 1e6);
            Pace::new(period_ns, config.background_depth, write.batch)
        };
        Ok(Engine {
            config,
            now_ns: 0,
            agenda: EventList::default(),
            random: Xoshiro256PlusPlus::seed_from_u64(config.seed),
            devices: Devices::new(config, window)?,
            processors: Processors {
                idle: config.cores,
                queue: VecDeque::new(),
                busy_ns: 0.0,
            },
            clients: vec![Client::default(); config.clients as usize],
            class_choice: Choice::new(classes.iter().map(|(class, _)| class.weight)),
            classes: classes
                .iter()
                .map(|(class, commit_share)| ClassState {
                    sources: Sources::synchronous(&class.reads, &config.synchronous_writes, &sizes),
                    cpu_ns: class.cpu_us.unwrap_or(config.cpu_us) * 1e3,
                    commit_share: *commit_share,
                })
                .collect(),
            log: config.wal.as_ref().map(|wal| LogState {
                wal: Wal::new(sizes[wal.device], wal.bytes_per_transaction),
                device: wal.device,
                overhead_ns: nanoseconds(wal.overhead_us),
                handover_ns: nanoseconds(wal.handover_us),
                commit_delay_ns: nanoseconds(wal.commit_delay_us),
                commit_siblings: wal.commit_siblings,
                flush_began_ns: 0,
                write_ended_ns: 0,
            }),
            background: Sources::background(&config.background_writes, &sizes),
            open: Sources::open(&config.open, &sizes),
            paces: config.background_writes.iter().map(pace).collect(),
            counts: Counts::new(config, window),
            committed: Vec::new(),
            under_way: 0,
        })
    }

    /// Run to the window's end. `go_on` is asked now and then; its error ends the run.
    pub fn run(mut self, go_on: &mut dyn FnMut() -> Result<(), String>) -> Result<Output, String> {
        for client in 0..self.config.clients {
            self.think(client);
        }
        for index in (0..).take(self.config.open.len()) {
            self.wait_for_open(index);
        }
        for (index, write) in (0..).zip(&self.config.background_writes) {
            if write.period_s > 0.0 {
                self.agenda.schedule(
                    nanoseconds(write.period_s * 1e6),
                    Event::PeriodBegins(index),
                );
            }
        }
        let (mut events, mut last_advance) = (0_u64, 0_u64);
        while let Some((at_ns, event)) = self.agenda.next_before(self.counts.window.end_ns) {
            events += 1;
            if at_ns > self.now_ns {
                last_advance = events;
            } else if events - last_advance > EVENTS_AT_ONE_TIME_MAX {
                return Err("simulation: no time passes; give think_us or cpu_us a value".into());
            }
            if at_ns >= self.counts.window.start_ns && self.counts.backlog_at_start.is_none() {
                self.counts.backlog_at_start = Some(self.backlog());
            }
            self.now_ns = at_ns;
            self.handle(event);
            if events % EVENTS_PER_CHECK == 0 {
                go_on()?;
            }
        }
        Ok(self.output(events))
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::ThinkDone(client) => self.begin_transaction(client),
            Event::Computed(client) => {
                self.release_processor();
                self.after_slice(client);
            }
            Event::Accessed(client) => self.compute(client),
            Event::WalLed => self.write_wal(),
            Event::WalWritten => self.sync_wal(),
            Event::WalSynced => self.finish_flush(),
            Event::PeriodBegins(index) => {
                let pace = &mut self.paces[index as usize];
                let (period_ns, first_ns) = (pace.period_ns, pace.begin_period());
                self.agenda
                    .schedule(self.now_ns + period_ns, Event::PeriodBegins(index));
                if let Some(wait_ns) = first_ns {
                    self.agenda
                        .schedule(self.now_ns + wait_ns, Event::SpreadDue(index));
                }
            }
            Event::SpreadDue(index) => {
                if let Some(wait_ns) = self.paces[index as usize].fall_due() {
                    self.agenda
                        .schedule(self.now_ns + wait_ns, Event::SpreadDue(index));
                }
                self.write_background(index);
            }
            Event::OpenDue(index) => {
                let (device, operation) = self.open.next(index as usize, &mut self.random);
                self.devices.submit(self.now_ns, device, operation);
                self.wait_for_open(index);
            }
            Event::BackgroundWritten(index) => {
                self.paces[index as usize].end();
                self.write_background(index);
            }
        }
    }

    fn exponential(&mut self, mean_ns: f64) -> u64 {
        let unit: f64 = Exp1.sample(&mut self.random);
        (unit * mean_ns) as u64
    }

    fn wait_for_open(&mut self, index: u32) {
        let rate_per_s = self.config.open[index as usize].per_second;
        if rate_per_s > 0.0 {
            let wait_ns = self.exponential(1e9 / rate_per_s);
            self.agenda
                .schedule(self.now_ns + wait_ns, Event::OpenDue(index));
        }
    }

    fn think(&mut self, client: u32) {
        let wait_ns = self.exponential(self.config.think_us * 1e3);
        self.agenda
            .schedule(self.now_ns + wait_ns, Event::ThinkDone(client));
    }

    fn begin_transaction(&mut self, client: u32) {
        self.under_way += 1;
        let class = self.class_choice.draw(&mut self.random);
        let state = &self.classes[class];
        let mut accesses = std::mem::take(&mut self.clients[client as usize].accesses);
        state.sources.draw_all(&mut self.random, &mut accesses);
        self.clients[client as usize] = Client {
            class,
            started_ns: self.now_ns,
            slice_mean_ns: state.cpu_ns / (accesses.len() + 1) as f64,
            accesses,
            commits: self.log.is_some() && self.random.random::<f64>() < state.commit_share,
        };
        self.compute(client);
    }

    /// A slice of CPU, behind those that wait for one.
    fn compute(&mut self, client: u32) {
        let mean_ns = self.clients[client as usize].slice_mean_ns;
        if mean_ns == 0.0 {
            return self.after_slice(client);
        }
        let service_ns = self.exponential(mean_ns);
        if self.processors.idle > 0 {
            self.processors.idle -= 1;
            self.serve(client, service_ns);
        } else {
            self.processors.queue.push_back((client, service_ns));
        }
    }

    fn serve(&mut self, client: u32, service_ns: u64) {
        let end_ns = self.now_ns + service_ns;
        self.processors.busy_ns += self.counts.window.overlap_ns(self.now_ns, end_ns) as f64;
        self.agenda.schedule(end_ns, Event::Computed(client));
    }

    fn release_processor(&mut self) {
        match self.processors.queue.pop_front() {
            Some((client, service_ns)) => self.serve(client, service_ns),
            None => self.processors.idle += 1,
        }
    }

    /// After computing: the next read or write, else the commit, else the end.
    fn after_slice(&mut self, client: u32) {
        let state = &mut self.clients[client as usize];
        if let Some(index) = state.accesses.pop() {
            let sources = &mut self.classes[state.class].sources;
            let (device, operation) = sources.next(index as usize, &mut self.random);
            let done_ns = self.devices.submit(self.now_ns, device, operation);
            if operation.kind == OperationKind::Read && self.counts.window.holds(done_ns) {
                self.counts.read.add(done_ns - self.now_ns);
            }
            self.agenda.schedule(done_ns, Event::Accessed(client));
        } else if state.commits {
            let commit = Commit {
                client,
                requested_ns: self.now_ns,
            };
            let log = self
                .log
                .as_mut()
                .expect("a transaction commits only with a log");
            if log.wal.request(commit) {
                self.lead_flush(0);
            }
        } else {
            self.finish_transaction(client);
        }
    }

    /// A leader begins, after the wait that `commit_delay` asks for.
    fn lead_flush(&mut self, handover_ns: u64) {
        let log = self.log.as_ref().expect("there is a log");
        let mut wait_ns = handover_ns;
        if log.commit_delay_ns > 0 && self.under_way > log.commit_siblings {
            wait_ns += log.commit_delay_ns;
        }
        if wait_ns == 0 {
            return self.write_wal();
        }
        self.agenda.schedule(self.now_ns + wait_ns, Event::WalLed);
    }

    fn write_wal(&mut self) {
        let log = self.log.as_mut().expect("there is a log");
        let flush = log.wal.lead();
        log.flush_began_ns = self.now_ns;
        log.write_ended_ns = self.now_ns;
        for operation in flush.operations() {
            let ended_ns = self.devices.submit(self.now_ns, log.device, operation);
            log.write_ended_ns = log.write_ended_ns.max(ended_ns);
        }
        let ended_ns = log.write_ended_ns;
        self.agenda.schedule(ended_ns, Event::WalWritten);
    }

    fn sync_wal(&mut self) {
        let log = self.log.as_mut().expect("there is a log");
        let operation = Operation {
            kind: OperationKind::Flush,
            offset: 0,
            length: 0,
        };
        let flushed_ns = self.devices.submit(self.now_ns, log.device, operation);
        let ended_ns = flushed_ns + log.overhead_ns;
        self.agenda.schedule(ended_ns, Event::WalSynced);
    }

    fn finish_flush(&mut self) {
        let mut done = std::mem::take(&mut self.committed);
        let log = self.log.as_mut().expect("there is a log");
        let is_waited_for = log.wal.finish(&mut done);
        let handover_ns = log.handover_ns;
        if self.counts.window.holds(self.now_ns) {
            self.counts.flushes += 1;
            self.counts.commits += done.len() as u64;
            self.counts.wal_write_ns += (log.write_ended_ns - log.flush_began_ns) as f64;
            self.counts.wal_sync_ns += (self.now_ns - log.flush_began_ns) as f64;
            for commit in &done {
                self.counts.commit.add(self.now_ns - commit.requested_ns);
            }
        }
        if is_waited_for {
            self.lead_flush(handover_ns);
        }
        for commit in &done {
            self.finish_transaction(commit.client);
        }
        self.committed = done;
    }

    fn finish_transaction(&mut self, client: u32) {
        self.under_way -= 1;
        if self.counts.window.holds(self.now_ns) {
            self.counts.transactions += 1;
            self.counts.slices.add(&self.counts.window, self.now_ns);
            self.counts
                .latency
                .add(self.now_ns - self.clients[client as usize].started_ns);
        }
        for _ in 0..self.background.draw_count(&mut self.random) {
            let index = self.background.draw(&mut self.random);
            self.paces[index].dirty();
            self.write_background(index as u32);
        }
        self.think(client);
    }

    fn write_background(&mut self, index: u32) {
        while self.paces[index as usize].begin() {
            let (device, operation) = self.background.next(index as usize, &mut self.random);
            let done_ns = self.devices.submit(self.now_ns, device, operation);
            self.agenda
                .schedule(done_ns, Event::BackgroundWritten(index));
        }
    }

    fn backlog(&self) -> u64 {
        self.paces.iter().map(Pace::backlog).sum()
    }

    fn output(self, events: u64) -> Output {
        let backlog = self.backlog();
        let (host_iops_utilisation, host_bytes_utilisation) = self.devices.host_utilisation();
        let mut counts = self.counts;
        let seconds = counts.window.seconds();
        Output {
            tps: counts.transactions as f64 / seconds,
            transactions: counts.transactions,
            latency_ms: Latency::full(&mut counts.latency),
            read_ms: Latency::brief(&mut counts.read),
            commit_ms: self.log.map(|_| Latency::brief(&mut counts.commit)),
            wal_write_us: counts.per_flush(counts.wal_write_ns / 1e3),
            wal_sync_us: counts.per_flush(counts.wal_sync_ns / 1e3),
            flushes_per_s: counts.flushes as f64 / seconds,
            commits_per_flush: counts.per_flush(counts.commits as f64),
            cpu_utilisation: self.processors.busy_ns
                / (seconds * 1e9 * f64::from(self.config.cores)),
            devices: self.devices.results(),
            host_iops_utilisation,
            host_bytes_utilisation,
            background_backlog: backlog,
            events,
            stationary: counts.are_stationary(backlog),
        }
    }
}

/// The transaction classes, each with the share of its transactions that commit.
fn classes_of(config: &Config) -> Vec<(Class, f64)> {
    if config.classes.is_empty() {
        let share = config.wal.as_ref().map_or(0.0, |wal| wal.write_fraction);
        let reads = config.reads.clone();
        return vec![(
            Class {
                weight: 1.0,
                writes: share > 0.0,
                reads,
                cpu_us: None,
            },
            share,
        )];
    }
    let share = |class: &Class| if class.writes { 1.0 } else { 0.0 };
    config
        .classes
        .iter()
        .map(|class| (class.clone(), share(class)))
        .collect()
}

fn nanoseconds(microseconds: f64) -> u64 {
    (microseconds * 1e3).round() as u64
}
