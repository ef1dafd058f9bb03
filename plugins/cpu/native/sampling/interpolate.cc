// interpolate, which resizes images to a given height and width, and its gradient.
#include <algorithm>
#include <cstring>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "pooling/windows.h"
#include "sampling/attributes.h"

namespace opwright_cpu {
namespace {

// The two elements around an output position, and the weight of the second element.
struct Between {
  int64_t first;
  int64_t second;
  double share;
};

std::vector<Between> PlacesOf(int64_t size, int64_t count, const InterpolateAttrs& attrs) {
  std::vector<Between> places;
  for (int64_t i = 0; i < count; ++i) {
    if (attrs.mode == "nearest") {
      const int64_t at = i * size / count;
      places.push_back({at, at, 0.0});
      continue;
    }
    // The position is a fraction of integers, so nothing is rounded before the weight is computed.
    const bool align = attrs.align_corners;
    const int64_t over = align ? i * (size - 1) : std::max<int64_t>((2 * i + 1) * size - count, 0);
    const int64_t under = align ? std::max<int64_t>(count - 1, 1) : 2 * count;
    const int64_t first = over / under;
    const double share = static_cast<double>(over % under) / static_cast<double>(under);
    // Elements of weight 0 are not read, because they may be NaN.
    places.push_back({first, over % under == 0 ? first : std::min(first + 1, size - 1), share});
  }
  return places;
}

template <typename T>
OPWRIGHT_CPU_CLONES void Mix(int64_t n, const T* a, const T* b, T share, T* out) {
  const T rest = 1 - share;
  if (share == 0) {
    std::copy_n(a, n, out);
    return;
  }
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] * rest + b[i] * share;
}

template <typename T>
OPWRIGHT_CPU_CLONES void AddShare(int64_t n, const T* x, T share, T* sums) {
  for (int64_t i = 0; i < n; ++i) sums[i] += x[i] * share;
}

struct InterpolateShape {
  ImageSizes x;
  ImageSizes out;
  std::vector<Between> rows;
  std::vector<Between> columns;
  bool is_nearest = false;

  void Make(const opwright::Shape& x_shape, const opwright::Shape& out_shape,
            const InterpolateAttrs& attrs) {
    x = ImageSizes::Of(x_shape, attrs.data_format);
    out = ImageSizes::Of(out_shape, attrs.data_format);
    rows = PlacesOf(x.height, out.height, attrs);
    columns = PlacesOf(x.width, out.width, attrs);
    is_nearest = attrs.mode == "nearest";
  }
  uint64_t RowBytes(uint64_t item_bytes) const {
    return (static_cast<uint64_t>(x.row()) * item_bytes + 63) / 64 * 64;
  }
};

template <typename T>
struct InterpolateKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "onednn"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const InterpolateAttrs& attrs) {
    shape_.Make(ctx.input(0).shape(), ctx.output(0).shape(), attrs);
    ctx.SetWorkspace(shape_.RowBytes(sizeof(T)) * static_cast<uint64_t>(ctx.n_threads()));
    ctx.SetEstimate(100 + static_cast<uint64_t>(ctx.output(0).numel() / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const InterpolateAttrs&) const {
    const T* x = ctx.input(0).data<T>();
    T* out = ctx.output(0).data<T>();
    const int64_t height = shape_.out.height, n_rows = shape_.out.planes * height;
    const int64_t most = n_rows * std::max<int64_t>(shape_.out.row(), 1) / kElementGrain + 1;
    const auto count = static_cast<int32_t>(std::min<int64_t>(ctx.n_threads(), most));
    Parallel(count, [&](int32_t thread, int32_t n_threads) {
      const Part part = PartOf(n_rows, 1, thread, n_threads);
      char* own =
          ctx.workspace<char>() + shape_.RowBytes(sizeof(T)) * static_cast<uint64_t>(thread);
      for (int64_t row = part.begin; row < part.end; ++row) {
        FillRow(row % height, x + row / height * shape_.x.plane(), reinterpret_cast<T*>(own),
                out + row * shape_.out.row());
      }
    });
    return opwright::Status::Ok();
  }

 private:
  void FillRow(int64_t row, const T* plane, T* mixed, T* out) const {
    const Between& at = shape_.rows[static_cast<size_t>(row)];
    const int64_t run = shape_.x.run, length = shape_.x.row();
    const T* from = plane + at.first * length;
    if (!shape_.is_nearest) {
      Mix<T>(length, from, plane + at.second * length, static_cast<T>(at.share), mixed);
      from = mixed;
    }
    for (int64_t j = 0; j < shape_.out.width; ++j) {
      const Between& column = shape_.columns[static_cast<size_t>(j)];
      const T* first = from + column.first * run;
      if (shape_.is_nearest && run == 1) {
        out[j] = *first;
      } else if (shape_.is_nearest) {
        std::copy_n(first, run, out + j * run);
      } else if (run == 1) {
        const T share = static_cast<T>(column.share);
        out[j] = share == 0 ? *first : *first * (1 - share) + from[column.second] * share;
      } else {
        Mix<T>(run, first, from + column.second * run, static_cast<T>(column.share), out + j * run);
      }
    }
  }

  InterpolateShape shape_;
};

// Slots: x (its shape only), out_grad -> x_grad?.
template <typename T>
struct InterpolateGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "onednn"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const InterpolateAttrs& attrs) {
    if (!ctx.has_output(0)) return opwright::Status::Ok();
    shape_.Make(ctx.output(0).shape(), ctx.input(1).shape(), attrs);
    ctx.SetWorkspace(shape_.RowBytes(sizeof(T)) * static_cast<uint64_t>(ctx.n_threads()));
    ctx.SetEstimate(100 + static_cast<uint64_t>(ctx.input(1).numel() / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const InterpolateAttrs&) const {
    if (!ctx.has_output(0)) return opwright::Status::Ok();
    const T* grad = ctx.input(1).data<T>();
    T* x_grad = ctx.output(0).data<T>();
    const int64_t planes = shape_.x.planes, work = shape_.x.plane() + shape_.out.plane();
    const int64_t most = planes * std::max<int64_t>(work, 1) / kElementGrain + 1;
    const auto count = static_cast<int32_t>(std::min<int64_t>(ctx.n_threads(), most));
    Parallel(count, [&](int32_t thread, int32_t n_threads) {
      const Part part = PartOf(planes, 1, thread, n_threads);
      char* own =
          ctx.workspace<char>() + shape_.RowBytes(sizeof(T)) * static_cast<uint64_t>(thread);
      for (int64_t plane = part.begin; plane < part.end; ++plane) {
        SpreadPlane(grad + plane * shape_.out.plane(), reinterpret_cast<T*>(own),
                    x_grad + plane * shape_.x.plane());
      }
    });
    return opwright::Status::Ok();
  }

 private:
  void SpreadPlane(const T* grad, T* sums, T* x_grad) const {
    const int64_t length = shape_.x.row();
    std::fill_n(x_grad, shape_.x.plane(), T(0));
    for (int64_t row = 0; row < shape_.out.height; ++row) {
      const Between& at = shape_.rows[static_cast<size_t>(row)];
      std::fill_n(sums, length, T(0));
      SpreadRow(grad + row * shape_.out.row(), sums);
      const T share = static_cast<T>(at.share);
      AddShare<T>(length, sums, 1 - share, x_grad + at.first * length);
      if (share != 0) AddShare<T>(length, sums, share, x_grad + at.second * length);
    }
  }

  void SpreadRow(const T* grad, T* sums) const {
    const int64_t run = shape_.x.run;
    for (int64_t j = 0; j < shape_.out.width; ++j) {
      const Between& column = shape_.columns[static_cast<size_t>(j)];
      const T share = static_cast<T>(column.share);
      for (int64_t c = 0; c < run; ++c) {
        const T out_grad = grad[j * run + c];
        sums[column.first * run + c] += out_grad * (1 - share);
        if (share != 0) sums[column.second * run + c] += out_grad * share;
      }
    }
  }

  InterpolateShape shape_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("interpolate", opwright_cpu::InterpolateKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("interpolate_grad", opwright_cpu::InterpolateGradKernel);
