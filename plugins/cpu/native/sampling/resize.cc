// resize and its gradient. Axis by axis, each output element is a weighted sum of input elements.
#include <algorithm>
#include <vector>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "sampling/axis_taps.h"

namespace opwright_cpu {
namespace {

template <typename T>
OPWRIGHT_CPU_CLONES void AddScaled(int64_t n, const T* x, T share, T* sums) {
  for (int64_t i = 0; i < n; ++i) sums[i] += x[i] * share;
}

// One axis of an array [outer, size, inner].
struct AxisPass {
  int64_t outer;
  int64_t size;
  int64_t inner;
  AxisTaps axis;

  int64_t numel() const { return outer * axis.count() * inner; }

  template <typename T>
  void Run(int32_t n_threads, const T* x, T* out) const {
    const int64_t count = axis.count();
    const int64_t work = inner * (1 + static_cast<int64_t>(axis.taps.size()) / count);
    const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, work));
    ParallelFor(n_threads, outer * count, grain, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const auto i = static_cast<size_t>(row % count);
        const T* from = x + row / count * size * inner;
        const Tap* tap = axis.taps.data() + axis.begins[i];
        const Tap* const last = axis.taps.data() + axis.begins[i + 1];
        if (inner == 1) {
          T sum = 0;
          for (; tap < last; ++tap) sum += from[tap->place] * static_cast<T>(tap->share);
          out[row] = sum;
          continue;
        }
        T* const sums = out + row * inner;
        std::fill_n(sums, inner, T(0));
        for (; tap < last; ++tap) {
          AddScaled<T>(inner, from + tap->place * inner, static_cast<T>(tap->share), sums);
        }
      }
    });
  }
};

// Runs one pass per resized axis, in order or, for the gradient, in reverse order.
template <typename T, bool kGradient>
struct Resize {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const ResizeAttrs& attrs) {
    if (!ctx.has_output(0)) return opwright::Status::Ok();
    const opwright::Shape shape = kGradient ? ctx.output(0).shape() : ctx.input(0).shape();
    const size_t n_axes = attrs.output_size.size();
    const size_t kept = shape.dims().size() - n_axes;
    std::vector<int64_t> dims = kGradient ? ctx.input(1).shape().dims() : shape.dims();
    for (size_t k = 0; k < n_axes; ++k) {
      const size_t at = kept + (kGradient ? n_axes - 1 - k : k);
      const double scale = attrs.scales.empty() ? 0 : attrs.scales[at - kept];
      const int64_t size = shape.dims()[at];
      const double* part = attrs.crop.empty() ? nullptr : attrs.crop.data() + 2 * (at - kept);
      AxisPass pass{1, dims[at], 1, TapsOf(size, attrs.output_size[at - kept], scale, part, attrs)};
      if (kGradient) pass.axis = pass.axis.Transposed(size);
      for (size_t d = 0; d < at; ++d) pass.outer *= dims[d];
      for (size_t d = at + 1; d < dims.size(); ++d) pass.inner *= dims[d];
      dims[at] = pass.axis.count();
      passes_.push_back(std::move(pass));
    }
    int64_t estimate = 100;
    for (const AxisPass& pass : passes_) {
      if (&pass != &passes_.back()) between_ = std::max(between_, pass.numel());
      estimate += pass.numel() * (1 + static_cast<int64_t>(pass.axis.taps.size())) / 4 /
                  std::max<int64_t>(1, pass.axis.count());
    }
    ctx.SetWorkspace(2 * static_cast<uint64_t>(between_) * sizeof(T));
    ctx.SetEstimate(static_cast<uint64_t>(estimate / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const ResizeAttrs&) const {
    if (!ctx.has_output(0)) return opwright::Status::Ok();
    const T* from = ctx.input(kGradient ? 1 : 0).template data<T>();
    T* const work = ctx.workspace<T>();
    for (size_t k = 0; k < passes_.size(); ++k) {
      const bool is_last = k + 1 == passes_.size();
      T* const to = is_last ? ctx.output(0).template data<T>() : work + (k % 2 == 0 ? 0 : between_);
      passes_[k].Run(ctx.n_threads(), from, to);
      from = to;
    }
    return opwright::Status::Ok();
  }

 private:
  std::vector<AxisPass> passes_;
  int64_t between_ = 0;  // maximum number of elements after any pass except the last
};

template <typename T>
struct ResizeKernel : Resize<T, false> {};
// Slots: x (its shape only), out_grad -> x_grad?.
template <typename T>
struct ResizeGradKernel : Resize<T, true> {};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("resize", opwright_cpu::ResizeKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("resize_grad", opwright_cpu::ResizeGradKernel);
