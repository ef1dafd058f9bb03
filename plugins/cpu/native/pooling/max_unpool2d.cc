// max_unpool2d, the inverse of max pooling, writes elements to their positions. The gradient reads
// output gradients from these positions.
#include <algorithm>

#include "common/parallel.h"
#include "common/widened.h"
#include "pooling/attributes.h"
#include "pooling/places.h"
#include "pooling/windows.h"

namespace opwright_cpu {
namespace {

// Calls function(offset in the wide images, offset in the narrow images) for all elements of the
// narrow images. `index` holds pixel indices in the wide images.
template <typename Function>
opwright::Status OverPlaces(const opwright::RunContext& ctx, const ImageSizes& narrow,
                            const ImageSizes& wide, const int32_t* index,
                            const Function& function) {
  PlaceCheck check(wide.pixels());
  const int64_t work = std::max<int64_t>(narrow.plane(), 1);
  ParallelFor(ctx.n_threads(), narrow.planes, kElementGrain / work + 1, 1,
              [&](int64_t begin, int64_t end) {
                for (int64_t plane = begin; plane < end; ++plane) {
                  const int64_t first = plane * narrow.plane();
                  if (!check.Admits(index + first, narrow.plane())) return;
                  for (int64_t i = 0; i < narrow.plane(); ++i) {
                    const int64_t place = index[first + i] * narrow.run + i % narrow.run;
                    function(plane * wide.plane() + place, first + i);
                  }
                }
              });
  return check.ToStatus();
}

template <typename T>
struct MaxUnpool2dKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "onednn"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const AdaptivePoolAttrs& attrs) {
    x_ = ImageSizes::Of(ctx.input(0).shape(), attrs.data_format);
    out_ = ImageSizes::Of(ctx.output(0).shape(), attrs.data_format);
    ctx.SetEstimate(100 + static_cast<uint64_t>(ctx.output(0).numel() / 4 / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const AdaptivePoolAttrs&) const {
    const T* x = ctx.input(0).data<T>();
    T* out = ctx.output(0).data<T>();
    ParallelFor(ctx.n_threads(), ctx.output(0).numel(), kElementGrain, 16,
                [=](int64_t begin, int64_t end) { std::fill(out + begin, out + end, T(0)); });
    return OverPlaces(ctx, x_, out_, ctx.input(1).data<int32_t>(),
                      [=](int64_t place, int64_t i) { out[place] = x[i]; });
  }

 private:
  ImageSizes x_, out_;
};

// Slots: x (its shape only), index, out_grad -> x_grad?.
template <typename T>
struct MaxUnpool2dGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "onednn"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const AdaptivePoolAttrs& attrs) {
    x_ = ImageSizes::Of(ctx.input(1).shape(), attrs.data_format);
    out_ = ImageSizes::Of(ctx.input(2).shape(), attrs.data_format);
    ctx.SetEstimate(100 + static_cast<uint64_t>(ctx.input(1).numel() / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const AdaptivePoolAttrs&) const {
    if (!ctx.has_output(0)) return opwright::Status::Ok();
    const T* out_grad = ctx.input(2).data<T>();
    T* x_grad = ctx.output(0).data<T>();
    return OverPlaces(ctx, x_, out_, ctx.input(1).data<int32_t>(),
                      [=](int64_t place, int64_t i) { x_grad[i] = out_grad[place]; });
  }

 private:
  ImageSizes x_, out_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("max_unpool2d", opwright_cpu::MaxUnpool2dKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("max_unpool2d_grad", opwright_cpu::MaxUnpool2dGradKernel);
