//! Columns of a batch as Python sees them without copying: Arrow arrays and buffers.

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, to_ffi};
use arrow_array::types::{UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::DataType;
use pyo3::exceptions::{PyBufferError, PyRuntimeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;

/// The schema and the array of Arrow's C data interface.
pub type Capsules<'py> = (Bound<'py, PyCapsule>, Bound<'py, PyCapsule>);

/// References of a trace in program order, or blocks of code: columns of equal length, which nobody copies.
#[pyclass(frozen, module = "pagewalk")]
pub struct Batch(pub RecordBatch);

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<pagewalk.Batch of {} rows>", self.0.num_rows())
    }

    /// A column by its name.
    fn __getitem__(&self, name: &str) -> PyResult<Column> {
        let found = self.0.column_by_name(name).cloned();
        found.map(Column::new).ok_or_else(|| pyo3::exceptions::PyKeyError::new_err(name.to_owned()))
    }

    fn __getattr__(&self, name: &str) -> PyResult<Column> {
        let found = self.0.column_by_name(name).cloned();
        found.map(Column::new).ok_or_else(|| {
            let names = self.columns().join(", ");
            pyo3::exceptions::PyAttributeError::new_err(format!("a batch has no column `{name}`: {names}"))
        })
    }

    /// The columns' names.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Capsules<'py>> {
        // A producer may ignore the wish for other types.
        drop(requested_schema);
        capsules(py, &StructArray::from(self.0.clone()))
    }
}

/// One column of a batch: unsigned integers.
#[pyclass(frozen, module = "pagewalk")]
pub struct Column {
    array: ArrayRef,
    /// Number of items, for buffers.
    shape: ffi::Py_ssize_t,
    /// Bytes of an item.
    width: ffi::Py_ssize_t,
}

impl Column {
    fn new(array: ArrayRef) -> Column {
        let width = array.data_type().primitive_width().unwrap_or(1);
        Column { shape: array.len() as ffi::Py_ssize_t, width: width as ffi::Py_ssize_t, array }
    }

    /// Its first byte, and the letter of its type in Python's `struct`.
    fn values(&self) -> Option<(*const c_void, &'static CStr)> {
        Some(match self.array.data_type() {
            DataType::UInt8 => (self.array.as_primitive::<UInt8Type>().values().as_ptr().cast(), c"B"),
            DataType::UInt16 => (self.array.as_primitive::<UInt16Type>().values().as_ptr().cast(), c"H"),
            DataType::UInt32 => (self.array.as_primitive::<UInt32Type>().values().as_ptr().cast(), c"I"),
            DataType::UInt64 => (self.array.as_primitive::<UInt64Type>().values().as_ptr().cast(), c"Q"),
            _ => return None,
        })
    }
}

#[pymethods]
impl Column {
    fn __len__(&self) -> usize {
        self.array.len()
    }

    fn __repr__(&self) -> String {
        format!("<pagewalk.Column of {} {}>", self.array.len(), self.array.data_type())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Capsules<'py>> {
        drop(requested_schema);
        capsules(py, &*self.array)
    }

    /// # Safety
    /// `view` is null or a buffer to fill, as the interpreter promises.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no view to fill"));
        }
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("columns cannot be written"));
        }
        let column = slf.get();
        let Some((values, letter)) = column.values() else {
            return Err(PyBufferError::new_err("the column is no list of integers"));
        };
        let wants = |flag: c_int| flags & flag == flag;
        // SAFETY: the interpreter gives a view to fill. All pointers lead into the column, which nothing changes and
        // which the view keeps alive by its reference `obj`; the letter is static.
        unsafe {
            (*view).buf = values.cast_mut();
            (*view).len = column.shape * column.width;
            (*view).readonly = 1;
            (*view).itemsize = column.width;
            (*view).format = if wants(ffi::PyBUF_FORMAT) { letter.as_ptr().cast_mut() } else { null_mut() };
            (*view).ndim = 1;
            let part = |wanted: bool, of: &ffi::Py_ssize_t| {
                if wanted { std::ptr::from_ref(of).cast_mut() } else { null_mut() }
            };
            (*view).shape = part(wants(ffi::PyBUF_ND), &column.shape);
            (*view).strides = part(wants(ffi::PyBUF_STRIDES), &column.width);
            (*view).suboffsets = null_mut();
            (*view).internal = null_mut();
            (*view).obj = slf.into_any().into_ptr();
        }
        Ok(())
    }
}

/// An array in capsules; consumers share its memory.
fn capsules<'py>(py: Python<'py>, array: &dyn Array) -> PyResult<Capsules<'py>> {
    let (array, schema): (FFI_ArrowArray, FFI_ArrowSchema) =
        to_ffi(&array.to_data()).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    let schema = PyCapsule::new_with_value(py, schema, c"arrow_schema")?;
    Ok((schema, PyCapsule::new_with_value(py, array, c"arrow_array")?))
}
