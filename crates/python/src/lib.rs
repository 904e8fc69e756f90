//! The Python module `pgstow._native`: the emulator's server and the simulator.
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Simulate PostgreSQL on a layout's devices in virtual time: JSON in, JSON out.
///
/// Other threads run meanwhile, and Ctrl-C ends it. Raises ValueError for an impossible input.
#[pyfunction]
fn simulate(py: Python<'_>, config_json: &str) -> PyResult<String> {
    let mut interrupt = None;
    let output = py.detach(|| {
        pgstow_simulator::simulate(config_json, &mut || {
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
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    Ok(())
}
