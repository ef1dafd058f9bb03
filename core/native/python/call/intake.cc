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

// Returns an array on the device as a tensor. Returns null if the array is elsewhere, or if it
// cannot be read there and Python must report why.
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
  PyObject* adopted = device && !PyArray_Check(value) ? Adopt(value, device) : nullptr;
  ArrayKind kind;
  PyObject* read = adopted == nullptr ? ReadReady(value, &kind) : adopted;
  if (read == nullptr) return false;
  Take(read);
  if (!like_ && kind.type != nullptr) {
    like_ = py::reinterpret_borrow<py::object>(value);
    like_kind_ = kind;
  }
  return true;
}

bool Intake::MayRead(PyObject* value) {
  ArrayKind kind;
  return PyArray_Check(value) || FindKind(Py_TYPE(value), &kind);
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

py::object BorrowMemory(PyObject* value, const std::shared_ptr<Device>& device,
                        const std::string& who) {
  if (PyArray_CheckExact(value)) return py::reinterpret_borrow<py::object>(value);
  if (device && !device->is_host() && IsOnDevice(value, device)) {
    auto tensor = FromArray(value, device, who.c_str());
    if (FeedTensor(value) == nullptr && !tensor->storage->is_foreign() && tensor->bytes() != 0) {
      Throw(ErrorKind::kFeed, who, ": memory on ", device->name(),
            " must begin at a multiple of 16 bytes to be used in place, got another address");
    }
    return py::cast(TensorHandle{std::move(tensor)});
  }
  ArrayKind kind;
  PyObject* lent =
      !PyArray_Check(value) && FindKind(Py_TYPE(value), &kind) ? Lend(kind, value, false) : nullptr;
  if (lent != nullptr) return py::reinterpret_steal<py::object>(lent);
  return py::module_::import("opwright.device.intake")
      .attr("borrow_memory")(py::handle(value), who);
}

bool IsWritable(PyObject* borrowed) {
  const Tensor* tensor = FeedTensor(borrowed);
  if (tensor != nullptr) return !tensor->storage->is_read_only();
  return PyArray_ISWRITEABLE(AsArray(borrowed)) != 0;
}

bool FitsMeta(PyObject* value, const Value& info, const int64_t* dims) {
  const Tensor* tensor = FeedTensor(value);
  if (tensor != nullptr) return tensor->HasMeta(info.dtype, dims, info.ndim);
  PyArrayObject* array = AsArray(value);
  DLDataType dtype{};
  return FindDtype(PyArray_DESCR(array), &dtype) && SameDtype(dtype, info.dtype) &&
         PyArray_NDIM(array) == info.ndim &&
         std::equal(dims, dims + info.ndim, PyArray_DIMS(array));
}

std::string DescribeMisfit(PyObject* value, const Value& info, const int64_t* dims) {
  const Tensor* tensor = FeedTensor(value);
  const std::string wanted = Concat(DtypeName(info.dtype), ShapeText(dims, info.ndim), ", got ");
  if (tensor != nullptr) return Concat(wanted, DtypeName(tensor->dtype), ShapeText(tensor->shape));
  PyArrayObject* array = AsArray(value);
  const auto* given = reinterpret_cast<const int64_t*>(PyArray_DIMS(array));
  const py::handle descr(reinterpret_cast<PyObject*>(PyArray_DESCR(array)));
  return Concat(wanted, py::str(descr).cast<std::string>(), ShapeText(given, PyArray_NDIM(array)));
}

void CheckFeed(const Plan& plan, size_t i, PyObject* value) {
  const External& external = plan.externals[plan.feeds[i]];
  const Value& info = plan.values[external.values[0]];
  const Device& device = *plan.devices[info.device].device;
  const Tensor* tensor = FeedTensor(value);
  const bool fits =
      tensor == nullptr ? device.is_host() && IsReady(value) : tensor->device().get() == &device;
  if (!fits && device.is_host()) {
    Throw(ErrorKind::kFeed, external.name,
          ": a feed must be a C-contiguous, aligned ndarray of native byte order, got another ",
          Py_TYPE(value)->tp_name);
  }
  if (!fits) {
    Throw(ErrorKind::kFeed, external.name, ": plan '", plan.name, "' was made for a Tensor on ",
          device.name(), ", got ", Py_TYPE(value)->tp_name);
  }
  const int64_t* dims = plan.dims.data() + info.dims_begin;
  if (FitsMeta(value, info, dims)) return;
  Throw(ErrorKind::kFeed, external.name, ": plan '", plan.name, "' was made for ",
        DescribeMisfit(value, info, dims));
}

void CheckRunnable(const Plan& plan) {
  for (const External& external : plan.externals) {
    if (external.role != Role::kCaptured) continue;
    Throw(ErrorKind::kProgram, "plan '", plan.name,
          "': a plan that captures values must run inside "
          "another one, got '",
          external.name, "'; call it from there");
  }
}

}  // namespace opwright
