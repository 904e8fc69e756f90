//! Many requests taken at once against the same requests one by one.

use pgstow_device::{DeviceConfig, HostCap, Operation, OperationKind, Volume};
use proptest::prelude::*;

/// A gp2-like volume: a burst of 3,000 operations a second over 300.
fn device(stripes: u32, credits: f64) -> DeviceConfig {
    let text = format!(
        r#"{{"name": "data", "size_bytes": 107374182400, "stripes": {stripes}, "chunk_bytes": 65536,
        "member": {{"iops": 300.0, "bytes_per_second": 134217728.0, "io_unit_bytes": 262144,
        "latency": {{"read_us_p50": 0, "read_us_p99": 0, "write_us_p50": 0, "write_us_p99": 0}},
        "burst": {{"kind": "iops", "capacity": {credits}, "refill_per_s": 300.0,
        "burst_rate": 3000.0}}}}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

proptest! {
    #[test]
    fn the_last_of_many_starts_as_it_would_alone(
        stripes in 1u32..4, credits in 50.0f64..5000.0, count in 1u64..2000, chunks in 1u64..16
    ) {
        let device = device(stripes, credits);
        let (mut single, mut many) = (Volume::new(&device, 1).unwrap(), Volume::new(&device, 1).unwrap());
        let mut host = HostCap::new(None);
        let mut last_ns = 0;
        let rounds = u64::from(stripes) * 2;
        for index in 0..count * u64::from(stripes) {
            // Every second chunk of a member, so that nothing is sequential.
            let (round, member) = (index / u64::from(stripes), index % u64::from(stripes));
            let offset = (round * rounds + member) * device.chunk_bytes;
            let length = u32::try_from(4096 * chunks).unwrap();
            let operation = Operation { kind: OperationKind::Read, offset, length };
            last_ns = single.schedule(&mut host, 0, operation).start_ns;
        }
        let all = (count * u64::from(stripes)) as f64;
        let bytes = all * 4096.0 * chunks as f64;
        let spans = many.take_many(0.0, all, bytes);
        let span_last_ns = spans.last_ns().into_iter().fold(0.0, f64::max);
        // The schedule's end is one operation past the start of the last.
        let one_ns = (1e9 / 300.0_f64).max(4096.0 * chunks as f64 / 134_217_728.0 * 1e9);
        prop_assert!((span_last_ns - last_ns as f64).abs() <= one_ns + 1.0, "{spans:?} {last_ns}");
        let (left, expected) = (many.credits(0).unwrap(), single.credits(0).unwrap());
        prop_assert!((left - expected).abs() < 1e-3 + expected * 1e-9, "{left} {expected}");
    }

    #[test]
    fn what_has_not_started_is_not_spent(units in 4000.0f64..50_000.0, at_s in 0.1f64..1.0) {
        let mut volume = Volume::new(&device(2, 4000.0), 1).unwrap();
        volume.take_many(0.0, units, 0.0);
        // Two members start 3,000 a second each, after 10 ms worth at once.
        let started = 6000.0 * (at_s + 0.01);
        let queued = (units - started).max(0.0);
        let left = volume.credits_before((at_s * 1e9) as u64, queued, 0.0).unwrap();
        let expected = (8000.0 - started.min(units) + 600.0 * at_s).clamp(0.0, 8000.0);
        prop_assert!((left - expected).abs() < 1.0, "{left} {expected}");
    }

    #[test]
    fn what_there_is_room_for_starts_in_time_and_no_more_would(
        until_ms in 1u64..100_000, taken in 0.0f64..5000.0
    ) {
        let mut volume = Volume::new(&device(2, 4000.0), 1).unwrap();
        volume.take_many(0.0, taken, taken * 8192.0);
        let until_ns = until_ms as f64 * 1e6;
        let room = volume.room(0.0, until_ns).operations;
        let ends = |volume: &Volume, units: f64| {
            volume.clone().take_many(0.0, units, 0.0).last_ns()[0]
        };
        if room > 0.0 {
            prop_assert!(ends(&volume, room) <= until_ns + 1.0);
        }
        prop_assert!(ends(&volume, room + 10.0) > until_ns);
    }
}
