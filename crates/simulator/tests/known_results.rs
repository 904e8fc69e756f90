//! The simulator against results that theory knows, and laws that hold for any configuration.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::{Value, json};

/// A device of constant latency; `limit` is its IOPS, null for none.
fn device(name: &str, limit: Value, read_us: f64, write_us: f64) -> Value {
    json!({"name": name, "size_bytes": 1_u64 << 33, "stripes": 1, "chunk_bytes": 65536, "member": {
        "iops": limit, "bytes_per_second": null, "io_unit_bytes": 262144, "burst": null,
        "latency": {"read_us_p50": read_us, "read_us_p99": read_us,
                    "write_us_p50": write_us, "write_us_p99": write_us}}})
}

fn simulate(config: &Value) -> Value {
    let text = pgstow_simulator::simulate(&config.to_string(), &mut || Ok(())).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn number(output: &Value, pointer: &str) -> f64 {
    output
        .pointer(pointer)
        .and_then(Value::as_f64)
        .unwrap_or_else(|| panic!("{pointer}: {output}"))
}

#[track_caller]
fn assert_near(actual: f64, expected: f64, tolerance: f64) {
    assert!(
        (actual / expected - 1.0).abs() < tolerance,
        "{actual} is not near {expected}"
    );
}

/// Mean response time and throughput of a closed M/M/c station with exponential thinking.
fn machine_repair(clients: u32, cores: u32, service_s: f64, think_s: f64) -> (f64, f64) {
    let mut weights = vec![1.0_f64];
    for n in 1..=clients {
        let arrival = f64::from(clients - n + 1) / think_s;
        let departure = f64::from(n.min(cores)) / service_s;
        weights.push(weights[n as usize - 1] * arrival / departure);
    }
    let total: f64 = weights.iter().sum();
    let busy: f64 = (0..=clients)
        .map(|n| weights[n as usize] * f64::from(n.min(cores)))
        .sum();
    let throughput = busy / total / service_s;
    (f64::from(clients) / throughput - think_s, throughput)
}

#[test]
fn processors_are_a_closed_m_m_c_queue() {
    for (clients, cores, think_us) in [(10, 1, 5000.0), (20, 2, 5000.0), (16, 4, 1000.0)] {
        let output = simulate(&json!({
            "seed": 3, "warmup_s": 5, "duration_s": 300, "clients": clients, "cores": cores,
            "think_us": think_us, "cpu_us": 500.0, "devices": []}));
        let (response_s, throughput) = machine_repair(clients, cores, 500e-6, think_us / 1e6);
        assert_near(number(&output, "/tps"), throughput, 0.01);
        assert_near(number(&output, "/latency_ms/mean"), response_s * 1e3, 0.02);
        let used = throughput * 500e-6 / f64::from(cores);
        assert_near(number(&output, "/cpu_utilisation"), used, 0.01);
    }
}

#[test]
fn one_client_waits_for_its_reads_one_after_another() {
    let output = simulate(&json!({
        "warmup_s": 1, "duration_s": 100, "clients": 1, "cores": 2, "think_us": 0, "cpu_us": 200.0,
        "devices": [device("data", Value::Null, 1000.0, 1000.0)],
        "reads": [{"device": 0, "per_transaction": 1.0}]}));
    assert_near(number(&output, "/tps"), 1e6 / 1200.0, 0.01);
    assert_near(number(&output, "/read_ms/mean"), 1.0, 1e-3);
    assert_near(number(&output, "/devices/0/queue"), 1.0 / 1.2, 0.01);
    assert!(output["commit_ms"].is_null());
    assert!(output["devices"][0]["iops_utilisation"].is_null());
}

#[test]
fn many_clients_reach_the_limit_and_no_more() {
    let output = simulate(&json!({
        "seed": 5, "warmup_s": 2, "duration_s": 20, "clients": 64, "cores": 4, "cpu_us": 50.0,
        "devices": [device("data", json!(3000.0), 500.0, 500.0)],
        "reads": [{"device": 0, "per_transaction": 2.0}]}));
    assert_near(number(&output, "/devices/0/reads_per_s"), 3000.0, 0.002);
    assert_near(number(&output, "/devices/0/iops_utilisation"), 1.0, 0.002);
    assert_near(number(&output, "/tps"), 1500.0, 0.01);
    assert_near(number(&output, "/devices/0/queue"), 64.0, 0.02);
    assert_eq!(output["stationary"], true);
}

fn random_config(random: &mut Xoshiro256PlusPlus) -> Value {
    let mut up_to = |limit: f64| random.random::<f64>() * limit;
    let limit = |value: f64| {
        if value < 1000.0 {
            Value::Null
        } else {
            json!(value)
        }
    };
    let devices: Vec<Value> = (0..3)
        .map(|index| {
            let read_us = 100.0 + up_to(2000.0);
            device(
                &format!("v{index}"),
                limit(up_to(8000.0)),
                read_us,
                100.0 + up_to(2000.0),
            )
        })
        .collect();
    let wal = json!({"device": 2, "write_fraction": up_to(1.0), "overhead_us": up_to(200.0),
                     "bytes_per_transaction": up_to(20_000.0)});
    json!({
        "seed": up_to(1e9) as u64, "warmup_s": 5, "duration_s": 60,
        "clients": 1 + up_to(100.0) as u32, "cores": 1 + up_to(8.0) as u32,
        "think_us": up_to(20_000.0), "cpu_us": 50.0 + up_to(1000.0), "devices": devices,
        "host": {"iops": limit(up_to(9000.0)), "bytes_per_second": null,
                 "burst_iops": null, "burst_bytes_per_second": null},
        "reads": [{"device": 0, "per_transaction": up_to(5.0)},
                  {"device": 1, "per_transaction": up_to(1.0), "bytes": 65536, "sequential": true}],
        "synchronous_writes": [{"device": 1, "per_transaction": up_to(1.0)}],
        "background_writes": [{"device": 0, "per_transaction": up_to(1.0)},
                              {"device": 1, "per_transaction": up_to(1.0), "period_s": 7.0}],
        "wal": if up_to(1.0) < 0.7 { wal } else { Value::Null }})
}

#[test]
fn littles_law_holds_for_any_configuration() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
    for _ in 0..40 {
        let config = random_config(&mut random);
        let output = simulate(&config);
        let think_s = config["think_us"].as_f64().unwrap() / 1e6;
        let response_s = number(&output, "/latency_ms/mean") / 1e3;
        let clients = config["clients"].as_f64().unwrap();
        // Thinking is drawn, not fixed: its mean is within a few standard errors.
        let noise = 4.0 / number(&output, "/transactions").sqrt();
        let found = number(&output, "/tps") * (response_s + think_s);
        assert!(
            (found / clients - 1.0).abs() < 0.01_f64.max(noise),
            "{found} {clients} {config}"
        );
        assert!(number(&output, "/cpu_utilisation") <= 1.0);
        for device in output["devices"].as_array().unwrap() {
            let used = device["iops_utilisation"].as_f64().unwrap_or(0.0);
            assert!(used <= 1.01, "{device} {config}");
        }
        assert!(
            output["host_iops_utilisation"].as_f64().unwrap_or(0.0) <= 1.01,
            "{output}"
        );
    }
}

fn committing(clients: u32, wal: usize) -> Value {
    json!({
        "seed": 2, "warmup_s": 1, "duration_s": 20, "clients": clients, "cores": 8, "cpu_us": 20.0,
        "devices": [device("data", json!(3000.0), 500.0, 1000.0),
                    device("wal", json!(3000.0), 500.0, 1000.0)],
        "wal": {"device": wal, "write_fraction": 1.0, "bytes_per_transaction": 300,
                "overhead_us": 100}})
}

#[test]
fn one_client_commits_alone() {
    let output = simulate(&committing(1, 1));
    assert_eq!(number(&output, "/commits_per_flush"), 1.0);
    assert_near(number(&output, "/wal_sync_us"), 1100.0, 0.01);
    assert_near(number(&output, "/commit_ms/mean"), 1.1, 0.01);
    assert_near(number(&output, "/wal_write_us"), 1000.0, 0.01);
}

#[test]
fn many_clients_share_their_flushes() {
    let output = simulate(&committing(64, 1));
    let sync_us = number(&output, "/wal_sync_us");
    assert_near(number(&output, "/flushes_per_s"), 1e6 / sync_us, 0.01);
    assert!(number(&output, "/commits_per_flush") > 10.0, "{output}");
    // A commit waits out the running flush, then its own.
    assert!(
        number(&output, "/commit_ms/mean") < 2.1 * sync_us / 1e3,
        "{output}"
    );
}

#[test]
fn a_log_on_a_saturated_volume_waits_in_its_queue() {
    let mut config = committing(64, 0);
    config["reads"] = json!([{"device": 0, "per_transaction": 4.0}]);
    config["wal"]["write_fraction"] = json!(0.1);
    let shared = simulate(&config);
    let queue_ms = number(&shared, "/devices/0/read_ms");
    assert!(queue_ms > 15.0, "{shared}");
    // The log's write waits in the queue as reads do; its flush finds it done.
    let sync_ms = number(&shared, "/wal_sync_us") / 1e3;
    assert!((0.9..1.15).contains(&(sync_ms / queue_ms)), "{shared}");
    assert!(number(&shared, "/commit_ms/mean") > sync_ms, "{shared}");
    config["wal"]["device"] = json!(1);
    let apart = simulate(&config);
    assert!(number(&apart, "/wal_sync_us") < 1200.0, "{apart}");
}

#[test]
fn the_machines_cap_binds_across_devices() {
    let output = simulate(&json!({
        "seed": 5, "warmup_s": 2, "duration_s": 20, "clients": 64, "cores": 4, "cpu_us": 50.0,
        "devices": [device("a", json!(3000.0), 500.0, 500.0), device("b", json!(3000.0), 500.0, 500.0)],
        "host": {"iops": 4000.0, "bytes_per_second": null,
                 "burst_iops": null, "burst_bytes_per_second": null},
        "reads": [{"device": 0, "per_transaction": 1.0}, {"device": 1, "per_transaction": 1.0}]}));
    let sum = number(&output, "/devices/0/reads_per_s") + number(&output, "/devices/1/reads_per_s");
    assert_near(sum, 4000.0, 0.005);
    assert_near(number(&output, "/host_iops_utilisation"), 1.0, 0.005);
}

#[test]
fn spread_writes_keep_up_with_the_transactions() {
    let output = simulate(&json!({
        "seed": 5, "warmup_s": 1, "duration_s": 60, "clients": 8, "cores": 4, "cpu_us": 1000.0,
        "think_us": 7000.0, "devices": [device("data", json!(3000.0), 500.0, 500.0)],
        "background_writes": [{"device": 0, "per_transaction": 0.5, "period_s": 5.0}]}));
    let written = number(&output, "/devices/0/writes_per_s");
    assert_near(written, 0.5 * number(&output, "/tps"), 0.02);
    assert_eq!(output["stationary"], true);
}

#[test]
fn a_device_that_cannot_keep_up_with_background_writes_is_not_stationary() {
    let output = simulate(&json!({
        "seed": 5, "warmup_s": 1, "duration_s": 10, "clients": 8, "cores": 4, "cpu_us": 100.0,
        "devices": [device("data", json!(1000.0), 500.0, 500.0)],
        "background_writes": [{"device": 0, "per_transaction": 1.0}]}));
    assert_eq!(output["stationary"], false);
    assert_near(number(&output, "/devices/0/writes_per_s"), 1000.0, 0.01);
    assert!(number(&output, "/background_backlog") > 1000.0);
}

#[test]
fn classes_have_their_own_reads_processor_time_and_commits() {
    let output = simulate(&json!({
        "seed": 1, "warmup_s": 1, "duration_s": 60, "clients": 8, "cores": 8, "cpu_us": 100.0,
        "devices": [device("data", Value::Null, 1000.0, 1000.0)],
        "classes": [{"weight": 3, "reads": [{"device": 0, "per_transaction": 2.0}]},
                    {"weight": 1, "writes": true, "cpu_us": 900.0}],
        "wal": {"device": 0, "bytes_per_transaction": 100}}));
    let tps = number(&output, "/tps");
    assert_near(number(&output, "/devices/0/reads_per_s"), 1.5 * tps, 0.02);
    let commits = number(&output, "/flushes_per_s") * number(&output, "/commits_per_flush");
    assert_near(commits, 0.25 * tps, 0.03);
    assert_near(
        number(&output, "/cpu_utilisation"),
        tps * 300e-6 / 8.0,
        0.02,
    );
}

#[test]
fn equal_seeds_give_equal_output() {
    let mut config = random_config(&mut Xoshiro256PlusPlus::seed_from_u64(4));
    assert_eq!(simulate(&config), simulate(&config));
    let first = simulate(&config);
    config["seed"] = json!(12345);
    assert_ne!(first, simulate(&config));
}

#[test]
fn errors_are_one_line_that_names_the_key() {
    let fails = |config: Value, text: &str| {
        let error = pgstow_simulator::simulate(&config.to_string(), &mut || Ok(())).unwrap_err();
        assert!(error.contains(text) && !error.contains('\n'), "{error}");
    };
    let base = |key: &str, value: Value| {
        let mut config = json!({"duration_s": 1, "clients": 1, "devices": []});
        config[key] = value;
        config
    };
    fails(json!([]), "simulation: ");
    fails(base("clients", json!(0)), "clients is 0");
    fails(base("duration_s", json!(0)), "duration_s is 0");
    fails(base("think_us", json!(-1)), "think_us is -1");
    fails(base("cliens", json!(3)), "cliens");
    fails(
        base("reads", json!([{"device": 0, "per_transaction": 1}])),
        "reads[0].device is 0",
    );
    fails(base("classes", json!([{"weight": 0}])), "weights");
    fails(base("clients", json!(1)), "no time passes");
}

#[test]
fn the_caller_can_end_a_long_run() {
    let config = json!({"duration_s": 1e6, "clients": 64, "cores": 2, "cpu_us": 10, "devices": []});
    let stop = &mut || Err("stopped".to_string());
    assert_eq!(
        pgstow_simulator::simulate(&config.to_string(), stop).unwrap_err(),
        "stopped"
    );
}
