#include "matmul/panel_product.h"

#include <algorithm>

namespace opwright_cpu {
namespace {

int64_t WholeSteps(int64_t n) { return (n + kPanelStep - 1) / kPanelStep * kPanelStep; }

}  // namespace

void PanelProduct::Make(const MatrixShape& shape, int32_t n_threads) {
  constexpr int64_t kMostRows = 512;
  const GemmSize& size = shape.size;
  if (!shape.stack.empty() || shape.x_strides[1] != 1 || size.m > kMostRows) return;
  size_ = size;
  x_row_ = shape.x_strides[0];
  y_strides_[0] = shape.y_strides[0];
  y_strides_[1] = shape.y_strides[1];
  product_ = BestPanelGemm();
  constexpr int64_t kGrain = 64 * 1024;  // multiplications that justify another thread
  n_threads_ =
      static_cast<int32_t>(std::clamp<int64_t>(shape.Multiplications() / kGrain, 1, n_threads));
  // If columns are split, each thread reads only its part of the weight. If rows are split, each
  // reads the complete weight, which is better only if a split by columns leaves threads idle.
  width_ = FindWidth();
  const int64_t threads = n_threads_;
  const int64_t tiles = (size.m + kRowStep - 1) / kRowStep;
  constexpr int64_t kReading = 24;  // reading the weight once takes as long as multiplying 24 rows
  const int64_t by_columns = MostColumns(width_) * size.m;
  const int64_t by_rows = ((tiles + threads - 1) / threads * kRowStep + kReading) * size.n;
  by_rows_ = by_rows < by_columns;
  if (by_rows_) width_ = product_.width;
  evens_ = n_threads_ == 1 && width_ > 2 * kPanelStep;
  constexpr uint64_t kCachedBytes = 1 << 20;  // a weight of this size stays in the L2 cache
  is_cached_ = size.m == 1 && packed_bytes() <= kCachedBytes;
}

// Returns the maximum number of columns that one thread computes.
int64_t PanelProduct::MostColumns(int64_t width) const {
  const int64_t panels = (size_.n + width - 1) / width;
  return (panels + n_threads_ - 1) / n_threads_ * width;
}

// Narrower panels balance the threads better but slow down the products, because fewer sums are
// computed at once.
int64_t PanelProduct::FindWidth() const {
  int64_t best = product_.width;
  for (int64_t width = best - kPanelStep; width >= 2 * kPanelStep; width -= kPanelStep) {
    const auto cost = [&](int64_t of) { return MostColumns(of) * (16 * kPanelStep + of) / of; };
    if (cost(width) < cost(best)) best = width;
  }
  return best;
}

uint64_t PanelProduct::packed_bytes() const {
  return static_cast<uint64_t>(size_.k * WholeSteps(size_.n)) * sizeof(float);
}

void PanelProduct::Pack(const float* y, void* packed) const {
  auto* to = static_cast<float*>(packed);
  for (int64_t column = 0, width; column < size_.n; column += width) {
    width = WidthOf(column);
    const int64_t padded = WholeSteps(width);
    for (int64_t p = 0; p < size_.k; ++p, to += padded) {
      const float* from = y + p * y_strides_[0] + column * y_strides_[1];
      for (int64_t j = 0; j < width; ++j) to[j] = from[j * y_strides_[1]];
      std::fill(to + width, to + padded, 0.0f);
    }
  }
}

// Splits long sums into blocks of terms so that a panel of each block stays in the L2 cache.
void PanelProduct::Multiply(const float* x, const float* packed, int64_t row, int64_t end,
                            int64_t column, int64_t width, float* out) const {
  constexpr int64_t kDepth = 512;
  float narrow[kRowsAtOnce * kPanelStep * 4];
  const int64_t padded = WholeSteps(width);
  const bool is_whole = padded == width;
  float* to = is_whole ? out + row * size_.n + column : narrow;
  const int64_t ld = is_whole ? size_.n : padded;
  const float* panel = packed + column * size_.k;
  const int64_t depth = end - row > kRowStep ? kDepth : size_.k;
  const GemmFn<float> multiply = is_cached_ ? product_.multiply_cached : product_.multiply;
  for (int64_t done = 0; done < size_.k; done += depth) {
    multiply({end - row, padded, std::min(depth, size_.k - done), x + row * x_row_ + done, x_row_,
              1, panel + done * padded, padded, 1, to, ld, 1.0f, done == 0 ? 0.0f : 1.0f, nullptr});
  }
  if (is_whole) return;
  for (int64_t i = 0; i < end - row; ++i) {
    std::copy_n(narrow + i * padded, width, out + (row + i) * size_.n + column);
  }
}

}  // namespace opwright_cpu
