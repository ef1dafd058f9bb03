// Computes individual rows of a grouped convolution with few channels per group.
#ifndef OPWRIGHT_CPU_CONVOLUTION_GROUPED_ROWS_H_
#define OPWRIGHT_CPU_CONVOLUTION_GROUPED_ROWS_H_

#include <cstdint>
#include <vector>

#include "convolution/image_windows.h"

namespace opwright_cpu {

constexpr int64_t kMostGroupedTaps = 8;  // maximum number of taps along the height

// The operands of the operations that follow the sums, in order of application; NULL if absent.
struct GroupedEpilogue {
  const float* bias = nullptr;
  const float* scale = nullptr;     // one factor per channel
  const float* shift = nullptr;     // one summand per channel
  const float* residual = nullptr;  // has the output's layout
  enum class Activation : uint8_t { kNone, kRelu, kRelu6 } activation = Activation::kNone;

  // Returns the operands with bias, scale and shift advanced to `channel`, but the same residual.
  GroupedEpilogue From(int64_t channel) const {
    GroupedEpilogue moved = *this;
    if (moved.bias != nullptr) moved.bias += channel;
    if (moved.scale != nullptr) moved.scale += channel;
    if (moved.shift != nullptr) moved.shift += channel;
    return moved;
  }
};

// One tap of a sweep. A sweep computes each position of `to` as a sum over taps of `from`.
struct GroupedTap {
  int64_t shift;  // column that the first position of a phase reads
  int64_t index;
};
struct GroupedPhase {  // the positions of a row that read the same taps
  int64_t first;
  int64_t count;
  std::vector<GroupedTap> taps;
};
struct GroupedSweep {
  ImageLayout from, to;
  bool is_backward = false;
  int64_t from_step = 1, to_step = 1;  // columns between positions of a phase
  int64_t left = 0, width = 0;         // left padding and padded width of a row
  int64_t n_rows = 0;                  // number of rows that are loaded at once
  std::vector<GroupedPhase> phases;
};

// Zero-padded rows in scratch memory, stored unit by unit, and their taps.
struct RowsAtHand {
  const float* at[kMostGroupedTaps];
  int64_t tap[kMostGroupedTaps];
  int64_t n = 0;
};

// The operands for one row. A unit is a block of channels that contains complete groups.
struct RowWork {
  const GroupedSweep* sweep;
  RowsAtHand rows;
  const float* packed;  // [units, taps, unit / 8, group, 8]
  GroupedEpilogue epilogue;
  float* to;  // the output row
  int64_t unit, first_unit, n_units;
  int64_t taps, row_taps;  // number of taps in total and per row
};

// The operands for adding one row of output gradients to the weight gradient. The row is stored in
// scratch memory unit by unit.
struct OutGradsWork {
  const GroupedSweep* sweep;
  RowsAtHand rows;
  const float* out_grads;
  float* sums;  // sums of the first loaded unit, in the layout of the packed weight
  int64_t unit, n_units;
  int64_t taps, row_taps;
};

// Computes one row, for groups of 2, 4, 8, 16 or 32 channels.
void SumRow(int64_t group, const RowWork& work);
void SumOutGrads(int64_t group, const OutGradsWork& work);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CONVOLUTION_GROUPED_ROWS_H_
