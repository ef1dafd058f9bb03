// Metas of feeds, for finding the plan that was made for them.
#ifndef OPWRIGHT_PYTHON_FEEDS_H_
#define OPWRIGHT_PYTHON_FEEDS_H_

#include <algorithm>
#include <vector>

#include "python/arrays/numpy_bridge.h"
#include "runtime/plan/plan.h"

namespace opwright {

// The tensor that is given as a feed, borrowed; null for anything else.
const Tensor* FeedTensor(PyObject* feed);

// dtype and shape of one array, as NumPy tells them fastest; or of a tensor.
struct FeedMeta {
  int type_num;  // of a tensor no NumPy one: below 0
  int ndim;
  std::vector<npy_intp> shape;
  const Device* device = nullptr;  // of a tensor

  explicit FeedMeta(PyArrayObject* array)
      : type_num(PyArray_TYPE(array)),
        ndim(PyArray_NDIM(array)),
        shape(PyArray_DIMS(array), PyArray_DIMS(array) + ndim) {}

  explicit FeedMeta(const Tensor& tensor)
      : type_num(TypeNumOf(tensor)),
        ndim(tensor.ndim()),
        shape(tensor.shape.begin(), tensor.shape.end()),
        device(tensor.device().get()) {}

  // Of a feed that is an array or a tensor.
  static FeedMeta Of(PyObject* feed) {
    const Tensor* tensor = FeedTensor(feed);
    return tensor == nullptr ? FeedMeta(AsArray(feed)) : FeedMeta(*tensor);
  }
  bool MatchesFeed(PyObject* feed) const {
    const Tensor* tensor = FeedTensor(feed);
    return tensor == nullptr ? Matches(AsArray(feed)) : Matches(*tensor);
  }

  bool Matches(const Tensor& tensor) const {
    return device == tensor.device().get() && type_num == TypeNumOf(tensor) &&
           ndim == tensor.ndim() && std::equal(shape.begin(), shape.end(), tensor.shape.begin());
  }

  bool Matches(PyArrayObject* array) const {
    if (PyArray_TYPE(array) != type_num || PyArray_NDIM(array) != ndim) return false;
    const npy_intp* dims = PyArray_DIMS(array);
    for (int i = 0; i < ndim; ++i) {
      if (dims[i] != shape[static_cast<size_t>(i)]) return false;
    }
    return true;
  }

 private:
  static int TypeNumOf(const Tensor& tensor) {
    return -1 - static_cast<int>(DtypeToCode(tensor.dtype));
  }
};

// Throws kFeed unless the array is ready, or is a tensor on the plan's device, and fits feed
// external `i` of the plan.
void CheckFeed(const Plan& plan, size_t i, PyObject* feed);

// Throws kProgram for a plan that only another plan can run.
void CheckRunnable(const Plan& plan);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_FEEDS_H_
