//! A volume: members in a stripe.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::config::{ConfigError, DeviceConfig};
use crate::host::HostCap;
use crate::member::Member;
use crate::modification::{Modification, Modifications};
use crate::rate::{BurstLimit, Span};
use crate::stripe;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    Read,
    Write,
    Flush,
}

/// One request to a volume; a flush has no offset or length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    pub kind: OperationKind,
    pub offset: u64,
    pub length: u32,
}

/// When a request leaves the queues before the limits, and when it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    pub start_ns: u64,
    pub completion_ns: u64,
    pub waits: Waits,
}

impl Timing {
    fn at_once(now_ns: u64) -> Self {
        Self {
            start_ns: now_ns,
            completion_ns: now_ns,
            waits: Waits::default(),
        }
    }
}

/// For how long after it came each limit holds a request; 0 where the limit does not hold it, or
/// no longer than the request before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    pub volume_iops_ns: u64,
    pub volume_throughput_ns: u64,
    pub host_iops_ns: u64,
    pub host_throughput_ns: u64,
}

impl Waits {
    /// Those of a request are the longest of its parts.
    fn extend(&mut self, now_ns: u64, until_ns: [f64; 4]) {
        let waits = [
            &mut self.volume_iops_ns,
            &mut self.volume_throughput_ns,
            &mut self.host_iops_ns,
            &mut self.host_throughput_ns,
        ];
        for (wait_ns, until_ns) in waits.into_iter().zip(until_ns) {
            *wait_ns = (*wait_ns).max((until_ns.ceil() as u64).saturating_sub(now_ns));
        }
    }
}

/// When many requests taken at once may start: by the limit on operations and by that on bytes,
/// by the peak rate of each and by its credits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spans {
    pub operations: [Span; 2],
    pub bytes: [Span; 2],
}

impl Spans {
    /// When limits let the last one start: the limit on operations, and that on bytes.
    pub fn last_ns(&self) -> [f64; 2] {
        [self.operations, self.bytes].map(|[peak, credits]| peak.last_ns.max(credits.last_ns))
    }
}

/// What limits leave: operations as counted, and bytes; infinite without a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Room {
    pub operations: f64,
    pub bytes: f64,
}

impl Room {
    pub(crate) fn of(
        operations: &Option<BurstLimit>,
        bytes: &Option<BurstLimit>,
        now_ns: f64,
        until_ns: f64,
    ) -> Self {
        let room = |limit: &Option<BurstLimit>| {
            limit
                .as_ref()
                .map_or(f64::INFINITY, |limit| limit.room(now_ns, until_ns))
        };
        Self {
            operations: room(operations),
            bytes: room(bytes),
        }
    }
}

/// The state of one volume.
#[derive(Debug, Clone)]
pub struct Volume {
    config: DeviceConfig,
    members: Vec<Member>,
    random: Xoshiro256PlusPlus,
    /// Since when everything is let through and the volume's own time stands still.
    unlimited_since_ns: Option<u64>,
    modifications: Modifications,
}

impl Volume {
    /// A volume that has been idle until time 0.
    pub fn new(config: &DeviceConfig, seed: u64) -> Result<Self, ConfigError> {
        Self::new_at(config, seed, 0)
    }

    /// A volume that comes into being at `now_ns`, with its initial credits then.
    pub fn new_at(config: &DeviceConfig, seed: u64, now_ns: u64) -> Result<Self, ConfigError> {
        config.check()?;
        let member = Member::new(&config.member, config.member_bytes(), now_ns as f64);
        Ok(Self {
            config: config.clone(),
            members: vec![member; config.stripes as usize],
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            unlimited_since_ns: None,
            modifications: Modifications::none(),
        })
    }

    /// Takes a request at `now_ns`; the answer is when it is done.
    pub fn submit(&mut self, host: &mut HostCap, now_ns: u64, operation: Operation) -> u64 {
        self.schedule(host, now_ns, operation).completion_ns
    }

    /// Like [`Volume::submit`], and tells the wait before the limits from the latency after it.
    pub fn schedule(&mut self, host: &mut HostCap, now_ns: u64, operation: Operation) -> Timing {
        if self.unlimited_since_ns.is_some() {
            return Timing::at_once(now_ns);
        }
        if operation.kind == OperationKind::Flush {
            // A flush makes durable what was completed before it, and network volumes and disks
            // without a volatile cache are durable by then (NVM Express base specification, Flush).
            self.members.iter_mut().for_each(Member::end_run);
            return Timing::at_once(now_ns);
        }
        self.step_modification(now_ns);
        self.transfer(host, now_ns, operation)
    }

    /// A read or write: done when the last of its parts is.
    fn transfer(&mut self, host: &mut HostCap, now_ns: u64, operation: Operation) -> Timing {
        let mut timing = Timing::at_once(now_ns);
        let length = u64::from(operation.length);
        if length == 0 {
            return timing;
        }
        let mut no_cap = HostCap::new(None);
        let host = if self.config.uses_host_cap {
            host
        } else {
            &mut no_cap
        };
        let random = &mut self.random;
        let mut take = |member: &mut Member, offset, length| {
            let request = (operation.kind, offset, length);
            let (start_ns, done_ns, holds_ns) = member.take(host, random, now_ns as f64, request);
            timing.waits.extend(now_ns, holds_ns);
            timing.start_ns = timing.start_ns.max(start_ns.ceil() as u64);
            timing.completion_ns = timing.completion_ns.max(done_ns.ceil() as u64);
        };
        if let [member] = self.members.as_mut_slice() {
            take(member, operation.offset, length);
            return timing;
        }
        let (stripes, chunk_bytes) = (self.members.len() as u64, self.config.chunk_bytes);
        for part in stripe::parts(stripes, chunk_bytes, operation.offset, length) {
            take(&mut self.members[part.member], part.offset, part.length);
        }
        timing
    }

    /// Takes many requests at `now_ns` at once, spread evenly over the members and without
    /// latency: `counted` operations as the limits count them, of `bytes` in all. The host's cap
    /// is not asked. For long times, over which single requests would be too many.
    pub fn take_many(&mut self, now_ns: f64, counted: f64, bytes: f64) -> Spans {
        self.step_modification(now_ns as u64);
        let stripes = self.members.len() as f64;
        let mut spans = None;
        for member in &mut self.members {
            spans = Some(member.take_many(now_ns, counted / stripes, bytes / stripes));
        }
        spans.expect("a volume has members")
    }

    /// Burst credits left over all members where `counted` operations of `bytes` in all, spread
    /// evenly, were taken and have not started: [`Volume::credits`] counts them as spent.
    pub fn credits_before(&self, now_ns: u64, counted: f64, bytes: f64) -> Option<f64> {
        let stripes = self.members.len() as f64;
        self.members
            .iter()
            .map(|member| member.credits_before(now_ns as f64, counted / stripes, bytes / stripes))
            .sum()
    }

    /// What more may start before `until_ns` where it is spread evenly over the members.
    pub fn room(&self, now_ns: f64, until_ns: f64) -> Room {
        let stripes = self.members.len() as f64;
        let rooms = self
            .members
            .iter()
            .map(|member| member.room(now_ns, until_ns));
        let least = rooms.reduce(|one, other| Room {
            operations: one.operations.min(other.operations),
            bytes: one.bytes.min(other.bytes),
        });
        let least = least.expect("a volume has members");
        Room {
            operations: least.operations * stripes,
            bytes: least.bytes * stripes,
        }
    }

    /// Changes limits and latencies live, and may grow the volume. Name, striping and chunk stay.
    pub fn set_config(&mut self, now_ns: u64, config: &DeviceConfig) -> Result<(), ConfigError> {
        config.check()?;
        self.config.check_change(config)?;
        self.freeze(now_ns);
        for member in &mut self.members {
            member.set_config(&config.member, config.member_bytes(), now_ns as f64);
        }
        self.config = config.clone();
        self.modifications.end();
        Ok(())
    }

    /// Changes the volume as `ModifyVolume` does: the size at once, limits and latencies over
    /// `optimising_ns`. One at a time, and four in any 24 hours.
    pub fn modify(
        &mut self,
        now_ns: u64,
        config: &DeviceConfig,
        optimising_ns: u64,
    ) -> Result<(), ConfigError> {
        config.check()?;
        self.config.check_change(config)?;
        self.freeze(now_ns);
        let source = self.config.member.clone();
        self.modifications
            .begin(&config.name, source, now_ns, optimising_ns)?;
        self.config = config.clone();
        self.step_modification(now_ns);
        Ok(())
    }

    #[inline]
    fn step_modification(&mut self, now_ns: u64) {
        if now_ns < self.modifications.next_step_ns {
            return;
        }
        let present = self.modifications.step(&self.config.member, now_ns);
        for member in &mut self.members {
            member.set_config(&present, self.config.member_bytes(), now_ns as f64);
        }
    }

    /// The modification that is under way at `now_ns`.
    pub fn modification(&self, now_ns: u64) -> Option<Modification> {
        self.modifications.present(now_ns)
    }

    /// How many modifications began in the 24 hours before `now_ns`.
    pub fn modifications_24h(&self, now_ns: u64) -> u32 {
        self.modifications.in_24_h(now_ns)
    }

    /// What the volume is, or is becoming by a modification.
    pub fn config(&self) -> &DeviceConfig {
        &self.config
    }

    /// Lets everything through at once while it is on: for loading, never for measuring.
    ///
    /// Credits and what comes from a snapshot stand still meanwhile: a measurement begins with what
    /// there was before the loading.
    pub fn set_unlimited(&mut self, now_ns: u64, unlimited: bool) {
        self.freeze(now_ns);
        if unlimited != self.is_unlimited() {
            self.unlimited_since_ns = unlimited.then_some(now_ns);
        }
    }

    pub fn is_unlimited(&self) -> bool {
        self.unlimited_since_ns.is_some()
    }

    /// Takes the time without limits up to `now_ns` out of the volume's own.
    fn freeze(&mut self, now_ns: u64) {
        let Some(since_ns) = self.unlimited_since_ns else {
            return;
        };
        let now_ns = now_ns.max(since_ns);
        for member in &mut self.members {
            member.freeze(since_ns as f64, now_ns as f64);
        }
        self.unlimited_since_ns = Some(now_ns);
    }

    /// The time as far as credits and snapshots have come.
    fn own_time_ns(&self, now_ns: u64) -> f64 {
        now_ns.min(self.unlimited_since_ns.unwrap_or(u64::MAX)) as f64
    }

    /// Burst credits left over all members, or `None` for a volume without.
    pub fn credits(&self, now_ns: u64) -> Option<f64> {
        let now_ns = self.own_time_ns(now_ns);
        self.members
            .iter()
            .map(|member| member.credits(now_ns))
            .sum()
    }

    /// Fills every member's bucket to a fraction of it; false for a volume without credits.
    pub fn set_credits(&mut self, now_ns: u64, fraction: f64) -> bool {
        self.freeze(now_ns);
        let mut found = false;
        for member in &mut self.members {
            found |= member.set_credits(now_ns as f64, fraction);
        }
        found
    }

    /// The share of a restored volume's data that is there; `None` where nothing is waited for.
    pub fn restored(&self, now_ns: u64) -> Option<f64> {
        let now_ns = self.own_time_ns(now_ns);
        let shares = self.members.iter().map(|member| member.restored(now_ns));
        let waits = self
            .members
            .iter()
            .any(|member| member.restored(now_ns).is_some());
        let sum: f64 = shares.map(|share| share.unwrap_or(1.0)).sum();
        waits.then(|| sum / self.members.len() as f64)
    }
}
