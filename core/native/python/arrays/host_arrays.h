// Arrays of other libraries on the host: reads them as ndarrays, and returns results as theirs.
//
// A type with DLPack's C exchange API (PyTorch's) lends and takes arrays without Python calls; one
// with Python's buffer protocol beside DLPack (JAX's) lends them by that. All others lend by
// __dlpack__, in Python.
#ifndef OPWRIGHT_PYTHON_HOST_ARRAYS_H_
#define OPWRIGHT_PYTHON_HOST_ARRAYS_H_

#include "dlpack/dlpack.h"
#include "python/arrays/numpy_bridge.h"

namespace opwright {

// How arrays of one type are lent.
struct ArrayKind {
  PyTypeObject* type = nullptr;
  const DLPackExchangeAPI* api = nullptr;  // null: by the buffer protocol
  bool has_gradients = false;              // it has the attribute requires_grad
};

// Whether arrays of this type are lent without a call of __dlpack__. What has an exchange API is
// looked up once. Leaves no error set.
bool FindKind(PyTypeObject* type, ArrayKind* kind) noexcept;

// An ndarray that kernels can read, over an array's memory, which it keeps; null without an error
// if kernels cannot read it, or its library does not lend it; throws std::bad_alloc.
PyObject* LendReady(const ArrayKind& kind, PyObject* array);

// An ndarray, or a tuple of them, as arrays of a library with an exchange API, which keep them.
// NULL with an error set.
PyObject* GiveToLibrary(const ArrayKind& kind, PyObject* result) noexcept;

void BindHostArrays(py::module_& module);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_HOST_ARRAYS_H_
