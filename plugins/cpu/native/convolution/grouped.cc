#include "convolution/grouped.h"

#include <algorithm>
#include <cstring>

#include "common/clones.h"
#include "common/parallel.h"
#include "convolution/attributes.h"
#include "convolution/columns.h"
#include "convolution/grouped_tiles.h"

namespace opwright_cpu {
namespace {

// Copies units of a row from [columns, channels] to [units, width, unit], shifted right by `left`
// columns.
template <int64_t kUnit>
OPWRIGHT_CPU_CLONES void CopyUnitsOf(const float* row, int64_t columns, int64_t channels,
                                     int64_t n_units, int64_t width, int64_t left, float* to) {
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t u = 0; u < n_units; ++u) {
      std::memcpy(to + (u * width + left + column) * kUnit, row + column * channels + u * kUnit,
                  kUnit * sizeof(float));
    }
  }
}

// A unit has 8, 16 or 32 channels; copies of constant size are inlined.
void CopyUnits(const float* row, int64_t columns, int64_t channels, int64_t unit, int64_t n_units,
               int64_t width, int64_t left, float* to) {
  switch (unit) {
    case 8:
      return CopyUnitsOf<8>(row, columns, channels, n_units, width, left, to);
    case 16:
      return CopyUnitsOf<16>(row, columns, channels, n_units, width, left, to);
    default:
      return CopyUnitsOf<32>(row, columns, channels, n_units, width, left, to);
  }
}

uint64_t FloatBytes(int64_t n) { return (static_cast<uint64_t>(n) * sizeof(float) + 63) / 64 * 64; }

}  // namespace

bool IsGroupedByFew(const opwright::Shape& x, const opwright::Shape& weight,
                    const ConvolutionAttrs& attrs) {
  const int64_t group = weight.dim(1);
  if (x.rank() != 4 || attrs.data_format != "NHWC" || attrs.groups == 1) return false;
  // With larger paddings, the zeros around an image would need more memory than the image.
  for (size_t i = 0; i < attrs.paddings.size(); ++i) {
    const int64_t kernel = weight.dim(static_cast<int32_t>(2 + i / 2));
    if (attrs.dilations[i / 2] != 1 || attrs.paddings[i] >= kernel) return false;
  }
  if (group != 2 && group != 4 && group != 8 && group != 16 && group != 32) {
    return false;
  }
  return weight.dim(0) == x.dim(3) && weight.dim(0) % kGroupedLanes == 0 &&
         weight.dim(2) <= kMostGroupedTaps && weight.dim(2) * weight.dim(3) > 1;
}

void GroupedConvolution::Make(const opwright::Shape& x, const opwright::Shape& weight,
                              const opwright::Shape& out, const ConvolutionAttrs& attrs,
                              int32_t n_threads) {
  at_ = ImageWindows(x, weight, out, attrs);
  n_ = x.dim(0);
  group_ = weight.dim(1);
  unit_ = std::max(group_, kGroupedLanes);
  n_units_ = weight.dim(0) / unit_;
  constexpr int64_t kGrain = 1 << 17;  // multiplications that justify another thread
  const int64_t work = n_ * at_.out.pixels() * weight.numel();
  n_threads_ = static_cast<int32_t>(
      std::clamp<int64_t>(work / kGrain, 1, std::min<int64_t>(n_threads, n_ * n_units_)));
  // If the number of images is not a multiple of the number of threads, channels are divided, too.
  const bool are_shared = n_ % n_threads_ != 0;
  units_at_once_ = are_shared ? (n_units_ + n_threads_ - 1) / n_threads_ : n_units_;
  MakeSweep(false, &forward_);
  MakeSweep(true, &backward_);
}

void GroupedConvolution::MakeSweep(bool is_backward, GroupedSweep* sweep) const {
  const int64_t stride = at_.strides[2], dilation = at_.dilations[2], before = at_.before[2];
  sweep->is_backward = is_backward;
  sweep->from = is_backward ? at_.out : at_.x;
  sweep->to = is_backward ? at_.x : at_.out;
  sweep->from_step = is_backward ? 1 : stride;
  sweep->to_step = is_backward ? stride : 1;
  const int64_t span = (at_.kernel[1] - 1) * at_.dilations[1];
  sweep->n_rows = (is_backward ? span / at_.strides[1] : span) + 1;
  int64_t right = 0;
  for (int64_t first = 0; first < std::min(sweep->to_step, sweep->to.sizes[2]); ++first) {
    GroupedPhase phase{
        first, (sweep->to.sizes[2] - first + sweep->to_step - 1) / sweep->to_step, {}};
    for (int64_t tap = 0; tap < at_.kernel[2]; ++tap) {
      int64_t shift = tap * dilation - before;
      if (is_backward) {
        if ((first - shift) % stride != 0) continue;
        shift = (first - shift) / stride;
      }
      phase.taps.push_back({shift, tap});
      const int64_t last = shift + (phase.count - 1) * sweep->from_step;
      sweep->left = std::max(sweep->left, -shift);
      right = std::max(right, last - (sweep->from.sizes[2] - 1));
    }
    sweep->phases.push_back(std::move(phase));
  }
  sweep->width = sweep->left + sweep->from.sizes[2] + right;
}

int64_t GroupedConvolution::SourceRow(const GroupedSweep& sweep, int64_t row, int64_t tap) const {
  const int64_t stride = at_.strides[1], shift = tap * at_.dilations[1] - at_.before[1];
  int64_t source = row * stride + shift;
  if (sweep.is_backward) {
    if ((row - shift) % stride != 0) return -1;
    source = (row - shift) / stride;
  }
  return source >= 0 && source < sweep.from.sizes[1] ? source : -1;
}

uint64_t GroupedConvolution::packed_bytes() const {
  return FloatBytes(n_units_ * unit_ * group_ * at_.taps());
}

void GroupedConvolution::Pack(const float* weight, void* packed) const {
  PackFor(false, weight, static_cast<float*>(packed));
}

// Calls function(index in [filters, group, taps], index in [units, taps, unit / 8, group, 8]) for
// each weight element. A lane is a filter, or an input channel in the backward pass.
template <typename Function>
void GroupedConvolution::OverWeights(bool is_backward, const Function& function) const {
  const int64_t n_taps = at_.taps(), blocks = unit_ / kGroupedLanes;
  for (int64_t channel = 0; channel < n_units_ * unit_; ++channel) {
    const int64_t unit = channel / unit_, block = channel % unit_ / kGroupedLanes;
    const int64_t first = channel / group_ * group_, within = channel % group_;
    for (int64_t i = 0; i < group_; ++i) {
      const int64_t plain = is_backward ? (first + i) * group_ + within : channel * group_ + i;
      for (int64_t tap = 0; tap < n_taps; ++tap) {
        const int64_t row = ((unit * n_taps + tap) * blocks + block) * group_ + i;
        function(plain * n_taps + tap, row * kGroupedLanes + channel % kGroupedLanes);
      }
    }
  }
}

void GroupedConvolution::PackFor(bool is_backward, const float* weight, float* packed) const {
  OverWeights(is_backward, [&](int64_t plain, int64_t place) { packed[place] = weight[plain]; });
}

uint64_t GroupedConvolution::BytesOf(const GroupedSweep& sweep) const {
  return FloatBytes(sweep.n_rows * units_at_once_ * sweep.width * unit_) +
         FloatBytes(2 * sweep.n_rows);
}

// Calls function(row of `to`, loaded rows) for each row of an image.
template <typename Function>
void GroupedConvolution::OverRows(const GroupedSweep& sweep, const float* from, int64_t first_unit,
                                  int64_t n_units, char* scratch, const Function& function) const {
  auto* rows = reinterpret_cast<float*>(scratch);
  const int64_t size = n_units * sweep.width * unit_;
  auto* held = reinterpret_cast<int64_t*>(
      scratch + FloatBytes(sweep.n_rows * units_at_once_ * sweep.width * unit_));
  std::memset(rows, 0, static_cast<size_t>(sweep.n_rows * size) * sizeof(float));
  std::fill_n(held, sweep.n_rows, int64_t{-1});
  for (int64_t row = 0; row < sweep.to.sizes[1]; ++row) {
    RowsAtHand at_hand;
    for (int64_t tap = 0; tap < at_.kernel[1]; ++tap) {
      const int64_t source = SourceRow(sweep, row, tap);
      if (source < 0) continue;
      const int64_t slot = source % sweep.n_rows;
      if (held[slot] != source) {
        CopyUnits(from + source * sweep.from.row + first_unit * unit_, sweep.from.sizes[2],
                  sweep.from.channels, unit_, n_units, sweep.width, sweep.left, rows + slot * size);
        held[slot] = source;
      }
      at_hand.at[at_hand.n] = rows + slot * size;
      at_hand.tap[at_hand.n++] = tap;
    }
    function(row, at_hand);
  }
}

void GroupedConvolution::Run(const GroupedSweep& sweep, const float* from, const float* packed,
                             const GroupedEpilogue& epilogue, float* to, char* workspace) const {
  const int64_t parts = (n_units_ + units_at_once_ - 1) / units_at_once_;
  Parallel(n_threads_, [&](int32_t thread, int32_t threads) {
    char* scratch = workspace + Count(thread) * BytesOf(sweep);
    const Part own = PartOf(n_ * parts, 1, thread, threads);
    for (int64_t i = own.begin; i < own.end; ++i) {
      const int64_t image = i / parts, first = i % parts * units_at_once_;
      RowWork work{&sweep, {},    packed, epilogue,   nullptr,
                   unit_,  first, 0,      at_.taps(), at_.kernel[2]};
      work.n_units = std::min(units_at_once_, n_units_ - first);
      OverRows(sweep, from + image * sweep.from.size(), first, work.n_units, scratch,
               [&](int64_t row, const RowsAtHand& rows) {
                 const int64_t place = image * sweep.to.size() + row * sweep.to.row;
                 work.rows = rows;
                 work.to = to + place;
                 if (epilogue.residual != nullptr) {
                   work.epilogue.residual = epilogue.residual + place;
                 }
                 SumRow(group_, work);
               });
    }
  });
}

void GroupedConvolution::Forward(const float* x, const void* packed,
                                 const GroupedEpilogue& epilogue, float* out,
                                 char* workspace) const {
  Run(forward_, x, static_cast<const float*>(packed), epilogue, out, workspace);
}

uint64_t GroupedConvolution::gradient_bytes() const {
  const uint64_t threads = Count(n_threads_);
  return std::max(packed_bytes() + threads * BytesOf(backward_),
                  2 * packed_bytes() + threads * (BytesOf(forward_) + OutGradBytes()));
}

void GroupedConvolution::InputGradient(const float* out_grads, const float* weight, float* x_grad,
                                       char* workspace) const {
  auto* packed = reinterpret_cast<float*>(workspace);
  PackFor(true, weight, packed);
  Run(backward_, out_grads, packed, {}, x_grad, workspace + packed_bytes());
}

uint64_t GroupedConvolution::OutGradBytes() const {
  return FloatBytes(units_at_once_ * at_.out.sizes[2] * unit_);
}

// Adds the contributions of images to the sums of some units. `one` holds the sums of a single
// image, because a long sum in float loses precision.
void GroupedConvolution::SumOverImages(const float* x, const float* out_grads, Range units,
                                       float* sums, float* one, char* scratch) const {
  const int64_t n_units = units.end - units.begin, columns = at_.out.sizes[2];
  auto* at_hand = reinterpret_cast<float*>(scratch + BytesOf(forward_));
  const int64_t size = n_units * at_.taps() * unit_ * group_;
  std::fill_n(sums, size, 0.0f);
  OutGradsWork work{&forward_, {}, at_hand, one, unit_, n_units, at_.taps(), at_.kernel[2]};
  for (int64_t image = 0; image < n_; ++image) {
    std::fill_n(one, size, 0.0f);
    OverRows(forward_, x + image * at_.x.size(), units.begin, n_units, scratch,
             [&](int64_t row, const RowsAtHand& rows) {
               CopyUnits(
                   out_grads + image * at_.out.size() + row * at_.out.row + units.begin * unit_,
                   columns, at_.out.channels, unit_, n_units, columns, 0, at_hand);
               work.rows = rows;
               SumOutGrads(group_, work);
             });
    for (int64_t i = 0; i < size; ++i) sums[i] += one[i];
  }
}

void GroupedConvolution::WeightGradient(const float* x, const float* out_grads, float* weight_grad,
                                        float* bias_grad, char* workspace) const {
  if (bias_grad != nullptr) {
    std::fill_n(bias_grad, at_.out.channels, 0.0f);
    for (int64_t image = 0; image < n_; ++image) {
      SumPixels<float>(at_.out.pixels(), at_.out.channels, out_grads + image * at_.out.size(), 1,
                       bias_grad);
    }
  }
  if (weight_grad == nullptr) return;
  auto* sums = reinterpret_cast<float*>(workspace);
  auto* one = reinterpret_cast<float*>(workspace + packed_bytes());
  const uint64_t scratch_bytes = BytesOf(forward_) + OutGradBytes();
  const auto threads = static_cast<int32_t>(std::min<int64_t>(n_threads_, n_units_));
  Parallel(threads, [&](int32_t thread, int32_t n_threads) {
    const Part own = PartOf(n_units_, 1, thread, n_threads);
    const int64_t first = own.begin * at_.taps() * unit_ * group_;
    char* scratch = workspace + 2 * packed_bytes() + Count(thread) * scratch_bytes;
    SumOverImages(x, out_grads, {own.begin, own.end}, sums + first, one + first, scratch);
  });
  OverWeights(false, [&](int64_t plain, int64_t place) { weight_grad[plain] = sums[place]; });
}

}  // namespace opwright_cpu
