// One operand of a small product: the offsets of its rows and steps, and its reads into registers.
#ifndef OPWRIGHT_CUDA_SMALL_SIDES_H_
#define OPWRIGHT_CUDA_SMALL_SIDES_H_

#include "kernel.h"

namespace opwright_cuda {

constexpr int kSide = 4;  // rows, columns and steps per thread

// The rows and steps of a nonempty matrix in memory, read in vectors of `width`. `with_ones`
// appends a row of ones; the sums of this row are the column sums of the other operand.
template <typename T, bool along_steps, int width, bool with_ones = false>
struct SmallSide {
  using Element = T;
  static constexpr bool kAlongSteps = along_steps;
  static constexpr int kRowWidth = along_steps ? 1 : width;
  static constexpr int kStepWidth = along_steps ? width : 1;
  static constexpr bool kHasOnes = with_ones;
  const T* data;
  int32_t pitch;
  int32_t n_rows;
  int32_t n_steps;

  OW_INLINE int32_t NRows() const { return n_rows + (with_ones ? 1 : 0); }
  OW_INLINE Vector<T, width> At(int32_t place) const {
    return *reinterpret_cast<const Vector<T, width>*>(data + place);
  }
};

// Reads the rows of one thread, a few steps at a time. A missing row repeats the last row, so no
// read waits for a comparison. The sums of such a row are not stored.
template <typename Side, int stride>
class SmallReader {
 public:
  using T = typename Side::Element;

  OW_INLINE SmallReader(const Side& side, int32_t row, int32_t step) : side_(side), row_(row) {
    const int32_t last = side.n_rows - Side::kRowWidth;
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      const int32_t there = row + i < last ? row + i : last;
      rows_[i] = Side::kAlongSteps ? there * side.pitch + step : there + step * side.pitch;
    }
  }

  // Reads the steps starting at `step`. Unless `is_whole`, missing steps are read as 0.
  template <bool is_whole>
  OW_INLINE void Read(int32_t step, T (&at)[kSide][kSide]) const {
#pragma unroll
    for (int i = 0; i < kSide; i += Side::kRowWidth) {
#pragma unroll
      for (int j = 0; j < kSide; j += Side::kStepWidth) {
        decltype(side_.At(0)) part{};
        if (is_whole || step + j < side_.n_steps) {
          part = side_.At(rows_[i] + (Side::kAlongSteps ? j : j * side_.pitch));
        }
#pragma unroll
        for (int k = 0; k < Side::kRowWidth * Side::kStepWidth; ++k) {
          at[i + (Side::kAlongSteps ? 0 : k)][j + (Side::kAlongSteps ? k : 0)] = part.at[k];
        }
      }
    }
    if constexpr (Side::kHasOnes) ReadOnes<is_whole>(step, at);
  }

  OW_INLINE void Advance() {
#pragma unroll
    for (int i = 0; i < kSide; ++i) rows_[i] += Side::kAlongSteps ? stride : stride * side_.pitch;
  }

 private:
  template <bool is_whole>
  OW_INLINE void ReadOnes(int32_t step, T (&at)[kSide][kSide]) const {
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
#pragma unroll
      for (int j = 0; j < kSide; ++j) {
        const bool is_there = is_whole || step + j < side_.n_steps;
        if (row_ + i == side_.n_rows && is_there) at[i][j] = Store<T>(Compute<T>(1));
      }
    }
  }

  const Side& side_;
  int32_t row_;
  int32_t rows_[kSide];  // offset of the next step of each row
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_SMALL_SIDES_H_
