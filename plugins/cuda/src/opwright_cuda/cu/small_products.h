// Small matrix products, whose time is dominated by the latency of reads. The kernels therefore use
// as many blocks as fit on the GPU, and all threads read directly into registers.
//
// A thread accumulates 4 x 4 sums. A few adjacent lanes form a tile; the other lanes and warps
// process different steps of the inner dimension, four adjacent steps at a time. No thread reads an
// element twice, so shared memory would not save reads. At the end, partial sums are combined in
// shared memory, in an order determined by the shape.
#ifndef OPWRIGHT_CUDA_SMALL_PRODUCTS_H_
#define OPWRIGHT_CUDA_SMALL_PRODUCTS_H_

#include "reduce.h"
#include "small_sides.h"

namespace opwright_cuda {

// The partition of a tile over the threads of a block.
template <int row_lanes, int column_lanes, int warps>
struct SmallTile {
  static constexpr int kRowLanes = row_lanes;
  static constexpr int kColumnLanes = column_lanes;
  static constexpr int kRows = row_lanes * kSide;
  static constexpr int kColumns = column_lanes * kSide;
  static constexpr int kSums = kRows * kColumns;
  static constexpr int kThreads = warps * kWarp;
  // The number of threads that accumulate the same sums, and of steps that they process at once.
  static constexpr int kParts = kThreads / (row_lanes * column_lanes);
  static constexpr int kSteps = kParts * kSide;
  // Threads per partial sum, and sums per thread, in the final reduction.
  static constexpr int kAdders = kThreads > kSums ? kThreads / kSums : 1;
  static constexpr int kEach = kSums > kThreads ? kSums / kThreads : 1;
  // The threads of a sum read from different banks. 16 threads, however, read in pairs from the
  // same bank, because the sums of each thread are aligned to 16 bytes.
  static constexpr int kApart = kWarp / kAdders > kSide ? kWarp / kAdders : kSide;
  static constexpr int kPitch = kSums + (kAdders > 1 ? kApart : 0);
  static constexpr int kMemory = kParts * kPitch;  // partial sums of threads, in shared memory
  // With few blocks, each block must have more reads in flight.
  static constexpr bool kReadsAhead = kSums < 256;
};

// The vector type of writes to shared memory.
template <typename Value>
using SmallPart = Vector<Value, 16 / sizeof(Value)>;
template <typename Value, typename Tile>
constexpr int SmallParts() {
  return Tile::kMemory / (16 / static_cast<int>(sizeof(Value)));
}

// The elements of both sides that a thread multiplies next.
template <typename Left, typename Right, int stride>
struct SmallSteps {
  typename Left::Element left[kSide][kSide];
  typename Right::Element right[kSide][kSide];

  template <bool is_whole>
  OW_INLINE void Read(const SmallReader<Left, stride>& x, const SmallReader<Right, stride>& y,
                      int32_t step) {
    x.template Read<is_whole>(step, left);
    y.template Read<is_whole>(step, right);
  }
  template <typename Value>
  OW_INLINE void AddTo(Value (&sums)[kSide][kSide]) const {
#pragma unroll
    for (int step = 0; step < kSide; ++step) {
#pragma unroll
      for (int i = 0; i < kSide; ++i) {
#pragma unroll
        for (int j = 0; j < kSide; ++j) sums[i][j] += Load(left[i][step]) * Load(right[j][step]);
      }
    }
  }
};

// Accumulates the steps of one thread, starting at `step`.
template <typename Tile, typename Left, typename Right, typename Value>
OW_INLINE void AddSmallSteps(const Left& left, const Right& right, int32_t row, int32_t column,
                             int32_t step, Value (&sums)[kSide][kSide]) {
  constexpr int kSteps = Tile::kSteps;
  SmallReader<Left, kSteps> x(left, row, step);
  SmallReader<Right, kSteps> y(right, column, step);
  SmallSteps<Left, Right, kSteps> now;
  const int32_t last = left.n_steps - kSide;
  bool is_whole = step <= last;
  const auto go_on = [&] {
    step += kSteps;
    x.Advance();
    y.Advance();
    is_whole = step <= last;
  };
  if constexpr (Tile::kReadsAhead) {
    SmallSteps<Left, Right, kSteps> next;
    const auto read_and_add = [&](auto& to, const auto& from) {
      go_on();
      if (is_whole) to.template Read<true>(x, y, step);
      from.AddTo(sums);
    };
    if (is_whole) now.template Read<true>(x, y, step);
    while (is_whole) {
      read_and_add(next, now);
      if (is_whole) read_and_add(now, next);
    }
  } else {
#pragma unroll 2
    while (is_whole) {
      now.template Read<true>(x, y, step);
      now.AddTo(sums);
      go_on();
    }
  }
  if (step < left.n_steps) {
    now.template Read<false>(x, y, step);
    now.AddTo(sums);
  }
}

// Computes one tile of left[row, step] * right[column, step], summed over steps. An epilogue
// converts sums to outputs:
//
//   struct Epilogue {
//     OW_INLINE Value Fetch(int32_t row, int32_t column) const;  // its other inputs, read early
//     OW_INLINE void Put(int32_t row, int32_t column, Value sum, Value fetched) const;
//   };
//
// `memory` is shared, SmallParts<Value, Tile>() long. All threads of the block participate.
template <typename Tile, typename Value, typename Left, typename Right, typename Epilogue>
OW_INLINE void MultiplySmall(const Left& left, const Right& right, uint32_t tile,
                             const Epilogue& epilogue, SmallPart<Value>* memory) {
  using Part = SmallPart<Value>;
  constexpr int kPerPart = 16 / sizeof(Value);
  static_assert(Tile::kPitch % kPerPart == 0, "vectors are written to each line of sums");
  auto* const parts = reinterpret_cast<Value*>(memory);
  const int thread = static_cast<int>(threadIdx.x);
  const uint32_t n_columns = static_cast<uint32_t>(right.NRows() + Tile::kColumns - 1) /
                             static_cast<uint32_t>(Tile::kColumns);
  const auto first_row = static_cast<int32_t>(tile / n_columns) * Tile::kRows;
  const auto first_column = static_cast<int32_t>(tile % n_columns) * Tile::kColumns;

  const auto row_of = [&](int i) {
    return first_row + (thread / Tile::kAdders + i * Tile::kThreads) / Tile::kColumns;
  };
  const int32_t made_column = first_column + thread / Tile::kAdders % Tile::kColumns;
  Value fetched[Tile::kEach];
#pragma unroll
  for (int i = 0; i < Tile::kEach; ++i) {
    const bool is_there = row_of(i) < left.NRows() && made_column < right.NRows();
    fetched[i] = is_there ? epilogue.Fetch(row_of(i), made_column) : Value(0);
  }

  const int column = thread % Tile::kColumnLanes * kSide;
  const int row = thread / Tile::kColumnLanes % Tile::kRowLanes * kSide;
  const int part = thread / (Tile::kColumnLanes * Tile::kRowLanes);
  Value sums[kSide][kSide] = {};
  AddSmallSteps<Tile>(left, right, first_row + row, first_column + column, part * kSide, sums);
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
#pragma unroll
    for (int j = 0; j < kSide; j += kPerPart) {
      Part four;
#pragma unroll
      for (int k = 0; k < kPerPart; ++k) four.at[k] = sums[i][j + k];
      const int place = part * Tile::kPitch + (row + i) * Tile::kColumns + column + j;
      *reinterpret_cast<Part*>(parts + place) = four;
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < Tile::kEach; ++i) {
    const int place = thread / Tile::kAdders + i * Tile::kThreads;
    Value total = Value(0);
#pragma unroll
    for (int j = 0; j < Tile::kParts; j += Tile::kAdders) {
      total += parts[(j + thread % Tile::kAdders) * Tile::kPitch + place];
    }
    total = WarpReduce<Tile::kAdders>(total, SumOf<Value>());
    const bool is_first = thread % Tile::kAdders == 0;
    if (is_first && row_of(i) < left.NRows() && made_column < right.NRows()) {
      epilogue.Put(row_of(i), made_column, total, fetched[i]);
    }
  }
}

// Writes function(sum + bias); the bias may be null.
template <typename T, template <typename> class Function>
struct BiasedActivation {
  T* out;
  const T* bias;
  int32_t n_columns;
  using Value = Compute<T>;

  OW_INLINE Value Fetch(int32_t, int32_t column) const {
    return bias == nullptr ? Value(0) : Load(bias[column]);
  }
  OW_INLINE void Put(int32_t row, int32_t column, Value sum, Value fetched) const {
    out[row * n_columns + column] = Store<T>(Function<Value>()(sum + fetched));
  }
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_SMALL_PRODUCTS_H_
