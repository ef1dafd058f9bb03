// Metas of feeds, for finding the plan that was made for them.
#ifndef OPWRIGHT_PYTHON_FEEDS_H_
#define OPWRIGHT_PYTHON_FEEDS_H_

#include <vector>

#include "python/numpy_bridge.h"
#include "runtime/plan.h"

namespace opwright {

// dtype and shape of one array, as NumPy tells them fastest.
struct FeedMeta {
  int type_num;
  int ndim;
  std::vector<npy_intp> shape;

  explicit FeedMeta(PyArrayObject* array)
      : type_num(PyArray_TYPE(array)),
        ndim(PyArray_NDIM(array)),
        shape(PyArray_DIMS(array), PyArray_DIMS(array) + ndim) {}

  bool Matches(PyArrayObject* array) const {
    if (PyArray_TYPE(array) != type_num || PyArray_NDIM(array) != ndim) return false;
    const npy_intp* dims = PyArray_DIMS(array);
    for (int i = 0; i < ndim; ++i) {
      if (dims[i] != shape[static_cast<size_t>(i)]) return false;
    }
    return true;
  }
};

// Throws kFeed unless the array is ready and fits feed external `i` of the plan.
void CheckFeed(const Plan& plan, size_t i, PyObject* array);

// Throws kProgram for a plan that only another plan can run.
void CheckRunnable(const Plan& plan);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_FEEDS_H_
