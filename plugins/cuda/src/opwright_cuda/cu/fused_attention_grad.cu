// The gradient of attention of 16-bit floats, without storing scores. The weights are recomputed.
#include "fused_attention.h"

using namespace opwright_cuda;

// Computes the gradient of q or, if kOwnsKeys, the gradients of k and v, of 64 rows.
// attention_means computes `means`. Results are null if they are not wanted.
template <typename T, int kSize, int kColumns, int kOthers, bool kOwnsKeys>
__global__ void __launch_bounds__(kBlockThreads)
    fused_attention_grad(T* grad, T* v_grad, const T* q, const T* k, const T* v, const T* out_grad,
                         const float* log_sum_exp, const float* means, float scale, Mask<T> mask,
                         Extents e, int64_t blocks_each) {
  constexpr int kRows = kWarps * kTile;
  constexpr int kTiles = kOthers / kRightTile;
  constexpr int kBuffer = kOthers * (PitchOf(kSize) + PitchOf(kColumns));
  OW_SHARED(RowFacts, row_facts, 2 * kOthers);
  OW_DYNAMIC_SHARED(T, memory);
  T* const own_tile = memory;
  T* const own_columns = own_tile + kRows * PitchOf(kSize);
  T* const buffers = own_columns + kRows * PitchOf(kColumns);
  const int64_t group = blockIdx.x / blocks_each;
  const int64_t first = blockIdx.x % blocks_each * kRows;
  const int64_t first_line = group * e.rows;
  q += first_line * e.size;
  out_grad += first_line * e.columns;
  k += group * e.keys * e.size;
  v += group * e.keys * e.columns;
  const int64_t n_own = kOwnsKeys ? e.keys : e.rows;
  const int64_t end = min(first + kRows, n_own);
  const int64_t n_others = kOwnsKeys ? e.rows : CountKeys(mask, first, end, e.keys);
  // The first rows of a single head cannot see later keys.
  const bool is_one_head = mask.queries == e.rows;
  const int64_t begin =
      kOwnsKeys && mask.causal != 0 && is_one_head ? first / kOthers * kOthers : 0;
  const auto start_others = [&](int64_t other, int buffer) {
    T* const tile = buffers + buffer * kBuffer;
    T* const columns = tile + kOthers * PitchOf(kSize);
    const int64_t n = kOwnsKeys ? e.rows : e.keys;
    StartRows<kOthers, kSize>(tile, kOwnsKeys ? q : k, other, n, e.size);
    StartRows<kOthers, kColumns>(columns, kOwnsKeys ? out_grad : v, other, n, e.columns);
    if constexpr (kOwnsKeys) {
      for (int i = static_cast<int>(threadIdx.x); i < kOthers; i += kBlockThreads) {
        row_facts[buffer * kOthers + i] =
            FactsOf(mask, log_sum_exp, means, other + i, e.rows, first_line);
      }
    }
  };
  StartRows<kRows, kSize>(own_tile, kOwnsKeys ? k : q, first, n_own, e.size);
  StartRows<kRows, kColumns>(own_columns, kOwnsKeys ? v : out_grad, first, n_own, e.columns);
  if (begin < n_others) start_others(begin, 0);
  EndCopies();
  const int own = WarpIndex() * kTile;
  const int64_t row = first + own + LaneRow();
  RowFacts own_facts[2];
  if constexpr (!kOwnsKeys) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      own_facts[half] = FactsOf(mask, log_sum_exp, means, row + half * 8, e.rows, first_line);
    }
  }
  TileOfSums sums[1][kSize / kRightTile];
  TileOfSums v_sums[1][kOwnsKeys ? kColumns / kRightTile : 1];
  Clear(sums);
  Clear(v_sums);
  int buffer = 0;
  for (int64_t other = begin; other < n_others; other += kOthers, buffer = 1 - buffer) {
    if (other + kOthers < n_others) start_others(other + kOthers, 1 - buffer);
    EndCopies();
    WaitForCopies<1>();
    __syncthreads();
    const T* const tile = buffers + buffer * kBuffer;
    const T* const columns = tile + kOthers * PitchOf(kSize);
    TileOfSums scores[1][kTiles], inner[1][kTiles];
    Clear(scores);
    Clear(inner);
    MultiplyRows<T, kSize, kOthers>(
        [&](int, int step) {
          return LoadLeft(own_tile + own * PitchOf(kSize) + step * kTile, PitchOf(kSize));
        },
        tile, scores);
    MultiplyRows<T, kColumns, kOthers>(
        [&](int, int step) {
          return LoadLeft(own_columns + own * PitchOf(kColumns) + step * kTile, PitchOf(kColumns));
        },
        columns, inner);
#pragma unroll
    for (int i = 0; i < 4 * kTiles; ++i) {
      const int half = i / 2 % 2;
      const int column = i / 4 * kRightTile + LaneColumn() + i % 2;
      const RowFacts facts =
          kOwnsKeys ? row_facts[buffer * kOthers + column] : own_facts[kOwnsKeys ? 0 : half];
      const int64_t key = kOwnsKeys ? row + half * 8 : other + column;
      float& score = scores[0][i / 4].at[i % 4];
      float& product = inner[0][i / 4].at[i % 4];
      const Weight weight = WeightOf(mask, facts, key, e.keys, score, product, scale);
      score = weight.weight;
      product = weight.grad;
    }
    MultiplyColumns<T, kOthers, kSize>(inner, tile, sums);
    if constexpr (kOwnsKeys) MultiplyColumns<T, kOthers, kColumns>(scores, columns, v_sums);
    __syncthreads();  // all warps have read the buffer
  }
  const float ones[2] = {1.0f, 1.0f};
  const int64_t first_row = group * n_own;
  if (grad != nullptr) {
    EachPair(row, n_own, e.size, sums[0], ones, RoundedTo(grad + first_row * e.size, e.size));
  }
  if constexpr (kOwnsKeys) {
    if (v_grad != nullptr) {
      EachPair(row, n_own, e.columns, v_sums[0], ones,
               RoundedTo(v_grad + first_row * e.columns, e.columns));
    }
  }
}

// Computes the sum of out * out_grad of each row, the mean gradient of its weights. A warp computes
// a row.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    attention_means(float* means, const T* out, const T* out_grad, int64_t n_rows,
                    int32_t columns) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + WarpIndex();
  if (row >= n_rows) return;
  float sum = 0.0f;
  for (int i = LaneIndex(); i < columns; i += kWarp) {
    sum += Load(out[row * columns + i]) * Load(out_grad[row * columns + i]);
  }
  sum = WarpSum(sum);
  if (LaneIndex() == 0) means[row] = sum;
}
