// Products with a packed weight by our own loops. With few rows, products run at memory speed,
// unlike oneDNN's products.
#ifndef OPWRIGHT_CPU_MATMUL_PANEL_PRODUCT_H_
#define OPWRIGHT_CPU_MATMUL_PANEL_PRODUCT_H_

#include <cstdint>

#include "common/parallel.h"
#include "gemm/gemm.h"
#include "matmul/matrix_shape.h"

namespace opwright_cpu {

// Computes out = x y for float32 x [m, k] and y [k, n]. Objects are immutable after Make. Each
// result is summed by one thread, in an order that does not depend on the number of threads.
class PanelProduct {
 public:
  // Leaves the object empty if oneDNN is faster, because x has many rows or is not contiguous.
  void Make(const MatrixShape& shape, int32_t n_threads);
  bool empty() const { return size_.m == 0; }

  uint64_t packed_bytes() const;
  void Pack(const float* y, void* packed) const;

  // Calls finish(row, column, columns) for each part of a row once it is complete.
  template <typename Finish>
  void Run(const float* x, const void* packed, float* out, const Finish& finish) const {
    Parallel(n_threads_, [&](int32_t thread, int32_t n_threads) {
      Part rows{0, size_.m}, columns{0, size_.n};
      (by_rows_ ? rows : columns) =
          PartOf(by_rows_ ? size_.m : size_.n, by_rows_ ? kRowStep : width_, thread, n_threads);
      for (int64_t row = rows.begin; row < rows.end; row += kRowsAtOnce) {
        const int64_t end = row + kRowsAtOnce < rows.end ? row + kRowsAtOnce : rows.end;
        for (int64_t column = columns.begin, width; column < columns.end; column += width) {
          width = WidthOf(column);
          Multiply(x, static_cast<const float*>(packed), row, end, column, width, out);
          for (int64_t i = row; i < end; ++i) finish(i, column, width);
        }
      }
    });
  }

 private:
  static constexpr int64_t kRowStep = 6;  // rows per tile
  static constexpr int64_t kRowsAtOnce =
      126;  // rows that fit into the L2 cache together with a panel

  // The second to last panel is narrower if the last panel would otherwise be a single vector: its
  // additions would wait for each other.
  int64_t WidthOf(int64_t column) const {
    const int64_t left = size_.n - column;
    if (left <= width_) return left;
    const bool is_lone = evens_ && left <= width_ + kPanelStep;
    return is_lone ? width_ - kPanelStep : width_;
  }
  int64_t MostColumns(int64_t width) const;
  int64_t FindWidth() const;
  void Multiply(const float* x, const float* packed, int64_t row, int64_t end, int64_t column,
                int64_t width, float* out) const;

  GemmSize size_{0, 0, 0};
  int64_t x_row_ = 0;
  int64_t y_strides_[2] = {};
  PanelGemm product_{};
  int64_t width_ = 0;  // panel width, at most product_.width
  int32_t n_threads_ = 1;
  bool by_rows_ = false;
  bool evens_ = false;      // WidthOf balances the last two panels, in a single thread only
  bool is_cached_ = false;  // x has one row and the weight stays in a cache
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MATMUL_PANEL_PRODUCT_H_
