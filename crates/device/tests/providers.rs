//! What Amazon publishes of its volumes, replayed: EBS user guide, "General Purpose SSD volumes",
//! "Throughput Optimized HDD and Cold HDD volumes" and "I/O characteristics", read 2026-11-20.

mod common;

use common::{KIB, SECOND_NS, gp3, read, run_closed_at};
use pgstow_device::{
    BurstConfig, BurstKind, DeviceConfig, HostCap, HostCapConfig, MechanicsConfig, Volume,
};

const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;
const TIB: f64 = (1024 * GIB) as f64;

/// gp2 of so many GiB, as the catalog makes it.
fn gp2(gib: f64) -> DeviceConfig {
    let baseline = (3.0 * gib).clamp(100.0, 16_000.0);
    let mut device = gp3();
    device.size_bytes = (gib * GIB as f64) as u64;
    device.member.iops = Some(baseline);
    let throughput = if gib <= 170.0 { 128 * MIB } else { 250 * MIB };
    device.member.bytes_per_second = Some(throughput as f64);
    device.member.burst = (baseline < 3000.0).then_some(BurstConfig {
        kind: BurstKind::Iops,
        capacity: 5.4e6,
        refill_per_s: baseline,
        burst_rate: 3000.0,
        initial: 1.0,
    });
    device
}

/// st1 or sc1 of so many TiB: rates in MiB/s per TiB, baseline and burst, and their maxima.
fn hdd(tib: f64, (base, base_max): (f64, f64), (burst, burst_max): (f64, f64)) -> DeviceConfig {
    let mut device = gp3();
    let rate = |per_tib: f64, most: f64| (per_tib * tib).min(most) * MIB as f64;
    device.size_bytes = (tib * TIB) as u64;
    device.member.iops = Some(if burst_max > 400.0 { 500.0 } else { 250.0 });
    device.member.io_unit_bytes = MIB;
    let baseline = rate(base, base_max);
    device.member.bytes_per_second = Some(baseline);
    let latency = &mut device.member.latency;
    (latency.read_us_p50, latency.read_us_p99) = (1500.0, 3000.0);
    device.member.mechanics = Some(MechanicsConfig {
        track_seek_us: 230.0,
        mean_seek_us: 7400.0,
        turn_us: 8333.0,
        bytes_per_second: 250.0 * MIB as f64,
        is_serial: false,
    });
    device.member.burst = (rate(burst, burst_max) > baseline).then_some(BurstConfig {
        kind: BurstKind::Bytes,
        capacity: tib * TIB,
        refill_per_s: baseline,
        burst_rate: rate(burst, burst_max),
        initial: 1.0,
    });
    device
}

fn st1(tib: f64) -> DeviceConfig {
    hdd(tib, (40.0, 500.0), (250.0, 500.0))
}

fn sc1(tib: f64) -> DeviceConfig {
    hdd(tib, (12.0, 192.0), (80.0, 250.0))
}

fn assert_near(found: f64, expected: f64, within: f64, what: &str) {
    let off = (found / expected - 1.0).abs();
    assert!(off < within, "{what}: {found} against {expected}");
}

/// When the rate falls below 3,000 a second, asked for as much as it gives.
fn burst_ends_ns(volume: &mut Volume) -> u64 {
    let mut host = HostCap::new(None);
    let mut now_ns = 0;
    for index in 0u64.. {
        let done_ns = volume.submit(&mut host, now_ns, read(index % 997 * 16 * KIB, 8 * KIB));
        if done_ns - now_ns > 350_000 {
            break;
        }
        now_ns = done_ns;
    }
    now_ns
}

#[test]
fn gp2_bursts_as_long_as_published_then_falls_to_its_baseline_and_refills() {
    for (gib, burst_s, refill_s) in [
        (33.0, 1862.0, 54_000.0),
        (100.0, 2000.0, 18_000.0),
        (334.0, 2703.0, 5389.0),
        (500.0, 3600.0, 3600.0),
        (750.0, 7200.0, 2400.0),
    ] {
        let device = gp2(gib);
        let baseline = device.member.iops.unwrap();
        let mut volume = Volume::new(&device, 1).unwrap();
        let end_ns = burst_ends_ns(&mut volume);
        assert_near(end_ns as f64 / 1e9, burst_s, 0.01, "burst");
        let mut host = HostCap::new(None);
        let (from, until) = (end_ns, end_ns + 100 * SECOND_NS);
        let rate = run_closed_at(&mut volume, &mut host, 32, 8 * KIB, from, until) as f64 / 100.0;
        assert_near(rate, baseline, 0.005, "baseline");
        // Idle: empty at the end of what is in flight, and full again after the published time.
        let empty_ns = until + 32 * SECOND_NS / 100;
        assert!(volume.credits(until).unwrap() < 1.0);
        let full_ns = (refill_s * 1e9) as u64;
        assert!(volume.credits(empty_ns + full_ns / 100 * 98).unwrap() < 5.4e6 * 0.99);
        assert_near(
            volume.credits(empty_ns + full_ns).unwrap(),
            5.4e6,
            0.001,
            "refill",
        );
    }
}

#[test]
fn the_starting_balance_shortens_the_burst() {
    let mut device = gp2(100.0);
    device.member.burst.as_mut().unwrap().initial = 0.25;
    let end_ns = burst_ends_ns(&mut Volume::new(&device, 1).unwrap());
    assert_near(end_ns as f64 / 1e9, 500.0, 0.01, "a quarter");
}

#[test]
fn gp2_throughput_has_steps_and_the_middle_one_lasts_as_long_as_credits() {
    for (gib, credits, mib_per_s) in [
        (170.0, 1.0, 128.0),
        (170.0, 0.0, 127.5),
        (171.0, 1.0, 250.0),
        (250.0, 1.0, 250.0),
        (250.0, 0.0, 187.5), // 750 operations of 256 KiB
        (333.0, 1.0, 250.0),
        (333.0, 0.0, 249.75),
        (334.0, 0.0, 250.0),
        (2000.0, 0.0, 250.0),
    ] {
        let mut device = gp2(gib);
        if let Some(burst) = &mut device.member.burst {
            burst.initial = credits;
        }
        let mut volume = Volume::new(&device, 1).unwrap();
        let mut host = HostCap::new(None);
        let until_ns = 60 * SECOND_NS;
        let done = run_closed_at(&mut volume, &mut host, 16, 256 * KIB, 0, until_ns);
        assert_near(
            done as f64 / 4.0 / 60.0,
            mib_per_s,
            0.005,
            &format!("{gib} GiB"),
        );
    }
}

/// Hours that four readers of 1 MiB take over the whole volume.
fn scan_hours(device: &DeviceConfig) -> f64 {
    let mut volume = Volume::new(device, 1).unwrap();
    let mut host = HostCap::new(None);
    let mut in_flight = [0u64; 4];
    for index in 0..device.size_bytes / MIB {
        let first = in_flight.iter_mut().min().unwrap();
        *first = volume.submit(&mut host, *first, read(index * MIB, MIB));
    }
    in_flight.into_iter().max().unwrap() as f64 / 3600e9
}

#[test]
fn st1_and_sc1_are_read_through_in_the_published_times() {
    for (tib, hours) in [(1.0, 1.17), (2.0, 1.17), (5.0, 2.91), (12.0, 6.99)] {
        assert_near(
            scan_hours(&st1(tib)),
            hours,
            0.01,
            &format!("st1 of {tib} TiB"),
        );
    }
    for (tib, hours) in [(1.0, 3.64), (3.0, 3.64), (4.0, 4.66), (8.0, 9.32)] {
        assert_near(
            scan_hours(&sc1(tib)),
            hours,
            0.01,
            &format!("sc1 of {tib} TiB"),
        );
    }
}

#[test]
fn st1_and_sc1_without_credits_give_their_baseline() {
    for (mut device, mib_per_s) in [(st1(0.5), 20.0), (st1(1.0), 40.0), (sc1(1.0), 12.0)] {
        device.member.burst.as_mut().unwrap().initial = 0.0;
        let mut volume = Volume::new(&device, 1).unwrap();
        let mut host = HostCap::new(None);
        let mut done_ns = 0;
        for index in 0..1000 {
            done_ns = volume
                .submit(&mut host, 0, read(index * MIB, MIB))
                .max(done_ns);
        }
        assert_near(1000e9 / done_ns as f64, mib_per_s, 0.005, "in order");
        // A small random request costs a whole MiB.
        let mut volume = Volume::new(&device, 1).unwrap();
        let until_ns = 100 * SECOND_NS;
        let done = run_closed_at(&mut volume, &mut host, 8, 16 * KIB, 0, until_ns);
        assert_near(done as f64 / 100.0, mib_per_s, 0.01, "anywhere");
    }
}

#[test]
fn an_instance_bursts_for_half_an_hour_where_it_has_credits() {
    let config = |burst_initial| HostCapConfig {
        iops: Some(100.0),
        bytes_per_second: None,
        burst_iops: Some(1000.0),
        burst_bytes_per_second: None,
        burst_initial,
    };
    for (initial, burst_s) in [(Some(1.0), 1800.0), (Some(0.5), 900.0), (Some(0.0), 0.0)] {
        let mut host = HostCap::new(Some(&config(initial)));
        let mut volume = Volume::new(&gp3(), 1).unwrap();
        let until_ns = 2000 * SECOND_NS;
        let done = run_closed_at(&mut volume, &mut host, 8, 8 * KIB, 0, until_ns);
        let expected = burst_s * 1000.0 + (2000.0 - burst_s) * 100.0;
        assert_near(done as f64, expected, 0.005, "host");
    }
    let mut host = HostCap::new(Some(&config(None)));
    let mut volume = Volume::new(&gp3(), 1).unwrap();
    let done = run_closed_at(&mut volume, &mut host, 8, 8 * KIB, 0, 100 * SECOND_NS);
    assert_near(done as f64, 10_000.0, 0.005, "a host that never bursts");
}
