// The types in which tensor elements are transferred, and their layout.
#ifndef OPWRIGHT_NCCL_NUMBERS_H_
#define OPWRIGHT_NCCL_NUMBERS_H_

#include <cstdint>
#include <string>

#include "cuda.h"
#include "opwright/sdk.hpp"
#include "parts.h"

namespace opwright_nccl {

// Returns the C++ type of a reducible dtype in kernels, such as "Half" for float16.
const char* CTypeOf(DLDataType dtype);

// Shard lengths are multiples of this number, so shards are complete cache lines; see
// opwright_dist.operators.shards.
constexpr int64_t kShardLine = 16;

// Returns the number of elements in a shard of `n` elements, including padding.
inline int64_t ShardLength(int64_t n, int64_t n_processes) {
  const int64_t step = kShardLine * n_processes;
  return (n + step - 1) / step * kShardLine;
}

struct Layout : Parts {
  Layout() : Parts{1, 1, 1, 1, 1} {}
  Layout(int64_t outer_, int64_t parts_, int64_t run_)
      : Parts{outer_, parts_, run_, outer_ * parts_ * run_, outer_ * run_} {}

  // Returns the layout of a tensor that is a single part.
  static Layout Flat(int64_t n) { return {1, 1, n}; }
  // Returns the layout of a tensor whose axis is divided into parts.
  static Layout Of(const opwright::Shape& shape, int64_t axis, int64_t n_parts);
  // Returns the layout of n elements in shards of `length` elements, which begin `stride` apart.
  static Layout Shards(int64_t n, int64_t n_parts, int64_t length, int64_t stride);
  int64_t part() const { return outer * run; }
  bool is_whole() const { return outer == 1 || parts == 1; }  // whether both layouts are equal
};

// How NCCL transfers elements. 16-bit floats are reduced in float32, and means are divided sums.
// Maximum and minimum of floats use order-preserving integers, to propagate NaN.
class Numbers {
 public:
  opwright::Status Find(void* device, DLDataType dtype, const std::string& reduce,
                        bool is_weighted);

  int type() const { return type_; }            // NCCL data type
  int operation() const { return operation_; }  // NCCL reduction
  int64_t item() const { return item_; }        // bytes per number

  // Packs a tensor into a buffer of parts.
  opwright::Status Pack(Stream stream, const void* x, Address to, const Layout& layout,
                        double weight) const;
  // Writes a number into a cache line at each of `n_places` positions, `stride` elements apart.
  opwright::Status Put(Stream stream, Address to, double number, int64_t n_places,
                       int64_t stride) const;
  // Unpacks a buffer of parts into a tensor. A mean is divided by the number at the address `sum`,
  // or by `divisor` if `sum` is 0.
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

// Copies elements of `item` bytes between a tensor and a buffer of parts.
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
