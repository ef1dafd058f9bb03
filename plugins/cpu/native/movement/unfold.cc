// Copies windows of images to columns (im2col), and adds columns to images (col2im).
#include <algorithm>
#include <cstring>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "movement/attributes.h"

namespace opwright_cpu {
namespace {

// Images [planes, height, width], and the windows that slide over them.
struct UnfoldShape {
  int64_t planes = 0, area = 0;
  int64_t sizes[2] = {}, windows[2] = {}, kernel[2] = {}, strides[2] = {}, dilations[2] = {};
  int64_t before[2] = {};

  void Make(const opwright::Shape& images, const UnfoldAttrs& attrs) {
    planes = images.dim(0) * images.dim(1);
    for (int32_t i = 0; i < 2; ++i) {
      const auto at = static_cast<size_t>(i);
      sizes[i] = images.dim(2 + i);
      kernel[i] = attrs.kernel[at];
      strides[i] = attrs.strides[at];
      dilations[i] = attrs.dilations[at];
      before[i] = attrs.paddings[2 * at];
      const int64_t padded = sizes[i] + before[i] + attrs.paddings[2 * at + 1];
      windows[i] = (padded - (kernel[i] - 1) * dilations[i] - 1) / strides[i] + 1;
    }
    area = kernel[0] * kernel[1];
  }
  int64_t pixels() const { return sizes[0] * sizes[1]; }
  int64_t columns() const { return windows[0] * windows[1]; }

  // Returns the position that tap `tap` of the first window has along an axis.
  int64_t Shift(int64_t tap, int32_t axis) const { return tap * dilations[axis] - before[axis]; }

  // Returns the windows along an axis whose tap is inside the image.
  Part Inside(int64_t tap, int32_t axis) const {
    const int64_t shift = Shift(tap, axis), stride = strides[axis];
    const int64_t begin = shift < 0 ? (-shift + stride - 1) / stride : 0;
    const int64_t room = sizes[axis] - 1 - shift;
    const int64_t end = room < 0 ? 0 : std::min(windows[axis], room / stride + 1);
    return {std::min(begin, windows[axis]), std::max(end, std::min(begin, windows[axis]))};
  }
};

template <typename T>
void CopyEach(int64_t n, const T* from, int64_t stride, T* to) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
}

template <typename T>
OPWRIGHT_CPU_CLONES void AddEach(int64_t n, const T* from, T* to, int64_t stride) {
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] += from[i];
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i * stride] += from[i];
}

template <typename T>
struct UnfoldKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const UnfoldAttrs& attrs) {
    shape_.Make(ctx.input(0).shape(), attrs);
    ctx.SetEstimate(100 + static_cast<uint64_t>(ctx.output(0).numel() / 4 / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const UnfoldAttrs&) const {
    const T* x = ctx.input(0).data<T>();
    T* out = ctx.output(0).data<T>();
    const UnfoldShape& s = shape_;
    const int64_t rows = s.planes * s.area;
    const int64_t grain = kElementGrain / std::max<int64_t>(s.columns(), 1) + 1;
    ParallelFor(ctx.n_threads(), rows, grain, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        FillRow(x + row / s.area * s.pixels(), row % s.area, out + row * s.columns());
      }
    });
    return opwright::Status::Ok();
  }

 private:
  void FillRow(const T* plane, int64_t place, T* out) const {
    const UnfoldShape& s = shape_;
    const int64_t i = place / s.kernel[1], j = place % s.kernel[1], width = s.windows[1];
    const Part down = s.Inside(i, 0), over = s.Inside(j, 1);
    std::fill_n(out, down.begin * width, T(0));
    for (int64_t y = down.begin; y < down.end; ++y) {
      T* line = out + y * width;
      const T* row = plane + (y * s.strides[0] + s.Shift(i, 0)) * s.sizes[1] + s.Shift(j, 1);
      std::fill_n(line, over.begin, T(0));
      CopyEach<T>(over.end - over.begin, row + over.begin * s.strides[1], s.strides[1],
                  line + over.begin);
      std::fill_n(line + over.end, width - over.end, T(0));
    }
    std::fill_n(out + down.end * width, (s.windows[0] - down.end) * width, T(0));
  }

  UnfoldShape shape_;
};

template <typename T>
struct FoldKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const UnfoldAttrs& attrs) {
    shape_.Make(ctx.output(0).shape(), attrs);
    ctx.SetEstimate(100 + static_cast<uint64_t>(ctx.input(0).numel() / 2 / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const UnfoldAttrs&) const {
    const T* x = ctx.input(0).data<T>();
    T* out = ctx.output(0).data<T>();
    const UnfoldShape& s = shape_;
    const int64_t work = s.area * s.columns() + s.pixels();
    const int64_t grain = kElementGrain / std::max<int64_t>(work, 1) + 1;
    ParallelFor(ctx.n_threads(), s.planes, grain, 1, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        AddPlane(x + plane * s.area * s.columns(), out + plane * s.pixels());
      }
    });
    return opwright::Status::Ok();
  }

 private:
  void AddPlane(const T* columns, T* plane) const {
    const UnfoldShape& s = shape_;
    std::fill_n(plane, s.pixels(), T(0));
    for (int64_t place = 0; place < s.area; ++place, columns += s.columns()) {
      const int64_t i = place / s.kernel[1], j = place % s.kernel[1];
      const Part down = s.Inside(i, 0), over = s.Inside(j, 1);
      for (int64_t y = down.begin; y < down.end; ++y) {
        T* row = plane + (y * s.strides[0] + s.Shift(i, 0)) * s.sizes[1] + s.Shift(j, 1);
        AddEach<T>(over.end - over.begin, columns + y * s.windows[1] + over.begin,
                   row + over.begin * s.strides[1], s.strides[1]);
      }
    }
  }

  UnfoldShape shape_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("unfold", opwright_cpu::UnfoldKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("fold", opwright_cpu::FoldKernel);
