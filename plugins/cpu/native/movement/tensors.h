// Properties of tensors other than their elements, for the kernels of this folder.
#ifndef OPWRIGHT_CPU_MOVEMENT_TENSORS_H_
#define OPWRIGHT_CPU_MOVEMENT_TENSORS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include <opwright/sdk.hpp>

#include "common/parallel.h"

namespace opwright_cpu {

// The number of bytes below which a second thread costs more than it saves.
constexpr int64_t kCopyGrainBytes = 128 * 1024;

inline int64_t ItemBytes(DLDataType dtype) { return (dtype.bits + 7) / 8; }

inline int64_t Product(const std::vector<int64_t>& dims, size_t begin, size_t end) {
  int64_t count = 1;
  for (size_t i = begin; i < end; ++i) count *= dims[i];
  return count;
}

// Returns the strides of a compact row-major tensor, in items.
inline std::vector<int64_t> CompactStrides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

// Returns the axis, counted from the front; the shape rule has checked its range.
inline size_t FrontAxis(int64_t axis, size_t rank) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

// Returns the dimensions of a tensor that is indexed along an axis; a scalar counts as one axis of
// length 1.
inline std::vector<int64_t> IndexedDims(const opwright::Shape& shape) {
  return shape.rank() == 0 ? std::vector<int64_t>{1} : shape.dims();
}

// Estimates the time to move `bytes` bytes in ns, at about 10 GB/s per thread.
inline uint64_t MoveNanoseconds(int64_t bytes, int32_t n_threads) {
  const int32_t threads = bytes < 2 * kCopyGrainBytes ? 1 : std::max(n_threads, 1);
  return 20 + static_cast<uint64_t>(bytes) / 10 / static_cast<uint64_t>(threads);
}

// Calls function(thread, n_threads) in as many threads as the number of bytes justifies.
template <typename Function>
void ParallelParts(int32_t n_threads, int64_t bytes, const Function& function) {
  const int64_t most = std::max<int64_t>(1, bytes / kCopyGrainBytes);
  Parallel(static_cast<int32_t>(std::min<int64_t>(n_threads, most)), function);
}

inline const char* Bytes(const opwright::InputTensor& tensor) {
  return static_cast<const char*>(tensor.raw());
}

inline char* MutableBytes(const opwright::OutputTensor& tensor) {
  return static_cast<char*>(tensor.raw());
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MOVEMENT_TENSORS_H_
