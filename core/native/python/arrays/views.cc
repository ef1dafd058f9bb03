#include "python/arrays/views.h"

#include "python/plugins/python_device.h"
#include "python/plugins/stream_scope.h"

namespace opwright {

namespace {

// Creates the view of a handle through a Python device, or through the arrays of a compiled device.
PyObject* DeviceView(const Device& device, const DLTensor& tensor) noexcept {
  PyObject* object = PythonDeviceObject(device);
  PyObject* arrays = DeviceArrays(device);
  if (object == nullptr && arrays == nullptr) {
    PyErr_Format(PyExc_TypeError, "device %s has no arrays for kernels in Python",
                 device.name().c_str());
    return nullptr;
  }
  PyObject* shape = PyTuple_New(tensor.ndim);
  if (shape == nullptr) return nullptr;
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    PyObject* dim = PyLong_FromLongLong(tensor.shape[i]);
    if (dim == nullptr) {
      Py_DECREF(shape);
      return nullptr;
    }
    PyTuple_SET_ITEM(shape, i, dim);
  }
  PyObject* pointer = PyLong_FromVoidPtr(tensor.data);
  const char* dtype = DtypeName(tensor.dtype);
  PyObject* made = object != nullptr
                       ? PyObject_CallMethod(object, "view", "NOs", pointer, shape, dtype)
                       : PyObject_CallMethod(arrays, "view", "NOsi", pointer, shape, dtype,
                                             tensor.device.device_id);
  Py_DECREF(shape);
  return made;
}

}  // namespace

bool MakeView(Instance* instance, View* view, bool keep) noexcept {
  const Plan& plan = instance->plan();
  const Device& device = *plan.devices[plan.values[view->value].device].device;
  // Another kernel may have changed its copy of the description.
  const DLTensor tensor = instance->Restored(view->value, *view->tensor);
  void* data = tensor.data;
  PyObject* made = nullptr;
  view->is_numpy = device.is_host() || data == nullptr;
  if (!view->is_numpy) {
    made = DeviceView(device, tensor);
  } else {
    // A tensor without elements cannot be written, so it needs no memory.
    const bool nothing = data == nullptr && Numel(tensor) != 0;
    made = reinterpret_cast<PyObject*>(NewView(tensor, data, view->read_only || nothing));
  }
  if (made == nullptr) return false;
  view->data = data;
  view->array = AsArray(made);
  PyObject* former = *view->home;
  *view->home = made;
  Py_XDECREF(former);
  if (!view->is_numpy) return true;
  view->descr = PyArray_DESCR(view->array);
  view->flags = PyArray_FLAGS(view->array);
  return !keep || GiveOwner(instance, view);
}

bool GiveOwner(Instance* instance, View* view) noexcept {
  if (!view->is_numpy) return true;
  PyArrayObject_fields* array = FieldsOf(view->array);
  // A kernel has made the array refer to different memory.
  if (array->base != nullptr || (array->flags & NPY_ARRAY_OWNDATA) != 0) return true;
  const Owner owner = instance->OwnerOf(view->value);
  if (owner.storage) {
    array->base = NewStorageOwner(owner.storage);
    return array->base != nullptr;
  }
  array->base = Py_XNewRef(static_cast<PyObject*>(owner.foreign));
  return true;
}

}  // namespace opwright
