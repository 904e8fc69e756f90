//! Devices and loads that the tests share.

#![allow(dead_code, reason = "each test binary uses its part")]

use pgstow_device::{
    BurstConfig, BurstKind, DeviceConfig, HostCap, LatencyConfig, MemberConfig, Operation,
    OperationKind, Volume,
};

pub const KIB: u64 = 1024;
pub const SECOND_NS: u64 = 1_000_000_000;
pub const TOLERANCE_S: f64 = 0.010;

pub fn gp3() -> DeviceConfig {
    DeviceConfig {
        name: "data".into(),
        size_bytes: 100 * KIB * KIB * KIB,
        stripes: 1,
        chunk_bytes: 64 * KIB,
        member: MemberConfig {
            iops: Some(3000.0),
            write_iops: None,
            bytes_per_second: Some(131_072_000.0),
            io_unit_bytes: 256 * KIB,
            latency: LatencyConfig::default(),
            burst: None,
            mechanics: None,
            restored: None,
        },
        uses_host_cap: true,
        has_volatile_cache: false,
    }
}

pub fn with_latency(mut device: DeviceConfig) -> DeviceConfig {
    let latency = &mut device.member.latency;
    (latency.read_us_p50, latency.read_us_p99) = (600.0, 1500.0);
    (latency.write_us_p50, latency.write_us_p99) = (700.0, 1800.0);
    device
}

pub fn gp2_100_gib() -> DeviceConfig {
    let mut device = gp3();
    device.member.iops = Some(300.0);
    device.member.bytes_per_second = Some(128.0 * 1024.0 * 1024.0);
    device.member.burst = Some(BurstConfig {
        kind: BurstKind::Iops,
        capacity: 5.4e6,
        refill_per_s: 300.0,
        burst_rate: 3000.0,
        initial: 1.0,
    });
    device
}

pub fn operation(kind: OperationKind, offset: u64, length: u64) -> Operation {
    Operation {
        kind,
        offset,
        length: u32::try_from(length).unwrap(),
    }
}

pub fn read(offset: u64, length: u64) -> Operation {
    operation(OperationKind::Read, offset, length)
}

/// A closed loop: `depth` requests in flight until `until_ns`; how many were done by then.
pub fn run_closed(volume: &mut Volume, depth: usize, length: u64, until_ns: u64) -> u64 {
    let mut host = HostCap::new(None);
    run_closed_at(volume, &mut host, depth, length, 0, until_ns)
}

pub fn run_closed_at(
    volume: &mut Volume,
    host: &mut HostCap,
    depth: usize,
    length: u64,
    from_ns: u64,
    until_ns: u64,
) -> u64 {
    let mut due = std::collections::BinaryHeap::new();
    let mut state = 1u64;
    for _ in 0..depth {
        due.push(std::cmp::Reverse(from_ns));
    }
    let mut done = 0;
    while let Some(std::cmp::Reverse(now_ns)) = due.pop() {
        if now_ns >= until_ns {
            break;
        }
        done += 1;
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let offset = (state >> 33) * 4 * length;
        due.push(std::cmp::Reverse(volume.submit(
            host,
            now_ns,
            read(offset, length),
        )));
    }
    done - depth as u64
}

/// Random reads of 8 KiB a second, 32 in flight.
pub fn rate(volume: &mut Volume, host: &mut HostCap, from_ns: u64, until_ns: u64) -> f64 {
    let done = run_closed_at(volume, host, 32, 8 * KIB, from_ns, until_ns);
    done as f64 * 1e9 / (until_ns - from_ns) as f64
}
