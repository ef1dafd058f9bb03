// PlanBuilder.value and PlanBuilder.kernel use the C API because lowering calls them once for each
// value and operator; pybind11's argument loader alone would cost more than all of lowering.
#include "python/bind/builder_calls.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "python/bind/errors.h"
#include "python/plugins/sequences.h"
#include "runtime/plan/plan_builder.h"
#include "runtime/status.h"

namespace opwright {

namespace {

// Borrowed parameters, given by position or name; null if a parameter is not given.
template <size_t kCount>
struct Arguments {
  PyObject* values[kCount] = {};

  bool Bind(const char* function, const char* const (&names)[kCount], size_t n_required,
            PyObject* const* args, Py_ssize_t n_args, PyObject* keywords) {
    if (n_args > static_cast<Py_ssize_t>(kCount)) {
      PyErr_Format(PyExc_TypeError, "%s takes at most %zu arguments, got %zd", function, kCount,
                   n_args);
      return false;
    }
    std::copy(args, args + n_args, values);
    const Py_ssize_t n_keywords = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
    for (Py_ssize_t k = 0; k < n_keywords; ++k) {
      if (!SetKeyword(function, names, PyTuple_GET_ITEM(keywords, k), args[n_args + k])) {
        return false;
      }
    }
    for (size_t i = 0; i < n_required; ++i) {
      if (values[i] == nullptr) {
        PyErr_Format(PyExc_TypeError, "%s needs the argument '%s'", function, names[i]);
        return false;
      }
    }
    return true;
  }

  bool SetKeyword(const char* function, const char* const (&names)[kCount], PyObject* keyword,
                  PyObject* value) {
    for (size_t i = 0; i < kCount; ++i) {
      if (PyUnicode_CompareWithASCIIString(keyword, names[i]) != 0) continue;
      if (values[i] != nullptr) {
        PyErr_Format(PyExc_TypeError, "%s got '%s' twice", function, names[i]);
        return false;
      }
      values[i] = value;
      return true;
    }
    PyErr_Format(PyExc_TypeError, "%s has no argument %R", function, keyword);
    return false;
  }

  bool has(size_t i) const { return values[i] != nullptr && values[i] != Py_None; }
};

std::shared_ptr<Device> ToDevice(PyObject* device) {
  if (device == nullptr || device == Py_None) return nullptr;
  return py::cast<std::shared_ptr<Device>>(py::handle(device));
}

PyObject* AddValue(PyObject* self, PyObject* const* args, Py_ssize_t n_args, PyObject* keywords) {
  static const char* const kNames[] = {"dtype_code", "shape", "kind", "index", "device", "strides"};
  Arguments<6> given;
  if (!given.Bind("PlanBuilder.value", kNames, 3, args, n_args, keywords)) return nullptr;
  try {
    const auto dtype = DtypeFromCode(ToUnsigned<uint32_t>(given.values[0]));
    const Shape shape = ToVector<int64_t>(given.values[1], ToInt);
    const int64_t kind = ToInt(given.values[2]);
    if (kind < 0 || kind > static_cast<int64_t>(ValueKind::kDynamic)) {
      Throw(ErrorKind::kProgram, "plan: a kind must be in [0, 4), got ", kind);
    }
    const int64_t index = given.values[3] == nullptr ? 0 : ToInt(given.values[3]);
    Shape strides;
    if (given.has(5)) strides = ToVector<int64_t>(given.values[5], ToInt);
    auto& builder = py::cast<PlanBuilder&>(py::handle(self));
    return PyLong_FromUnsignedLong(builder.AddValue(dtype, shape, static_cast<ValueKind>(kind),
                                                    index, ToDevice(given.values[4]),
                                                    given.has(5) ? &strides : nullptr));
  } catch (...) {
    return SetPythonError();
  }
}

PyObject* AddKernel(PyObject* self, PyObject* const* args, Py_ssize_t n_args, PyObject* keywords) {
  static const char* const kNames[] = {"prepared",        "args",        "slot_begin",
                                       "n_inputs",        "op_index",    "workspace_offset",
                                       "workspace_bytes", "estimate_ns", "device"};
  Arguments<9> given;
  if (!given.Bind("PlanBuilder.kernel", kNames, 5, args, n_args, keywords)) return nullptr;
  try {
    KernelRequest request;
    if (!given.has(0)) {
      PyErr_SetString(PyExc_TypeError, "PlanBuilder.kernel needs a Prepared, got None");
      return nullptr;
    }
    request.prepared = py::cast<std::shared_ptr<Prepared>>(py::handle(given.values[0]));
    request.args = ToVector<uint32_t>(given.values[1], ToUnsigned<uint32_t>);
    request.slot_begin = ToVector<uint32_t>(given.values[2], ToUnsigned<uint32_t>);
    request.n_inputs = ToUnsigned<uint32_t>(given.values[3]);
    request.op_index = static_cast<int32_t>(ToInt(given.values[4]));
    if (given.values[5] != nullptr) request.workspace_offset = ToInt(given.values[5]);
    if (given.values[6] != nullptr) {
      request.workspace_bytes = ToUnsigned<uint64_t>(given.values[6]);
    }
    if (given.values[7] != nullptr) request.estimate_ns = ToUnsigned<uint64_t>(given.values[7]);
    request.device = ToDevice(given.values[8]);
    py::cast<PlanBuilder&>(py::handle(self)).AddKernel(std::move(request));
    Py_RETURN_NONE;
  } catch (...) {
    return SetPythonError();
  }
}

PyMethodDef kMethods[] = {
    {"value", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&AddValue)),
     METH_FASTCALL | METH_KEYWORDS, "Add a value and return its number."},
    {"kernel", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&AddKernel)),
     METH_FASTCALL | METH_KEYWORDS, "Add a kernel step."},
};

}  // namespace

void AddBuilderCalls(const py::object& type) {
  for (PyMethodDef& method : kMethods) {
    auto* descriptor = PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.ptr()), &method);
    if (descriptor == nullptr) throw py::error_already_set();
    type.attr(method.ml_name) = py::reinterpret_steal<py::object>(descriptor);
  }
}

}  // namespace opwright
