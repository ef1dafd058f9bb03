// Properties of tensors that need no elements, for the kernels of this folder.
#ifndef OPWRIGHT_CPU_MOVEMENT_TENSORS_H_
#define OPWRIGHT_CPU_MOVEMENT_TENSORS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include <opwright/sdk.hpp>

#include "common/parallel.h"

namespace opwright_cpu {

// Bytes to move below which a second thread costs more than it saves.
constexpr int64_t kCopyGrainBytes = 128 * 1024;

inline int64_t ItemBytes(DLDataType dtype) { return (dtype.bits + 7) / 8; }

inline int64_t Product(const std::vector<int64_t>& dims, size_t begin, size_t end) {
  int64_t count = 1;
  for (size_t i = begin; i < end; ++i) count *= dims[i];
  return count;
}

// Distance between neighbors along each axis of a compact row-major tensor, in items.
inline std::vector<int64_t> CompactStrides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

// The axis counted from the front; the shape rule has checked its range.
inline size_t FrontAxis(int64_t axis, size_t rank) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

// Dimensions of a tensor that is indexed along an axis: a number is one element along one axis.
inline std::vector<int64_t> IndexedDims(const opwright::Shape& shape) {
  return shape.rank() == 0 ? std::vector<int64_t>{1} : shape.dims();
}

// Nanoseconds to move this many bytes, at about 10 GB/s a thread.
inline uint64_t MoveNanoseconds(int64_t bytes, int32_t n_threads) {
  const int32_t threads = bytes < 2 * kCopyGrainBytes ? 1 : std::max(n_threads, 1);
  return 20 + static_cast<uint64_t>(bytes) / 10 / static_cast<uint64_t>(threads);
}

// Calls function(thread, n_threads) in as many threads as that many bytes are worth.
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
