#include "python/feeds.h"

#include "runtime/status.h"

namespace opwright {

void CheckFeed(const Plan& plan, size_t i, PyObject* array) {
  const External& external = plan.externals[plan.feeds[i]];
  const Value& value = plan.values[external.values[0]];
  const int64_t* dims = plan.dims.data() + value.dims_begin;
  if (!IsReady(array)) {
    Throw(ErrorKind::kFeed, external.name,
          ": a feed is a C-contiguous, aligned ndarray of native byte order, got another ",
          Py_TYPE(array)->tp_name);
  }
  PyArrayObject* given = AsArray(array);
  const DLDataType dtype = DtypeOf(PyArray_DESCR(given), external.name.c_str());
  const auto* given_dims = reinterpret_cast<const int64_t*>(PyArray_DIMS(given));
  const int ndim = PyArray_NDIM(given);
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
