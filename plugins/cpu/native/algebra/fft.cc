// fft, ifft, fftn and ifftn: transforms of complex lines, axis by axis.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "algebra/attributes.h"
#include "algebra/line_batch.h"

namespace opwright_cpu {
namespace {

// Transforms complex numbers along one axis.
template <typename T>
struct AxisTransform {
  LineBatch<T> batch;
  LineTransform<T> transform;
  int64_t n = 1;
  T factor = 1;

  void Run(const opwright::RunContext& ctx, bool is_inverse, const T* x, T* out) const {
    const int64_t width = batch.width();
    const auto one = [&](int64_t first, int64_t count, Planes<T> planes, Planes<T> others) {
      int64_t starts[LineTransform<T>::kLanes];
      const Lines lines = batch.At(first, count, n, starts);
      ReadLines<T, 2>(lines, x, width, planes);
      if (is_inverse) planes = Swapped(planes);
      Planes<T> found = transform.Run(planes, others);
      if (is_inverse) found = Swapped(found);
      WriteLines<T, 2>(lines, found, width, factor, out);
    };
    batch.Run(ctx.n_threads(), ctx.workspace<T>(), one);
  }
};

template <typename T, bool kIsInverse>
struct PairsKernel {
  opwright::Status Prepare(opwright::PrepareContext& ctx, const std::vector<int64_t>& axes,
                           const std::string& norm) {
    const opwright::Shape shape = ctx.input(0).shape();
    const int64_t total = shape.numel() / 2;
    int64_t workspace = 0;
    double work = 0.0;
    for (const int64_t axis : axes) {
      const int64_t n = shape.dim(static_cast<int32_t>(axis));
      if (n == 0 || !LineTransform<T>::Takes(n)) {
        return opwright::Status::Refused("supports only prime factors up to 31, got length ", n);
      }
      int64_t inner = 1;
      for (auto i = static_cast<int32_t>(axis) + 1; i < shape.rank() - 1; ++i)
        inner *= shape.dim(i);
      const LineBatch<T> batch(total / n, inner, n);
      const double power = norm == "ortho" ? 0.5 : (norm == "backward") == kIsInverse ? 1.0 : 0.0;
      const auto factor = static_cast<T>(std::pow(static_cast<double>(n), -power));
      axes_.push_back({batch, LineTransform<T>(n, batch.width()), n, factor});
      workspace = std::max(workspace, batch.n_workers(ctx.n_threads()) * batch.worker_items());
      work += static_cast<double>(total) * (2.0 + std::log2(static_cast<double>(n)) / 4.0);
    }
    ctx.SetWorkspace(static_cast<uint64_t>(workspace) * sizeof(T));
    ctx.SetEstimate(100 + static_cast<uint64_t>(work / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  void Run(const opwright::RunContext& ctx) const {
    if (ctx.output(0).numel() == 0) return;
    const T* x = ctx.input(0).template data<T>();
    T* out = ctx.output(0).template data<T>();
    for (const AxisTransform<T>& axis : axes_) {
      axis.Run(ctx, kIsInverse, x, out);
      x = out;
    }
  }

  std::vector<AxisTransform<T>> axes_;
};

template <typename T, bool kIsInverse>
struct OneAxis {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const opwright::NoAttrs&) {
    return pairs_.Prepare(ctx, {ctx.input(0).shape().rank() - 2}, "backward");
  }
  opwright::Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&) const {
    pairs_.Run(ctx);
    return opwright::Status::Ok();
  }
  PairsKernel<T, kIsInverse> pairs_;
};

template <typename T, bool kIsInverse>
struct AllAxes {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const FftnAttrs& attrs) {
    const int64_t rank = ctx.input(0).shape().rank();
    std::vector<int64_t> axes;
    for (const int64_t axis : attrs.axis) axes.push_back(axis < 0 ? axis + rank : axis);
    for (int64_t i = 0; attrs.axis.empty() && i < rank - 1; ++i) axes.push_back(i);
    return pairs_.Prepare(ctx, axes, attrs.norm);
  }
  opwright::Status Run(const opwright::RunContext& ctx, const FftnAttrs&) const {
    pairs_.Run(ctx);
    return opwright::Status::Ok();
  }
  PairsKernel<T, kIsInverse> pairs_;
};

template <typename T>
using FftKernel = OneAxis<T, false>;
template <typename T>
using IfftKernel = OneAxis<T, true>;
template <typename T>
using FftnKernel = AllAxes<T, false>;
template <typename T>
using IfftnKernel = AllAxes<T, true>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("fft", "cpu", opwright_cpu::FftKernel, float, double);
OPWRIGHT_REGISTER_KERNEL_FOR("ifft", "cpu", opwright_cpu::IfftKernel, float, double);
OPWRIGHT_REGISTER_KERNEL_FOR("fftn", "cpu", opwright_cpu::FftnKernel, float, double);
OPWRIGHT_REGISTER_KERNEL_FOR("ifftn", "cpu", opwright_cpu::IfftnKernel, float, double);
