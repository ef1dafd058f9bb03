// roi_pool: max pooling over the bins of boxes, and its gradient.
#include <opwright/functors.h>
#include <opwright/functors/regions.h>
#include <algorithm>
#include <cmath>

#include "common/parallel.h"
#include "common/widened.h"
#include "detection/attributes.h"
#include "detection/regions.h"

namespace opwright_cpu {
namespace {

using opwright::functors::PooledSpan;
using opwright::functors::PooledSpanOf;

// Returns the index of the greatest element of rows [top, bottom) and columns [left, right), or -1
// if the bin is empty. NaN is greater than all numbers; of equal elements, the first wins.
template <typename T>
int64_t PlaceOfMaximum(const T* plane, int64_t width, int64_t top, int64_t bottom, int64_t left,
                       int64_t right) {
  if (top >= bottom || left >= right) return -1;
  int64_t best = top * width + left;
  T greatest = plane[best];
  for (int64_t row = top; row < bottom; ++row) {
    for (int64_t at = row * width + left; at < row * width + right; ++at) {
      if (std::isnan(greatest)) return best;
      if (plane[at] > greatest || std::isnan(plane[at])) {
        best = at;
        greatest = plane[at];
      }
    }
  }
  return best;
}

template <typename T>
struct RoiPoolKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "onednn"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const RoiPoolAttrs&) {
    x_ = ctx.input(0).shape();
    out_ = ctx.output(0).shape();
    ctx.SetEstimate(100 + 4 * static_cast<uint64_t>(ctx.output(0).numel() / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const RoiPoolAttrs& attrs) const {
    const T* x = ctx.input(0).data<T>();
    const T* rois = ctx.input(1).data<T>();
    const ImageNumbers images(ctx.input(2));
    OPWRIGHT_RETURN_IF_ERROR(images.Check(x_.dim(0)));
    OPWRIGHT_RETURN_IF_ERROR(CheckRegions(rois, out_.dim(0), attrs.spatial_scale));
    T* out = ctx.output(0).data<T>();
    int32_t* index = ctx.output(1).data<int32_t>();
    const int64_t channels = x_.dim(1), pixels = x_.dim(2) * x_.dim(3);
    const int64_t bins = out_.dim(2) * out_.dim(3);
    const int64_t grain = kElementGrain / (8 * bins) + 1;
    ParallelFor(ctx.n_threads(), out_.dim(0) * channels, grain, 1, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t roi = at / channels;
        const T* plane = x + (images[roi] * channels + at % channels) * pixels;
        Pool(plane, rois + 4 * roi, attrs.spatial_scale, out + at * bins, index + at * bins);
      }
    });
    return opwright::Status::Ok();
  }

 private:
  void Pool(const T* plane, const T* roi, double scale, T* out, int32_t* index) const {
    const auto corner = [=](int i) { return static_cast<double>(roi[i]) * scale; };
    const int64_t height = x_.dim(2), width = x_.dim(3);
    const PooledSpan rows = PooledSpanOf(corner(1), corner(3), height, out_.dim(2));
    const PooledSpan columns = PooledSpanOf(corner(0), corner(2), width, out_.dim(3));
    for (int64_t i = 0; i < rows.bins; ++i) {
      for (int64_t j = 0; j < columns.bins; ++j) {
        const int64_t place = PlaceOfMaximum(plane, width, rows.Low(i), rows.High(i),
                                             columns.Low(j), columns.High(j));
        *out++ = place < 0 ? T(0) : plane[place];
        *index++ = static_cast<int32_t>(place);
      }
    }
  }

  opwright::Shape x_, out_;
};

// Slots: x and rois (their shapes only), batch_index, index, out_grad -> x_grad?.
template <typename T>
struct RoiPoolGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "onednn"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const RoiPoolAttrs&) {
    x_ = ctx.input(0).shape();
    out_ = ctx.input(3).shape();
    ctx.SetEstimate(100 + static_cast<uint64_t>(ctx.input(3).numel() / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  // Each thread processes its own channels of all images, so gradients are added in box order.
  opwright::Status Run(const opwright::RunContext& ctx, const RoiPoolAttrs&) const {
    if (!ctx.has_output(0)) return opwright::Status::Ok();
    const ImageNumbers images(ctx.input(2));
    OPWRIGHT_RETURN_IF_ERROR(images.Check(x_.dim(0)));
    const int32_t* index = ctx.input(3).data<int32_t>();
    const int64_t pixels = x_.dim(2) * x_.dim(3), bins = out_.dim(2) * out_.dim(3);
    for (int64_t i = 0; i < ctx.input(3).numel(); ++i) {
      if (index[i] >= -1 && index[i] < pixels) continue;
      return opwright::Status::Error("index must be in [-1, ", pixels, "), got ", index[i]);
    }
    const T* grad = ctx.input(4).data<T>();
    T* x_grad = ctx.output(0).data<T>();
    const int64_t channels = x_.dim(1);
    const int64_t work = x_.dim(0) * pixels + out_.dim(0) * bins + 1;
    ParallelFor(
        ctx.n_threads(), channels, kElementGrain / work + 1, 1, [&](int64_t begin, int64_t end) {
          for (int64_t image = 0; image < x_.dim(0); ++image) {
            std::fill_n(x_grad + (image * channels + begin) * pixels, (end - begin) * pixels, T(0));
          }
          for (int64_t roi = 0; roi < out_.dim(0); ++roi) {
            for (int64_t c = begin; c < end; ++c) {
              T* plane = x_grad + (images[roi] * channels + c) * pixels;
              const int64_t first = (roi * channels + c) * bins;
              for (int64_t i = first; i < first + bins; ++i) {
                if (index[i] >= 0) plane[index[i]] += grad[i];
              }
            }
          }
        });
    return opwright::Status::Ok();
  }

 private:
  opwright::Shape x_, out_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("roi_pool", opwright_cpu::RoiPoolKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("roi_pool_grad", opwright_cpu::RoiPoolGradKernel);
