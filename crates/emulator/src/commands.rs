//! The control protocol: a line of JSON in, a line of JSON out.

use std::path::PathBuf;

use pgstow_device::{DeviceConfig, HostCapConfig};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::backing::Backing;
use crate::compensation::CompensationUs;
use crate::fault_order::{Fault, Order};
use crate::store::Store;

#[derive(Debug, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
enum Command {
    Add {
        device: DeviceConfig,
        #[serde(default)]
        backing: Backing,
    },
    Remove {
        name: String,
    },
    Set {
        device: DeviceConfig,
    },
    Modify {
        device: DeviceConfig,
        optimising_s: f64,
    },
    Host {
        // Null lifts the cap; leaving it out must not.
        #[serde(deserialize_with = "Option::deserialize")]
        host: Option<HostCapConfig>,
    },
    Limits {
        enabled: bool,
        #[serde(default)]
        name: Option<String>,
    },
    Credits {
        fraction: f64,
        #[serde(default)]
        name: Option<String>,
    },
    Compensation {
        read_us: f64,
        write_us: f64,
    },
    Stats {},
    Trace {
        // Null stops; leaving it out must not.
        #[serde(deserialize_with = "Option::deserialize")]
        path: Option<PathBuf>,
        #[serde(default)]
        volumes: Option<Vec<String>>,
    },
    Volatile {
        enabled: bool,
        #[serde(default)]
        name: Option<String>,
    },
    Fault {
        fault: Fault,
        #[serde(default)]
        volumes: Option<Vec<String>>,
        #[serde(default)]
        after_s: f64,
        #[serde(default)]
        for_s: Option<f64>,
    },
    Clear {
        // Null clears all; leaving it out must not.
        #[serde(deserialize_with = "Option::deserialize")]
        id: Option<u64>,
    },
    Status {},
    Shutdown {},
}

/// An answer, and whether the server is to end after it.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub line: String,
    pub ends_server: bool,
    /// There is no line yet: it comes with this ticket, once a disk has done its part.
    pub ticket: Option<u64>,
}

impl Answer {
    fn now(line: String) -> Self {
        Self {
            line,
            ends_server: false,
            ticket: None,
        }
    }

    fn later(ticket: u64) -> Self {
        Self {
            ticket: Some(ticket),
            ..Self::now(String::new())
        }
    }
}

/// Does what one line asks. Whatever is in it, there is an answer.
pub fn execute(store: &mut Store, now_ns: u64, line: &[u8]) -> Answer {
    let command = match serde_json::from_slice(line) {
        Ok(command) => command,
        Err(error) => return refused(&format!("not a command: {error}")),
    };
    let done = match command {
        Command::Add {
            device,
            backing: Backing::Memory,
        } => store.add(&device, now_ns),
        Command::Add {
            device,
            backing: Backing::File { path, keep },
        } => {
            return match store.open(&device, (path, keep)) {
                Ok(ticket) => Answer::later(ticket),
                Err(message) => refused(&message),
            };
        }
        Command::Remove { name } => {
            return match store.remove(&name) {
                Ok(Some(ticket)) => Answer::later(ticket),
                Ok(None) => outcome(Ok(())),
                Err(message) => refused(&message),
            };
        }
        Command::Set { device } => store.set(&device, now_ns),
        Command::Modify {
            device,
            optimising_s,
        } => store.modify(&device, optimising_s, now_ns),
        Command::Host { host } => store.set_host(host, now_ns),
        Command::Limits { enabled, name } => store.set_limits(enabled, name.as_deref(), now_ns),
        Command::Credits { fraction, name } => store.set_credits(fraction, name.as_deref(), now_ns),
        Command::Compensation { read_us, write_us } => {
            store.set_compensation(CompensationUs { read_us, write_us })
        }
        Command::Volatile { enabled, name } => store.set_volatile(enabled, name.as_deref()),
        Command::Clear { id } => store.clear_faults(id),
        Command::Fault {
            fault,
            volumes,
            after_s,
            for_s,
        } => {
            let order = Order {
                fault,
                volumes,
                after_s,
                for_s,
            };
            return inject(store, now_ns, order);
        }
        Command::Status {} => {
            store.look_at_free_space();
            return accepted(&store.status(now_ns));
        }
        Command::Trace {
            path: Some(path),
            volumes,
        } => store.start_recording(&path, volumes.as_deref(), now_ns),
        Command::Trace { path: None, .. } => match store.stop_recording() {
            Ok(recorded) => return accepted(&recorded),
            Err(message) => Err(message),
        },
        Command::Stats {} => {
            let busy_ns = now_ns.saturating_sub(store.idle_ns);
            return accepted(&json!({
                "uptime_s": now_ns as f64 / 1e9, "busy_us_total": busy_ns as f64 / 1e3,
                "volumes": store.statistics(now_ns)
            }));
        }
        Command::Shutdown {} => {
            return Answer {
                ends_server: true,
                ..accepted(&json!({}))
            };
        }
    };
    outcome(done)
}

/// The answer to what was done, or not.
pub fn outcome(done: Result<(), String>) -> Answer {
    match done {
        Ok(()) => accepted(&json!({})),
        Err(message) => refused(&message),
    }
}

fn inject(store: &mut Store, now_ns: u64, order: Order) -> Answer {
    let is_cut_now = matches!(order.fault, Fault::PowerLoss { .. }) && order.after_s == 0.0;
    match store.inject(order, now_ns) {
        Ok((id, lost)) if is_cut_now => accepted(&json!({"id": id, "lost": lost})),
        Ok((id, _)) => accepted(&json!({"id": id})),
        Err(message) => refused(&message),
    }
}

/// The answer to a line that is not to be read at all.
pub fn refused(message: &str) -> Answer {
    let message = message.replace(['\n', '\r'], " ");
    Answer::now(json!({"ok": false, "error": message}).to_string())
}

fn accepted(content: &impl Serialize) -> Answer {
    match serde_json::to_value(content) {
        Ok(Value::Object(mut fields)) => {
            fields.insert("ok".into(), true.into());
            Answer::now(Value::Object(fields).to_string())
        }
        Ok(_) | Err(_) => refused("the answer cannot be written"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::guard::MemoryGuard;
    use crate::store::tests::device;

    fn ask(store: &mut Store, command: &Value) -> Value {
        let answer = execute(store, 0, command.to_string().as_bytes());
        serde_json::from_str(&answer.line).unwrap()
    }

    #[test]
    fn a_volume_lives_from_add_to_remove() {
        let mut store = Store::new(MemoryGuard::new(0), 1);
        let mut target = device("data");
        assert_eq!(
            ask(&mut store, &json!({"command": "add", "device": target}))["ok"],
            true
        );
        target.size_bytes *= 2;
        target.member.iops = Some(3000.0);
        assert_eq!(
            ask(&mut store, &json!({"command": "set", "device": target}))["ok"],
            true
        );
        let cap = json!({"iops": 5000.0, "bytes_per_second": null, "burst_iops": null,
            "burst_bytes_per_second": null});
        assert_eq!(
            ask(&mut store, &json!({"command": "host", "host": cap}))["ok"],
            true
        );
        let status = ask(&mut store, &json!({"command": "status"}));
        assert_eq!(status["host"], cap);
        assert_eq!(status["limits_enabled"], true);
        let volume = &status["volumes"][0];
        assert_eq!(volume["size_bytes"], 1u64 << 31);
        assert_eq!(volume["device"], serde_json::to_value(&target).unwrap());
        assert_eq!(volume["reads"], 0);
        assert_eq!(
            ask(&mut store, &json!({"command": "remove", "name": "data"}))["ok"],
            true
        );
        assert_eq!(
            ask(&mut store, &json!({"command": "status"}))["volumes"],
            json!([])
        );
        assert!(execute(&mut store, 0, br#"{"command": "shutdown"}"#).ends_server);
    }

    #[test]
    fn a_modification_is_under_way_until_it_is_complete() {
        let mut store = Store::new(MemoryGuard::new(0), 1);
        let mut target = device("data");
        target.member.iops = Some(1000.0);
        ask(&mut store, &json!({"command": "add", "device": target}));
        let modify = |store: &mut Store, now_ns: u64, device: &DeviceConfig, seconds: f64| {
            let line = json!({"command": "modify", "device": device, "optimising_s": seconds});
            let answer = execute(store, now_ns, line.to_string().as_bytes());
            serde_json::from_str::<Value>(&answer.line).unwrap()
        };
        let volume = |store: &Store, now_ns: u64| {
            serde_json::to_value(store.status(now_ns)).unwrap()["volumes"][0].clone()
        };
        assert_eq!(volume(&store, 0)["modification"], Value::Null);
        assert_eq!(volume(&store, 0)["modifications_24h"], 0);
        target.member.iops = Some(3000.0);
        target.size_bytes *= 2;
        assert_eq!(modify(&mut store, 0, &target, 60.0)["ok"], true);
        let halfway = volume(&store, 30_000_000_000);
        assert_eq!(
            halfway["modification"],
            json!({"progress": 0.5, "ends_in_s": 30.0})
        );
        assert_eq!(halfway["modifications_24h"], 1);
        assert_eq!(halfway["size_bytes"], 2u64 << 30);
        let refused = modify(&mut store, 30_000_000_000, &target, 60.0);
        assert!(refused["error"].as_str().unwrap().contains("under way"));
        assert_eq!(volume(&store, 60_000_000_000)["modification"], Value::Null);
        for seconds in [-1.0, 1e9] {
            let answer = modify(&mut store, 60_000_000_000, &target, seconds);
            assert_eq!(answer["ok"], false, "{seconds}");
        }
    }

    #[test]
    fn a_recording_is_started_once_and_stopped_once() {
        let mut store = Store::new(MemoryGuard::new(0), 1);
        ask(
            &mut store,
            &json!({"command": "add", "device": device("data")}),
        );
        let path = std::env::temp_dir().join(format!("pgstow-commands-{}", std::process::id()));
        let start = json!({"command": "trace", "path": path});
        let stop = json!({"command": "trace", "path": null});
        assert_eq!(ask(&mut store, &stop)["ok"], false);
        let stranger = json!({"command": "trace", "path": path, "volumes": ["wal"]});
        assert_eq!(ask(&mut store, &stranger)["ok"], false);
        assert_eq!(ask(&mut store, &start)["ok"], true);
        let again = ask(&mut store, &start);
        assert!(again["error"].as_str().unwrap().contains("under way"));
        let expected = json!({"ok": true, "path": path, "records": 0, "dropped": 0});
        assert_eq!(ask(&mut store, &stop), expected);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn statistics_are_those_of_each_volume() {
        let mut store = Store::new(MemoryGuard::new(0), 1);
        ask(
            &mut store,
            &json!({"command": "add", "device": device("data")}),
        );
        let answer = execute(&mut store, 3_000_000_000, br#"{"command": "stats"}"#);
        let answer: Value = serde_json::from_str(&answer.line).unwrap();
        assert_eq!(answer["uptime_s"], 3.0);
        let volume = &answer["volumes"][0];
        assert_eq!(volume["name"], "data");
        assert_eq!(volume["idle_us_total"], 3e6);
        assert_eq!(volume["burst_balance_percent"], Value::Null);
        assert_eq!(volume["exceeded_us"]["instance_iops"], 0.0);
    }

    #[test]
    fn a_bad_command_is_refused_in_one_line() {
        let mut store = Store::new(MemoryGuard::new(0), 1);
        for line in [
            "",
            "nonsense",
            "{}",
            "[1]",
            r#"{"command": "fly"}"#,
            r#"{"command": "host"}"#,
            r#"{"command": "limits"}"#,
            r#"{"command": "status", "extra": 1}"#,
            r#"{"command": "remove", "name": "a\nb"}"#,
            r#"{"command": "compensation", "read_us": -5, "write_us": 0}"#,
            r#"{"command": "host", "host": {"iops": 0, "bytes_per_second": 1}}"#,
        ] {
            let answer = execute(&mut store, 0, line.as_bytes());
            let value: Value = serde_json::from_str(&answer.line).unwrap();
            assert_eq!(value["ok"], false, "{line}");
            let error = value["error"].as_str().unwrap();
            assert!(
                !error.is_empty() && !error.contains('\n'),
                "{line}: {error}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_line_breaks_it(line in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut store = Store::new(MemoryGuard::new(0), 1);
            prop_assert!(!execute(&mut store, 0, &line).ends_server);
        }
    }
}
