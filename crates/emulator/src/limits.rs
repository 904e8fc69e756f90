//! Limits switched on and off, burst credits, and the host's cap.

use pgstow_device::{HostCap, HostCapConfig};

use crate::store::Store;

impl Store {
    /// Takes the time in which no volume was limited out of the host's own.
    pub fn let_host_rest(&mut self, now_ns: u64) {
        if let Some(since_ns) = self.host_rests_since_ns {
            self.host.freeze(since_ns as f64, now_ns as f64);
        }
        let is_used = self
            .volumes
            .values()
            .any(|volume| volume.timing.config().uses_host_cap && !volume.timing.is_unlimited());
        self.host_rests_since_ns = (!is_used).then_some(now_ns);
    }

    pub fn set_host(&mut self, config: Option<HostCapConfig>, now_ns: u64) -> Result<(), String> {
        if let Some(config) = &config {
            config.check().map_err(|error| error.to_string())?;
        }
        self.let_host_rest(now_ns);
        self.host = HostCap::new_at(config.as_ref(), now_ns);
        self.host_config = config;
        Ok(())
    }

    /// Switches limits and latency of one volume or of all, present and to come.
    ///
    /// Credits stand still while limits are off.
    pub fn set_limits(
        &mut self,
        enabled: bool,
        name: Option<&str>,
        now_ns: u64,
    ) -> Result<(), String> {
        if let Some(name) = name {
            self.named(name)?.1.timing.set_unlimited(now_ns, !enabled);
        } else {
            self.limits_enabled = enabled;
            for volume in self.volumes.values_mut() {
                volume.timing.set_unlimited(now_ns, !enabled);
            }
        }
        self.let_host_rest(now_ns);
        Ok(())
    }

    /// Fills the buckets of credits of one volume, or of all that have some, to a fraction.
    pub fn set_credits(
        &mut self,
        fraction: f64,
        name: Option<&str>,
        now_ns: u64,
    ) -> Result<(), String> {
        if !(0.0..=1.0).contains(&fraction) {
            return Err(format!("credits must be 0 to 1, not {fraction}"));
        }
        if let Some(name) = name {
            let has_credits = self.named(name)?.1.timing.set_credits(now_ns, fraction);
            return if has_credits {
                Ok(())
            } else {
                Err(format!("volume {name:?} has no burst credits"))
            };
        }
        for volume in self.volumes.values_mut() {
            volume.timing.set_credits(now_ns, fraction);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pgstow_device::DeviceConfig;

    use super::*;
    use crate::guard::MemoryGuard;
    use crate::store::tests::device;

    #[test]
    fn limits_are_switched_for_one_or_all() {
        let mut store = Store::new(MemoryGuard::new(0), 1);
        store.set_limits(false, None, 0).unwrap();
        store.add(&device("a"), 0).unwrap();
        store.add(&device("b"), 0).unwrap();
        store.set_limits(true, Some("b"), 0).unwrap();
        let unlimited: Vec<bool> = store
            .iter()
            .map(|(_, volume)| volume.timing.is_unlimited())
            .collect();
        assert_eq!(unlimited, [true, false]);
        assert!(store.set_limits(true, Some("c"), 0).is_err());
    }

    /// gp2-like, and a host that may burst as well.
    fn bursting() -> (DeviceConfig, HostCapConfig) {
        let mut volume = device("a");
        volume.member.iops = Some(300.0);
        volume.member.burst = Some(pgstow_device::BurstConfig {
            kind: pgstow_device::BurstKind::Iops,
            capacity: 6000.0,
            refill_per_s: 300.0,
            burst_rate: 3000.0,
            initial: 0.0,
        });
        let host = HostCapConfig {
            iops: Some(1000.0),
            bytes_per_second: None,
            burst_iops: Some(2000.0),
            burst_bytes_per_second: None,
            burst_initial: Some(0.0),
        };
        (volume, host)
    }

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn nobody_earns_credits_while_limits_are_lifted() {
        let (volume, host) = bursting();
        let mut store = Store::new(MemoryGuard::new(0), 1);
        store.set_host(Some(host), 10 * SECOND_NS).unwrap();
        store.add(&volume, 20 * SECOND_NS).unwrap();
        store.set_limits(false, Some("a"), 20 * SECOND_NS).unwrap();
        store.set_limits(true, Some("a"), 80 * SECOND_NS).unwrap();
        store.set_limits(false, None, 80 * SECOND_NS).unwrap();
        let described = |store: &Store, seconds| {
            let (about, at_ns) = (
                store.iter().map(|(node, _)| node).collect::<Vec<_>>(),
                seconds,
            );
            let about = store.describe(&about, at_ns * SECOND_NS);
            let host = about["host_credits"]["iops"].as_f64().unwrap();
            (about["credits"]["a"].as_f64().unwrap(), host)
        };
        assert_eq!(described(&store, 170), (0.0, 0.0));
        store.set_limits(true, None, 180 * SECOND_NS).unwrap();
        assert_eq!(described(&store, 180), (0.0, 0.0));
        let (credits, share) = described(&store, 190);
        assert_eq!(credits, 3000.0);
        assert!((share - 10.0 / 1800.0).abs() < 1e-9, "{share}");
    }

    #[test]
    fn credits_can_be_set_and_only_where_there_are_some() {
        let mut store = Store::new(MemoryGuard::new(0), 1);
        store.add(&bursting().0, 0).unwrap();
        store.add(&device("b"), 0).unwrap();
        store.set_credits(0.5, Some("a"), SECOND_NS).unwrap();
        let balance = |store: &Store| {
            let node = store.find(b"a").unwrap();
            store.get(node).unwrap().burst_balance_percent(SECOND_NS)
        };
        assert_eq!(balance(&store), Some(50.0));
        store.set_credits(0.25, None, SECOND_NS).unwrap();
        assert_eq!(balance(&store), Some(25.0));
        assert!(
            store
                .set_credits(0.5, Some("b"), 0)
                .unwrap_err()
                .contains("no burst credits")
        );
        for fraction in [-0.1, 1.1, f64::NAN] {
            assert!(store.set_credits(fraction, None, 0).is_err());
        }
    }
}
