// Arrays of other libraries on the host: reads them as ndarrays, and returns results as arrays of
// these libraries.
//
// A type with DLPack's C exchange API (PyTorch) exchanges arrays without Python calls; a type with
// Python's buffer protocol in addition to DLPack (JAX) exports arrays through this protocol. For
// all other types, the Python method __dlpack__ is called.
#ifndef OPWRIGHT_PYTHON_HOST_ARRAYS_H_
#define OPWRIGHT_PYTHON_HOST_ARRAYS_H_

#include "dlpack/dlpack.h"
#include "python/arrays/numpy_bridge.h"

namespace opwright {

// The method by which arrays of one type are exported.
struct ArrayKind {
  PyTypeObject* type = nullptr;
  const DLPackExchangeAPI* api = nullptr;  // null means the buffer protocol
  bool has_gradients = false;              // whether it has the attribute requires_grad
};

// Whether arrays of this type are exported without a call of __dlpack__. The exchange API of a type
// is looked up only once. Never sets a Python error.
bool FindKind(PyTypeObject* type, ArrayKind* kind) noexcept;

// While an enabled object exists, this thread reads arrays that require a gradient as their
// detach().
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

// Whether an array requires a gradient, which its library cannot track through our operators.
bool RequiresGradient(const ArrayKind& kind, PyObject* array);

// Returns an ndarray, with any strides, over an array on the host; it keeps the array alive.
// Returns null without an error if the array's library does not export it; throws std::bad_alloc.
// With `is_read`, the ndarray is read-only and marked as such, which some libraries require.
PyObject* Lend(const ArrayKind& kind, PyObject* array, bool is_read);

// Converts an ndarray, or a tuple of ndarrays, to arrays of a library with an exchange API; the
// results keep the ndarrays alive. On failure, returns NULL and sets an error.
PyObject* GiveToLibrary(const ArrayKind& kind, PyObject* result) noexcept;

// Returns a ready array with the values of an ndarray or exported array: the array itself, an
// ndarray over its memory, or a copy if kernels cannot read this memory. Sets `kind` to the method
// of export, null for NumPy arrays. Returns null without an error for other values, and for
// ndarrays of subclasses or with foreign byte order.
PyObject* ReadReady(PyObject* array, ArrayKind* kind);

void BindHostArrays(py::module_& module);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_HOST_ARRAYS_H_
