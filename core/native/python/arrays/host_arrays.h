// Arrays of other libraries on the host: reads them as ndarrays, and returns results as theirs.
//
// A type with DLPack's C exchange API (PyTorch's) exchanges arrays without Python calls; a type
// with Python's buffer protocol besides DLPack (JAX's) exports them by that. All others export by
// __dlpack__, in Python.
#ifndef OPWRIGHT_PYTHON_HOST_ARRAYS_H_
#define OPWRIGHT_PYTHON_HOST_ARRAYS_H_

#include "dlpack/dlpack.h"
#include "python/arrays/numpy_bridge.h"

namespace opwright {

// How arrays of one type are exported.
struct ArrayKind {
  PyTypeObject* type = nullptr;
  const DLPackExchangeAPI* api = nullptr;  // null: by the buffer protocol
  bool has_gradients = false;              // it has the attribute requires_grad
};

// Whether arrays of this type are exported without a call of __dlpack__. An exchange API is
// looked up once. Leaves no error set.
bool FindKind(PyTypeObject* type, ArrayKind* kind) noexcept;

// While an enabled one lives, this thread reads arrays that require a gradient as their detach().
class Detaching {
 public:
  explicit Detaching(bool is_on) : is_on_(is_on) {
    if (is_on_) Add(1);
  }
  ~Detaching() {
    if (is_on_) Add(-1);
  }
  Detaching(const Detaching&) = delete;
  Detaching& operator=(const Detaching&) = delete;
  static void Add(int n);
  static bool IsOn();

 private:
  const bool is_on_;
};

// Whether its library would record operations on an array, which it cannot do with ours.
bool RequiresGradient(const ArrayKind& kind, PyObject* array);

// An ndarray, of any strides, over an array's memory on the host, which it keeps alive; null
// without an error if its library does not export it; throws std::bad_alloc. With `is_read` it is
// read-only, and marked so, which some libraries require.
PyObject* Lend(const ArrayKind& kind, PyObject* array, bool is_read);

// An ndarray, or a tuple of them, as arrays of a library with an exchange API, which keep them
// alive. NULL with an error set.
PyObject* GiveToLibrary(const ArrayKind& kind, PyObject* result) noexcept;

// A ready array with the values of an ndarray or exported array: itself, over its memory,
// or a copy if kernels could not read that. `kind` is then the way of export, null for NumPy's
// own. Null without an error for other values, and for ndarrays of subclasses and foreign byte
// order.
PyObject* ReadReady(PyObject* array, ArrayKind* kind);

void BindHostArrays(py::module_& module);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_HOST_ARRAYS_H_
