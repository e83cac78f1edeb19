//! The library's errors as exceptions: one class for each fault, with the library's text.

use pagewalk::{Error, Fault};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::{create_exception, exceptions::PyUserWarning};

create_exception!(
    pagewalk,
    PagewalkError,
    PyException,
    "Why pagewalk could not do something, and what to do next."
);
create_exception!(pagewalk, FailedError, PagewalkError, "The work failed.");
create_exception!(pagewalk, UsageError, PagewalkError, "What was asked for is wrong.");
create_exception!(pagewalk, BadInputError, PagewalkError, "An input file is wrong.");
create_exception!(pagewalk, HostCannotError, PagewalkError, "This host cannot do it.");
create_exception!(pagewalk, NotInEffectError, PagewalkError, "A plan had no effect.");
create_exception!(pagewalk, PagewalkWarning, PyUserWarning, "Something that users of a result must know.");

/// The exception of an error.
pub fn exception(error: Error) -> PyErr {
    let text = error.to_string();
    match error.fault {
        Fault::Failed => FailedError::new_err(text),
        Fault::Usage => UsageError::new_err(text),
        Fault::BadInput => BadInputError::new_err(text),
        Fault::HostCannot => HostCannotError::new_err(text),
        Fault::NotInEffect => NotInEffectError::new_err(text),
    }
}

/// The error of an exception that Python code raised, for the command.
pub fn of_exception(py: Python<'_>, raised: &PyErr) -> Error {
    let faults = [
        (py.get_type::<UsageError>(), Fault::Usage),
        (py.get_type::<BadInputError>(), Fault::BadInput),
        (py.get_type::<HostCannotError>(), Fault::HostCannot),
        (py.get_type::<NotInEffectError>(), Fault::NotInEffect),
    ];
    let fault = faults.into_iter().find(|(class, _)| raised.is_instance(py, class));
    let is_ours = raised.is_instance_of::<PagewalkError>(py);
    let text = if is_ours { raised.value(py).to_string() } else { raised.to_string() };
    Error::new(fault.map_or(Fault::Failed, |(_, fault)| fault), text)
}

/// Adds the classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("PagewalkError", py.get_type::<PagewalkError>())?;
    module.add("FailedError", py.get_type::<FailedError>())?;
    module.add("UsageError", py.get_type::<UsageError>())?;
    module.add("BadInputError", py.get_type::<BadInputError>())?;
    module.add("HostCannotError", py.get_type::<HostCannotError>())?;
    let not_in_effect = py.get_type::<NotInEffectError>();
    not_in_effect.setattr("result", py.None())?;
    module.add("NotInEffectError", not_in_effect)?;
    module.add("PagewalkWarning", py.get_type::<PagewalkWarning>())
}
