//! Volumes restored from a snapshot.

mod common;

use common::{KIB, SECOND_NS, gp3, operation, read};
use pgstow_device::{DeviceConfig, HostCap, OperationKind, RestoreConfig, Volume};

const MIB: u64 = 1024 * KIB;
const FETCH_NS: u64 = 30_000_000;

fn restored() -> DeviceConfig {
    let mut device = gp3();
    device.size_bytes = 64 * MIB;
    device.member.restored = Some(RestoreConfig {
        block_bytes: 512 * KIB,
        us_p50: 30_000.0,
        us_p99: 30_000.0,
        bytes_per_second: Some(100.0 * MIB as f64),
        background_bytes_per_second: None,
    });
    device
}

fn write(offset: u64, length: u64) -> pgstow_device::Operation {
    operation(OperationKind::Write, offset, length)
}

#[test]
fn the_first_touch_of_a_block_waits_and_the_next_does_not() {
    let mut volume = Volume::new(&restored(), 1).unwrap();
    let mut host = HostCap::new(None);
    let second = SECOND_NS;
    assert_eq!(volume.submit(&mut host, 0, read(0, 8 * KIB)), FETCH_NS);
    // Another part of the block, while it is on its way and when it has come.
    assert_eq!(
        volume.submit(&mut host, 1000, read(64 * KIB, 8 * KIB)),
        FETCH_NS
    );
    assert_eq!(
        volume.submit(&mut host, second, read(128 * KIB, 8 * KIB)),
        second
    );
    // A read over the border of two.
    let over = volume.submit(&mut host, 2 * second, read(512 * KIB - 4096, 8 * KIB));
    assert_eq!(over, 2 * second + FETCH_NS);
}

#[test]
fn a_write_fetches_what_it_changes_in_part_and_replaces_the_rest() {
    let mut volume = Volume::new(&restored(), 1).unwrap();
    let mut host = HostCap::new(None);
    assert_eq!(volume.submit(&mut host, 0, write(0, 512 * KIB)), 0);
    assert_eq!(
        volume.submit(&mut host, SECOND_NS, read(0, 8 * KIB)),
        SECOND_NS
    );
    let part = volume.submit(&mut host, 2 * SECOND_NS, write(MIB, 8 * KIB));
    assert_eq!(part, 2 * SECOND_NS + FETCH_NS);
}

#[test]
fn initialisation_goes_at_its_rate_at_most_and_ends() {
    let mut volume = Volume::new(&restored(), 1).unwrap();
    let mut host = HostCap::new(None);
    let mut done_ns = 0;
    for block in 0..128u32 {
        assert!((volume.restored(0).unwrap() * 128.0 - f64::from(block)).abs() < 1e-9);
        let offset = u64::from(block) * 512 * KIB;
        done_ns = volume.submit(&mut host, 0, read(offset, 4096)).max(done_ns);
    }
    // 64 MiB at 100 MiB/s, of which the limit's 10 ms come at once.
    let seconds = (done_ns - FETCH_NS) as f64 / 1e9;
    assert!((seconds - 0.625).abs() < 0.011, "{seconds}");
    assert_eq!(volume.restored(done_ns), None);
    assert_eq!(volume.submit(&mut host, done_ns, read(0, 4096)), done_ns);
}

#[test]
fn a_bought_rate_brings_all_in_order() {
    let mut device = restored();
    let config = device.member.restored.as_mut().unwrap();
    config.background_bytes_per_second = Some(8.0 * MIB as f64);
    let mut volume = Volume::new(&device, 1).unwrap();
    let mut host = HostCap::new(None);
    let at = 4 * SECOND_NS;
    assert_eq!(volume.restored(at), Some(0.5));
    assert_eq!(volume.submit(&mut host, at, read(30 * MIB, 4096)), at);
    assert_eq!(
        volume.submit(&mut host, at, read(33 * MIB, 4096)),
        at + FETCH_NS
    );
    let end = 8 * SECOND_NS;
    assert_eq!(volume.restored(end), None);
    assert_eq!(volume.submit(&mut host, end, read(63 * MIB, 4096)), end);
}

#[test]
fn what_a_volume_grew_by_is_in_no_snapshot() {
    let mut volume = Volume::new(&restored(), 1).unwrap();
    let mut host = HostCap::new(None);
    let mut larger = restored();
    larger.size_bytes *= 2;
    volume.set_config(0, &larger).unwrap();
    assert_eq!(volume.submit(&mut host, 0, read(100 * MIB, 4096)), 0);
    assert_eq!(volume.submit(&mut host, 1, read(0, 4096)), FETCH_NS + 1);
    larger.member.restored = None;
    volume.set_config(SECOND_NS, &larger).unwrap();
    assert_eq!(
        volume.submit(&mut host, SECOND_NS, read(MIB, 4096)),
        SECOND_NS
    );
}

#[test]
fn what_is_loaded_without_limits_is_still_in_the_snapshot() {
    let mut volume = Volume::new(&restored(), 1).unwrap();
    let mut host = HostCap::new(None);
    volume.set_unlimited(0, true);
    assert_eq!(volume.submit(&mut host, 0, read(0, 4096)), 0);
    volume.set_unlimited(0, false);
    assert_eq!(volume.submit(&mut host, 0, read(0, 4096)), FETCH_NS);
}

#[test]
fn nothing_comes_from_the_snapshot_by_itself_while_limits_are_lifted() {
    let mut device = restored();
    let config = device.member.restored.as_mut().unwrap();
    config.background_bytes_per_second = Some(8.0 * MIB as f64);
    let mut volume = Volume::new(&device, 1).unwrap();
    volume.set_unlimited(2 * SECOND_NS, true);
    assert_eq!(volume.restored(5 * SECOND_NS), Some(0.25));
    volume.set_unlimited(6 * SECOND_NS, false);
    assert_eq!(volume.restored(6 * SECOND_NS), Some(0.25));
    assert_eq!(volume.restored(8 * SECOND_NS), Some(0.5));
}
