//! A forecast request by request: exact, and as long as the requests are many.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Run;
use super::account::Cohort;
use super::demand::{Arrivals, Asked, Config, Load};
use super::pattern::Pattern;
use crate::{GoOn, waits_until};

const GO_ON_EVERY: u64 = 1 << 20;

/// What happens next; those of equal times in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    StepEnds,
    PhaseBegins { load: usize, place: usize },
    Comes { load: usize, place: usize },
    Answered { load: usize },
}

/// One load while it runs.
struct Source<'a> {
    load: &'a Load,
    bounds_ns: Vec<u64>,
    phases: Vec<usize>,
    place: usize, // in the timetable
    pattern: Pattern,
    random: Xoshiro256PlusPlus,
    under_way: u32,
}

impl Source<'_> {
    fn asked(&self) -> Asked {
        self.load.phases[self.phases[self.place]].asked()
    }

    /// How long until the next request of a rate.
    fn gap_ns(&mut self, iops: f64) -> f64 {
        match self.load.arrivals {
            Arrivals::Constant => 1e9 / iops,
            Arrivals::Poisson => -(1.0 - self.random.random::<f64>()).ln() / iops * 1e9,
        }
    }
}

struct Engine<'a> {
    agenda: BinaryHeap<Reverse<(u64, Event)>>,
    sources: Vec<Source<'a>>,
    run: &'a mut Run,
    fraction_ns: Vec<f64>, // of a nanosecond, by which a constant rate's next one is due later
}

/// Runs to the end, and tells the accounts.
pub fn run(config: &Config, run: &mut Run, go_on: GoOn) -> Result<(), String> {
    let end_ns = config.end_ns();
    let step_ns = (config.step_s * 1e9) as u64;
    let mut engine = Engine::new(config, run);
    let mut events = 0_u64;
    let mut step_began_ns = 0;
    while let Some(Reverse((now_ns, event))) = engine.agenda.pop() {
        events += 1;
        if events.is_multiple_of(GO_ON_EVERY) {
            go_on()?;
        }
        if event == Event::StepEnds {
            engine.run.sample(step_began_ns, now_ns);
            step_began_ns = now_ns;
            if now_ns == end_ns {
                break;
            }
            engine.schedule((now_ns + step_ns).min(end_ns), Event::StepEnds);
        } else if now_ns < end_ns {
            engine.act(now_ns, event);
        }
    }
    Ok(())
}

impl<'a> Engine<'a> {
    fn new(config: &'a Config, run: &'a mut Run) -> Engine<'a> {
        let end_ns = config.end_ns();
        let mut engine = Engine {
            agenda: BinaryHeap::new(),
            sources: Vec::new(),
            run,
            fraction_ns: vec![0.0; config.loads.len()],
        };
        engine.schedule(((config.step_s * 1e9) as u64).min(end_ns), Event::StepEnds);
        for (index, load) in config.loads.iter().enumerate() {
            let (bounds_ns, phases) = load.timetable(end_ns);
            for (place, &at_ns) in bounds_ns[..phases.len()].iter().enumerate() {
                engine.schedule(at_ns, Event::PhaseBegins { load: index, place });
            }
            engine.sources.push(Source {
                load,
                bounds_ns,
                phases,
                place: 0,
                pattern: Pattern::new(load, &config.devices[load.device]),
                random: Xoshiro256PlusPlus::seed_from_u64(
                    config.seed.wrapping_add(index as u64 + 1),
                ),
                under_way: 0,
            });
        }
        engine
    }

    fn schedule(&mut self, at_ns: u64, event: Event) {
        self.agenda.push(Reverse((at_ns, event)));
    }

    fn act(&mut self, now_ns: u64, event: Event) {
        match event {
            Event::StepEnds => {}
            Event::PhaseBegins { load, place } => {
                self.sources[load].place = place;
                self.fraction_ns[load] = 0.0;
                match self.sources[load].asked() {
                    Asked::Rate(_) => self.schedule_next(now_ns, load),
                    Asked::Depth(depth) => {
                        while self.sources[load].under_way < depth {
                            self.sources[load].under_way += 1;
                            self.submit_closed(now_ns, load);
                        }
                    }
                }
            }
            Event::Comes { load, place } => {
                if self.sources[load].place == place {
                    self.submit(now_ns, load);
                    self.schedule_next(now_ns, load);
                }
            }
            Event::Answered { load } => {
                let source = &mut self.sources[load];
                match source.asked() {
                    Asked::Depth(depth) if source.under_way <= depth => {
                        self.submit_closed(now_ns, load)
                    }
                    _ => source.under_way -= 1,
                }
            }
        }
    }

    fn schedule_next(&mut self, now_ns: u64, load: usize) {
        let source = &mut self.sources[load];
        let (Asked::Rate(iops), place) = (source.asked(), source.place) else {
            return;
        };
        if iops <= 0.0 {
            return;
        }
        let due_ns = self.fraction_ns[load] + source.gap_ns(iops);
        if now_ns as f64 + due_ns < source.bounds_ns[place + 1] as f64 {
            self.fraction_ns[load] = due_ns.fract();
            self.schedule(now_ns + due_ns as u64, Event::Comes { load, place });
        }
    }

    fn submit_closed(&mut self, now_ns: u64, load: usize) {
        let done_ns = self.submit(now_ns, load);
        // Without a latency a loop would never leave its moment.
        self.schedule(done_ns.max(now_ns + 1000), Event::Answered { load });
    }

    fn submit(&mut self, now_ns: u64, load: usize) -> u64 {
        let source = &mut self.sources[load];
        let operation = source.pattern.next(&mut source.random);
        let device = source.load.device;
        let timing = self.run.volumes[device].schedule(&mut self.run.host, now_ns, operation);
        let (came_ns, mut started_ns) = (now_ns as f64, timing.start_ns as f64);
        if let Some(serial_ns) = self.run.costs[device].and_then(|cost| cost.serial_ns) {
            // What waits for the disk's head has not started either.
            started_ns = started_ns.max(timing.completion_ns as f64 - serial_ns);
        }
        let cohort = Cohort {
            count: 1.0,
            came_ns: (came_ns, came_ns),
            started: vec![(0.0, started_ns), (1.0, started_ns)],
            limits_ns: waits_until(now_ns, &timing),
        };
        let latency_ns = timing.completion_ns as f64 - started_ns;
        self.run.accounts[device].note(&cohort, latency_ns);
        timing.completion_ns
    }
}
