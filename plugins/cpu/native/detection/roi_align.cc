// roi_align: means of interpolated samples in the bins of boxes, and its gradient.
#include <algorithm>

#include "common/parallel.h"
#include "common/widened.h"
#include "detection/attributes.h"
#include "detection/regions.h"
#include "detection/roi_align_box.h"

namespace opwright_cpu {
namespace {

template <typename T>
struct RoiAlignKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "onednn"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const RoiAlignAttrs&) {
    shape_.Make(ctx.input(0).shape(), ctx.output(0).shape());
    ctx.SetWorkspace(Box<T>::Bytes(shape_) * static_cast<uint64_t>(ctx.n_threads()));
    ctx.SetEstimate(100 + 4 * static_cast<uint64_t>(ctx.output(0).numel() / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const RoiAlignAttrs& attrs) const {
    const T* x = ctx.input(0).data<T>();
    const T* rois = ctx.input(1).data<T>();
    const ImageNumbers images(ctx.input(2));
    OPWRIGHT_RETURN_IF_ERROR(images.Check(shape_.images));
    OPWRIGHT_RETURN_IF_ERROR(CheckRegions(rois, shape_.boxes, attrs.spatial_scale));
    T* out = ctx.output(0).data<T>();
    const int64_t n = shape_.boxes * shape_.channels;
    const int64_t most = n * shape_.bins() * 16 / kElementGrain + 1;
    Parallel(static_cast<int32_t>(std::min<int64_t>(ctx.n_threads(), most)),
             [&](int32_t thread, int32_t count) {
               const Part part = PartOf(n, 1, thread, count);
               Box<T> box(shape_, ctx.workspace<char>() +
                                      Box<T>::Bytes(shape_) * static_cast<uint64_t>(thread));
               for (int64_t at = part.begin; at < part.end; ++at) {
                 const int64_t roi = at / shape_.channels, channel = at % shape_.channels;
                 if (at == part.begin || channel == 0) box.Fill(rois + 4 * roi, attrs);
                 const int64_t plane = images[roi] * shape_.channels + channel;
                 box.Pool(x + plane * shape_.pixels(), out + at * shape_.bins());
               }
             });
    return opwright::Status::Ok();
  }

 private:
  RoiShape shape_;
};

// Slots: x (its shape only), rois, batch_index, out_grad -> x_grad?.
template <typename T>
struct RoiAlignGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "onednn"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const RoiAlignAttrs&) {
    shape_.Make(ctx.input(0).shape(), ctx.input(3).shape());
    ctx.SetWorkspace(Box<T>::Bytes(shape_) * static_cast<uint64_t>(ctx.n_threads()));
    ctx.SetEstimate(100 + 4 * static_cast<uint64_t>(ctx.input(3).numel() / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  // Each thread processes its own channels of all images, so gradients are added in box order.
  opwright::Status Run(const opwright::RunContext& ctx, const RoiAlignAttrs& attrs) const {
    if (!ctx.has_output(0)) return opwright::Status::Ok();
    const T* rois = ctx.input(1).data<T>();
    const ImageNumbers images(ctx.input(2));
    OPWRIGHT_RETURN_IF_ERROR(images.Check(shape_.images));
    OPWRIGHT_RETURN_IF_ERROR(CheckRegions(rois, shape_.boxes, attrs.spatial_scale));
    const T* grad = ctx.input(3).data<T>();
    T* x_grad = ctx.output(0).data<T>();
    const int64_t channels = shape_.channels, bins = shape_.bins();
    const int64_t work = shape_.images * shape_.pixels() + shape_.boxes * bins * 16;
    const int64_t most = std::min(channels, channels * work / kElementGrain + 1);
    Parallel(static_cast<int32_t>(std::min<int64_t>(ctx.n_threads(), most)),
             [&](int32_t thread, int32_t count) {
               const Part part = PartOf(channels, 1, thread, count);
               const int64_t length = (part.end - part.begin) * shape_.pixels();
               const auto first = [&](int64_t image) {
                 return x_grad + (image * channels + part.begin) * shape_.pixels();
               };
               for (int64_t i = 0; i < shape_.images; ++i) std::fill_n(first(i), length, T(0));
               Box<T> box(shape_, ctx.workspace<char>() +
                                      Box<T>::Bytes(shape_) * static_cast<uint64_t>(thread));
               for (int64_t roi = 0; roi < shape_.boxes; ++roi) {
                 box.Fill(rois + 4 * roi, attrs);
                 T* plane = first(images[roi]);
                 for (int64_t c = part.begin; c < part.end; ++c, plane += shape_.pixels()) {
                   box.Spread(grad + (roi * channels + c) * bins, plane);
                 }
               }
             });
    return opwright::Status::Ok();
  }

 private:
  RoiShape shape_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("roi_align", opwright_cpu::RoiAlignKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("roi_align_grad", opwright_cpu::RoiAlignGradKernel);
