// Transferred types of a tensor's numbers, and their layout.
#ifndef OPWRIGHT_NCCL_NUMBERS_H_
#define OPWRIGHT_NCCL_NUMBERS_H_

#include <cstdint>
#include <string>

#include "cuda.h"
#include "opwright/sdk.hpp"
#include "parts.h"

namespace opwright_nccl {

// Kernel names of reducible dtypes, such as "Half" for float16.
const char* CTypeOf(DLDataType dtype);

// Shards, as specified in opwright_dist.operators.shards: a multiple of this many elements, whole
// cache lines.
constexpr int64_t kShardLine = 16;

// Elements of each process's shard of `n`, including padding.
inline int64_t ShardLength(int64_t n, int64_t n_processes) {
  const int64_t step = kShardLine * n_processes;
  return (n + step - 1) / step * kShardLine;
}

struct Layout : Parts {
  Layout() : Parts{1, 1, 1, 1, 1} {}
  Layout(int64_t outer_, int64_t parts_, int64_t run_)
      : Parts{outer_, parts_, run_, outer_ * parts_ * run_, outer_ * run_} {}

  // A tensor as one part.
  static Layout Flat(int64_t n) { return {1, 1, n}; }
  // The axis divided into parts.
  static Layout Of(const opwright::Shape& shape, int64_t axis, int64_t n_parts);
  // A tensor of n elements in shards of `length`, each in a larger part.
  static Layout Shards(int64_t n, int64_t n_parts, int64_t length, int64_t stride);
  int64_t part() const { return outer * run; }
  bool is_whole() const { return outer == 1 || parts == 1; }  // both are the same memory
};

// 16-bit floats are reduced in float32, means are divided sums. The maximum and minimum of floats
// use order-preserving integers, to propagate NaN.
class Numbers {
 public:
  opwright::Status Find(void* device, DLDataType dtype, const std::string& reduce,
                        bool is_weighted);

  int type() const { return type_; }            // NCCL's
  int operation() const { return operation_; }  // NCCL's
  int64_t item() const { return item_; }        // bytes

  // Writes a tensor into memory of parts.
  opwright::Status Pack(Stream stream, const void* x, Address to, const Layout& layout,
                        double weight) const;
  // Writes one number into a line of each of `n_places`, `stride` elements apart.
  opwright::Status Put(Stream stream, Address to, double number, int64_t n_places,
                       int64_t stride) const;
  // Writes memory of parts into a tensor; a mean is divided by the number at `sum`, or by `divisor`
  // if that is 0.
  opwright::Status Unpack(Stream stream, Address from, void* out, const Layout& layout, Address sum,
                          double divisor) const;

 private:
  uint64_t BitsOf(double number) const;

  KernelHandle pack_ = nullptr;
  KernelHandle put_ = nullptr;
  KernelHandle unpack_ = nullptr;
  int type_ = 0;
  int operation_ = 0;
  int64_t item_ = 0;
};

// Moves elements of `item` bytes between a tensor and memory of parts.
class Mover {
 public:
  opwright::Status Find(void* device, int64_t item);
  opwright::Status Divide(Stream stream, const void* x, void* parts, const Layout& layout) const;
  opwright::Status Join(Stream stream, const void* parts, void* x, const Layout& layout) const;

 private:
  KernelHandle divide_ = nullptr;
  KernelHandle join_ = nullptr;
};

}  // namespace opwright_nccl

#endif  // OPWRIGHT_NCCL_NUMBERS_H_
