// Rows of a convolution in groups of few channels.
#ifndef OPWRIGHT_CPU_CONVOLUTION_GROUPED_ROWS_H_
#define OPWRIGHT_CPU_CONVOLUTION_GROUPED_ROWS_H_

#include <cstdint>
#include <vector>

#include "convolution/image_windows.h"

namespace opwright_cpu {

constexpr int64_t kMostGroupedTaps = 8;  // along the height

// The operands of operations after the sums, in this order; NULL if absent.
struct GroupedEpilogue {
  const float* bias = nullptr;
  const float* scale = nullptr;     // of each channel
  const float* shift = nullptr;     // of each channel
  const float* residual = nullptr;  // as the output
  enum class Activation : uint8_t { kNone, kRelu, kRelu6 } activation = Activation::kNone;

  // The same with the arrays of channels from `channel` on; the residual stays.
  GroupedEpilogue From(int64_t channel) const {
    GroupedEpilogue moved = *this;
    if (moved.bias != nullptr) moved.bias += channel;
    if (moved.scale != nullptr) moved.scale += channel;
    if (moved.shift != nullptr) moved.shift += channel;
    return moved;
  }
};

// One way through the images: each position of `to` is a sum over taps of positions of `from`.
struct GroupedTap {
  int64_t shift;  // of the column that the first position of a phase reads
  int64_t index;
};
struct GroupedPhase {  // positions of a row that read the same taps
  int64_t first;
  int64_t count;
  std::vector<GroupedTap> taps;
};
struct GroupedSweep {
  ImageLayout from, to;
  bool is_backward = false;
  int64_t from_step = 1, to_step = 1;  // between positions of a phase, in columns
  int64_t left = 0, width = 0;         // of a row with zeros around it
  int64_t n_rows = 0;                  // that are loaded at once
  std::vector<GroupedPhase> phases;
};

// Rows in scratch memory, unit by unit, with zeros around them, and their taps.
struct RowsAtHand {
  const float* at[kMostGroupedTaps];
  int64_t tap[kMostGroupedTaps];
  int64_t n = 0;
};

// The inputs of one row. Units are blocks of channels with whole groups.
struct RowWork {
  const GroupedSweep* sweep;
  RowsAtHand rows;
  const float* packed;  // [units, taps, unit / 8, group, 8]
  GroupedEpilogue epilogue;
  float* to;  // the row
  int64_t unit, first_unit, n_units;
  int64_t taps, row_taps;  // of all, and of a row
};

// The gradient of the weight from one row of output
// gradients, which is in scratch memory unit by unit.
struct OutGradsWork {
  const GroupedSweep* sweep;
  RowsAtHand rows;
  const float* out_grads;
  float* sums;  // of the first loaded unit, laid out as the packed weight
  int64_t unit, n_units;
  int64_t taps, row_taps;
};

// For groups of 2, 4, 8, 16 or 32 channels.
void SumRow(int64_t group, const RowWork& work);
void SumOutGrads(int64_t group, const OutGradsWork& work);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CONVOLUTION_GROUPED_ROWS_H_
