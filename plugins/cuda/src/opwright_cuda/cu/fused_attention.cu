// scaled_dot_product_attention of 16-bit floats, without storing scores: a block of 4 warps
// computes its rows from tiles of keys and values in shared memory. Source: Dao, FlashAttention-2
// (2023).
#include "fused_attention.h"

using namespace opwright_cuda;

// Computes out = softmax(scale * q k^T + mask) v. A block computes 64 * kStrips rows of a group;
// the sums of a row are relative to its largest score so far. If all keys of a row are hidden, it
// is 0.
template <typename T, int kSize, int kColumns, int kStrips>
__global__ void __launch_bounds__(kBlockThreads)
    fused_attention(T* out, float* partial, float* log_sum_exp, const T* q, const T* k, const T* v,
                    float scale, Mask<T> mask, Extents e, int64_t blocks_each, int64_t keys_each) {
  constexpr int kRows = kWarps * kTile * kStrips;
  constexpr int kScoreTiles = kBlockKeys / kRightTile;
  OW_DYNAMIC_SHARED(T, memory);
  T* const q_tile = memory;
  T* const k_tile = q_tile + kRows * PitchOf(kSize);
  T* const v_tile = k_tile + kBlockKeys * PitchOf(kSize);
  const int64_t group = blockIdx.x / blocks_each;
  const int64_t first_line = group * e.rows;
  const int64_t first = blockIdx.x % blocks_each * kRows;
  const int64_t part = blockIdx.y, n_lines = gridDim.x / blocks_each * e.rows;
  const int64_t begin = part * keys_each;
  const int64_t end =
      min(begin + keys_each, CountKeys(mask, first, min(first + kRows, e.rows), e.keys));
  k += group * e.keys * e.size;
  v += group * e.keys * e.columns;
  StartRows<kRows, kSize>(q_tile, q + first_line * e.size, first, e.rows, e.size);
  StartRows<kBlockKeys, kSize>(k_tile, k, begin, e.keys, e.size);
  EndCopies();
  const int own = WarpIndex() * kStrips * kTile;  // the first row of the warp in the tile
  RowFacts facts[kStrips][2];
  float top[kStrips][2], total[kStrips][2];
  TileOfSums sums[kStrips][kColumns / kRightTile];
  Clear(sums);
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t row = first + own + strip * kTile + half * 8 + LaneRow();
      const bool is_there = row < e.rows;
      facts[strip][half].begin = is_there ? mask.Begin(first_line + row) : 0;
      facts[strip][half].query = is_there ? row % mask.queries : 0;
      top[strip][half] = Lowest<float>();
      total[strip][half] = 0.0f;
    }
  }
  WaitForCopies<0>();
  __syncthreads();
  // One strip of queries stays in registers.
  LeftTile queries[kStrips == 1 ? kSize / kTile : 1];
  const auto load_queries = [&](int strip, int step) {
    return LoadLeft(q_tile + (own + strip * kTile) * PitchOf(kSize) + step * kTile, PitchOf(kSize));
  };
  if constexpr (kStrips == 1) {
#pragma unroll
    for (int step = 0; step < kSize / kTile; ++step) queries[step] = load_queries(0, step);
  }
  const bool is_masked = mask.allowed != nullptr || mask.added != nullptr || mask.causal != 0;
  for (int64_t key = begin; key < end; key += kBlockKeys) {
    WaitForCopies<0>();
    __syncthreads();  // the keys are there, and all warps have read the last values
    StartRows<kBlockKeys, kColumns>(v_tile, v, key, e.keys, e.columns);
    EndCopies();
    TileOfSums scores[kStrips][kScoreTiles];
    Clear(scores);
    const auto left = [&](int strip, int step) {
      if constexpr (kStrips == 1) return queries[step];
      return load_queries(strip, step);
    };
    MultiplyRows<T, kSize, kBlockKeys>(left, k_tile, scores);
    const bool is_open = !is_masked && key + kBlockKeys <= e.keys;
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float best = top[strip][half];
#pragma unroll
        for (int i = 0; i < 2 * kScoreTiles; ++i) {
          float& score = scores[strip][i / 2].at[2 * half + i % 2];
          const int64_t at = key + i / 2 * kRightTile + LaneColumn() + i % 2;
          const RowFacts& row = facts[strip][half];
          const float product = score * scale;
          score = is_open ? product : ScoreOf(mask, row.begin, row.query, at, e.keys, product);
          score *= kLog2OfE;
          best = MaxOf<float>()(best, score);
        }
        best = MaxOf<float>()(best, ShuffleXor(best, 1));
        best = MaxOf<float>()(best, ShuffleXor(best, 2));
        const float shift = best == Lowest<float>() ? 0.0f : best;  // no visible key yet
        const float factor = PowerOfTwo(top[strip][half] - shift);
        top[strip][half] = best;
        total[strip][half] *= factor;
#pragma unroll
        for (int i = 0; i < 2 * kScoreTiles; ++i) {
          float& score = scores[strip][i / 2].at[2 * half + i % 2];
          score = PowerOfTwo(score - shift);
          total[strip][half] += score;
        }
#pragma unroll
        for (int i = 0; i < 2 * (kColumns / kRightTile); ++i) {
          sums[strip][i / 2].at[2 * half + i % 2] *= factor;
        }
      }
    }
    WaitForCopies<0>();
    __syncthreads();  // the values are there, and all warps have read the keys
    if (key + kBlockKeys < end) {
      StartRows<kBlockKeys, kSize>(k_tile, k, key + kBlockKeys, e.keys, e.size);
    }
    EndCopies();
    MultiplyColumns<T, kBlockKeys, kColumns>(scores, v_tile, sums);
  }
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
    const int64_t row = first + own + strip * kTile + LaneRow();
    float factors[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float all = total[strip][half];
      all += ShuffleXor(all, 1);
      all += ShuffleXor(all, 2);
      factors[half] = all == 0.0f ? 0.0f : 1.0f / all;
      if (LaneColumn() == 0 && row + half * 8 < e.rows) {
        const float shift = top[strip][half] == Lowest<float>() ? 0.0f : top[strip][half];
        log_sum_exp[part * n_lines + first_line + row + half * 8] =
            shift / kLog2OfE + functors::Log(all);
      }
    }
    if (partial == nullptr) {
      EachPair(row, e.rows, e.columns, sums[strip], factors,
               RoundedTo(out + first_line * e.columns, e.columns));
      continue;
    }
    const auto store = [&](int64_t at, int column, float one, float other) {
      Vector<float, 2>* const to = reinterpret_cast<Vector<float, 2>*>(
          partial + (part * n_lines + first_line + at) * e.columns + column);
      *to = {{one, other}};
    };
    EachPair(row, e.rows, e.columns, sums[strip], factors, store);
  }
}

// Combines the results of parts of the keys by their logarithms. A warp computes a row.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    combine_attention(T* out, float* log_sum_exp, const float* partial, const float* logarithms,
                      int64_t n_rows, int64_t n_parts, int32_t columns) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + WarpIndex();
  if (row >= n_rows) return;
  float top = Lowest<float>();
  for (int64_t part = 0; part < n_parts; ++part) {
    top = MaxOf<float>()(top, logarithms[part * n_rows + row]);
  }
  if (top == Lowest<float>()) top = 0.0f;  // no visible key
  float total = 0.0f;
  for (int64_t part = 0; part < n_parts; ++part) {
    total += functors::Exp(logarithms[part * n_rows + row] - top);
  }
  const float share = total == 0.0f ? 0.0f : 1.0f / total;
  for (int column = LaneIndex(); column < columns; column += kWarp) {
    float sum = 0.0f;
    for (int64_t part = 0; part < n_parts; ++part) {
      const int64_t at = part * n_rows + row;
      sum += functors::Exp(logarithms[at] - top) * partial[at * columns + column];
    }
    out[row * columns + column] = Store<T>(sum * share);
  }
  if (LaneIndex() == 0) log_sum_exp[row] = top + functors::Log(total);
}
