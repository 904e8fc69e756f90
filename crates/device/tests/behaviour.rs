//! What a volume must do, example by example and as laws over any requests.

mod common;

use common::{
    KIB, SECOND_NS, gp2_100_gib, gp3, operation, read, run_closed, run_closed_at, with_latency,
};
use pgstow_device::{
    BurstConfig, BurstKind, DeviceConfig, HostCap, HostCapConfig, Operation, OperationKind, Volume,
};

/// Operations counted: with one a second allowed, the schedule says how many were taken.
fn counted(requests: &[(u64, u64)]) -> u64 {
    let mut device = gp3();
    device.member.iops = Some(1.0);
    device.member.bytes_per_second = None;
    let mut volume = Volume::new(&device, 1).unwrap();
    let mut host = HostCap::new(None);
    for &(offset, length) in requests {
        volume.submit(&mut host, 0, read(offset, length));
    }
    let next_ns = volume.submit(&mut host, 0, read(1 << 40, 512));
    (next_ns + 10_000_000) / SECOND_NS
}

#[test]
fn requests_are_counted_in_units_and_merged() {
    let sequential: Vec<_> = (0..8).map(|i| (i * 32 * KIB, 32 * KIB)).collect();
    let random: Vec<_> = (0..8).map(|i| (i * 96 * KIB, 32 * KIB)).collect();
    assert_eq!(counted(&sequential), 1);
    assert_eq!(counted(&random), 8);
    assert_eq!(counted(&[(0, 1024 * KIB)]), 4);
    assert_eq!(
        counted(&[
            (0, 100 * KIB),
            (100 * KIB, 100 * KIB),
            (200 * KIB, 100 * KIB)
        ]),
        2
    );
    assert_eq!(counted(&[(0, 8 * KIB), (8 * KIB, 256 * KIB)]), 2);
    assert_eq!(counted(&[(0, 256 * KIB), (256 * KIB, 8 * KIB)]), 2);
}

#[test]
fn a_write_does_not_merge_with_a_read_nor_across_a_flush() {
    let mut device = gp3();
    device.member.iops = Some(1.0);
    let mut host = HostCap::new(None);
    let count = |operations: &[Operation], host: &mut HostCap| {
        let mut volume = Volume::new(&device, 1).unwrap();
        operations
            .iter()
            .map(|&op| volume.submit(host, 0, op))
            .max()
            .unwrap()
    };
    let write = |offset| operation(OperationKind::Write, offset, 8 * KIB);
    let flush = operation(OperationKind::Flush, 0, 0);
    assert_eq!(
        count(&[write(0), write(8 * KIB), write(16 * KIB)], &mut host),
        0
    );
    assert!(count(&[write(0), flush, write(8 * KIB)], &mut host) > SECOND_NS / 2);
    assert!(count(&[read(0, 8 * KIB), write(8 * KIB)], &mut host) > SECOND_NS / 2);
}

#[test]
fn sustained_rates_are_the_limits_within_half_a_percent() {
    for (length, expected) in [(8 * KIB, 3000.0), (64 * KIB, 2000.0), (1024 * KIB, 125.0)] {
        let mut volume = Volume::new(&with_latency(gp3()), 3).unwrap();
        let rate = run_closed(&mut volume, 32, length, 20 * SECOND_NS) as f64 / 20.0;
        assert!(
            (rate / expected - 1.0).abs() < 0.005,
            "{length}: {rate} against {expected}"
        );
    }
}

#[test]
fn gp2_bursts_for_two_thousand_seconds_and_falls_to_its_baseline() {
    let mut volume = Volume::new(&gp2_100_gib(), 1).unwrap();
    let mut host = HostCap::new(None);
    let burst = run_closed_at(&mut volume, &mut host, 32, 8 * KIB, 0, 1980 * SECOND_NS);
    assert!((burst as f64 / 1980.0 / 3000.0 - 1.0).abs() < 0.005);
    assert!(volume.credits(1980 * SECOND_NS).unwrap() < 5.4e6 * 0.02);
    let mut count = |from: u64, until: u64| {
        let (from_ns, until_ns) = (from * SECOND_NS, until * SECOND_NS);
        let done = run_closed_at(&mut volume, &mut host, 32, 8 * KIB, from_ns, until_ns);
        done as f64 / (until - from) as f64
    };
    count(1980, 2020);
    let baseline = count(2020, 2120);
    assert!((baseline / 300.0 - 1.0).abs() < 0.01, "{baseline}");
    // 40 s of rest earn 12,000 credits, and the burst spends 2,700 of them a second.
    let rested = count(2160, 2164);
    assert!(rested > 2900.0, "{rested}");
}

#[test]
fn byte_credits_are_spent_in_whole_units() {
    let mib = 1024.0 * 1024.0;
    let mut device = gp3();
    device.member.iops = Some(500.0);
    device.member.bytes_per_second = Some(20.0 * mib);
    device.member.io_unit_bytes = 1024 * KIB;
    device.member.burst = Some(BurstConfig {
        kind: BurstKind::Bytes,
        capacity: 1000.0 * mib,
        refill_per_s: 20.0 * mib,
        burst_rate: 125.0 * mib,
        initial: 0.0,
    });
    let mut random = Volume::new(&device, 1).unwrap();
    let rate = run_closed(&mut random, 8, 16 * KIB, 100 * SECOND_NS) as f64 / 100.0;
    assert!((rate / 20.0 - 1.0).abs() < 0.02, "{rate}");
    device.member.burst.as_mut().unwrap().initial = 1.0;
    let mut volume = Volume::new(&device, 1).unwrap();
    let mut host = HostCap::new(None);
    let mut done_ns = 0;
    for index in 0..1000 {
        done_ns = volume.submit(&mut host, done_ns, read(index * 64 * KIB, 64 * KIB));
    }
    let bytes_per_second = 1000.0 * 64.0 * 1024.0 / (done_ns as f64 / 1e9);
    assert!(
        (bytes_per_second / (125.0 * mib) - 1.0).abs() < 0.1,
        "{bytes_per_second}"
    );
}

#[test]
fn a_flush_waits_for_nothing_that_is_still_under_way() {
    let mut volume = Volume::new(&with_latency(gp3()), 5).unwrap();
    let mut host = HostCap::new(None);
    let write = operation(OperationKind::Write, 0, 8192);
    assert!(volume.submit(&mut host, 10, write) > 11);
    let flush = operation(OperationKind::Flush, 0, 0);
    assert_eq!(volume.submit(&mut host, 11, flush), 11);
}

#[test]
fn the_host_cap_is_shared_and_sustained() {
    let config = HostCapConfig {
        iops: Some(20_000.0),
        bytes_per_second: Some(1e9),
        burst_iops: Some(40_000.0),
        burst_bytes_per_second: None,
        burst_initial: None,
    };
    let mut host = HostCap::new(Some(&config));
    let mut volumes: Vec<Volume> = (0..16)
        .map(|seed| Volume::new(&gp3(), seed).unwrap())
        .collect();
    let mut due = std::collections::BinaryHeap::new();
    for index in 0..128usize {
        due.push(std::cmp::Reverse((0u64, index % 16)));
    }
    let mut done = 0u64;
    while let Some(std::cmp::Reverse((now_ns, index))) = due.pop() {
        if now_ns > 5 * SECOND_NS {
            break;
        }
        done += 1;
        let request = read(done * 64 * KIB, 8192);
        due.push(std::cmp::Reverse((
            volumes[index].submit(&mut host, now_ns, request),
            index,
        )));
    }
    let rate = done as f64 / 5.0;
    assert!((rate / 20_000.0 - 1.0).abs() < 0.005, "{rate}");
}

#[test]
fn a_disk_inside_the_host_does_not_pass_its_cap() {
    let config = HostCapConfig {
        iops: Some(100.0),
        bytes_per_second: None,
        burst_iops: None,
        burst_bytes_per_second: None,
        burst_initial: None,
    };
    let mut device = gp3();
    for (uses_host_cap, expected) in [(true, 100.0), (false, 3000.0)] {
        device.uses_host_cap = uses_host_cap;
        let mut volume = Volume::new(&device, 1).unwrap();
        let mut host = HostCap::new(Some(&config));
        let (until_ns, seconds) = (50 * SECOND_NS, 50.0);
        let done = run_closed_at(&mut volume, &mut host, 8, 8192, 0, until_ns);
        assert!(
            (done as f64 / seconds / expected - 1.0).abs() < 0.005,
            "{done}"
        );
    }
}

#[test]
fn unlimited_volumes_answer_at_once_and_limits_come_back() {
    let mut volume = Volume::new(&with_latency(gp3()), 1).unwrap();
    let mut host = HostCap::new(None);
    volume.set_unlimited(0, true);
    assert!((0..10_000).all(|i| volume.submit(&mut host, 5, read(i * 512 * KIB, 8192)) == 5));
    volume.set_unlimited(6, false);
    assert!(volume.submit(&mut host, 6, read(0, 8192)) > 100_000);
}

#[test]
fn limits_change_live_and_impossible_changes_are_refused() {
    let mut volume = Volume::new(&gp3(), 1).unwrap();
    let mut faster = gp3();
    faster.member.iops = Some(6000.0);
    faster.size_bytes += 1;
    volume.set_config(SECOND_NS, &faster).unwrap();
    let mut host = HostCap::new(None);
    let (from_ns, until_ns) = (SECOND_NS, 11 * SECOND_NS);
    let rate = run_closed_at(&mut volume, &mut host, 32, 8192, from_ns, until_ns) as f64 / 10.0;
    assert!((rate / 6000.0 - 1.0).abs() < 0.005, "{rate}");
    assert!(
        volume
            .set_config(0, &gp3())
            .unwrap_err()
            .to_string()
            .contains("only grow")
    );
    faster.stripes = 2;
    assert!(
        volume
            .set_config(0, &faster)
            .unwrap_err()
            .to_string()
            .contains("striping")
    );
}

#[test]
fn a_live_change_keeps_the_credits() {
    let mut volume = Volume::new(&gp2_100_gib(), 1).unwrap();
    let done = run_closed(&mut volume, 32, 8192, 1000 * SECOND_NS);
    assert!(done > 2_990_000);
    let mut larger = gp2_100_gib();
    larger.member.iops = Some(600.0);
    larger.member.burst.as_mut().unwrap().refill_per_s = 600.0;
    volume.set_config(1000 * SECOND_NS, &larger).unwrap();
    let left = volume.credits(1000 * SECOND_NS).unwrap();
    assert!((left / 2.7e6 - 1.0).abs() < 0.01, "{left}");
}

#[test]
fn impossible_devices_are_refused_by_name() {
    type Change = fn(&mut DeviceConfig);
    let changes: [(Change, &str); 7] = [
        (|d| d.size_bytes = 0, "size_bytes"),
        (|d| d.stripes = 0, "stripes"),
        (|d| d.chunk_bytes = 0, "chunk_bytes"),
        (|d| d.member.iops = Some(-1.0), "iops"),
        (
            |d| d.member.bytes_per_second = Some(f64::NAN),
            "bytes_per_second",
        ),
        (|d| d.member.io_unit_bytes = 0, "io_unit_bytes"),
        (|d| d.member.latency.read_us_p50 = 5.0, "read_us"),
    ];
    for (change, named) in changes {
        let mut device = gp3();
        change(&mut device);
        let message = Volume::new(&device, 1).unwrap_err().to_string();
        assert!(
            message.contains("\"data\"") && message.contains(named),
            "{message}"
        );
    }
}

#[test]
fn devices_and_hosts_are_read_from_json() {
    let device: DeviceConfig = serde_json::from_str(
        r#"{"name": "d", "size_bytes": 1073741824, "stripes": 2, "chunk_bytes": 65536,
            "member": {"iops": 300, "bytes_per_second": null, "io_unit_bytes": 262144,
            "latency": {"read_us_p50": 600, "read_us_p99": 1500.5, "write_us_p50": 700,
                "write_us_p99": 1800},
            "burst": {"kind": "iops", "capacity": 5.4e6, "refill_per_s": 300,
                "burst_rate": 3000, "initial": 1.0}}}"#,
    )
    .unwrap();
    assert_eq!(device.member.burst.as_ref().unwrap().kind, BurstKind::Iops);
    assert!(device.check().is_ok());
    let host: HostCapConfig = serde_json::from_str(
        r#"{"iops": 3600, "bytes_per_second": null, "burst_iops": 40000,
            "burst_bytes_per_second": null}"#,
    )
    .unwrap();
    assert_eq!(host.burst_initial, None);
}

#[test]
fn reads_and_writes_have_each_their_own_limit() {
    let mut device = gp3();
    device.member.iops = Some(2000.0);
    device.member.write_iops = Some(500.0);
    let mut host = HostCap::new(None);
    let mut per_second = |kinds: &[OperationKind]| {
        let mut volume = Volume::new(&device, 1).unwrap();
        let starts_ns = (0..8000u64).map(|index| {
            let kind = kinds[index as usize % kinds.len()];
            let operation = common::operation(kind, index * KIB * KIB, 4 * KIB);
            volume.schedule(&mut host, 0, operation).start_ns
        });
        8000.0 * 1e9 / starts_ns.max().unwrap() as f64
    };
    let rates = [
        per_second(&[OperationKind::Read]),
        per_second(&[OperationKind::Write]),
        per_second(&[OperationKind::Read, OperationKind::Write]),
    ];
    for (rate, expected) in rates.into_iter().zip([2000.0, 500.0, 800.0]) {
        assert!(
            (rate / expected - 1.0).abs() < 0.01,
            "{rate} for {expected}"
        );
    }
    device.member.iops = None;
    assert!(
        Volume::new(&device, 1)
            .unwrap_err()
            .to_string()
            .contains("write_iops")
    );
}
