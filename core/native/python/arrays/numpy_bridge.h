// NumPy's C API, and conversions between its dtypes and DLPack's. Include this instead of NumPy's
// own headers.
#ifndef OPWRIGHT_PYTHON_NUMPY_BRIDGE_H_
#define OPWRIGHT_PYTHON_NUMPY_BRIDGE_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL OPWRIGHT_ARRAY_API
#ifndef OPWRIGHT_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>
#ifndef OPWRIGHT_IMPORTS_NUMPY  // the file that defines the API compiles fast without the rest

#include <pybind11/pybind11.h>

#include <memory>

#include "runtime/values/tensor.h"

namespace opwright {

namespace py = pybind11;

// Returns false and sets a Python exception if NumPy cannot be imported. The module calls it once.
bool ImportNumpy();

// Returns NumPy's dtype, a borrowed reference that is never freed. Throws kDtype for a dtype of
// ml_dtypes if ml_dtypes is missing.
PyArray_Descr* DescrOf(DLDataType dtype);

// Finds the DLPack type of a NumPy dtype with native byte order; returns false if there is none.
bool FindDtype(PyArray_Descr* descr, DLDataType* dtype);

// Like FindDtype, but throws kDtype with a message that begins with `who`.
DLDataType DtypeOf(PyArray_Descr* descr, const char* who);

inline PyArrayObject* AsArray(PyObject* object) { return reinterpret_cast<PyArrayObject*>(object); }
inline PyArrayObject_fields* FieldsOf(PyArrayObject* array) {
  return reinterpret_cast<PyArrayObject_fields*>(array);
}

// An exact ndarray that kernels can read directly: C-contiguous, aligned, native byte order.
inline bool IsReady(PyObject* object) {
  return PyArray_CheckExact(object) && PyArray_IS_C_CONTIGUOUS(AsArray(object)) &&
         PyArray_ISALIGNED(AsArray(object)) && PyArray_ISNOTSWAPPED(AsArray(object));
}

// Returns memory for views without elements: 64 aligned zero bytes.
void* Nowhere();

// Returns a new array for the caller; large arrays have 64-byte aligned memory. On failure, returns
// NULL and sets an error.
PyObject* NewArray(DLDataType dtype, int32_t ndim, const int64_t* shape) noexcept;

// Returns a view without an owner over memory that the caller keeps alive. On failure, returns NULL
// and sets an error.
PyArrayObject* NewView(const DLTensor& tensor, void* data, bool read_only) noexcept;

// Returns a Python object that keeps a storage alive. On failure, returns NULL and sets an error.
PyObject* NewStorageOwner(std::shared_ptr<Storage> storage) noexcept;

// Copies a tensor to the host; throws.
py::object TensorToNumpy(const Tensor& tensor);
// Converts any array-like to an array that can be copied to a device directly.
py::object ReadyArray(const py::handle& array_like, const std::shared_ptr<Device>& device,
                      const char* who);
std::shared_ptr<const Tensor> TensorFromNumpy(const py::handle& array_like,
                                              const std::shared_ptr<Device>& device,
                                              const char* who);

}  // namespace opwright

#endif  // OPWRIGHT_IMPORTS_NUMPY
#endif  // OPWRIGHT_PYTHON_NUMPY_BRIDGE_H_
