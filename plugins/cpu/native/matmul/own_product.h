// Multithreaded matrix products by our own loops.
#ifndef OPWRIGHT_CPU_MATMUL_OWN_PRODUCT_H_
#define OPWRIGHT_CPU_MATMUL_OWN_PRODUCT_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "common/parallel.h"
#include "matmul/gemm.h"
#include "matmul/matrix_shape.h"
#include "matmul/turned_product.h"

namespace opwright_cpu {

// Minimum number of multiplications per thread; with less work, another thread does not pay off.
constexpr int64_t kProductGrain = 64 * 1024;

// IsOwn returns whether our own loops multiply float32 faster than oneDNN. Our loops are faster for
// small products, where a oneDNN call costs more than the work (measured), and for products of a
// vector and a matrix, which simple loops compute at memory speed.
inline bool IsSmall(const MatrixShape& shape) {
  constexpr int64_t kSmallProduct = 16 * 1024;
  return shape.Multiplications() <= kSmallProduct;
}
inline bool IsOwn(const MatrixShape& shape) {
  const bool is_vector = shape.size.m == 1 || (shape.size.n == 1 && shape.x_strides[1] == 1);
  return is_vector || IsSmall(shape);
}

// Estimates the duration. Float32 runs at about 64 multiplications per ns and thread if vectors are
// long. Products with few rows or columns are limited by reading the larger factor from a cache.
template <typename T>
uint64_t EstimateProductNs(const MatrixShape& shape, int32_t n_threads) {
  constexpr double kBytesPerNs = 32.0;
  const double rate = std::is_integral_v<T> ? 4.0 : 256.0 / std::max<double>(sizeof(T), 4.0);
  const auto work = static_cast<double>(shape.Multiplications());
  const auto least = static_cast<double>(std::min(shape.size.m, shape.size.n));
  const double bytes = work / std::max(least, 1.0) * static_cast<double>(sizeof(T));
  return 50 + static_cast<uint64_t>(std::max(work / rate, bytes / kBytesPerNs) / n_threads);
}

// Multiplies batches of matrices, each split into blocks of rows or columns.
class OwnProduct {
 public:
  template <typename T>
  void Make(const MatrixShape& shape, int32_t n_threads) {
    shape_ = shape;
    is_turned_ = std::is_same_v<T, float> && IsTurned(shape) && HasPanels(shape);
    const GemmSize& size = shape.size;
    const int64_t most = std::max<int64_t>(1, shape.Multiplications() / kProductGrain);
    n_threads_ = static_cast<int32_t>(std::min<int64_t>(n_threads, most));
    by_rows_ = size.m >= size.n;
    const int64_t length = by_rows_ ? size.m : size.n;
    const bool splits = n_threads_ > 1 && shape.stack_size < 2 * n_threads_;
    pieces_ = splits ? std::min<int64_t>(n_threads_, (length + Step() - 1) / Step()) : 1;
    thread_bytes_ = kGemmWorkspaceBytes<T>;
  }

  uint64_t workspace_bytes() const { return thread_bytes_ * static_cast<uint64_t>(n_threads_); }

  template <typename T>
  void Run(const T* x, const T* y, T* out, char* workspace) const {
    Parallel(n_threads_, [=](int32_t thread, int32_t n_threads) {
      const Part part = PartOf(shape_.stack_size * pieces_, 1, thread, n_threads);
      char* own = workspace + thread_bytes_ * static_cast<uint64_t>(thread);
      for (int64_t unit = part.begin; unit < part.end; ++unit) RunPiece<T>(unit, x, y, out, own);
    });
  }

 private:
  int64_t Step() const { return is_turned_ ? 64 : 32; }  // complete panels, complete tiles

  template <typename T>
  void RunPiece(int64_t unit, const T* x, const T* y, T* out, void* workspace) const {
    const auto piece = static_cast<int32_t>(unit % pieces_);
    const int64_t index = unit / pieces_;
    const MatrixShape::Offsets at = shape_.At(index);
    GemmSize size = shape_.size;
    MatrixView<const T> a{x + at.x, shape_.x_strides[0], shape_.x_strides[1]};
    MatrixView<const T> b{y + at.y, shape_.y_strides[0], shape_.y_strides[1]};
    MatrixView<T> c{out + at.out, shape_.out_row, 1};
    int64_t& length = by_rows_ ? size.m : size.n;
    const Part part = PartOf(length, Step(), piece, static_cast<int32_t>(pieces_));
    length = part.end - part.begin;
    if (by_rows_) {
      a = a.At(part.begin, 0);
      c = c.At(part.begin, 0);
    } else {
      b = b.At(0, part.begin);
      c = c.At(0, part.begin);
    }
    if (length <= 0) return;
    if constexpr (std::is_same_v<T, float>) {
      if (is_turned_) return MultiplyTurned(size, a, b, c);
    }
    Gemm<T>(size, a, b, c, workspace);
  }

  MatrixShape shape_;
  uint64_t thread_bytes_ = 0;
  int64_t pieces_ = 1;
  int32_t n_threads_ = 1;
  bool by_rows_ = true;
  bool is_turned_ = false;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MATMUL_OWN_PRODUCT_H_
