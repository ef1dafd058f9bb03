#include "python/views.h"

#include "python/python_device.h"

namespace opwright {

namespace {

// What the device's own `view` makes of a handle.
PyObject* DeviceView(PyObject* device, const View& view) noexcept {
  const DLTensor& tensor = *view.tensor;
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
  PyObject* made = PyObject_CallMethod(device, "view", "NOs", PyLong_FromVoidPtr(tensor.data),
                                       shape, DtypeName(tensor.dtype));
  Py_DECREF(shape);
  return made;
}

}  // namespace

bool MakeView(Instance* instance, View* view, bool keep) noexcept {
  const Plan& plan = instance->plan();
  const Device& device = *plan.devices[plan.values[view->value].device].device;
  PyObject* object = PythonDeviceObject(device);
  void* data = view->tensor->data;
  PyObject* made = nullptr;
  view->is_numpy = object == nullptr || data == nullptr;
  if (!view->is_numpy) {
    made = DeviceView(object, *view);
  } else {
    // Where there is nothing, nothing can be written either.
    const bool nothing = data == nullptr && Numel(*view->tensor) != 0;
    made = reinterpret_cast<PyObject*>(NewView(*view->tensor, data, view->read_only || nothing));
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
  // A kernel that gave the array other memory made it independent of ours.
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
