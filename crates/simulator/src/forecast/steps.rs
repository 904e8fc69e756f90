//! A forecast in steps: all requests of a step pass the same limits at once.
//!
//! Requests of a rate come evenly over the step and queue before the limits. A closed loop of
//! depth N gets what the limits leave and no more than N requests in a latency's time; its wait
//! follows from Little's law, N = throughput x (wait + latency). Where several closed loops meet
//! at the host's cap, all wait equally long there. The members of a stripe are taken as equally
//! loaded; few requests at random offsets do not reach all of them at all times, and do less.

use super::Run;
use super::account::Cohort;
use super::demand::{Asked, Config};
use super::pattern::Cost;
use crate::GoOn;
use pgstow_device::Span;

const GO_ON_EVERY: u64 = 1 << 14;
const HALVINGS: usize = 50;

/// One load while it runs.
struct Source {
    device: usize,
    cost: Cost,
    uses_host_cap: bool,
    bounds_ns: Vec<u64>,
    asked: Vec<Asked>,
    phase: usize,
    /// Until when a disk that does one request after the other has work.
    busy_until_ns: f64,
}

impl Source {
    /// The line that requests form before such a disk, if it is one.
    fn queue(&mut self, now_ns: f64, count: f64) -> Option<Span> {
        let serial_ns = self.cost.serial_ns?;
        let first_ns = self.busy_until_ns.max(now_ns);
        self.busy_until_ns = first_ns + count * serial_ns;
        let last_ns = self.busy_until_ns;
        Some(Span { first_ns, last_ns })
    }

    /// How many such a disk can still begin.
    fn room(&self, now_ns: f64, until_ns: f64) -> f64 {
        let free_ns = (until_ns - self.busy_until_ns.max(now_ns)).max(0.0);
        self.cost.serial_ns.map_or(f64::INFINITY, |ns| free_ns / ns)
    }
}

/// A closed loop's part in a step.
struct Loop {
    source: usize,
    depth: f64,
    /// What it could do at most by its latency and its disk, and by its volume's limits.
    demanded: f64,
    room: f64,
}

/// Runs to the end, and tells the accounts.
pub fn run(config: &Config, run: &mut Run, go_on: GoOn) -> Result<(), String> {
    let (end_ns, step_ns) = (config.end_ns(), (config.step_s * 1e9) as u64);
    let mut sources = sources(config, run);
    let (mut now_ns, mut steps) = (0, 0_u64);
    while now_ns < end_ns {
        if steps.is_multiple_of(GO_ON_EVERY) {
            go_on()?;
        }
        steps += 1;
        // Steps end on the grid, and wherever a phase does.
        let mut until_ns = ((now_ns / step_ns + 1) * step_ns).min(end_ns);
        for source in &mut sources {
            while source.bounds_ns[source.phase + 1] <= now_ns {
                source.phase += 1;
            }
            until_ns = until_ns.min(source.bounds_ns[source.phase + 1]);
        }
        step(run, &mut sources, now_ns as f64, until_ns as f64);
        run.sample(now_ns, until_ns);
        now_ns = until_ns;
    }
    Ok(())
}

fn sources(config: &Config, run: &Run) -> Vec<Source> {
    let mut sources = Vec::new();
    for load in &config.loads {
        let device = &config.devices[load.device];
        let (bounds_ns, phases) = load.timetable(config.end_ns());
        sources.push(Source {
            device: load.device,
            cost: run.costs[load.device].expect("a load was measured"),
            uses_host_cap: device.uses_host_cap,
            bounds_ns,
            asked: phases
                .iter()
                .map(|&phase| load.phases[phase].asked())
                .collect(),
            phase: 0,
            busy_until_ns: 0.0,
        });
    }
    sources
}

fn step(run: &mut Run, sources: &mut [Source], now_ns: f64, until_ns: f64) {
    take_rates(run, sources, now_ns, until_ns);
    take_loops(run, sources, now_ns, until_ns);
}

/// Requests that come whatever happens.
fn take_rates(run: &mut Run, sources: &mut [Source], now_ns: f64, until_ns: f64) {
    let seconds = (until_ns - now_ns) / 1e9;
    let count = |source: &Source| match source.asked[source.phase] {
        Asked::Rate(iops) => iops * seconds,
        Asked::Depth(_) => 0.0,
    };
    let (mut counted, mut bytes) = (0.0, 0.0);
    for source in sources.iter().filter(|source| source.uses_host_cap) {
        counted += count(source) * source.cost.counted;
        bytes += count(source) * source.cost.bytes;
    }
    // All at once, so that no volume is before another within the step.
    let host = run.host.take_many(now_ns, counted, bytes);
    for source in sources {
        let count = count(source);
        if count <= 0.0 {
            continue;
        }
        let cost = source.cost;
        let own =
            run.volumes[source.device].take_many(now_ns, count * cost.charged, count * cost.bytes);
        let mut lines = vec![Span {
            first_ns: now_ns,
            last_ns: until_ns,
        }];
        lines.extend(own.operations.iter().chain(&own.bytes));
        lines.extend(source.queue(now_ns, count));
        let ([iops_ns, throughput_ns], mut host_ns) = (own.last_ns(), [now_ns; 2]);
        if source.uses_host_cap {
            lines.extend(host.operations.iter().chain(&host.bytes));
            host_ns = host.last_ns();
        }
        let cohort = Cohort {
            count,
            came_ns: (now_ns, until_ns),
            started: latest(&lines),
            // Within the step they came as they could start.
            limits_ns: [iops_ns, throughput_ns, host_ns[0], host_ns[1]]
                .map(|at_ns| if at_ns > until_ns { at_ns } else { now_ns }),
        };
        run.accounts[source.device].note(&cohort, cost.latency_ns);
    }
}

/// The latest of some straight lines over the shares from 0 to 1, from corner to corner.
fn latest(lines: &[Span]) -> Vec<(f64, f64)> {
    let first_ns = lines
        .iter()
        .fold(f64::MIN, |max, line| max.max(line.first_ns));
    let last_ns = lines
        .iter()
        .fold(f64::MIN, |max, line| max.max(line.last_ns));
    let is_whole = |line: &Span| line.first_ns >= first_ns && line.last_ns >= last_ns;
    if lines.iter().any(is_whole) {
        return vec![(0.0, first_ns), (1.0, last_ns)];
    }
    let at = |line: &Span, share: f64| line.first_ns + share * (line.last_ns - line.first_ns);
    let mut shares = vec![0.0, 1.0];
    for (index, one) in lines.iter().enumerate() {
        for other in &lines[..index] {
            let (first_ns, last_ns) = (one.first_ns - other.first_ns, one.last_ns - other.last_ns);
            if first_ns * last_ns < 0.0 {
                shares.push(first_ns / (first_ns - last_ns));
            }
        }
    }
    shares.sort_by(f64::total_cmp);
    let latest = |share: f64| {
        lines
            .iter()
            .fold(f64::MIN, |max, line| max.max(at(line, share)))
    };
    shares
        .into_iter()
        .map(|share| (share, latest(share)))
        .collect()
}

/// Loops that ask again once they are answered.
fn take_loops(run: &mut Run, sources: &mut [Source], now_ns: f64, until_ns: f64) {
    let mut loops = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let Asked::Depth(depth) = source.asked[source.phase] else {
            continue;
        };
        let (cost, depth) = (source.cost, f64::from(depth));
        let room = run.volumes[source.device].room(now_ns, until_ns);
        loops.push(Loop {
            source: index,
            depth,
            demanded: (depth * (until_ns - now_ns) / cost.latency_ns)
                .min(source.room(now_ns, until_ns)),
            room: (room.operations / cost.charged).min(room.bytes / cost.bytes),
        });
    }
    if loops.is_empty() {
        return;
    }
    let (wait_ns, binding) = host_wait_ns(run, sources, &loops, now_ns, until_ns);
    for one in &loops {
        let source = &mut sources[one.source];
        let cost = source.cost;
        let mut count = one.demanded.min(one.room);
        let by_host = if source.uses_host_cap {
            one.behind(wait_ns, cost, until_ns - now_ns)
        } else {
            f64::INFINITY
        };
        // The tighter one binds: what it lets through never waits for the other.
        let exceeded = [
            one.room < one.demanded.min(by_host),
            by_host < one.demanded.min(one.room),
        ];
        count = count.min(by_host);
        if count <= 0.0 {
            continue;
        }
        source.queue(now_ns, count);
        let own =
            run.volumes[source.device].take_many(now_ns, count * cost.charged, count * cost.bytes);
        if source.uses_host_cap {
            run.host
                .take_many(now_ns, count * cost.counted, count * cost.bytes);
        }
        // Of the volume's own limits the later one is what binds.
        let [operations_ns, bytes_ns] = own.last_ns();
        let by_operations = operations_ns >= bytes_ns;
        let limits_ns = [
            exceeded[0] && by_operations,
            exceeded[0] && !by_operations,
            exceeded[1] && binding[0],
            exceeded[1] && binding[1],
        ];
        let cohort = Cohort {
            count,
            came_ns: (now_ns, until_ns),
            started: vec![(0.0, now_ns), (1.0, until_ns)],
            limits_ns: limits_ns.map(|is_over| if is_over { until_ns } else { now_ns }),
        };
        let wait_ns = (one.depth * (until_ns - now_ns) / count - cost.latency_ns).max(0.0);
        run.accounts[source.device].note_closed(&cohort, wait_ns, cost.latency_ns);
    }
}

impl Loop {
    /// What it does where each request waits so long before a limit that it shares.
    fn behind(&self, wait_ns: f64, cost: Cost, step_ns: f64) -> f64 {
        self.depth * step_ns / (cost.latency_ns + wait_ns)
    }
}

/// How long all loops wait at the host's cap, and which of its two limits makes them.
fn host_wait_ns(
    run: &Run,
    sources: &[Source],
    loops: &[Loop],
    now_ns: f64,
    until_ns: f64,
) -> (f64, [bool; 2]) {
    let room = run.host.room(now_ns, until_ns);
    let step_ns = until_ns - now_ns;
    let used = |wait_ns: f64| {
        let mut used = (0.0, 0.0);
        for one in loops {
            let source = &sources[one.source];
            if source.uses_host_cap {
                let count =
                    one.room
                        .min(one.demanded)
                        .min(one.behind(wait_ns, source.cost, step_ns));
                used.0 += count * source.cost.counted;
                used.1 += count * source.cost.bytes;
            }
        }
        used
    };
    let all = used(0.0);
    if all.0 <= room.operations && all.1 <= room.bytes {
        return (0.0, [false; 2]);
    }
    let binding = all.0 / room.operations >= all.1 / room.bytes;
    let (mut low_ns, mut high_ns) = (0.0, 1e15);
    for _ in 0..HALVINGS {
        let middle_ns = f64::midpoint(low_ns, high_ns);
        let used = used(middle_ns);
        if used.0 <= room.operations && used.1 <= room.bytes {
            high_ns = middle_ns;
        } else {
            low_ns = middle_ns;
        }
    }
    (high_ns, [binding, !binding])
}
