// Products of rows and tiles in shared memory for attention without stored scores.
#ifndef OPWRIGHT_CUDA_FUSED_ATTENTION_H_
#define OPWRIGHT_CUDA_FUSED_ATTENTION_H_

#include "attention.h"
#include "tensor_cores.h"

namespace opwright_cuda {

constexpr int kBlockThreads = 128;
constexpr int kWarps = kBlockThreads / kWarp;
constexpr int kBlockKeys = 64;
constexpr float kLog2OfE = 1.44269504088896340736f;

// The extents of one group: q is [rows, size], k [keys, size], v [keys, columns].
struct Extents {
  int64_t rows;
  int64_t keys;
  int32_t size;
  int32_t columns;
};

// Returns the distance of rows in shared memory: an odd number of 16-byte units, so that 8 adjacent
// rows are in different banks.
constexpr int PitchOf(int width) { return width + 8; }

OW_INLINE float PowerOfTwo(float x) {
#if defined(__CUDACC_RTC__)
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  return exp2f(x);
#endif
}

// Starts to copy rows of a matrix with `width` columns to a tile of kRows x kWidth; rows and
// columns beyond the matrix are zeros.
template <int kRows, int kWidth, typename T>
OW_INLINE void StartRows(T* tile, const T* from, int64_t first, int64_t n_rows, int32_t width) {
  constexpr int kEach = kCopyBytes / static_cast<int>(sizeof(T));
  constexpr int kParts = kWidth / kEach;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kParts; i += kBlockThreads) {
    const int row = i / kParts, column = i % kParts * kEach;
    const bool is_there = first + row < n_rows && column < width;
    const T* const source = is_there ? from + (first + row) * width + column : from;
    StartCopy(tile + row * PitchOf(kWidth) + column, source, is_there);
  }
}

// Adds the products of left rows, from `left(strip, step)`, and kCount columns. These are the rows
// of a tile or, if kTransposed, its columns; its rows are PitchOf(kWidth) apart.
template <typename T, int kWidth, int kSteps, int kCount, bool kTransposed, int kStrips,
          typename Left>
OW_INLINE void MultiplyTile(const Left& left, const T* tile,
                            TileOfSums (&sums)[kStrips][kCount / kRightTile]) {
  constexpr int kPitch = PitchOf(kWidth);
#pragma unroll
  for (int step = 0; step < kSteps / kTile; ++step) {
    LeftTile x[kStrips];
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) x[strip] = left(strip, step);
#pragma unroll
    for (int pair = 0; pair < kCount / kTile; ++pair) {
      RightTile y[2];
      if constexpr (kTransposed) {
        LoadRightColumns(tile + step * kTile * kPitch + pair * kTile, kPitch, &y[0], &y[1]);
      } else {
        LoadRightRows(tile + pair * kTile * kPitch + step * kTile, kPitch, &y[0], &y[1]);
      }
#pragma unroll
      for (int strip = 0; strip < kStrips; ++strip) {
        MultiplyAdd<T>(x[strip], y[0], &sums[strip][2 * pair]);
        MultiplyAdd<T>(x[strip], y[1], &sums[strip][2 * pair + 1]);
      }
    }
  }
}

// Adds the products of left rows and the kOthers rows of a tile.
template <typename T, int kWidth, int kOthers, int kStrips, typename Left>
OW_INLINE void MultiplyRows(const Left& left, const T* tile,
                            TileOfSums (&sums)[kStrips][kOthers / kRightTile]) {
  MultiplyTile<T, kWidth, kWidth, kOthers, false>(left, tile, sums);
}

// Adds the products of rounded sums, with kOthers steps, and the columns of a tile.
template <typename T, int kOthers, int kWidth, int kStrips>
OW_INLINE void MultiplyColumns(const TileOfSums (&rows)[kStrips][kOthers / kRightTile],
                               const T* tile, TileOfSums (&sums)[kStrips][kWidth / kRightTile]) {
  const auto left = [&](int strip, int step) {
    return LeftTileOf<T>(rows[strip][2 * step], rows[strip][2 * step + 1]);
  };
  MultiplyTile<T, kWidth, kOthers, kWidth, true>(left, tile, sums);
}

template <int kStrips, int kCount>
OW_INLINE void Clear(TileOfSums (&sums)[kStrips][kCount]) {
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums[strip][i] = {{0.0f, 0.0f, 0.0f, 0.0f}};
  }
}

// Calls `store(row, column, first, second)` for the pairs of adjacent elements of two rows of sums,
// each multiplied by its factor.
template <int kCount, typename Store>
OW_INLINE void EachPair(int64_t row, int64_t n_rows, int32_t width,
                        const TileOfSums (&sums)[kCount], const float (&factors)[2],
                        const Store& store) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (row + half * 8 >= n_rows) continue;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int column = i * kRightTile + LaneColumn();
      if (column >= width) continue;
      store(row + half * 8, column, sums[i].at[2 * half] * factors[half],
            sums[i].at[2 * half + 1] * factors[half]);
    }
  }
}

// Returns a function that stores a pair of elements, rounded, in a matrix with `width` columns.
template <typename T>
OW_INLINE auto RoundedTo(T* out, int32_t width) {
  return [=](int64_t row, int column, float first, float second) {
    *reinterpret_cast<uint32_t*>(out + row * width + column) = PackPair<T>(first, second);
  };
}

// Returns the last query of the rows [first, end).
template <typename T>
OW_INLINE int64_t LastQuery(const Mask<T>& mask, int64_t first, int64_t end) {
  const bool is_one_head = first / mask.queries == (end - 1) / mask.queries;
  return is_one_head ? (end - 1) % mask.queries : mask.queries - 1;
}

// Returns the number of keys that the rows [first, end) may see.
template <typename T>
OW_INLINE int64_t CountKeys(const Mask<T>& mask, int64_t first, int64_t end, int64_t keys) {
  return mask.causal != 0 ? min(keys, LastQuery(mask, first, end) + 1) : keys;
}

// What is needed of one row of queries. A row that is not there has weights of 0.
struct RowFacts {
  int64_t begin;  // of its mask
  int64_t query;
  float shift;  // log_sum_exp
  float mean;   // of the gradients of its weights
};

template <typename T>
OW_INLINE RowFacts FactsOf(const Mask<T>& mask, const float* log_sum_exp, const float* means,
                           int64_t row, int64_t n_rows, int64_t first_line) {
  if (row >= n_rows) return {0, 0, Highest<float>(), 0.0f};
  const float shift = log_sum_exp[first_line + row];
  return {mask.Begin(first_line + row), row % mask.queries, shift == Lowest<float>() ? 0.0f : shift,
          means == nullptr ? 0.0f : means[first_line + row]};
}

template <typename T>
OW_INLINE float ScoreOf(const Mask<T>& mask, int64_t begin, int64_t query, int64_t key,
                        int64_t keys, float product) {
  return key < keys ? mask.Apply(begin, query, key, product) : Lowest<float>();
}

struct Weight {
  float weight;
  float grad;  // of the product
};

// Returns the weight of a key and, from the gradient of the weight, the gradient of the product.
template <typename T>
OW_INLINE Weight WeightOf(const Mask<T>& mask, const RowFacts& facts, int64_t key, int64_t keys,
                          float product, float grad, float scale) {
  const float score = ScoreOf(mask, facts.begin, facts.query, key, keys, product * scale);
  if (score == Lowest<float>()) return {0.0f, 0.0f};  // even if the shift is NaN
  // Products can exceed the shift, because they are summed in a different order.
  const float below = score - facts.shift;
  const float weight = PowerOfTwo((below > 0.0f ? 0.0f : below) * kLog2OfE);
  if (weight == 0.0f) return {0.0f, 0.0f};
  return {weight, weight * (grad - facts.mean) * scale};
}

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_FUSED_ATTENTION_H_
