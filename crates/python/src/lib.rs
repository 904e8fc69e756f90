//! The Python module `pgstow._native`: the emulator's server, the device model, the simulator.
use pgstow_device::{DeviceConfig, HostCap, HostCapConfig, Operation, OperationKind, Volume};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use serde::de::DeserializeOwned;

/// Serve emulated volumes until ended by a command, SIGTERM or SIGINT, or unmounted.
///
/// Other threads run meanwhile. Raises ValueError for an impossible configuration, OSError where
/// the system refuses.
#[pyfunction]
fn serve(py: Python<'_>, config_json: &str) -> PyResult<()> {
    py.detach(|| pgstow_emulator::serve(config_json))
        .map_err(|error| match &error {
            pgstow_emulator::Error::Config(message) => PyValueError::new_err(message.clone()),
            pgstow_emulator::Error::System { source, .. } => match source.raw_os_error() {
                Some(code) => PyOSError::new_err((code, error.to_string())),
                None => PyOSError::new_err(error.to_string()),
            },
        })
}

/// When the device model completes each operation, in nanoseconds.
///
/// `ops` are (now in ns, "read" | "write" | "flush", offset, length) in the order of their times.
#[pyfunction]
fn trace(
    py: Python<'_>,
    device_json: &str,
    host_cap_json: Option<&str>,
    ops: Vec<(u64, String, u64, u32)>,
    seed: u64,
) -> PyResult<Vec<u64>> {
    let device: DeviceConfig = parse("device", device_json)?;
    let cap = host_cap_json.map(|json| parse::<Option<HostCapConfig>>("host cap", json));
    let cap = cap.transpose()?.flatten();
    let invalid = |error: pgstow_device::ConfigError| PyValueError::new_err(error.to_string());
    if let Some(cap) = &cap {
        cap.check().map_err(invalid)?;
    }
    let mut volume = Volume::new(&device, seed).map_err(invalid)?;
    let mut host = HostCap::new(cap.as_ref());
    py.detach(|| {
        ops.into_iter()
            .map(|(now_ns, kind, offset, length)| {
                let kind = match kind.as_str() {
                    "read" => OperationKind::Read,
                    "write" => OperationKind::Write,
                    "flush" => OperationKind::Flush,
                    _ => return Err(PyValueError::new_err(format!("{kind:?} is no operation"))),
                };
                if offset.checked_add(u64::from(length)).is_none() {
                    return Err(PyValueError::new_err(format!(
                        "offset {offset} is too large"
                    )));
                }
                Ok(volume.submit(
                    &mut host,
                    now_ns,
                    Operation {
                        kind,
                        offset,
                        length,
                    },
                ))
            })
            .collect()
    })
}

fn parse<T: DeserializeOwned>(what: &str, json: &str) -> PyResult<T> {
    serde_json::from_str(json).map_err(|error| PyValueError::new_err(format!("{what}: {error}")))
}

/// Simulate PostgreSQL on a layout's devices in virtual time: JSON in, JSON out.
///
/// Other threads run meanwhile, and Ctrl-C ends it. Raises ValueError for an impossible input.
#[pyfunction]
fn simulate(py: Python<'_>, config_json: &str) -> PyResult<String> {
    interruptible(py, |go_on| pgstow_simulator::simulate(config_json, go_on))
}

/// Run a recorded trace again on devices in virtual time: JSON in, JSON out.
///
/// Other threads run meanwhile, and Ctrl-C ends it. Raises ValueError for an impossible input.
#[pyfunction]
fn replay(py: Python<'_>, config_json: &str) -> PyResult<String> {
    interruptible(py, |go_on| pgstow_simulator::replay(config_json, go_on))
}

/// Credits and limits under synthetic loads in virtual time: JSON in, JSON out.
///
/// Other threads run meanwhile, and Ctrl-C ends it. Raises ValueError for an impossible input.
#[pyfunction]
fn forecast(py: Python<'_>, config_json: &str) -> PyResult<String> {
    interruptible(py, |go_on| pgstow_simulator::forecast(config_json, go_on))
}

/// Run something long without the interpreter; signals are seen whenever it asks to go on.
fn interruptible<F>(py: Python<'_>, run: F) -> PyResult<String>
where
    F: Send + FnOnce(pgstow_simulator::GoOn<'_>) -> Result<String, String>,
{
    let mut interrupt = None;
    let output = py.detach(|| {
        run(&mut || {
            Python::attach(|py| py.check_signals()).map_err(|error| {
                interrupt = Some(error);
                "interrupted".to_string()
            })
        })
    });
    output.map_err(|message| interrupt.unwrap_or_else(|| PyValueError::new_err(message)))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(serve, module)?)?;
    module.add_function(wrap_pyfunction!(trace, module)?)?;
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(replay, module)?)?;
    module.add_function(wrap_pyfunction!(forecast, module)?)?;
    Ok(())
}
