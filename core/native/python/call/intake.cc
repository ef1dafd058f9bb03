#include "python/call/intake.h"

#include <new>

#include "python/bind/handles.h"
#include "runtime/status.h"

namespace opwright {

std::atomic<uint64_t> Epoch::everyone{0};

const Tensor* FeedTensor(PyObject* value) {
  if (PyArray_CheckExact(value) || !py::isinstance<TensorHandle>(value)) return nullptr;
  return py::handle(value).cast<TensorHandle&>().tensor.get();
}

namespace {

// An array that lies on the device, as a tensor; null if it does not, or if Python has to say why
// it cannot be read there.
PyObject* Adopt(PyObject* value, const std::shared_ptr<Device>& device) {
  try {
    if (!IsOnDevice(value, device)) return nullptr;
    return py::cast(TensorHandle{FromArray(value, device, "feed")}).release().ptr();
  } catch (py::error_already_set&) {
    return nullptr;
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

void Intake::Take(PyObject* value) {
  try {
    if (n_ == kFew) many_.assign(few_.begin(), few_.end());
    if (n_ >= kFew) many_.push_back(value);
  } catch (...) {
    if (n_ == kFew) many_.clear();
    Py_DECREF(value);
    throw;
  }
  if (n_ < kFew) few_[n_] = value;
  ++n_;
}

bool Intake::Read(PyObject* value, const std::shared_ptr<Device>& device) {
  if (IsReady(value)) {
    Take(Py_NewRef(value));
    return true;
  }
  if (PyArray_Check(value)) {
    if (!PyArray_CheckExact(value) || !PyArray_ISNOTSWAPPED(AsArray(value))) return false;
    PyObject* copy = PyArray_FromArray(AsArray(value), nullptr, NPY_ARRAY_CARRAY_RO);
    if (copy == nullptr) throw py::error_already_set();
    Take(copy);
    return true;
  }
  if (device) {
    PyObject* adopted = Adopt(value, device);
    if (adopted != nullptr) {
      Take(adopted);
      return true;
    }
  }
  ArrayKind kind;
  if (!FindKind(Py_TYPE(value), &kind)) return false;
  PyObject* lent = LendReady(kind, value);
  if (lent == nullptr) return false;
  Take(lent);
  if (!like_) {
    like_ = py::reinterpret_borrow<py::object>(value);
    like_kind_ = kind;
  }
  return true;
}

bool Intake::Add(PyObject* ready) {
  const bool is_ready = IsReady(ready) || FeedTensor(ready) != nullptr;
  if (!is_ready) {
    Py_DECREF(ready);
    return false;
  }
  Take(ready);
  return true;
}

uint64_t Intake::Hash() const {
  uint64_t hash = n_;
  for (size_t i = 0; i < n_; ++i) {
    const Tensor* tensor = FeedTensor(data()[i]);
    if (tensor != nullptr) {
      hash = Mix(hash, static_cast<uint64_t>(tensor->ndim()));
      for (const int64_t dim : tensor->shape) hash = Mix(hash, static_cast<uint64_t>(dim));
      continue;
    }
    PyArrayObject* array = AsArray(data()[i]);
    const int ndim = PyArray_NDIM(array);
    hash = Mix(hash, static_cast<uint64_t>(PyArray_TYPE(array)) * 64 + static_cast<uint64_t>(ndim));
    for (int d = 0; d < ndim; ++d) hash = Mix(hash, static_cast<uint64_t>(PyArray_DIM(array, d)));
  }
  return hash;
}

void CheckFeed(const Plan& plan, size_t i, PyObject* value) {
  const External& external = plan.externals[plan.feeds[i]];
  const Value& info = plan.values[external.values[0]];
  const int64_t* dims = plan.dims.data() + info.dims_begin;
  const Device& device = *plan.devices[info.device].device;
  const Tensor* tensor = FeedTensor(value);
  DLDataType dtype{};
  const int64_t* given_dims = nullptr;
  int ndim = 0;
  if (tensor != nullptr && tensor->device().get() == &device) {
    dtype = tensor->dtype;
    given_dims = tensor->shape.data();
    ndim = tensor->ndim();
  } else if (tensor == nullptr && device.is_host() && IsReady(value)) {
    dtype = DtypeOf(PyArray_DESCR(AsArray(value)), external.name.c_str());
    given_dims = reinterpret_cast<const int64_t*>(PyArray_DIMS(AsArray(value)));
    ndim = PyArray_NDIM(AsArray(value));
  } else if (device.is_host()) {
    Throw(ErrorKind::kFeed, external.name,
          ": a feed is a C-contiguous, aligned ndarray of native byte order, got another ",
          Py_TYPE(value)->tp_name);
  } else {
    Throw(ErrorKind::kFeed, external.name, ": plan '", plan.name, "' was made for a Tensor on ",
          device.name(), ", got ", Py_TYPE(value)->tp_name);
  }
  bool fits = SameDtype(dtype, info.dtype) && ndim == info.ndim;
  for (int d = 0; fits && d < ndim; ++d) fits = given_dims[d] == dims[d];
  if (!fits) {
    Throw(ErrorKind::kFeed, external.name, ": plan '", plan.name, "' was made for ",
          DtypeName(info.dtype), ShapeText(dims, info.ndim), ", got ", DtypeName(dtype),
          ShapeText(given_dims, ndim));
  }
}

void CheckRunnable(const Plan& plan) {
  for (const External& external : plan.externals) {
    if (external.role != Role::kCaptured) continue;
    Throw(ErrorKind::kProgram, "plan '", plan.name,
          "': a plan that captures values runs inside "
          "another one, got '",
          external.name, "'; call it from there");
  }
}

}  // namespace opwright
