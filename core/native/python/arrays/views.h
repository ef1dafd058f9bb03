// The arrays that are passed to a Python kernel. The arrays are created in advance over a plan's
// memory, and kernels may store them.
//
// A view has no owner while only the instance, which owns the memory, references it. If a kernel
// has stored it, which its reference count shows, the view gets an owner and a new view is created.
// So a stored array never dangles, and the usual step costs a few comparisons.
#ifndef OPWRIGHT_PYTHON_VIEWS_H_
#define OPWRIGHT_PYTHON_VIEWS_H_

#include "python/arrays/numpy_bridge.h"
#include "runtime/plan/instance.h"

namespace opwright {

struct View {
  PyArrayObject* array = nullptr;  // borrowed from `home`
  PyObject** home = nullptr;       // the slot that contains it: an argument, or an item of a tuple
  const DLTensor* tensor = nullptr;
  void* data = nullptr;  // the address that the array must have
  PyArray_Descr* descr = nullptr;
  int flags = 0;
  uint32_t value = 0;
  bool read_only = false;
  bool moves = false;    // whether its memory may differ in each run
  bool is_numpy = true;  // false if the `view` of its device made it
};

// Creates the array for the tensor's current memory and stores it in the view's home; the old
// reference in the home is dropped. With `keep`, the array owns its memory. On failure, returns
// false and sets an error.
bool MakeView(Instance* instance, View* view, bool keep) noexcept;

// Gives the array an owner so that code that stored the array can still read it. On failure,
// returns false and sets an error.
bool GiveOwner(Instance* instance, View* view) noexcept;

// Updates the address of the array; called before each run for views that move.
inline bool Follow(Instance* instance, View* view) noexcept {
  void* data = view->tensor->data;
  if (data == view->data) return true;
  if (!view->is_numpy || data == nullptr || view->data == nullptr) {
    return MakeView(instance, view, false);
  }
  FieldsOf(view->array)->data = static_cast<char*>(data);
  view->data = data;
  return true;
}

// Whether no other object references the array and it is unchanged; called after each run.
inline bool IsUntouched(const View& view) noexcept {
  if (!view.is_numpy) return true;
  const PyArrayObject_fields* array = FieldsOf(view.array);
  if (Py_REFCNT(view.array) != 1 || array->weakreflist != nullptr || array->base != nullptr ||
      array->descr != view.descr || array->flags != view.flags || array->nd != view.tensor->ndim ||
      array->data != static_cast<char*>(view.data == nullptr ? Nowhere() : view.data)) {
    return false;
  }
  for (int i = 0; i < array->nd; ++i) {
    if (array->dimensions[i] != view.tensor->shape[i]) return false;
  }
  return true;
}

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_VIEWS_H_
