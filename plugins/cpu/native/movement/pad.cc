#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "common/widened.h"
#include "movement/attributes.h"
#include "movement/border.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

opwright::Status ReadMode(const PadAttrs& attrs, BorderMode* mode) {
  static const std::pair<const char*, BorderMode> kModes[] = {
      {"constant", BorderMode::kConstant},
      {"reflect", BorderMode::kReflect},
      {"edge", BorderMode::kEdge},
      {"wrap", BorderMode::kWrap},
  };
  for (const auto& [name, value] : kModes) {
    if (attrs.mode != name) continue;
    *mode = value;
    const auto& widths = attrs.paddings;
    if (value != BorderMode::kConstant && !widths.empty() &&
        *std::min_element(widths.begin(), widths.end()) < 0) {
      return opwright::Status::Refused("supports negative widths only for mode constant");
    }
    return opwright::Status::Ok();
  }
  return opwright::Status::Refused("does not support mode ", attrs.mode);
}

template <typename T>
uint64_t PatternOf(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

// Returns whether T can represent the value; otherwise, the conversion is undefined.
template <typename T>
bool Holds(double value) {
  if constexpr (std::is_floating_point_v<T>) {
    return true;
  } else {
    // 2^bits is exact in double, but the largest integer is not.
    const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
    return value > (std::is_signed_v<T> ? -end - 1 : -1) && value < end;
  }
}

std::vector<int64_t> Begins(const PadAttrs& attrs) {
  std::vector<int64_t> begins;
  for (size_t i = 0; i < attrs.paddings.size(); i += 2) begins.push_back(attrs.paddings[i]);
  return begins;
}

// A border with a constant value. Negative widths crop, so only a box of x is copied.
class ConstantBorder {
 public:
  ConstantBorder() = default;
  ConstantBorder(int64_t item_bytes, const std::vector<int64_t>& x,
                 const std::vector<int64_t>& begins, const std::vector<int64_t>& out,
                 uint64_t item) {
    const std::vector<int64_t> strides = CompactStrides(x);
    std::vector<int64_t> box;
    std::vector<int64_t> before;
    for (size_t i = 0; i < x.size(); ++i) {
      const int64_t first = std::max<int64_t>(-begins[i], 0);
      before.push_back(std::max<int64_t>(begins[i], 0));
      box.push_back(std::min(x[i] - first, out[i] - before[i]));
      offset_ += first * strides[i] * item_bytes;
    }
    border_ = Border(BorderMode::kConstant, item_bytes, box, before, out, item, strides);
  }
  int64_t bytes() const { return border_.bytes(); }
  void Run(const char* x, char* out, int32_t n_threads) const {
    border_.Run(x + offset_, out, n_threads);
  }

 private:
  Border border_;
  int64_t offset_ = 0;
};

template <typename T>
struct PadKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const PadAttrs& attrs) {
    BorderMode mode;
    OPWRIGHT_RETURN_IF_ERROR(ReadMode(attrs, &mode));
    uint64_t item = 0;
    if (mode == BorderMode::kConstant) {
      if constexpr (std::is_same_v<T, bool>) {
        item = attrs.value != 0;
      } else {
        if (!Holds<T>(attrs.value)) return opwright::Status::Refused("value exceeds the dtype");
        item = PatternOf(static_cast<T>(attrs.value));
      }
    }
    const std::vector<int64_t> x = ctx.input(0).shape().dims();
    const std::vector<int64_t> out = ctx.output(0).shape().dims();
    const int64_t item_bytes = ItemBytes(ctx.input(0).dtype());
    is_constant_ = mode == BorderMode::kConstant;
    if (is_constant_) {
      constant_ = ConstantBorder(item_bytes, x, Begins(attrs), out, item);
    } else {
      border_ = Border(mode, item_bytes, x, Begins(attrs), out, item, CompactStrides(x));
    }
    const int64_t bytes = is_constant_ ? constant_.bytes() : border_.bytes();
    ctx.SetEstimate(MoveNanoseconds(bytes, ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const PadAttrs&) const {
    const char* x = Bytes(ctx.input(0));
    char* out = MutableBytes(ctx.output(0));
    if (is_constant_) {
      constant_.Run(x, out, ctx.n_threads());
    } else {
      border_.Run(x, out, ctx.n_threads());
    }
    return opwright::Status::Ok();
  }
  bool is_constant_ = true;
  ConstantBorder constant_;
  Border border_;
};

// The inputs are x (its shape only) and out_grad; the output is x_grad. For a constant border,
// x_grad is out_grad padded by the negated widths. Otherwise, the gradient of an element is the sum
// over all positions of out_grad to which it was copied. Along each axis, these are its own
// position and positions in the border.
template <typename T>
struct PadGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const PadAttrs& attrs) {
    const std::vector<int64_t> shape = ctx.output(0).shape().dims();
    const std::vector<int64_t> whole = ctx.input(1).shape().dims();
    const std::vector<int64_t> begins = Begins(attrs);
    OPWRIGHT_RETURN_IF_ERROR(ReadMode(attrs, &mode_));
    numel_ = ctx.output(0).numel();
    ctx.SetEstimate(MoveNanoseconds(2 * numel_ * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    if (numel_ == 0) return opwright::Status::Ok();
    if (mode_ == BorderMode::kConstant) {
      std::vector<int64_t> cropped;
      for (const int64_t begin : begins) cropped.push_back(-begin);
      constant_ = ConstantBorder(sizeof(T), whole, cropped, shape, 0);
      return opwright::Status::Ok();
    }
    const std::vector<int64_t> strides = CompactStrides(whole);
    for (size_t i = 0; i < shape.size(); ++i) {
      AddShown(begins[i], shape[i], whole[i], strides[i]);
    }
    lengths_ = shape;
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const PadAttrs&) const {
    if (numel_ == 0) return opwright::Status::Ok();
    T* x_grad = ctx.output(0).data<T>();
    const T* grad = ctx.input(1).data<T>();
    if (mode_ == BorderMode::kConstant) {
      constant_.Run(Bytes(ctx.input(1)), MutableBytes(ctx.output(0)), ctx.n_threads());
      return opwright::Status::Ok();
    }
    const int64_t row = lengths_.empty() ? 1 : lengths_.back();
    ParallelFor(ctx.n_threads(), numel_ / row, kElementGrain / row + 1, 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) AddRows(grad, x_grad + i * row, i);
                });
    return opwright::Status::Ok();
  }

  // The positions of the elements of one axis in out_grad. Element i is at `center` + i * `stride`
  // and at the border offsets [first[i], first[i + 1]) of `offsets`.
  struct Shown {
    int64_t center;
    int64_t stride;
    std::vector<size_t> first;
    std::vector<int64_t> offsets;
  };

  void AddShown(int64_t begin, int64_t length, int64_t whole, int64_t stride) {
    Shown shown{begin * stride, stride, {0}, {}};
    for (int64_t i = 0; i < length; ++i) {
      if (mode_ == BorderMode::kEdge) {
        for (int64_t place = 0; i == 0 && place < begin; ++place) {
          shown.offsets.push_back(place * stride);
        }
        for (int64_t place = begin + length; i == length - 1 && place < whole; ++place) {
          shown.offsets.push_back(place * stride);
        }
      } else if (mode_ == BorderMode::kReflect) {
        const int64_t mirrored = begin + 2 * (length - 1) - i;
        if (i > 0 && i <= begin) shown.offsets.push_back((begin - i) * stride);
        if (i < length - 1 && mirrored < whole) shown.offsets.push_back(mirrored * stride);
      } else if (mode_ == BorderMode::kWrap) {
        for (int64_t place = (begin + i) % length; place < whole; place += length) {
          if (place != begin + i) shown.offsets.push_back(place * stride);
        }
      }
      shown.first.push_back(shown.offsets.size());
    }
    shown_.push_back(std::move(shown));
  }

  // Writes row `index` of x_grad: the sum of all rows of out_grad that correspond to copies of it.
  // Such rows are the combinations of positions along the outer axes.
  void AddRows(const T* grad, T* row, int64_t index) const {
    if (shown_.empty()) {
      *row = *grad;
      return;
    }
    std::fill_n(row, lengths_.back(), T{0});
    AddAxis(grad, row, index, shown_.size() - 1);
  }

  // Visits the axes from `axis` - 1 down to 0; `index` is the row index within them.
  void AddAxis(const T* grad, T* row, int64_t index, size_t axis) const {
    if (axis == 0) {
      AddRow(grad, row);
      return;
    }
    const Shown& shown = shown_[axis - 1];
    const int64_t place = index % lengths_[axis - 1];
    const int64_t rest = index / lengths_[axis - 1];
    AddAxis(grad + shown.center + place * shown.stride, row, rest, axis - 1);
    const auto element = static_cast<size_t>(place);
    for (size_t k = shown.first[element]; k < shown.first[element + 1]; ++k) {
      AddAxis(grad + shown.offsets[k], row, rest, axis - 1);
    }
  }

  void AddRow(const T* grad, T* row) const {
    const Shown& last = shown_.back();
    const int64_t n = lengths_.back();
    const T* center = grad + last.center;
    for (int64_t i = 0; i < n; ++i) row[i] += center[i];
    if (last.offsets.empty()) return;
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      for (size_t k = last.first[i]; k < last.first[i + 1]; ++k) row[i] += grad[last.offsets[k]];
    }
  }

  BorderMode mode_ = BorderMode::kConstant;
  int64_t numel_ = 0;
  ConstantBorder constant_;
  std::vector<int64_t> lengths_;
  std::vector<Shown> shown_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("pad", "cpu", opwright_cpu::PadKernel, float, double, int8_t, int16_t,
                             int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, bool);
OPWRIGHT_CPU_REGISTER_WIDENED("pad", opwright_cpu::PadKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("pad_grad", opwright_cpu::PadGradKernel);
