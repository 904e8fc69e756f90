//! What goes wrong with volumes, by command: at once or later, for a time or until it is cleared.

use serde::Serialize;

use crate::backing::Data;
use crate::fault_order::{Fault, Operation, Order};
use crate::store::{Store, seed_of};
use crate::undo::Lost;
use crate::volume::EmulatedVolume;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    Waiting,
    Active,
}

/// What one volume lost.
#[derive(Debug, Clone, Serialize)]
pub struct VolumeLost {
    pub name: String,
    #[serde(flatten)]
    pub lost: Lost,
}

#[derive(Debug)]
struct Scheduled {
    id: u64,
    fault: Fault,
    /// `None`: all, those added later too.
    volumes: Option<Vec<String>>,
    starts_ns: u64,
    ends_ns: Option<u64>,
    state: State,
    lost: Vec<VolumeLost>,
}

/// All faults that are active or wait.
#[derive(Debug, Default)]
pub struct Faults {
    scheduled: Vec<Scheduled>,
    given: u64,
    /// Something started or ended since it was asked last.
    changed: bool,
    /// Volumes whose requests in flight fail, since it was asked last.
    cut_off: Vec<u64>,
}

/// A fault in the answer to `status`.
#[derive(Debug, Serialize)]
pub struct FaultStatus<'a> {
    id: u64,
    fault: &'a Fault,
    volumes: Option<&'a [String]>,
    state: State,
    starts_in_s: f64,
    ends_in_s: Option<f64>,
    lost: &'a [VolumeLost],
}

/// What the active faults mean for one volume.
#[derive(Debug, Default)]
pub struct VolumeFaults {
    pub stalled: bool,
    pub full: bool,
    /// Every request fails with this errno.
    gone: Option<i32>,
    errors: Vec<(Vec<Operation>, u64, Option<u64>)>,
    slow_factor: Option<f64>,
}

/// What has changed for the requests in flight.
#[derive(Debug)]
pub struct Changed {
    pub cut_off: Vec<u64>,
}

impl Scheduled {
    fn is_of(&self, name: &str) -> bool {
        self.volumes
            .as_ref()
            .is_none_or(|names| names.iter().any(|one| one == name))
    }

    fn next_ns(&self) -> Option<u64> {
        match self.state {
            State::Waiting => Some(self.starts_ns),
            State::Active => self.ends_ns,
        }
    }
}

impl Faults {
    /// When something starts or ends next.
    pub fn next_ns(&self) -> Option<u64> {
        self.scheduled.iter().filter_map(Scheduled::next_ns).min()
    }

    /// What is active, for a volume of this name.
    pub fn of(&self, name: &str) -> Option<Box<VolumeFaults>> {
        let mut faults = VolumeFaults::default();
        let active = |fault: &&Scheduled| fault.state == State::Active && fault.is_of(name);
        let mut any = false;
        for scheduled in self.scheduled.iter().filter(active) {
            any = true;
            match &scheduled.fault {
                Fault::PowerLoss { .. } => faults.gone = faults.gone.or(Some(libc::EIO)),
                Fault::Disappear {} => faults.gone = Some(libc::ENODEV),
                Fault::Stall {} => faults.stalled = true,
                Fault::Full {} => faults.full = true,
                Fault::Slow { factor } => {
                    faults.slow_factor = Some(faults.slow_factor.unwrap_or(1.0) * factor);
                }
                Fault::Error {
                    operations,
                    offset,
                    length,
                } => faults.errors.push((operations.clone(), *offset, *length)),
            }
        }
        any.then(|| Box::new(faults))
    }

    pub fn status(&self, now_ns: u64) -> Vec<FaultStatus<'_>> {
        let in_s = |at_ns: u64| at_ns.saturating_sub(now_ns) as f64 / 1e9;
        let statuses = self.scheduled.iter().map(|fault| FaultStatus {
            id: fault.id,
            fault: &fault.fault,
            volumes: fault.volumes.as_deref(),
            state: fault.state,
            starts_in_s: in_s(fault.starts_ns),
            ends_in_s: fault.ends_ns.map(in_s),
            lost: &fault.lost,
        });
        statuses.collect()
    }

    /// What it means for requests in flight that something started or ended since the last call.
    pub fn take_changed(&mut self) -> Option<Changed> {
        std::mem::take(&mut self.changed).then(|| Changed {
            cut_off: std::mem::take(&mut self.cut_off),
        })
    }
}

impl VolumeFaults {
    pub fn slowed_ns(&self, latency_ns: u64) -> u64 {
        match self.slow_factor {
            Some(factor) => (latency_ns as f64 * factor) as u64,
            None => latency_ns,
        }
    }

    fn refusal(&self, operation: Operation, (offset, length): (u64, u64)) -> Option<i32> {
        let (end, is_flush) = (offset.saturating_add(length), operation == Operation::Flush);
        let touches = |(operations, first, bytes): &(Vec<Operation>, u64, Option<u64>)| {
            let last = bytes.map_or(u64::MAX, |bytes| first.saturating_add(bytes));
            operations.contains(&operation) && (is_flush || (offset < last && *first < end))
        };
        self.gone
            .or_else(|| self.errors.iter().any(touches).then_some(libc::EIO))
    }
}

impl EmulatedVolume {
    /// The errno of a request that a fault makes fail.
    pub fn refusal(&self, operation: Operation, range: (u64, u64)) -> Option<i32> {
        if let Data::File(file) = &self.data
            && file.broken().is_some()
        {
            return Some(libc::EIO);
        }
        self.faults.as_ref()?.refusal(operation, range)
    }
}

impl Store {
    /// Switches the log of what is not flushed, of one volume or of all, present and to come.
    ///
    /// Off, everything is durable as soon as it is answered.
    pub fn set_volatile(&mut self, enabled: bool, name: Option<&str>) -> Result<(), String> {
        let switch = |volume: &mut EmulatedVolume| {
            if enabled != volume.undo.is_some() {
                volume.undo = enabled.then(Default::default);
            }
        };
        if let Some(name) = name {
            switch(self.named(name)?.1);
            return Ok(());
        }
        self.volatile = enabled;
        self.volumes.values_mut().for_each(switch);
        Ok(())
    }

    /// Takes an order; the answer is its number, and what was lost if the power went at once.
    pub fn inject(&mut self, order: Order, now_ns: u64) -> Result<(u64, &[VolumeLost]), String> {
        order.check()?;
        for name in order.volumes.iter().flatten() {
            self.named(name)?;
        }
        self.faults.given += 1;
        let id = self.faults.given;
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let starts_ns = now_ns + ns(order.after_s);
        let scheduled = Scheduled {
            id,
            fault: order.fault,
            volumes: order.volumes,
            starts_ns,
            ends_ns: order.for_s.map(|seconds| starts_ns + ns(seconds)),
            state: State::Waiting,
            lost: vec![],
        };
        if let Fault::PowerLoss { .. } = scheduled.fault {
            let durable = |(_, volume): &(u64, &EmulatedVolume)| {
                scheduled.is_of(volume.name()) && volume.undo.is_none()
            };
            if let Some((_, volume)) = self.iter().find(durable) {
                return Err(format!(
                    "volume {:?} has nothing volatile to lose: switch volatile on first",
                    volume.name()
                ));
            }
        }
        self.faults.scheduled.push(scheduled);
        self.advance_faults(now_ns);
        let scheduled = self.faults.scheduled.iter().find(|fault| fault.id == id);
        Ok((id, scheduled.map_or(&[], |fault| &fault.lost)))
    }

    /// Ends one fault, or all of them with those that wait.
    pub fn clear_faults(&mut self, id: Option<u64>) -> Result<(), String> {
        let before = self.faults.scheduled.len();
        self.faults
            .scheduled
            .retain(|fault| id.is_some_and(|id| fault.id != id));
        if let (Some(id), true) = (id, before == self.faults.scheduled.len()) {
            return Err(format!("no fault {id}"));
        }
        self.apply_faults();
        Ok(())
    }

    /// Starts and ends what is due.
    pub fn advance_faults(&mut self, now_ns: u64) {
        if self.faults.next_ns().is_none_or(|next_ns| next_ns > now_ns) {
            return;
        }
        let mut scheduled = std::mem::take(&mut self.faults.scheduled);
        for fault in &mut scheduled {
            if fault.state == State::Waiting && fault.starts_ns <= now_ns {
                fault.state = State::Active;
                if fault.fault.cuts_off() {
                    self.cut_off(fault);
                }
            }
        }
        scheduled.retain(|fault| fault.ends_ns.is_none_or(|ends_ns| ends_ns > now_ns));
        self.faults.scheduled = scheduled;
        self.apply_faults();
    }

    /// Fails what is in flight, and loses what was not flushed where it is the power that went.
    fn cut_off(&mut self, fault: &mut Scheduled) {
        for (&node, volume) in &mut self.volumes {
            if !fault.is_of(volume.name()) {
                continue;
            }
            self.faults.cut_off.push(node);
            if let Fault::PowerLoss {
                loss,
                sector_bytes,
                seed,
            } = fault.fault
            {
                let seed = seed_of(seed, volume.name());
                fault.lost.extend(volume.lose(loss, sector_bytes, seed));
            }
        }
    }

    fn apply_faults(&mut self) {
        for volume in self.volumes.values_mut() {
            volume.faults = self.faults.of(volume.name());
        }
        self.faults.changed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::MemoryGuard;
    use crate::store::tests::device;

    const SECOND: u64 = 1_000_000_000;

    fn store() -> Store {
        let mut store = Store::new(MemoryGuard::new(0), 1);
        store.add(&device("data"), 0).unwrap();
        store.add(&device("wal"), 0).unwrap();
        store
    }

    fn order(fault: Fault, volumes: Option<&str>) -> Order {
        Order {
            fault,
            volumes: volumes.map(|name| vec![name.to_owned()]),
            after_s: 0.0,
            for_s: None,
        }
    }

    fn volume<'a>(store: &'a Store, name: &str) -> &'a EmulatedVolume {
        store.get(store.find(name.as_bytes()).unwrap()).unwrap()
    }

    fn stalled(store: &Store, name: &str) -> bool {
        let faults = &volume(store, name).faults;
        faults.as_ref().is_some_and(|faults| faults.stalled)
    }

    #[test]
    fn a_fault_starts_and_ends_in_its_time() {
        let mut store = store();
        let later = Order {
            after_s: 2.0,
            for_s: Some(3.0),
            ..order(Fault::Stall {}, Some("data"))
        };
        store.inject(later, SECOND).unwrap();
        let mut seen = vec![];
        while let Some(next_ns) = store.faults.next_ns() {
            store.advance_faults(next_ns - 1);
            seen.push((next_ns / SECOND, stalled(&store, "data")));
            store.advance_faults(next_ns);
            assert!(!stalled(&store, "wal"));
        }
        assert_eq!(seen, [(3, false), (6, true)]);
        assert!(volume(&store, "data").faults.is_none());
    }

    #[test]
    fn a_fault_of_all_volumes_is_of_those_added_later_too_until_it_is_cleared() {
        let mut store = store();
        let (all, _) = store.inject(order(Fault::Stall {}, None), 0).unwrap();
        let (one, _) = store.inject(order(Fault::Full {}, Some("wal")), 0).unwrap();
        store.add(&device("late"), 0).unwrap();
        assert!(stalled(&store, "late"));
        store.clear_faults(Some(all)).unwrap();
        assert!(volume(&store, "late").faults.is_none());
        assert!(volume(&store, "wal").faults.as_ref().unwrap().full);
        store.clear_faults(None).unwrap();
        assert!(volume(&store, "wal").faults.is_none());
        assert!(store.clear_faults(Some(one)).is_err());
    }

    #[test]
    fn an_error_is_of_its_operations_within_its_range() {
        let mut store = store();
        let fault = Fault::Error {
            operations: vec![Operation::Write],
            offset: 4096,
            length: Some(4096),
        };
        store.inject(order(fault, Some("data")), 0).unwrap();
        let refused = |operation, range| volume(&store, "data").refusal(operation, range).is_some();
        for (range, expected) in [
            ((0, 4096), false),
            ((0, 4097), true),
            ((8191, 1), true),
            ((8192, 100), false),
            ((0, u64::MAX), true),
        ] {
            assert_eq!(refused(Operation::Write, range), expected, "{range:?}");
        }
        assert!(!refused(Operation::Read, (4096, 1)));
        assert!(!refused(Operation::Flush, (0, 0)));
    }

    #[test]
    fn slowness_multiplies_and_a_cut_names_whom_it_cuts_off() {
        let mut store = store();
        store
            .inject(order(Fault::Slow { factor: 4.0 }, None), 0)
            .unwrap();
        store
            .inject(order(Fault::Slow { factor: 0.5 }, Some("wal")), 0)
            .unwrap();
        let slowed = |name| volume(&store, name).faults.as_ref().unwrap().slowed_ns(100);
        assert_eq!((slowed("data"), slowed("wal")), (400, 200));
        store.faults.take_changed().unwrap();
        store
            .inject(order(Fault::Disappear {}, Some("wal")), 0)
            .unwrap();
        let cut_off = store.faults.take_changed().unwrap().cut_off;
        assert_eq!(cut_off, [store.find(b"wal").unwrap()]);
        assert!(store.faults.take_changed().is_none());
        assert_eq!(
            volume(&store, "wal").refusal(Operation::Read, (0, 1)),
            Some(libc::ENODEV)
        );
    }
}
