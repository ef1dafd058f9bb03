// The table behind an eager operator: plans by the metas of the inputs and the attributes.
#ifndef OPWRIGHT_PYTHON_EAGER_TABLE_H_
#define OPWRIGHT_PYTHON_EAGER_TABLE_H_

#include <array>
#include <memory>
#include <vector>

#include "python/arrays/host_arrays.h"
#include "python/call/feeds.h"

namespace opwright {

// Which kinds of arguments an operator takes.
struct EagerSignature {
  size_t n_inputs;
  uint64_t duplicable;  // bit i: input i is a list
};

struct EagerEntry {
  std::shared_ptr<const Plan> plan;
  std::vector<int32_t> counts;  // of each input: -1 absent, -2 one array, else the list's length
  std::vector<FeedMeta> metas;
  py::tuple attributes;  // immutable copies
  uint64_t last_used = 0;
};

// The arrays of one call, lists flattened; each is kept while this lives.
class EagerInputs {
 public:
  EagerInputs() = default;
  ~EagerInputs() {
    for (size_t i = 0; i < n_; ++i) Py_DECREF(data()[i]);
  }
  EagerInputs(const EagerInputs&) = delete;
  EagerInputs& operator=(const EagerInputs&) = delete;
  PyObject* const* data() const { return many_.empty() ? few_.data() : many_.data(); }
  size_t size() const { return n_; }
  PyObject* operator[](size_t i) const { return data()[i]; }
  // Takes a reference to a ready ndarray; throws std::bad_alloc.
  void Add(PyObject* array);
  // The first array that is another library's; null where all are NumPy's.
  PyObject* like() const { return like_.ptr(); }
  const ArrayKind& like_kind() const { return like_kind_; }
  // Like Add, for an ndarray over the memory of another library's array.
  void AddLent(PyObject* lent, PyObject* array, const ArrayKind& kind);

  uint64_t hash = 0;

 private:
  static constexpr size_t kFew = 32;  // most calls, and those need no allocation
  std::array<PyObject*, kFew> few_;
  std::vector<PyObject*> many_;
  size_t n_ = 0;
  py::object like_;
  ArrayKind like_kind_;
};

// Whether kernels can read all inputs directly, or as another library lends them; fills in what a
// look-up needs.
bool ReadInputs(const EagerSignature& signature, PyObject* const* args, size_t n_args,
                EagerInputs* inputs) noexcept;

class EagerTable {
 public:
  // The entry for these arguments, or null. Runs no Python code.
  std::shared_ptr<const EagerEntry> Find(const EagerSignature& signature, PyObject* const* args,
                                         size_t n_args, const EagerInputs& inputs) noexcept;
  // Adds a plan; drops the least recently used one if there are too many. False
  // for attributes that cannot be compared.
  bool Insert(const EagerSignature& signature, PyObject* const* args, size_t n_args,
              const EagerInputs& inputs, std::shared_ptr<const Plan> plan);
  void Clear();
  size_t size() const { return size_; }

 private:
  static constexpr size_t kMaxEntries = 256;
  static constexpr size_t kBuckets = 64;
  using Bucket = std::vector<std::shared_ptr<EagerEntry>>;

  std::array<Bucket, kBuckets> buckets_;
  size_t size_ = 0;
  uint64_t clock_ = 0;
};

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_EAGER_TABLE_H_
