// Tiled matrix products. 256 threads accumulate 4,096 sums, in a tile of 64 x 64 or a different
// shape, 16 steps of the inner dimension at a time. Each thread has 4 x 4 sums. Operands may be
// implicit matrices: a source returns the positions of row i and of step k, and their sum locates
// the element.
//
//   struct Source {
//     using Value = ...;                       // the type of the sums
//     bool goes_along_steps;                   // whether adjacent steps, rather than adjacent
//                                              // rows, are adjacent in memory
//     int64_t n_rows;
//     OW_INLINE Place Row(int64_t row) const;   // below n_rows
//     OW_INLINE Place Step(int64_t step) const;
//     OW_INLINE Value At(Place row, Place step) const;  // 0 if either is nowhere
//   };
#ifndef OPWRIGHT_CUDA_TILES_H_
#define OPWRIGHT_CUDA_TILES_H_

#include "kernel.h"

namespace opwright_cuda {

constexpr int kSteps = 16;     // steps of the inner dimension in shared memory
constexpr int kPerThread = 4;  // rows per thread, and columns per thread
constexpr int kProductThreads = 256;
constexpr int kTileSums = kProductThreads * kPerThread * kPerThread;

// Rows and columns of a tile.
template <int rows>
struct TileShape {
  static constexpr int kRows = rows;
  static constexpr int kColumns = kTileSums / rows;
};
using SquareTile = TileShape<64>;

// Returns the pitch: `rows` + 4, to reduce bank conflicts and keep 16-byte vectors aligned.
constexpr int PitchOf(int rows) { return rows + 4; }

// An offset in elements and, for sources with padding, a position in an image. d is 0 for images
// without a depth axis.
struct Place {
  int64_t offset;
  int32_t h;
  int32_t w;
  int32_t d;
};

// Returns a position that is outside every image, even after another position is added.
OW_INLINE Place Nowhere() { return {0, -(1 << 30), -(1 << 30), 0}; }
OW_INLINE Place Sum(Place a, Place b) {
  return {a.offset + b.offset, a.h + b.h, a.w + b.w, a.d + b.d};
}

// A matrix with strides in elements.
template <typename T, typename Sum>
struct MatrixSource {
  using Value = Sum;
  const T* data;
  int64_t row_stride;
  int64_t step_stride;
  bool goes_along_steps;
  int64_t n_rows;

  OW_INLINE Place Row(int64_t row) const { return {row * row_stride, 0, 0, 0}; }
  OW_INLINE Place Step(int64_t step) const { return {step * step_stride, 0, 0, 0}; }
  OW_INLINE Value At(Place row, Place step) const {
    const bool is_there = row.h + step.h >= 0;
    return is_there ? static_cast<Value>(Load(data[row.offset + step.offset])) : Value(0);
  }
};

// Loads `rows` of one side of a tile into shared memory, through registers.
template <typename Source, int rows>
class TileLoader {
 public:
  using Value = typename Source::Value;
  static constexpr int kCount = rows * kSteps / kProductThreads;  // elements per thread
  static constexpr int kPitch = PitchOf(rows);
  static constexpr int kSize = kSteps * kPitch;

  OW_INLINE TileLoader(const Source& source, int64_t first_row) : source_(source) {
    const int thread = static_cast<int>(threadIdx.x);
    row_ = source.goes_along_steps ? thread / kSteps : thread % rows;
    step_ = source.goes_along_steps ? thread % kSteps : thread / rows;
    row_distance_ = source.goes_along_steps ? kProductThreads / kSteps : 0;
    step_distance_ = source.goes_along_steps ? 0 : kProductThreads / rows;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int64_t row = first_row + row_ + i * row_distance_;
      places_[i] = row < source.n_rows ? source.Row(row) : Nowhere();
    }
  }

  OW_INLINE void Fetch(int64_t begin, int64_t end) {
    if (source_.goes_along_steps) {
      const Place step = StepAt(begin + step_, end);
#pragma unroll
      for (int i = 0; i < kCount; ++i) values_[i] = source_.At(places_[i], step);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        values_[i] = source_.At(places_[0], StepAt(begin + step_ + i * step_distance_, end));
      }
    }
  }

  OW_INLINE void Put(Value* tile) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      tile[(step_ + i * step_distance_) * kPitch + row_ + i * row_distance_] = values_[i];
    }
  }

 private:
  OW_INLINE Place StepAt(int64_t step, int64_t end) const {
    return step < end ? source_.Step(step) : Nowhere();
  }

  const Source& source_;
  int row_;
  int step_;
  int row_distance_;
  int step_distance_;
  Place places_[kCount];
  Value values_[kCount];
};

// The sums of one thread, for 4 rows starting at `row` and 4 columns starting at `column`.
template <typename Value, typename Shape>
struct TileSums {
  int row;
  int column;
  Value at[kPerThread][kPerThread];

  // Adjacent threads have adjacent rows or adjacent columns, whichever are adjacent in memory.
  OW_INLINE explicit TileSums(bool goes_along_rows) {
    const int n_fast = (goes_along_rows ? Shape::kRows : Shape::kColumns) / kPerThread;
    const int fast = static_cast<int>(threadIdx.x) % n_fast;
    const int slow = static_cast<int>(threadIdx.x) / n_fast;
    row = (goes_along_rows ? fast : slow) * kPerThread;
    column = (goes_along_rows ? slow : fast) * kPerThread;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
      for (int j = 0; j < kPerThread; ++j) at[i][j] = Value(0);
    }
  }

  OW_INLINE void Add(const Value* left, const Value* right) {
    constexpr int kWidth = 16 / sizeof(Value) < kPerThread ? 16 / sizeof(Value) : kPerThread;
    using Part = Vector<Value, kWidth>;
#pragma unroll 4
    for (int step = 0; step < kSteps; ++step) {
      Part rows[kPerThread / kWidth];
      Part columns[kPerThread / kWidth];
#pragma unroll
      for (int i = 0; i < kPerThread / kWidth; ++i) {
        rows[i] = reinterpret_cast<const Part*>(left + step * PitchOf(Shape::kRows) + row)[i];
        columns[i] =
            reinterpret_cast<const Part*>(right + step * PitchOf(Shape::kColumns) + column)[i];
      }
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
        for (int j = 0; j < kPerThread; ++j) {
          at[i][j] += rows[i / kWidth].at[i % kWidth] * columns[j / kWidth].at[j % kWidth];
        }
      }
    }
  }
};

// Adds the steps [begin, end) to the sums of the tile that begins at `row` and `column`. All
// threads of the block must participate.
template <typename Shape, typename Left, typename Right>
OW_INLINE void MultiplyTiles(const Left& left, const Right& right, int64_t row, int64_t column,
                             int64_t begin, int64_t end,
                             TileSums<typename Left::Value, Shape>* sums) {
  using Value = typename Left::Value;
  using Aligned = Vector<uint32_t, 4>;
  using LeftLoader = TileLoader<Left, Shape::kRows>;
  using RightLoader = TileLoader<Right, Shape::kColumns>;
  // One half of the shared memory is read for the products while the other half is filled.
  constexpr int kPerVector = sizeof(Aligned) / sizeof(Value);
  OW_SHARED(Aligned, left_memory, 2 * LeftLoader::kSize / kPerVector);
  OW_SHARED(Aligned, right_memory, 2 * RightLoader::kSize / kPerVector);
  auto* const left_tiles = reinterpret_cast<Value*>(left_memory);
  auto* const right_tiles = reinterpret_cast<Value*>(right_memory);
  LeftLoader left_loader(left, row);
  RightLoader right_loader(right, column);
  int half = 0;
  for (int64_t step = begin;; step += kSteps) {
    if (step < end) {
      left_loader.Fetch(step, end);
      right_loader.Fetch(step, end);
    }
    if (step > begin) {
      sums->Add(left_tiles + (1 - half) * LeftLoader::kSize,
                right_tiles + (1 - half) * RightLoader::kSize);
    }
    if (step >= end) break;
    left_loader.Put(left_tiles + half * LeftLoader::kSize);
    right_loader.Put(right_tiles + half * RightLoader::kSize);
    half = 1 - half;
    __syncthreads();
  }
}

// Stores the sums of a tile of a row-major matrix with `n_columns` columns, up to row `n_rows`.
template <typename T, typename Value, typename Shape>
OW_INLINE void StoreTile(T* out, int64_t first_row, int64_t n_rows, int64_t first_column,
                         int64_t n_columns, const TileSums<Value, Shape>& sums) {
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int64_t row = first_row + sums.row + i;
    if (row >= n_rows) break;
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int64_t column = first_column + sums.column + j;
      if (column >= n_columns) break;
      out[row * n_columns + column] = Store<T>(sums.at[i][j]);
    }
  }
}

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_TILES_H_
