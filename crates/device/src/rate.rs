//! Rate limits by virtual scheduling (GCRA, ITU-T I.371): one time per limit is all the state.

/// What an idle limit lets through at once, in time: small beside any second measured, so that
/// the sustained rate is the limit, and larger than a timer's slack, so that none is lost.
const TOLERANCE_NS: f64 = 10e6;

/// A limit of so many units a second, with a tolerance: how far ahead of its schedule it may run.
#[derive(Debug, Clone)]
pub struct RateLimit {
    ns_per_unit: f64,
    tolerance_ns: f64,
    /// When the schedule, which gives every unit its share of a second, would start the next one.
    scheduled_ns: f64,
}

impl RateLimit {
    /// A plain limit that has been idle.
    pub fn new(rate_per_s: f64) -> Self {
        Self::with_tolerance(rate_per_s, TOLERANCE_NS)
    }

    /// A bucket of `capacity` units, filled to `initial` at `now_ns`, refilled at `rate_per_s`.
    pub fn credits(rate_per_s: f64, capacity: f64, initial: f64, now_ns: f64) -> Self {
        let capacity_ns = capacity / rate_per_s * 1e9;
        let mut limit = Self::with_tolerance(rate_per_s, capacity_ns.max(TOLERANCE_NS));
        limit.scheduled_ns = now_ns + (1.0 - initial) * limit.tolerance_ns;
        limit
    }

    fn with_tolerance(rate_per_s: f64, tolerance_ns: f64) -> Self {
        Self {
            ns_per_unit: 1e9 / rate_per_s,
            tolerance_ns,
            scheduled_ns: 0.0,
        }
    }

    /// From when on the next units may start.
    pub fn opens_ns(&self) -> f64 {
        self.scheduled_ns - self.tolerance_ns
    }

    /// Starts `units` at `start_ns`, not before the limit opens and not before those started last.
    pub fn start(&mut self, start_ns: f64, units: f64) {
        self.scheduled_ns = self.scheduled_ns.max(start_ns) + units * self.ns_per_unit;
    }

    /// Starts `units` as soon as may be from `now_ns` on; the answer is when.
    pub fn take(&mut self, now_ns: f64, units: f64) -> f64 {
        let start_ns = now_ns.max(self.opens_ns());
        self.start(start_ns, units);
        start_ns
    }

    /// Takes many units at once, as if they came at `now_ns` or a little later.
    pub fn take_many(&mut self, now_ns: f64, units: f64) -> Span {
        let first_ns = self.scheduled_ns.max(now_ns) - self.tolerance_ns;
        self.start(now_ns, units);
        let last_ns = self.opens_ns();
        Span { first_ns, last_ns }
    }

    /// Units beyond those taken that may start before `until_ns`.
    pub fn room(&self, now_ns: f64, until_ns: f64) -> f64 {
        let begun_ns = self.scheduled_ns.max(now_ns);
        ((until_ns + self.tolerance_ns - begun_ns) / self.ns_per_unit).max(0.0)
    }

    /// What is left of the bucket, as a fraction of it; debts count as empty.
    pub fn fill(&self, now_ns: f64) -> f64 {
        (1.0 - (self.scheduled_ns - now_ns) / self.tolerance_ns).clamp(0.0, 1.0)
    }

    /// Units in the bucket at `now_ns` where some of those taken have not started and count as
    /// not yet spent.
    pub fn balance_before(&self, now_ns: f64, queued: f64) -> f64 {
        let spent_ns = self.scheduled_ns - queued * self.ns_per_unit - now_ns;
        (1.0 - spent_ns / self.tolerance_ns).clamp(0.0, 1.0) * self.tolerance_ns / self.ns_per_unit
    }

    /// Units in the bucket at `now_ns`.
    pub fn balance(&self, now_ns: f64) -> f64 {
        self.fill(now_ns) * self.tolerance_ns / self.ns_per_unit
    }

    /// Leaves the balance at `until_ns` what it was at `from_ns`; of a debt goes what was let start
    /// meanwhile.
    fn freeze(&mut self, from_ns: f64, until_ns: f64) {
        let shifted_ns = self.scheduled_ns.max(from_ns) + (until_ns - from_ns);
        let empty_ns = until_ns + self.tolerance_ns;
        self.scheduled_ns = self.scheduled_ns.max(shifted_ns.min(empty_ns));
    }

    /// Opens no earlier than `opens_ns`.
    fn wait_until(&mut self, opens_ns: f64) {
        self.scheduled_ns = self.scheduled_ns.max(opens_ns + self.tolerance_ns);
    }

    /// Units in a full bucket.
    fn capacity(&self) -> f64 {
        self.tolerance_ns / self.ns_per_unit
    }

    /// Changes the rate and keeps what is already scheduled.
    pub fn set_rate(&mut self, rate_per_s: f64) {
        self.ns_per_unit = 1e9 / rate_per_s;
    }
}

/// From when on one limit lets the first and the last of many requests start, and those between
/// evenly between; what would be before they come is at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    pub first_ns: f64,
    pub last_ns: f64,
}

impl Span {
    /// What starts at once.
    pub fn at(now_ns: f64) -> Self {
        Self {
            first_ns: now_ns,
            last_ns: now_ns,
        }
    }
}

/// A limit that may have credits: the peak rate, and below it the bucket that pays for a burst.
#[derive(Debug, Clone)]
pub struct BurstLimit {
    peak: RateLimit,
    credits: Option<RateLimit>,
}

/// What a [`BurstLimit`] is made of.
#[derive(Debug, Clone, Copy)]
pub struct Credits {
    pub capacity: f64,
    pub refill_per_s: f64,
    pub burst_rate: f64,
    pub initial: f64,
}

impl BurstLimit {
    pub fn new(baseline: f64, credits: Option<Credits>, now_ns: f64) -> Self {
        match credits {
            None => Self {
                peak: RateLimit::new(baseline),
                credits: None,
            },
            Some(credits) => Self {
                peak: RateLimit::new(credits.burst_rate),
                // An empty bucket still gives the baseline, whatever the refill.
                credits: Some(RateLimit::credits(
                    credits.refill_per_s.max(baseline),
                    credits.capacity,
                    credits.initial,
                    now_ns,
                )),
            },
        }
    }

    /// From when on the next units may start.
    pub fn opens_ns(&self) -> f64 {
        let opens_ns = self.peak.opens_ns();
        match &self.credits {
            None => opens_ns,
            Some(credits) => opens_ns.max(credits.opens_ns()),
        }
    }

    /// Until when a limit, if there is one, holds units longer than those before them; else 0.
    ///
    /// Units that count nothing ride with what they were merged into.
    pub fn holds(limit: &Option<Self>, behind_ns: f64, units: f64) -> f64 {
        match limit {
            Some(limit) if units > 0.0 => Some(limit.opens_ns())
                .filter(|&opens_ns| opens_ns > behind_ns)
                .unwrap_or(0.0),
            _ => 0.0,
        }
    }

    /// Starts `units` at `start_ns`, not before the limit opens and not before those started last.
    pub fn start(&mut self, start_ns: f64, units: f64) {
        self.peak.start(start_ns, units);
        if let Some(credits) = &mut self.credits {
            credits.start(start_ns, units);
        }
    }

    /// Takes many units at once; the answers are the peak's and the credits'.
    pub fn take_many(&mut self, now_ns: f64, units: f64) -> [Span; 2] {
        let peak = self.peak.take_many(now_ns, units);
        let credits = match &mut self.credits {
            None => Span::at(now_ns),
            Some(credits) => credits.take_many(now_ns, units),
        };
        [peak, credits]
    }

    /// Units beyond those taken that may start before `until_ns`.
    pub fn room(&self, now_ns: f64, until_ns: f64) -> f64 {
        let room = self.peak.room(now_ns, until_ns);
        match &self.credits {
            None => room,
            Some(credits) => room.min(credits.room(now_ns, until_ns)),
        }
    }

    /// Credits left where `queued` units have not started, or `None` for a limit without.
    pub fn balance_before(&self, now_ns: f64, queued: f64) -> Option<f64> {
        self.credits
            .as_ref()
            .map(|bucket| bucket.balance_before(now_ns, queued))
    }

    /// What that is as a fraction of all credits.
    pub fn fill_before(&self, now_ns: f64, queued: f64) -> Option<f64> {
        let bucket = self.credits.as_ref()?;
        Some(bucket.balance_before(now_ns, queued) / bucket.capacity())
    }

    /// The limit for a changed configuration: what is scheduled stays so, credits are kept, and so
    /// is a debt.
    pub fn changed(&self, baseline: f64, credits: Option<Credits>, now_ns: f64) -> Self {
        let kept = credits.map(|credits| Credits {
            initial: match &self.credits {
                Some(bucket) => (bucket.balance(now_ns) / credits.capacity).min(1.0),
                None => credits.initial,
            },
            ..credits
        });
        let mut limit = Self::new(baseline, kept, now_ns);
        let peak_rate = kept.map_or(baseline, |credits| credits.burst_rate);
        limit.peak = self.peak.clone();
        limit.peak.set_rate(peak_rate);
        limit.peak.wait_until(self.opens_ns());
        if let (Some(bucket), Some(past)) = (&mut limit.credits, &self.credits)
            && past.opens_ns() > now_ns
        {
            bucket.wait_until(past.opens_ns());
        }
        limit
    }

    /// Fills the bucket to a fraction of it, a debt included; false for a limit without credits.
    pub fn set_credits(&mut self, now_ns: f64, fraction: f64) -> bool {
        self.credits.as_mut().is_some_and(|bucket| {
            bucket.scheduled_ns = now_ns + (1.0 - fraction) * bucket.tolerance_ns;
            true
        })
    }

    /// Neither gives nor takes credits from `from_ns` to `until_ns`.
    pub fn freeze(&mut self, from_ns: f64, until_ns: f64) {
        if let Some(credits) = &mut self.credits {
            credits.freeze(from_ns, until_ns);
        }
    }

    /// Credits left, or `None` for a limit without.
    pub fn balance(&self, now_ns: f64) -> Option<f64> {
        self.credits.as_ref().map(|bucket| bucket.balance(now_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_limit_starts_at_once_and_then_paces() {
        let mut limit = RateLimit::new(1000.0);
        let starts: Vec<f64> = (0..20).map(|_| limit.take(1e9, 1.0)).collect();
        assert!(starts[..11].iter().all(|&start_ns| start_ns == 1e9));
        assert_eq!(starts[19], 1e9 + 9e6);
    }

    #[test]
    fn an_empty_bucket_gives_its_refill() {
        let mut bucket = RateLimit::credits(100.0, 1000.0, 0.0, 0.0);
        assert_eq!(bucket.take(0.0, 1.0), 0.0);
        assert_eq!(bucket.take(0.0, 1.0), 10e6);
        assert_eq!(bucket.balance(20e6), 0.0);
        assert!((bucket.balance(1.02e9) - 100.0).abs() < 1e-6);
    }
}
