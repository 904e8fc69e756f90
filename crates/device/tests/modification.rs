//! Changes as `ModifyVolume` makes them.

mod common;

use common::{SECOND_NS, gp2_100_gib, gp3, rate};
use pgstow_device::{HostCap, Modification, Volume};

const HOUR_NS: u64 = 3600 * SECOND_NS;

#[test]
fn limits_go_from_source_to_target_and_the_size_grows_at_once() {
    for (from, to) in [(3000.0, 6000.0), (6000.0, 3000.0)] {
        let (mut source, mut target) = (gp3(), gp3());
        source.member.iops = Some(from);
        target.member.iops = Some(to);
        target.size_bytes *= 2;
        let mut volume = Volume::new(&source, 1).unwrap();
        let mut host = HostCap::new(None);
        let at = |s: u64| s * SECOND_NS;
        volume.modify(at(10), &target, at(100)).unwrap();
        assert_eq!(volume.config().size_bytes, target.size_bytes);
        let times = Modification {
            started_ns: at(10),
            ends_ns: at(110),
        };
        assert_eq!(volume.modification(at(109)), Some(times));
        let between = rate(&mut volume, &mut host, at(55), at(65));
        assert!((between / 4500.0 - 1.0).abs() < 0.03, "{between}");
        assert_eq!(volume.modification(at(110)), None);
        let after = rate(&mut volume, &mut host, at(111), at(121));
        assert!((after / to - 1.0).abs() < 0.005, "{after}");
    }
}

#[test]
fn a_type_change_never_performs_below_its_source() {
    let mut volume = Volume::new(&gp2_100_gib(), 1).unwrap();
    let mut host = HostCap::new(None);
    volume.modify(0, &gp3(), 1000 * SECOND_NS).unwrap();
    for second in [1, 200, 500, 990, 1001] {
        let (from, until) = (second * SECOND_NS, (second + 5) * SECOND_NS);
        let now = rate(&mut volume, &mut host, from, until);
        assert!((now / 3000.0 - 1.0).abs() < 0.01, "{second} s: {now}");
    }
    assert_eq!(volume.credits(1010 * SECOND_NS), None);
}

#[test]
fn the_next_modification_waits_for_the_one_under_way() {
    let mut volume = Volume::new(&gp3(), 1).unwrap();
    volume.modify(0, &gp3(), 60 * SECOND_NS).unwrap();
    let refused = volume.modify(24 * SECOND_NS, &gp3(), 0).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "volume \"data\": a modification is under way; the next is possible when it is complete, \
         in 36 s"
    );
    volume.modify(60 * SECOND_NS, &gp3(), 0).unwrap();
    assert_eq!(volume.modifications_24h(61 * SECOND_NS), 2);
}

#[test]
fn there_are_four_in_any_24_hours() {
    let mut volume = Volume::new(&gp3(), 1).unwrap();
    for hour in [0, 5, 10, 15] {
        volume.modify(hour * HOUR_NS, &gp3(), HOUR_NS).unwrap();
    }
    let refused = volume.modify(20 * HOUR_NS, &gp3(), 0).unwrap_err();
    let message = refused.to_string();
    assert!(
        message.ends_with("the next is possible in 4 h 0 min"),
        "{message}"
    );
    assert_eq!(volume.modifications_24h(20 * HOUR_NS), 4);
    volume.modify(24 * HOUR_NS, &gp3(), 0).unwrap();
    assert_eq!(volume.modifications_24h(24 * HOUR_NS), 4);
    let again = volume.modify(25 * HOUR_NS, &gp3(), 0).unwrap_err();
    assert!(again.to_string().contains("4 h"), "{again}");
}

#[test]
fn a_refused_modification_changes_and_counts_nothing() {
    let mut volume = Volume::new(&gp3(), 1).unwrap();
    let mut smaller = gp3();
    smaller.size_bytes -= 1;
    assert!(volume.modify(0, &smaller, 0).is_err());
    smaller.size_bytes += 1;
    smaller.member.iops = Some(0.0);
    assert!(volume.modify(0, &smaller, 0).is_err());
    assert_eq!(volume.config(), &gp3());
    assert_eq!(volume.modifications_24h(0), 0);
}

#[test]
fn setting_limits_at_once_ends_a_modification() {
    let mut volume = Volume::new(&gp3(), 1).unwrap();
    let mut host = HostCap::new(None);
    let mut slower = gp3();
    slower.member.iops = Some(1000.0);
    volume.modify(0, &slower, HOUR_NS).unwrap();
    volume.set_config(SECOND_NS, &slower).unwrap();
    assert_eq!(volume.modification(SECOND_NS), None);
    let now = rate(&mut volume, &mut host, 2 * SECOND_NS, 12 * SECOND_NS);
    assert!((now / 1000.0 - 1.0).abs() < 0.02, "{now}");
}
