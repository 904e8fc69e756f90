//! Hard disks: seeks, rotation, transfer, one actuator.

mod common;

use common::{KIB, SECOND_NS, gp3, operation, read, run_closed};
use pgstow_device::{DeviceConfig, HostCap, MechanicsConfig, OperationKind, Volume};

/// A disk without limits or electronics: 8 ms to anywhere, a revolution of 8.33 ms, 150 MB/s.
fn disk() -> DeviceConfig {
    let mut device = gp3();
    device.member.iops = None;
    device.member.bytes_per_second = None;
    device.member.mechanics = Some(MechanicsConfig {
        track_seek_us: 500.0,
        mean_seek_us: 8000.0,
        turn_us: 8330.0,
        bytes_per_second: 150e6,
        is_serial: true,
    });
    device
}

fn random_offsets(count: u64) -> impl Iterator<Item = u64> {
    let mut state = 1u64;
    let blocks = disk().size_bytes / (8 * KIB);
    (0..count).map(move |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 20) % blocks * 8 * KIB
    })
}

/// Milliseconds of each request at depth 1.
fn each_ms(device: &DeviceConfig, offsets: impl Iterator<Item = u64>) -> Vec<f64> {
    let mut volume = Volume::new(device, 1).unwrap();
    let mut host = HostCap::new(None);
    let mut now_ns = 0;
    offsets
        .map(|offset| {
            let done_ns = volume.submit(&mut host, now_ns, read(offset, 8 * KIB));
            let took_ms = (done_ns - now_ns) as f64 / 1e6;
            now_ns = done_ns;
            took_ms
        })
        .collect()
}

#[test]
fn random_reads_take_the_mean_seek_and_half_a_turn() {
    let took = each_ms(&disk(), random_offsets(20_000));
    let mean_ms = took.iter().sum::<f64>() / took.len() as f64;
    let expected_ms = 8.0 + 8.33 / 2.0 + 8192.0 / 150e3;
    assert!((mean_ms / expected_ms - 1.0).abs() < 0.01, "{mean_ms}");
    let stroke_ms = 0.5 + 7.5 * 15.0 / 8.0;
    assert!(took.iter().all(|&ms| ms < stroke_ms + 8.33 + 0.06));
}

#[test]
fn reading_on_passes_at_the_rate_of_the_platter() {
    let took = each_ms(&disk(), (0..1000).map(|block| block * 8 * KIB));
    assert!(took.iter().all(|&ms| (ms - 8192.0 / 150e3).abs() < 1e-3));
    let back = each_ms(&disk(), (0..1000).map(|block| (1000 - block) * 8 * KIB));
    assert!(back.iter().all(|&ms| ms > 0.5), "going back seeks");
}

#[test]
fn a_longer_way_takes_longer() {
    let mut still = disk();
    still.member.mechanics.as_mut().unwrap().turn_us = 0.0;
    let seek_ms = |distance: u64| each_ms(&still, [0, distance].into_iter())[1];
    let size = still.size_bytes;
    let near = seek_ms(size / 1000);
    let (quarter, whole) = (seek_ms(size / 4), seek_ms(size));
    assert!(near > 0.5 && near < quarter && quarter < whole);
    // Four times the way beyond the next track's takes twice as long.
    assert!(((whole - 0.55) / (quarter - 0.55) - 2.0).abs() < 0.01);
}

#[test]
fn one_actuator_does_no_more_at_depth() {
    let alone = run_closed(
        &mut Volume::new(&disk(), 1).unwrap(),
        1,
        8 * KIB,
        100 * SECOND_NS,
    );
    let many = run_closed(
        &mut Volume::new(&disk(), 1).unwrap(),
        16,
        8 * KIB,
        100 * SECOND_NS,
    );
    assert!(
        (many as f64 / alone as f64 - 1.0).abs() < 0.05,
        "{many} against {alone}"
    );
    let mut shared = disk();
    shared.member.mechanics.as_mut().unwrap().is_serial = false;
    let spread = run_closed(
        &mut Volume::new(&shared, 1).unwrap(),
        16,
        8 * KIB,
        100 * SECOND_NS,
    );
    assert!(spread > 14 * alone, "{spread} against {alone}");
}

#[test]
fn requests_to_one_disk_are_done_in_their_order() {
    let mut volume = Volume::new(&disk(), 1).unwrap();
    let mut host = HostCap::new(None);
    let mut last_ns = 0;
    for offset in random_offsets(1000) {
        let done_ns = volume.submit(&mut host, 0, operation(OperationKind::Write, offset, 4096));
        assert!(done_ns > last_ns);
        last_ns = done_ns;
    }
}

#[test]
fn impossible_mechanics_are_refused() {
    for (change, named) in [
        (
            (|m| m.track_seek_us = 9000.0) as fn(&mut MechanicsConfig),
            "track_seek_us",
        ),
        (|m| m.turn_us = -1.0, "turn_us"),
        (|m| m.bytes_per_second = 0.0, "mechanics.bytes_per_second"),
    ] {
        let mut device = disk();
        change(device.member.mechanics.as_mut().unwrap());
        let message = Volume::new(&device, 1).unwrap_err().to_string();
        assert!(message.contains(named), "{message}");
    }
}
