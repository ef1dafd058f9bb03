#include "python/plugins/resizer.h"

#include <vector>

#include "python/arrays/views.h"
#include "python/bind/c_type.h"

namespace opwright {

namespace {

struct ResizerObject {
  PyObject_HEAD const ow_call* call;
  uint32_t arg;
};

PyTypeObject* resizer_type = nullptr;  // created once with the module and never freed

void DeallocateResizer(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

bool ReadShape(PyObject* argument, std::vector<int64_t>* shape) {
  PyObject* dims = PySequence_Fast(argument, "resize: shape must be a sequence of ints");
  if (dims == nullptr) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(dims); ++i) {
    PyObject* dim = PyNumber_Index(PySequence_Fast_GET_ITEM(dims, i));
    if (dim != nullptr) shape->push_back(PyLong_AsLongLong(dim));
    Py_XDECREF(dim);
    if (PyErr_Occurred()) break;
  }
  Py_DECREF(dims);
  return !PyErr_Occurred();
}

PyObject* Resize(PyObject* self, PyObject* argument) {
  const auto* resizer = reinterpret_cast<ResizerObject*>(self);
  const ow_call* call = resizer->call;
  if (call == nullptr) {
    PyErr_SetString(PyExc_RuntimeError,
                    "resize: a dynamic output is resized during its kernel's call, got a call "
                    "after it ended; do not keep the output");
    return nullptr;
  }
  std::vector<int64_t> shape;
  if (!ReadShape(argument, &shape)) return nullptr;
  const auto ndim = static_cast<int32_t>(shape.size());
  const int32_t status = call->host->resize(call, resizer->arg, ndim, shape.data());
  if (status != OW_OK) {
    PyErr_SetString(status == OW_OUT_OF_MEMORY ? PyExc_MemoryError : PyExc_ValueError,
                    call->message);
    call->message[0] = '\0';  // the exception now contains the message
    return nullptr;
  }
  const auto* handle = static_cast<const StepHandle*>(call->run_handle);
  PyObject* array = nullptr;
  View view;
  view.home = &array;
  view.tensor = call->args[resizer->arg];
  view.value = handle->instance->ValueOf(*handle->step, resizer->arg);
  if (MakeView(handle->instance, &view, true)) return array;
  Py_XDECREF(array);
  return nullptr;
}

PyMethodDef resizer_methods[] = {
    {"resize", Resize, METH_O, "Give the output its shape and return the array to write."},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot resizer_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(DeallocateResizer)},
                               {Py_tp_methods, resizer_methods},
                               {0, nullptr}};

PyType_Spec resizer_spec = {"opwright._runtime.Resizer", sizeof(ResizerObject), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, resizer_slots};

}  // namespace

PyObject* NewResizer(uint32_t arg) noexcept {
  PyObject* made = PyType_GenericAlloc(resizer_type, 0);
  if (made != nullptr) reinterpret_cast<ResizerObject*>(made)->arg = arg;
  return made;
}

void SetResizerCall(PyObject* resizer, const ow_call* call) noexcept {
  reinterpret_cast<ResizerObject*>(resizer)->call = call;
}

void BindResizer(py::module_& module) { resizer_type = AddType(module, "Resizer", &resizer_spec); }

}  // namespace opwright
