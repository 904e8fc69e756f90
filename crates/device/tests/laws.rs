//! Laws over any requests: no limit is overtaken, credits are conserved, seeds decide.

mod common;

use common::{KIB, SECOND_NS, TOLERANCE_S, gp3, operation, run_closed, with_latency};
use pgstow_device::{
    BurstConfig, BurstKind, DeviceConfig, HostCap, HostCapConfig, MechanicsConfig, Operation,
    OperationKind, RestoreConfig, Volume,
};
use proptest::prelude::*;

/// A request: how long after the one before, of what, where, how much.
#[derive(Debug, Clone, Copy)]
struct Asked {
    wait_ns: u64,
    is_write: bool,
    /// Continues the one before it, where it can.
    goes_on: bool,
    block: u64,
    blocks: u64,
}

fn requests() -> impl Strategy<Value = Vec<Asked>> {
    // Mostly at once, so that queues grow; sometimes after a rest.
    let wait_ns = prop_oneof![4 => 0u64..100_000, 1 => 0u64..50_000_000];
    let blocks = prop_oneof![3 => 1u64..9, 1 => 1u64..600];
    let one = (wait_ns, any::<bool>(), any::<bool>(), 0u64..4000, blocks).prop_map(
        |(wait_ns, is_write, goes_on, block, blocks)| Asked {
            wait_ns,
            is_write,
            goes_on,
            block,
            blocks,
        },
    );
    prop::collection::vec(one, 1..300)
}

/// The operations with their times.
fn timed(asked: &[Asked]) -> Vec<(u64, Operation)> {
    let (mut now_ns, mut end) = (0, 0);
    let mut last_kind = OperationKind::Read;
    asked
        .iter()
        .map(|one| {
            now_ns += one.wait_ns;
            let offset = if one.goes_on {
                end
            } else {
                one.block * 4 * KIB
            };
            if !one.goes_on {
                last_kind = if one.is_write {
                    OperationKind::Write
                } else {
                    OperationKind::Read
                };
            }
            end = offset + one.blocks * 4 * KIB;
            (now_ns, operation(last_kind, offset, one.blocks * 4 * KIB))
        })
        .collect()
}

/// What AWS counts: parts of a run of contiguous requests are one operation up to the unit's size.
fn counted(operations: &[Operation], unit: u64) -> Vec<f64> {
    let (mut run, mut before): (u64, Option<Operation>) = (0, None);
    operations
        .iter()
        .map(|&one| {
            let length = u64::from(one.length);
            let goes_on = before.is_some_and(|before| {
                before.kind == one.kind && before.offset + u64::from(before.length) == one.offset
            });
            before = Some(one);
            let past = if goes_on { run % unit } else { 0 };
            run = past + length;
            (run.div_ceil(unit) - past.div_ceil(unit)) as f64
        })
        .collect()
}

/// Between any two starts there is no more than the rate gives in their time and its tolerance.
fn assert_never_over(starts_ns: &[u64], units: &[f64], rate: f64, at_once: f64) {
    for first in 0..units.len() {
        let mut taken = 0.0;
        // What was merged starts with the operation it was merged into.
        for last in (first..units.len()).filter(|&last| units[last] > 0.0) {
            let window_s = starts_ns[last].saturating_sub(starts_ns[first]) as f64 / 1e9 + 2e-9;
            let most = rate * window_s + at_once;
            assert!(
                taken <= most * (1.0 + 1e-9) + 1e-6,
                "{taken} in {window_s} s from the {first}th to the {last}th, {most} allowed"
            );
            taken += units[last];
        }
    }
}

fn starts(volume: &mut Volume, host: &mut HostCap, timed: &[(u64, Operation)]) -> Vec<u64> {
    let start = |&(now_ns, operation)| volume.schedule(host, now_ns, operation).start_ns;
    timed.iter().map(start).collect()
}

fn lengths(timed: &[(u64, Operation)]) -> Vec<f64> {
    timed.iter().map(|(_, one)| f64::from(one.length)).collect()
}

fn all_of(timed: &[(u64, Operation)]) -> Vec<Operation> {
    timed.iter().map(|&(_, one)| one).collect()
}

/// gp2-like, with few enough credits to run out.
fn bursting(initial: f64) -> DeviceConfig {
    let mut device = gp3();
    device.member.iops = Some(300.0);
    device.member.burst = Some(BurstConfig {
        kind: BurstKind::Iops,
        capacity: 200.0,
        refill_per_s: 300.0,
        burst_rate: 3000.0,
        initial,
    });
    device
}

/// Everything at once: tails, seeks, a snapshot, credits, stripes.
fn everything(stripes: u32) -> DeviceConfig {
    let mut device = with_latency(bursting(0.5));
    device.stripes = stripes;
    device.member.latency.read_us_per_mib = 800.0;
    device.member.mechanics = Some(MechanicsConfig {
        track_seek_us: 230.0,
        mean_seek_us: 7400.0,
        turn_us: 8333.0,
        bytes_per_second: 150e6,
        is_serial: true,
    });
    device.member.restored = Some(RestoreConfig {
        block_bytes: 512 * KIB,
        us_p50: 30_000.0,
        us_p99: 90_000.0,
        bytes_per_second: Some(1e8),
        background_bytes_per_second: Some(1e8),
    });
    device
}

fn trace(device: &DeviceConfig, seed: u64, cap: Option<&HostCapConfig>, a: &[Asked]) -> Vec<u64> {
    let mut volume = Volume::new(device, seed).unwrap();
    let mut host = HostCap::new(cap);
    let submit = |(now_ns, operation)| volume.submit(&mut host, now_ns, operation);
    timed(a).into_iter().map(submit).collect()
}

fn cap(iops: f64, bytes_per_second: f64) -> HostCapConfig {
    HostCapConfig {
        iops: Some(iops),
        bytes_per_second: Some(bytes_per_second),
        burst_iops: None,
        burst_bytes_per_second: None,
        burst_initial: None,
    }
}

proptest! {
    #[test]
    fn no_window_holds_more_than_both_limits(
        asked in requests(), iops in 100.0f64..10_000.0, rate in 1e7f64..1e9,
    ) {
        let mut device = with_latency(gp3());
        (device.member.iops, device.member.bytes_per_second) = (Some(iops), Some(rate));
        let timed = timed(&asked);
        let mut volume = Volume::new(&device, 1).unwrap();
        let found = starts(&mut volume, &mut HostCap::new(None), &timed);
        let units = counted(&all_of(&timed), device.member.io_unit_bytes);
        assert_never_over(&found, &units, iops, iops * TOLERANCE_S);
        assert_never_over(&found, &lengths(&timed), rate, rate * TOLERANCE_S);
    }

    #[test]
    fn no_window_holds_more_than_the_burst_or_than_its_credits(
        asked in requests(), initial in 0.0f64..1.0,
    ) {
        let device = bursting(initial);
        let timed = timed(&asked);
        let mut volume = Volume::new(&device, 1).unwrap();
        let found = starts(&mut volume, &mut HostCap::new(None), &timed);
        let units = counted(&all_of(&timed), device.member.io_unit_bytes);
        assert_never_over(&found, &units, 3000.0, 3000.0 * TOLERANCE_S);
        assert_never_over(&found, &units, 300.0, 200.0);
        // From the start there is what it begins with, and what came since.
        let mut all = 0.0;
        for (start_ns, units) in found.iter().zip(&units).filter(|(_, units)| **units > 0.0) {
            prop_assert!(all <= 200.0 * initial + 300.0 * (*start_ns as f64 / 1e9) + 1e-3);
            all += units;
        }
    }

    #[test]
    fn no_window_of_a_member_holds_more_than_its_limits(
        asked in requests(), stripes in 2u32..6,
    ) {
        let mut device = gp3();
        device.stripes = stripes;
        let chunk = device.chunk_bytes;
        // One chunk each, so that a request is one member's.
        let within = asked.iter().map(|one| Asked {
            goes_on: false,
            blocks: one.blocks.min(16 - one.block % 16),
            ..*one
        });
        let timed = timed(&within.collect::<Vec<_>>());
        let mut volume = Volume::new(&device, 1).unwrap();
        let found = starts(&mut volume, &mut HostCap::new(None), &timed);
        for member in 0..u64::from(stripes) {
            let own = |offset: u64| offset / chunk % u64::from(stripes) == member;
            let local = |mut one: Operation| {
                one.offset = one.offset / chunk / u64::from(stripes) * chunk + one.offset % chunk;
                one
            };
            let here = timed.iter().zip(&found).filter(|((_, one), _)| own(one.offset));
            let (ops, starts): (Vec<_>, Vec<_>) =
                here.map(|((_, one), &start_ns)| (local(*one), start_ns)).unzip();
            let units = counted(&ops, device.member.io_unit_bytes);
            assert_never_over(&starts, &units, 3000.0, 3000.0 * TOLERANCE_S);
        }
    }

    #[test]
    fn a_stripe_gives_its_members_limits_in_all_and_no_more(
        asked in requests(), stripes in 1u32..9,
    ) {
        let mut device = gp3();
        device.stripes = stripes;
        let limit = f64::from(stripes) * device.member.bytes_per_second.unwrap();
        let timed = timed(&asked);
        let mut volume = Volume::new(&device, 1).unwrap();
        let found = starts(&mut volume, &mut HostCap::new(None), &timed);
        let mut order: Vec<_> = found.iter().zip(lengths(&timed)).collect();
        order.sort_by_key(|(start_ns, _)| **start_ns);
        let mut before = 0.0;
        for (start_ns, bytes) in order {
            let most = limit * (*start_ns as f64 / 1e9 + TOLERANCE_S);
            // A part may have waited for another member's; each was within its limit by then.
            prop_assert!(before <= most + f64::from(stripes) * 600.0 * 4096.0);
            before += bytes;
        }
    }

    #[test]
    fn no_window_of_the_host_holds_more_than_its_cap(
        asked in requests(), volumes in 1usize..5, iops in 100.0f64..10_000.0,
    ) {
        let mut device = gp3();
        (device.member.iops, device.member.bytes_per_second) = (None, None);
        let mut all: Vec<_> = (1..=volumes as u64).map(|s| Volume::new(&device, s).unwrap()).collect();
        let mut host = HostCap::new(Some(&cap(iops, 1e8)));
        let apart = asked.iter().map(|one| Asked { goes_on: false, ..*one });
        let timed = timed(&apart.collect::<Vec<_>>());
        let mut each = vec![Vec::new(); volumes];
        let mut found = Vec::new();
        for (index, &(now_ns, operation)) in timed.iter().enumerate() {
            let volume = index * 7 % volumes;
            found.push(all[volume].schedule(&mut host, now_ns, operation).start_ns);
            each[volume].push(operation);
        }
        let mut units: Vec<_> =
            each.iter().map(|own| counted(own, 256 * KIB).into_iter()).collect();
        let units: Vec<f64> =
            (0..timed.len()).map(|index| units[index * 7 % volumes].next().unwrap()).collect();
        assert_never_over(&found, &units, iops, iops * TOLERANCE_S);
        assert_never_over(&found, &lengths(&timed), 1e8, 1e8 * TOLERANCE_S);
    }

    #[test]
    fn limits_hold_while_they_change(asked in requests(), when in 0usize..300, to in 100.0f64..3000.0) {
        let timed = timed(&asked);
        let mut volume = Volume::new(&gp3(), 1).unwrap();
        let mut host = HostCap::new(None);
        let mut found = Vec::new();
        for (index, &(now_ns, operation)) in timed.iter().enumerate() {
            if index == when {
                let mut slower = gp3();
                slower.member.iops = Some(to);
                volume.modify(now_ns, &slower, SECOND_NS / 10).unwrap();
            }
            found.push(volume.schedule(&mut host, now_ns, operation).start_ns);
        }
        let units = counted(&all_of(&timed), 256 * KIB);
        assert_never_over(&found, &units, 3000.0, 3000.0 * TOLERANCE_S);
    }

    #[test]
    fn credits_are_conserved(asked in requests(), initial in 0.0f64..1.0) {
        let device = bursting(initial);
        let mut volume = Volume::new(&device, 1).unwrap();
        let mut host = HostCap::new(None);
        let timed = timed(&asked);
        let units = counted(&all_of(&timed), 256 * KIB);
        let mut balance = 200.0 * initial;
        let mut before_ns = 0;
        for (&(now_ns, operation), units) in timed.iter().zip(units) {
            balance = (balance + 300.0 * (now_ns - before_ns) as f64 / 1e9).min(200.0);
            before_ns = now_ns;
            let found = volume.credits(now_ns).unwrap();
            prop_assert!((found - balance.max(0.0)).abs() < 1e-3, "{} for {}", found, balance);
            let start_ns = volume.schedule(&mut host, now_ns, operation).start_ns;
            // What starts later is paid for then: until then the bucket may be full.
            let later = 300.0 * (start_ns - now_ns) as f64 / 1e9;
            balance = (balance + later).min(200.0) - later - units;
        }
    }

    #[test]
    fn credits_stand_still_while_limits_are_lifted(
        asked in requests(), initial in 0.0f64..1.0, off in 1u64..4000, loaded in 0usize..50,
        changes in any::<bool>(),
    ) {
        let device = bursting(initial);
        let mut volume = Volume::new(&device, 1).unwrap();
        let mut host = HostCap::new(None);
        let mut last_ns = 0;
        for (now_ns, operation) in timed(&asked) {
            last_ns = now_ns.max(volume.schedule(&mut host, now_ns, operation).start_ns);
        }
        let before = volume.credits(last_ns).unwrap();
        volume.set_unlimited(last_ns, true);
        let on_ns = last_ns + off * 1_000_000;
        for step in 0..loaded as u64 {
            let at_ns = last_ns + step * off * 10_000;
            let done_ns = volume.submit(&mut host, at_ns, operation(OperationKind::Write, 0, KIB));
            prop_assert_eq!(done_ns, at_ns);
            prop_assert!((volume.credits(at_ns).unwrap() - before).abs() < 1e-3);
        }
        if changes {
            volume.set_config(last_ns + off * 500_000, &device).unwrap();
        }
        volume.set_unlimited(on_ns, false);
        let after = volume.credits(on_ns).unwrap();
        prop_assert!((after - before).abs() < 1e-3, "{} before, {} after", before, after);
        let later = volume.credits(on_ns + 100_000_000).unwrap();
        let earned = (before + 30.0).min(200.0);
        prop_assert!(later < earned + 1e-3, "{} later", later);
        // An empty bucket may be in debt for a large request, which is earned first.
        prop_assert!(before < 1e-3 || (later - earned).abs() < 1e-3, "{} later", later);
    }

    #[test]
    fn a_debt_lasts_no_longer_for_limits_lifted_meanwhile(
        queued in 300u64..2000, off in 1u64..4000,
    ) {
        let starts_ns = |lifts: bool| {
            let mut volume = Volume::new(&bursting(0.0), 1).unwrap();
            let mut host = HostCap::new(None);
            for index in 0..queued {
                volume.submit(&mut host, 0, operation(OperationKind::Read, index * 8 * KIB * KIB, KIB));
            }
            let on_ns = off * 1_000_000;
            if lifts {
                volume.set_unlimited(0, true);
                volume.set_unlimited(on_ns, false);
            }
            assert_eq!(volume.credits(on_ns).map(|left| left < 1e-3 || !lifts), Some(true));
            let last = operation(OperationKind::Read, KIB, KIB);
            volume.schedule(&mut host, on_ns, last).start_ns
        };
        let (lifted, kept) = (starts_ns(true), starts_ns(false));
        prop_assert!(lifted.abs_diff(kept.max(off * 1_000_000)) < 5_000_000, "{} {}", lifted, kept);
    }

    #[test]
    fn equal_seeds_give_equal_traces(asked in requests(), seed in any::<u64>(), stripes in 1u32..5) {
        let (device, cap) = (everything(stripes), cap(1000.0, 1e8));
        let first = trace(&device, seed, Some(&cap), &asked);
        prop_assert_eq!(&first, &trace(&device, seed, Some(&cap), &asked));
        prop_assert_ne!(first, trace(&device, seed ^ 1, Some(&cap), &asked));
    }

    #[test]
    fn nothing_is_done_before_it_is_asked(asked in requests(), stripes in 1u32..9) {
        let done = trace(&everything(stripes), 1, None, &asked);
        for ((now_ns, _), done_ns) in timed(&asked).into_iter().zip(done) {
            prop_assert!(done_ns > now_ns);
        }
    }

    #[test]
    fn no_request_to_a_stripe_is_later_than_to_one_member(
        asked in requests(), stripes in 2u32..9, credits in any::<bool>(),
    ) {
        let mut device = if credits { bursting(0.5) } else { gp3() };
        let latency = &mut device.member.latency;
        (latency.read_us_p50, latency.read_us_p99) = (500.0, 500.0);
        (latency.write_us_p50, latency.write_us_p99) = (500.0, 500.0);
        let alone = trace(&device, 1, None, &asked);
        device.stripes = stripes;
        let together = trace(&device, 1, None, &asked);
        // A member may be one operation behind, where its runs begin elsewhere than the array's.
        let one_ns = (1e9 / device.member.iops.unwrap()) as u64 + 2;
        for (alone_ns, together_ns) in alone.into_iter().zip(together) {
            prop_assert!(together_ns <= alone_ns + one_ns, "{} {}", together_ns, alone_ns);
        }
    }

    #[test]
    fn a_stripe_is_never_slower_than_one_member(
        stripes in 1u32..9, depth in 1usize..33, blocks in 1u64..129
    ) {
        let length = blocks * 8192;
        let mut device = gp3();
        device.member.latency.read_us_p50 = 500.0;
        device.member.latency.read_us_p99 = 500.0;
        let mut one = Volume::new(&device, 1).unwrap();
        device.stripes = stripes;
        let mut many = Volume::new(&device, 1).unwrap();
        let alone = run_closed(&mut one, depth, length, SECOND_NS);
        let together = run_closed(&mut many, depth, length, SECOND_NS);
        prop_assert!(together as f64 >= alone as f64 * 0.995 - 1.0, "{} < {}", together, alone);
    }
}
