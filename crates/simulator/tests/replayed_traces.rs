//! Replays of traces that no server in order would record.

use std::fmt::Write as _;

use serde_json::{Value, json};

const SAMPLES_MAX: usize = 500;

#[test]
fn a_closed_loop_looks_at_credits_about_as_often_however_long_it_takes() {
    let mut trace = String::from("received_ns,volume,kind,offset,length,completed_ns\n");
    for _ in 0..20 {
        writeln!(trace, "5,data,read,0,8192,5").unwrap(); // all at one instant, answered at once
    }
    let path = std::env::temp_dir().join(format!("pgstow-instant-{}.csv", std::process::id()));
    std::fs::write(&path, trace).unwrap();
    let device = json!({"name": "data", "size_bytes": 1_u64 << 33, "stripes": 1,
        "chunk_bytes": 65536, "member": {
            "iops": 100.0, "bytes_per_second": null, "io_unit_bytes": 262_144,
            "burst": {"kind": "iops", "capacity": 1000.0, "refill_per_s": 100.0,
                      "burst_rate": 3000.0},
            "latency": {"read_us_p50": 500.0, "read_us_p99": 500.0,
                        "write_us_p50": 500.0, "write_us_p99": 500.0}}});
    let config = json!({"trace": path, "devices": [device], "closed_loop": true});
    let replayed = pgstow_simulator::replay(&config.to_string(), &mut || Ok(()));
    std::fs::remove_file(&path).unwrap();
    let output: Value = serde_json::from_str(&replayed.unwrap()).unwrap();
    assert!(output["replayed_s"].as_f64().unwrap() > 0.009);
    let credits = output["volumes"][0]["credits"].as_array().unwrap();
    assert!(
        (SAMPLES_MAX / 3..SAMPLES_MAX).contains(&credits.len()),
        "{} samples",
        credits.len()
    );
    let at_s: Vec<f64> = credits.iter().map(|one| one[0].as_f64().unwrap()).collect();
    let (first, rest) = at_s[..at_s.len() - 1].split_first().unwrap();
    assert!(
        *first == 0.0
            && rest.windows(2).all(|pair| {
                let step_s = pair[1] - pair[0];
                (step_s / (rest[0] - first) - 1.0).abs() < 1e-3
            })
    );
}
