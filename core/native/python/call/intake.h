// The intake, which inspects an external value once and converts it to an array that kernels can
// read.
//
// C++ reads ndarrays, arrays exported without a call of __dlpack__, and arrays on the device of a
// network; opwright.device.intake reads all other values, once, and passes them here.
#ifndef OPWRIGHT_PYTHON_INTAKE_H_
#define OPWRIGHT_PYTHON_INTAKE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "python/arrays/host_arrays.h"
#include "python/arrays/numpy_bridge.h"
#include "runtime/plan/plan.h"

namespace opwright {

// A counter that is incremented when existing plans may be outdated, because the registries, the
// pins or the number of threads have changed. Lookups compare plans with it.
class Epoch {
 public:
  uint64_t now() const {
    return own_.load(std::memory_order_relaxed) + everyone.load(std::memory_order_relaxed);
  }
  void Raise() { own_.fetch_add(1, std::memory_order_relaxed); }
  // Increments every epoch of the process.
  static void RaiseAll() { everyone.fetch_add(1, std::memory_order_relaxed); }

 private:
  static std::atomic<uint64_t> everyone;
  std::atomic<uint64_t> own_{1};
};

// Returns the tensor of a value, borrowed, or null if the value is not a tensor.
const Tensor* FeedTensor(PyObject* value);

// The dtype and shape of one value, either an array, in NumPy's terms, or a tensor.
struct FeedMeta {
  int type_num;  // NumPy's type number; negative for a tensor
  int ndim;
  std::vector<npy_intp> shape;
  const Device* device = nullptr;  // device of a tensor

  explicit FeedMeta(PyArrayObject* array)
      : type_num(PyArray_TYPE(array)),
        ndim(PyArray_NDIM(array)),
        shape(PyArray_DIMS(array), PyArray_DIMS(array) + ndim) {}

  explicit FeedMeta(const Tensor& tensor)
      : type_num(TypeNumOf(tensor)),
        ndim(tensor.ndim()),
        shape(tensor.shape.begin(), tensor.shape.end()),
        device(tensor.device().get()) {}

  static FeedMeta Of(PyObject* value) {
    const Tensor* tensor = FeedTensor(value);
    return tensor == nullptr ? FeedMeta(AsArray(value)) : FeedMeta(*tensor);
  }

  bool Matches(PyObject* value) const {
    if (__builtin_expect(type_num < 0 || !PyArray_CheckExact(value), 0)) {
      const Tensor* tensor = FeedTensor(value);
      return tensor != nullptr && MatchesTensor(*tensor);
    }
    PyArrayObject* array = AsArray(value);
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
  bool MatchesTensor(const Tensor& tensor) const {
    return device == tensor.device().get() && type_num == TypeNumOf(tensor) &&
           ndim == tensor.ndim() && std::equal(shape.begin(), shape.end(), tensor.shape.begin());
  }
};

// The values of one call, in order. Each value is an array that kernels can read, or a tensor on
// the device; this object keeps the values alive.
class Intake {
 public:
  Intake() = default;
  ~Intake() {
    for (size_t i = 0; i < n_; ++i) Py_DECREF(data()[i]);
  }
  Intake(const Intake&) = delete;
  Intake& operator=(const Intake&) = delete;

  // Reads a value for a call on `device`, null for the host. Returns false without an error if only
  // Python can read it; throws std::bad_alloc.
  bool Read(PyObject* value, const std::shared_ptr<Device>& device);
  // Whether Read supports the value's type. Read exports each value from its library only once.
  static bool MayRead(PyObject* value);
  // Adds a value that Python has read, and steals the reference. Returns false if it is not ready.
  bool Add(PyObject* ready);

  PyObject* const* data() const { return many_.empty() ? few_.data() : many_.data(); }
  size_t size() const { return n_; }
  PyObject* operator[](size_t i) const { return data()[i]; }
  uint64_t Hash() const;
  // Whether all values have these metas.
  bool Match(const std::vector<FeedMeta>& metas) const {
    bool same = metas.size() == n_;
    for (size_t i = 0; same && i < n_; ++i) same = metas[i].Matches(data()[i]);
    return same;
  }

  // The first array of another library, and its method of export; null if all are NumPy arrays.
  PyObject* like() const { return like_.ptr(); }
  const ArrayKind& like_kind() const { return like_kind_; }

 private:
  static constexpr size_t kFew = 16;  // enough for most calls, without an allocation
  void Take(PyObject* value);

  std::array<PyObject*, kFew> few_;
  std::vector<PyObject*> many_;
  size_t n_ = 0;
  py::object like_;
  ArrayKind like_kind_;
};

inline uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 32);
}

// Returns an ndarray, with any strides, over the memory of an array, or a tensor if the array is on
// `device`, null for the host. Never copies. Throws kFeed, with a message that begins with `who`.
py::object BorrowMemory(PyObject* value, const std::shared_ptr<Device>& device,
                        const std::string& who);

// Check an ndarray or tensor: whether it is writable, and whether it has the dtype of a value and
// the given dims. DescribeMisfit returns text such as "float32[3], got float64[3]".
bool IsWritable(PyObject* borrowed);
bool FitsMeta(PyObject* value, const Value& info, const int64_t* dims);
std::string DescribeMisfit(PyObject* value, const Value& info, const int64_t* dims);

// Throws kFeed unless the value is ready, or is a tensor on the plan's device, and fits feed
// external `i` of the plan.
void CheckFeed(const Plan& plan, size_t i, PyObject* value);

// Throws kProgram for a plan that only another plan can run.
void CheckRunnable(const Plan& plan);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_INTAKE_H_
