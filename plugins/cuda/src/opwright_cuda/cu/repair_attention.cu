// Rows of attention and of its gradient that are not finite because of hidden keys.
#include "fused_attention.h"

using namespace opwright_cuda;

// The elements of one row that a lane computes.
constexpr int kMostEach = 4;

// Recomputes non-finite rows without keys of weight 0, since a hidden key may be NaN. The result is
// `out` (without out_grad) or the gradient of q or, if kOwnsKeys, of k and v. A warp computes a
// row.
template <typename T, bool kOwnsKeys>
__global__ void __launch_bounds__(kBlockThreads)
    repair_attention(T* grad, T* values, const T* q, const T* k, const T* v, const T* out_grad,
                     const float* log_sum_exp, const float* means, float scale, Mask<T> mask,
                     Extents e, int64_t n_rows) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kWarps + WarpIndex();
  if (at >= n_rows) return;
  const auto is_finite = [&](const T* rows, int32_t width) {
    bool found = true;
    if (rows == nullptr) return found;
    for (int i = LaneIndex(); i < width; i += kWarp) {
      const float x = Load(rows[at * width + i]);
      found = found && x - x == 0.0f;
    }
    return __all_sync(kAllLanes, found) != 0;
  };
  const bool is_whole = is_finite(grad, e.size);
  if (is_finite(values, e.columns) && is_whole) return;
  const int64_t n_own = kOwnsKeys ? e.keys : e.rows;
  const int64_t group = at / n_own, own = at % n_own;
  const int64_t first_line = group * e.rows;
  const auto product_of = [&](const T* x, const T* y, int32_t width) {
    float sum = 0.0f;
    for (int i = LaneIndex(); i < width; i += kWarp) {
      sum += Load(x[i]) * Load(y[i]);
    }
    return WarpSum(sum);
  };
  const auto add = [&](float (&sums)[kMostEach], float weight, const T* x, int32_t width) {
#pragma unroll
    for (int i = 0; i < kMostEach; ++i) {
      const int column = i * kWarp + LaneIndex();
      if (column < width) sums[i] += weight * Load(x[column]);
    }
  };
  const auto store = [&](T* rows, const float (&sums)[kMostEach], int32_t width) {
#pragma unroll
    for (int i = 0; i < kMostEach; ++i) {
      const int column = i * kWarp + LaneIndex();
      if (column < width) rows[at * width + column] = Store<T>(sums[i]);
    }
  };
  float sums[kMostEach] = {}, value_sums[kMostEach] = {};
  for (int64_t other = 0; other < (kOwnsKeys ? e.rows : e.keys); ++other) {
    const int64_t row = kOwnsKeys ? other : own, key = kOwnsKeys ? own : other;
    const RowFacts facts = FactsOf(mask, log_sum_exp, means, row, e.rows, first_line);
    const T* const query_row = q + (first_line + row) * e.size;
    const T* const key_row = k + (group * e.keys + key) * e.size;
    const T* const value_row = v + (group * e.keys + key) * e.columns;
    const T* const grad_row =
        out_grad == nullptr ? nullptr : out_grad + (first_line + row) * e.columns;
    const float product = product_of(query_row, key_row, e.size);
    const float inner = grad == nullptr ? 0.0f : product_of(grad_row, value_row, e.columns);
    const Weight weight = WeightOf(mask, facts, key, e.keys, product, inner, scale);
    if (weight.weight == 0.0f) continue;
    if (grad != nullptr) add(sums, weight.grad, kOwnsKeys ? query_row : key_row, e.size);
    if (values != nullptr)
      add(value_sums, weight.weight, kOwnsKeys ? grad_row : value_row, e.columns);
  }
  if (grad != nullptr) store(grad, sums, e.size);
  if (values != nullptr) store(values, value_sums, e.columns);
}
