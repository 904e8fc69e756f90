//! A recorded trace of I/O, run again against devices in virtual time, beside what was recorded.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::fs::File;
use std::io::BufReader;

use pgstow_device::{DeviceConfig, HostCap, HostCapConfig, Operation, OperationKind, Volume};
use serde::{Deserialize, Serialize};

use crate::exceeded::{Exceeded, ExceededSeconds};
use crate::{GoOn, checked, waits_until};

const KINDS: [(OperationKind, &str); 3] = [
    (OperationKind::Read, "read"),
    (OperationKind::Write, "write"),
    (OperationKind::Flush, "flush"),
];
const GO_ON_EVERY: usize = 1 << 20;
const CREDIT_SAMPLES: usize = 200;

/// What to replay, and against which devices. The volumes begin idle, with their first credits.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    trace: String,
    devices: Vec<DeviceConfig>,
    #[serde(default)]
    host: Option<HostCapConfig>,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    compensation: Compensation,
    /// Requests follow the answers that they followed in the recording, instead of its clock.
    #[serde(default)]
    closed_loop: bool,
}

/// What the recording server took off each latency, which the way to it and back put on again.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compensation {
    read_us: f64,
    write_us: f64,
}

impl Compensation {
    fn of_ns(self, kind: OperationKind) -> u64 {
        let us = match kind {
            OperationKind::Read => self.read_us,
            OperationKind::Write => self.write_us,
            OperationKind::Flush => 0.0,
        };
        (us * 1e3) as u64
    }
}

/// One line of a trace.
#[derive(Debug, Clone, Copy)]
struct Request {
    received_ns: u64,
    completed_ns: u64,
    device: usize,
    operation: Operation,
}

#[derive(Debug, Deserialize)]
struct Row<'a> {
    received_ns: u64,
    volume: &'a str,
    kind: &'a str,
    offset: u64,
    length: u32,
    completed_ns: u64,
}

#[derive(Debug, Serialize)]
struct Output {
    requests: usize,
    recorded_s: f64,
    replayed_s: f64,
    volumes: Vec<VolumeOutput>,
}

#[derive(Debug, Serialize)]
struct VolumeOutput {
    name: String,
    kinds: Vec<KindOutput>,
    /// While replaying: for how long requests waited before each limit.
    exceeded_s: ExceededSeconds,
    /// Moments and the percentage of burst credits left; none for a volume without.
    credits: Vec<(f64, f64)>,
}

#[derive(Debug, Serialize)]
struct KindOutput {
    kind: &'static str,
    recorded: Summary,
    replayed: Summary,
}

/// Latencies of one volume's requests of one kind, from arrival to answer.
#[derive(Debug, Serialize)]
struct Summary {
    count: usize,
    mean_us: f64,
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    iops: f64,
    bytes_per_s: f64,
}

/// Replay what the JSON says and put out JSON; an error is one line.
pub fn replay(config_json: &str, go_on: GoOn) -> Result<String, String> {
    let config: Config =
        serde_json::from_str(config_json).map_err(|error| format!("replay: {error}"))?;
    checked(&config.devices, config.host.as_ref())?;
    for us in [config.compensation.read_us, config.compensation.write_us] {
        if !(0.0..=1e9).contains(&us) {
            return Err(format!("replay: a compensation of {us} µs cannot be"));
        }
    }
    let requests = read_trace(&config, go_on)?;
    let output = run(&config, &requests, go_on)?;
    serde_json::to_string(&output).map_err(|error| format!("replay: {error}"))
}

/// The trace's requests in the order of their arrival.
fn read_trace(config: &Config, go_on: GoOn) -> Result<Vec<Request>, String> {
    let path = &config.trace;
    let file = File::open(path).map_err(|error| format!("trace {path}: {error}"))?;
    let mut reader = csv::ReaderBuilder::new().from_reader(BufReader::new(file));
    let headers = reader
        .headers()
        .map_err(|error| format!("trace {path}: {error}"))?
        .clone();
    let indices: HashMap<&str, usize> = config
        .devices
        .iter()
        .enumerate()
        .map(|(index, device)| (device.name.as_str(), index))
        .collect();
    let mut requests: Vec<Request> = Vec::new();
    let mut record = csv::StringRecord::new();
    while reader
        .read_record(&mut record)
        .map_err(|error| format!("trace {path}: {error}"))?
    {
        if requests.len().is_multiple_of(GO_ON_EVERY) {
            go_on()?;
        }
        let line = record.position().map_or(0, csv::Position::line);
        let request = record
            .deserialize::<Row<'_>>(Some(&headers))
            .map_err(|error| row_error(&error))
            .and_then(|row| check_row(&row, &indices, config))
            .map_err(|message| format!("trace {path}, line {line}: {message}"))?;
        requests.push(request);
    }
    if requests.is_empty() {
        return Err(format!(
            "trace {path} has no requests; record some while there is traffic"
        ));
    }
    requests.sort_by_key(|request| request.received_ns);
    Ok(requests)
}

/// The reason alone: the position is given already.
fn row_error(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => match err.field() {
            Some(field) => format!("field {}: {}", field + 1, err.kind()),
            None => err.kind().to_string(),
        },
        _ => error.to_string(),
    }
}

fn check_row(
    row: &Row<'_>,
    indices: &HashMap<&str, usize>,
    config: &Config,
) -> Result<Request, String> {
    let Some(&device) = indices.get(row.volume) else {
        let names: Vec<&str> = config
            .devices
            .iter()
            .map(|device| device.name.as_str())
            .collect();
        return Err(format!(
            "no volume {:?} among {}",
            row.volume,
            names.join(", ")
        ));
    };
    let Some(&(kind, _)) = KINDS.iter().find(|(_, name)| *name == row.kind) else {
        return Err(format!("{:?} is none of read, write, flush", row.kind));
    };
    let end = row.offset.checked_add(u64::from(row.length));
    if kind != OperationKind::Flush && end.is_none_or(|end| end > config.devices[device].size_bytes)
    {
        return Err(format!(
            "offset {} is past the end of volume {:?}",
            row.offset, row.volume
        ));
    }
    if row.completed_ns < row.received_ns {
        return Err("completed_ns is before received_ns".into());
    }
    Ok(Request {
        received_ns: row.received_ns,
        completed_ns: row.completed_ns,
        device,
        operation: Operation {
            kind,
            offset: row.offset,
            length: row.length,
        },
    })
}

/// One volume while it is replayed.
struct Station {
    volume: Volume,
    exceeded: Exceeded,
    credits: Vec<(f64, f64)>,
    recorded_ns: [Vec<u64>; 3],
    replayed_ns: [Vec<u64>; 3],
    bytes: [u64; 3],
}

fn run(config: &Config, requests: &[Request], go_on: GoOn) -> Result<Output, String> {
    let begin_ns = requests[0].received_ns;
    let mut stations = stations(config)?;
    let mut host = HostCap::new(config.host.as_ref());
    let mut arrivals = if config.closed_loop {
        Arrivals::closed(requests)
    } else {
        Arrivals::Recorded(0)
    };
    let last_ns = requests[requests.len() - 1].received_ns - begin_ns;
    let mut sampling = Sampling::over(last_ns);
    let (mut recorded_end_ns, mut replayed_end_ns) = (0, 0);
    let mut count = 0;
    while let Some((now_ns, index)) = arrivals.next(requests) {
        let request = &requests[index];
        if count % GO_ON_EVERY == 0 {
            go_on()?;
        }
        count += 1;
        sampling.until(now_ns, &mut stations);
        let station = &mut stations[request.device];
        let done_ns = station.submit(&mut host, now_ns, request, config.compensation);
        let way_ns = config.compensation.of_ns(request.operation.kind);
        arrivals.answered(index, done_ns - way_ns);
        replayed_end_ns = replayed_end_ns.max(done_ns);
        recorded_end_ns = recorded_end_ns.max(request.completed_ns - begin_ns);
    }
    let ends_ns = (recorded_end_ns.max(1), replayed_end_ns.max(1));
    Ok(Output {
        requests: requests.len(),
        recorded_s: ends_ns.0 as f64 / 1e9,
        replayed_s: ends_ns.1 as f64 / 1e9,
        volumes: stations
            .iter_mut()
            .map(|station| station.output(ends_ns))
            .collect(),
    })
}

/// When credits are looked at: about as often however much longer than the recording it takes, as
/// a closed loop against slower devices does.
struct Sampling {
    next_ns: u64,
    every_ns: u64,
    taken: usize,
}

impl Sampling {
    fn over(recorded_ns: u64) -> Self {
        Self {
            next_ns: 0,
            every_ns: (recorded_ns / CREDIT_SAMPLES as u64).max(1),
            taken: 0,
        }
    }

    fn until(&mut self, now_ns: u64, stations: &mut [Station]) {
        while self.next_ns <= now_ns {
            for station in stations.iter_mut() {
                station.sample(self.next_ns);
            }
            self.taken += 1;
            self.next_ns = self.next_ns.saturating_add(self.every_ns);
            if self.taken == 2 * CREDIT_SAMPLES {
                stations.iter_mut().for_each(Station::forget_every_other);
                self.taken /= 2;
                self.every_ns = self.every_ns.saturating_mul(2);
            }
        }
    }
}

/// When requests come, from the first one on.
enum Arrivals {
    /// When they came; the index of the next one.
    Recorded(usize),
    Closed(ClosedLoop),
}

/// Requests in as many slots as were in flight at once on each volume. One that came when another
/// had been answered comes as long after that answer as it did.
struct ClosedLoop {
    /// The next request of the same slot, and how long after this one's answer it comes.
    next: Vec<Option<(usize, u64)>>,
    due: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Arrivals {
    fn closed(requests: &[Request]) -> Self {
        let begin_ns = requests[0].received_ns;
        let mut next = vec![None; requests.len()];
        let mut due = BinaryHeap::new();
        let mut answered: HashMap<usize, BTreeSet<(u64, usize)>> = HashMap::new();
        for (index, request) in requests.iter().enumerate() {
            let slots = answered.entry(request.device).or_default();
            let last = slots
                .range(..=(request.received_ns, usize::MAX))
                .next_back()
                .copied();
            if let Some((completed_ns, before)) = last {
                slots.remove(&(completed_ns, before));
                next[before] = Some((index, request.received_ns - completed_ns));
            } else {
                due.push(Reverse((request.received_ns - begin_ns, index)));
            }
            slots.insert((request.completed_ns, index));
        }
        Self::Closed(ClosedLoop { next, due })
    }

    fn next(&mut self, requests: &[Request]) -> Option<(u64, usize)> {
        match self {
            Self::Recorded(index) => {
                let request = requests.get(*index)?;
                *index += 1;
                Some((request.received_ns - requests[0].received_ns, *index - 1))
            }
            Self::Closed(slots) => slots.due.pop().map(|Reverse(next)| next),
        }
    }

    fn answered(&mut self, index: usize, done_ns: u64) {
        if let Self::Closed(slots) = self
            && let Some((next, after_ns)) = slots.next[index]
        {
            slots.due.push(Reverse((done_ns + after_ns, next)));
        }
    }
}

fn stations(config: &Config) -> Result<Vec<Station>, String> {
    let seeds = (1..).map(|index: u64| config.seed.wrapping_add(index << 32));
    let station = |(device, seed): (&DeviceConfig, u64)| {
        Ok(Station {
            volume: Volume::new(device, seed).map_err(|error| error.to_string())?,
            exceeded: Exceeded::default(),
            credits: Vec::new(),
            recorded_ns: Default::default(),
            replayed_ns: Default::default(),
            bytes: [0; 3],
        })
    };
    config.devices.iter().zip(seeds).map(station).collect()
}

impl Station {
    /// When it would have been answered. The recording server shortened latencies, never waits,
    /// and the way there and back took as long again: both sides are given with that way.
    fn submit(
        &mut self,
        host: &mut HostCap,
        now_ns: u64,
        request: &Request,
        compensation: Compensation,
    ) -> u64 {
        let operation = request.operation;
        let timing = self.volume.schedule(host, now_ns, operation);
        self.exceeded
            .note(now_ns as f64, waits_until(now_ns, &timing));
        let way_ns = compensation.of_ns(operation.kind);
        let done_ns = timing.completion_ns.max(timing.start_ns + way_ns);
        let kind = operation.kind as usize;
        self.replayed_ns[kind].push(done_ns - now_ns);
        self.recorded_ns[kind].push(request.completed_ns - request.received_ns + way_ns);
        if operation.kind != OperationKind::Flush {
            self.bytes[kind] += u64::from(operation.length);
        }
        done_ns
    }

    fn sample(&mut self, now_ns: u64) {
        if let Some(left) = credits_percent(&self.volume, now_ns, (0.0, 0.0)) {
            self.credits.push((now_ns as f64 / 1e9, left));
        }
    }

    fn forget_every_other(&mut self) {
        let mut number = 0;
        self.credits.retain(|_| {
            number += 1;
            number % 2 == 1
        });
    }

    fn output(&mut self, (recorded_end_ns, replayed_end_ns): (u64, u64)) -> VolumeOutput {
        self.sample(replayed_end_ns);
        let mut kinds = Vec::new();
        for (index, (_, kind)) in KINDS.iter().enumerate() {
            if !self.recorded_ns[index].is_empty() {
                let bytes = self.bytes[index];
                kinds.push(KindOutput {
                    kind,
                    recorded: Summary::of(&mut self.recorded_ns[index], bytes, recorded_end_ns),
                    replayed: Summary::of(&mut self.replayed_ns[index], bytes, replayed_end_ns),
                });
            }
        }
        VolumeOutput {
            name: self.volume.config().name.clone(),
            kinds,
            exceeded_s: self.exceeded.seconds(replayed_end_ns as f64),
            credits: std::mem::take(&mut self.credits),
        }
    }
}

/// Burst credits left in percent, where so many operations and bytes have not started; `None` for
/// a volume without.
pub(crate) fn credits_percent(volume: &Volume, now_ns: u64, queued: (f64, f64)) -> Option<f64> {
    let device = volume.config();
    let capacity = device.member.burst.as_ref()?.capacity * f64::from(device.stripes);
    Some(volume.credits_before(now_ns, queued.0, queued.1)? / capacity * 100.0)
}

impl Summary {
    /// Of at least one latency, in any order.
    fn of(latencies_ns: &mut [u64], bytes: u64, elapsed_ns: u64) -> Self {
        latencies_ns.sort_unstable();
        let count = latencies_ns.len();
        let at_us = |share: f64| {
            let rank = ((share * count as f64).ceil() as usize).clamp(1, count);
            latencies_ns[rank - 1] as f64 / 1e3
        };
        let sum_ns: f64 = latencies_ns.iter().map(|&ns| ns as f64).sum();
        let elapsed_s = elapsed_ns as f64 / 1e9;
        Self {
            count,
            mean_us: sum_ns / count as f64 / 1e3,
            p50_us: at_us(0.5),
            p90_us: at_us(0.9),
            p99_us: at_us(0.99),
            p999_us: at_us(0.999),
            max_us: at_us(1.0),
            iops: count as f64 / elapsed_s,
            bytes_per_s: bytes as f64 / elapsed_s,
        }
    }
}
