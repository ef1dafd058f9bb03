#include "python/plugins/stream_scope.h"

#include "python/bind/errors.h"

namespace opwright {

bool StreamScope::Enter(const Device& device, void* stream) noexcept {
  PyObject* arrays = DeviceArrays(device);
  if (arrays == nullptr) return true;
  PyObject* manager = PyObject_CallMethod(arrays, "stream", "Ni", PyLong_FromVoidPtr(stream),
                                          device.dl_device().device_id);
  if (manager == nullptr) return false;
  PyObject* entered = PyObject_CallMethod(manager, "__enter__", nullptr);
  if (entered == nullptr) {
    Py_DECREF(manager);
    return false;
  }
  Py_DECREF(entered);
  manager_ = manager;
  return true;
}

bool StreamScope::Leave() noexcept {
  if (manager_ == nullptr) return true;
  PyObject* error = TakeError();
  PyObject* none = Py_None;
  PyObject* kind = error == nullptr ? none : reinterpret_cast<PyObject*>(Py_TYPE(error));
  PyObject* traceback = error == nullptr ? nullptr : PyException_GetTraceback(error);
  PyObject* left =
      PyObject_CallMethod(manager_, "__exit__", "OOO", kind, error == nullptr ? none : error,
                          traceback == nullptr ? none : traceback);
  Py_XDECREF(traceback);
  Py_CLEAR(manager_);
  const bool good = left != nullptr;
  Py_XDECREF(left);
  if (error == nullptr) return good;
  PyErr_Clear();
  PyErr_SetObject(kind, error);
  Py_DECREF(error);
  return true;
}

}  // namespace opwright
