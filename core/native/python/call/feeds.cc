#include "python/call/feeds.h"

#include "python/bind/handles.h"
#include "runtime/status.h"

namespace opwright {

const Tensor* FeedTensor(PyObject* feed) {
  if (PyArray_CheckExact(feed) || !py::isinstance<TensorHandle>(feed)) return nullptr;
  return py::handle(feed).cast<TensorHandle&>().tensor.get();
}

void CheckFeed(const Plan& plan, size_t i, PyObject* feed) {
  const External& external = plan.externals[plan.feeds[i]];
  const Value& value = plan.values[external.values[0]];
  const int64_t* dims = plan.dims.data() + value.dims_begin;
  const Device& device = *plan.devices[value.device].device;
  const Tensor* tensor = FeedTensor(feed);
  DLDataType dtype{};
  const int64_t* given_dims = nullptr;
  int ndim = 0;
  if (tensor != nullptr && tensor->device().get() == &device) {
    dtype = tensor->dtype;
    given_dims = tensor->shape.data();
    ndim = tensor->ndim();
  } else if (tensor == nullptr && device.is_host() && IsReady(feed)) {
    dtype = DtypeOf(PyArray_DESCR(AsArray(feed)), external.name.c_str());
    given_dims = reinterpret_cast<const int64_t*>(PyArray_DIMS(AsArray(feed)));
    ndim = PyArray_NDIM(AsArray(feed));
  } else if (device.is_host()) {
    Throw(ErrorKind::kFeed, external.name,
          ": a feed is a C-contiguous, aligned ndarray of native byte order, got another ",
          Py_TYPE(feed)->tp_name);
  } else {
    Throw(ErrorKind::kFeed, external.name, ": plan '", plan.name, "' was made for a Tensor on ",
          device.name(), ", got ", Py_TYPE(feed)->tp_name);
  }
  bool fits = SameDtype(dtype, value.dtype) && ndim == value.ndim;
  for (int d = 0; fits && d < ndim; ++d) fits = given_dims[d] == dims[d];
  if (!fits) {
    Throw(ErrorKind::kFeed, external.name, ": plan '", plan.name, "' was made for ",
          DtypeName(value.dtype), ShapeText(dims, value.ndim), ", got ", DtypeName(dtype),
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
