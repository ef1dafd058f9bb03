#include "python/call/eager_table.h"

#include <cstring>
#include <utility>

namespace opwright {

namespace {

uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 32);
}

uint64_t MixMeta(uint64_t hash, PyArrayObject* array) {
  const int ndim = PyArray_NDIM(array);
  hash = Mix(hash, static_cast<uint64_t>(PyArray_TYPE(array)) * 64 + static_cast<uint64_t>(ndim));
  for (int i = 0; i < ndim; ++i) hash = Mix(hash, static_cast<uint64_t>(PyArray_DIM(array, i)));
  return hash;
}

bool AddArray(PyObject* object, EagerInputs* inputs) {
  if (IsReady(object)) {
    inputs->Add(Py_NewRef(object));
    return true;
  }
  ArrayKind kind;
  if (PyArray_Check(object) || !FindKind(Py_TYPE(object), &kind)) return false;
  PyObject* lent = LendReady(kind, object);
  if (lent == nullptr) return false;
  inputs->AddLent(lent, object, kind);
  return true;
}

bool IsSequence(PyObject* object) {
  return PyTuple_CheckExact(object) || PyList_CheckExact(object);
}

// A tuple for a list, so that a later change of the list cannot reach us; null without an error
// for what is no plain attribute.
PyObject* Freeze(PyObject* attribute) {
  if (attribute == Py_None || PyBool_Check(attribute) || PyLong_CheckExact(attribute) ||
      PyFloat_CheckExact(attribute) || PyUnicode_CheckExact(attribute)) {
    return Py_NewRef(attribute);
  }
  if (!IsSequence(attribute)) return nullptr;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(attribute);
  PyObject* frozen = PyTuple_New(n);
  for (Py_ssize_t i = 0; frozen != nullptr && i < n; ++i) {
    PyObject* item = Freeze(PySequence_Fast_GET_ITEM(attribute, i));
    if (item == nullptr) {
      Py_DECREF(frozen);
      return nullptr;
    }
    PyTuple_SET_ITEM(frozen, i, item);
  }
  return frozen;
}

// Equal in value and in type all through; `frozen` came from Freeze. Only exact builtin types are
// compared, whose comparison runs no code of anybody's.
bool SameAttribute(PyObject* frozen, PyObject* given) {
  if (frozen == given) return true;
  if (PyTuple_CheckExact(frozen)) {
    if (!IsSequence(given)) return false;
    const Py_ssize_t n = PyTuple_GET_SIZE(frozen);
    if (PySequence_Fast_GET_SIZE(given) != n) return false;
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(given, i);
      if (!SameAttribute(PyTuple_GET_ITEM(frozen, i), item)) return false;
    }
    return true;
  }
  if (Py_TYPE(frozen) != Py_TYPE(given)) return false;
  if (PyFloat_CheckExact(frozen)) {
    // By bits: 0.0 and -0.0 are equal and mean different things, a NaN is the same as itself.
    const double a = PyFloat_AS_DOUBLE(frozen);
    const double b = PyFloat_AS_DOUBLE(given);
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
    return std::memcmp(&a, &b, sizeof(a)) == 0;
  }
  if (PyLong_CheckExact(frozen) || PyUnicode_CheckExact(frozen)) {
    return PyObject_RichCompareBool(frozen, given, Py_EQ) == 1;
  }
  return false;
}

int32_t CountOf(PyObject* input) {
  if (input == Py_None) return -1;
  return IsSequence(input) ? static_cast<int32_t>(PySequence_Fast_GET_SIZE(input)) : -2;
}

bool Matches(const EagerEntry& entry, const EagerSignature& signature, PyObject* const* args,
             size_t n_args, const EagerInputs& inputs) {
  const size_t n_attributes = n_args - signature.n_inputs;
  if (entry.metas.size() != inputs.size() ||
      static_cast<size_t>(PyTuple_GET_SIZE(entry.attributes.ptr())) != n_attributes) {
    return false;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!entry.metas[i].Matches(AsArray(inputs[i]))) return false;
  }
  for (size_t i = 0; i < signature.n_inputs; ++i) {
    if (entry.counts[i] != CountOf(args[i])) return false;
  }
  for (size_t i = 0; i < n_attributes; ++i) {
    PyObject* frozen = PyTuple_GET_ITEM(entry.attributes.ptr(), static_cast<Py_ssize_t>(i));
    if (!SameAttribute(frozen, args[signature.n_inputs + i])) return false;
  }
  return true;
}

}  // namespace

void EagerInputs::Add(PyObject* array) {
  try {
    if (n_ == kFew) many_.assign(few_.begin(), few_.end());
    if (n_ >= kFew) many_.push_back(array);
  } catch (...) {
    if (n_ == kFew) many_.clear();
    Py_DECREF(array);
    throw;
  }
  if (n_ < kFew) few_[n_] = array;
  ++n_;
  hash = MixMeta(hash, AsArray(array));
}

void EagerInputs::AddLent(PyObject* lent, PyObject* array, const ArrayKind& kind) {
  Add(lent);
  if (like_) return;
  like_ = py::reinterpret_borrow<py::object>(array);
  like_kind_ = kind;
}

bool ReadInputs(const EagerSignature& signature, PyObject* const* args, size_t n_args,
                EagerInputs* inputs) noexcept {
  if (n_args < signature.n_inputs) return false;
  try {
    for (size_t i = 0; i < signature.n_inputs; ++i) {
      PyObject* input = args[i];
      if (input == Py_None) {
        inputs->hash = Mix(inputs->hash, 1);
      } else if (i < 64 && ((signature.duplicable >> i) & 1) != 0) {
        if (!IsSequence(input)) return false;
        // A library that lends an array may run code that changes the list.
        for (Py_ssize_t j = 0; j < PySequence_Fast_GET_SIZE(input); ++j) {
          const auto item = py::reinterpret_borrow<py::object>(PySequence_Fast_GET_ITEM(input, j));
          if (!AddArray(item.ptr(), inputs)) return false;
        }
      } else if (!AddArray(input, inputs)) {
        return false;
      }
    }
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

std::shared_ptr<const EagerEntry> EagerTable::Find(const EagerSignature& signature,
                                                   PyObject* const* args, size_t n_args,
                                                   const EagerInputs& inputs) noexcept {
  Bucket& bucket = buckets_[inputs.hash % kBuckets];
  for (size_t i = 0; i < bucket.size(); ++i) {
    if (!Matches(*bucket[i], signature, args, n_args, inputs)) continue;
    if (i != 0) std::swap(bucket[i], bucket[0]);
    bucket[0]->last_used = ++clock_;
    return bucket[0];
  }
  return nullptr;
}

bool EagerTable::Insert(const EagerSignature& signature, PyObject* const* args, size_t n_args,
                        const EagerInputs& inputs, std::shared_ptr<const Plan> plan) {
  auto entry = std::make_shared<EagerEntry>();
  entry->plan = std::move(plan);
  for (size_t i = 0; i < signature.n_inputs; ++i) entry->counts.push_back(CountOf(args[i]));
  for (size_t i = 0; i < inputs.size(); ++i) entry->metas.emplace_back(AsArray(inputs[i]));
  entry->attributes = py::tuple(n_args - signature.n_inputs);
  for (size_t i = signature.n_inputs; i < n_args; ++i) {
    PyObject* frozen = Freeze(args[i]);
    if (frozen == nullptr && PyErr_Occurred()) throw py::error_already_set();
    if (frozen == nullptr) return false;
    PyTuple_SET_ITEM(entry->attributes.ptr(), static_cast<Py_ssize_t>(i - signature.n_inputs),
                     frozen);
  }
  entry->last_used = ++clock_;
  std::shared_ptr<EagerEntry> evicted;  // freed when the table is whole again
  if (size_ == kMaxEntries) {
    Bucket* oldest_bucket = nullptr;
    size_t oldest = 0;
    for (Bucket& bucket : buckets_) {
      for (size_t i = 0; i < bucket.size(); ++i) {
        if (oldest_bucket == nullptr ||
            bucket[i]->last_used < (*oldest_bucket)[oldest]->last_used) {
          oldest_bucket = &bucket;
          oldest = i;
        }
      }
    }
    evicted = std::move((*oldest_bucket)[oldest]);
    oldest_bucket->erase(oldest_bucket->begin() + static_cast<std::ptrdiff_t>(oldest));
    --size_;
  }
  Bucket& bucket = buckets_[inputs.hash % kBuckets];
  bucket.insert(bucket.begin(), std::move(entry));
  ++size_;
  return true;
}

void EagerTable::Clear() {
  std::array<Bucket, kBuckets> dropped;
  dropped.swap(buckets_);
  size_ = 0;
}

}  // namespace opwright
