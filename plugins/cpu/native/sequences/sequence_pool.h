// The work of sequence_pool and its gradient on the columns of one sequence.
#ifndef OPWRIGHT_CPU_SEQUENCES_SEQUENCE_POOL_H_
#define OPWRIGHT_CPU_SEQUENCES_SEQUENCE_POOL_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "sequences/sequences.h"

namespace opwright_cpu {

struct PoolAttrs {
  std::string kind;
  OPWRIGHT_ATTRIBUTES(kind);
};

enum class PoolKind { kSum, kMean, kSqrt, kMax, kFirst, kLast };

PoolKind PoolKindOf(const std::string& name);

// Returns the divisor of a sum of `length` rows.
double DivisorOf(PoolKind kind, int64_t length);

constexpr int64_t kPoolWidth = 1024;  // columns per block: a row of results stays in the L1 cache

// A padded tensor, viewed as blocks of columns.
struct PoolColumns {
  Padded padded;
  int64_t width = 0;

  PoolColumns() = default;
  PoolColumns(const opwright::Meta& meta, int64_t item_bytes)
      : padded(meta), width(Product(padded.shape, 2, padded.shape.size())) {
    padded.row_bytes = width * item_bytes;
  }

  // Calls function(sequence, first column, number of columns) for each block.
  template <typename Function>
  void Each(int32_t n_threads, const Function& function) const {
    if (width == 0) return;
    const int64_t blocks = (width + kPoolWidth - 1) / kPoolWidth;
    const int64_t each = std::max<int64_t>(1, padded.steps * std::min(width, kPoolWidth));
    ParallelFor(n_threads, padded.n * blocks, kElementGrain / each + 1, 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t k = begin; k < end; ++k) {
                    const int64_t column = k % blocks * kPoolWidth;
                    function(k / blocks, column, std::min(kPoolWidth, width - column));
                  }
                });
  }
};

// All of these functions process `length` rows (at least one) of `width` columns (at most
// kPoolWidth). Rows are `stride` elements apart.

template <typename T>
void SumRows(const T* x, int64_t length, int64_t stride, int64_t width, T* out);

// Computes the column maxima; the maximum of a column that contains NaN is NaN.
template <typename T>
void MaxRows(const T* x, int64_t length, int64_t stride, int64_t width, T* out);

template <typename T>
void SpreadRows(const T* out_grad, T divisor, int64_t length, int64_t stride, int64_t width,
                T* x_grad);

// Computes the gradient of MaxRows; equal maxima share it equally.
template <typename T>
void ShareRows(const T* x, const T* out, const T* out_grad, int64_t length, int64_t stride,
               int64_t width, T* x_grad);

template <typename T>
void ZeroRows(T* x_grad, int64_t length, int64_t stride, int64_t width) {
  if (stride == width) {
    std::fill_n(x_grad, length * width, T{0});
    return;
  }
  for (int64_t s = 0; s < length; ++s) std::fill_n(x_grad + s * stride, width, T{0});
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_SEQUENCES_SEQUENCE_POOL_H_
