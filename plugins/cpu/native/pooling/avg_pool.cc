// Average pooling over sliding windows or a given number of bins, and the gradients.
#include <algorithm>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "pooling/attributes.h"
#include "pooling/windows.h"

namespace opwright_cpu {
namespace {

template <typename T>
OPWRIGHT_CPU_CLONES void AddInto(int64_t n, const T* x, T* sums) {
  for (int64_t i = 0; i < n; ++i) sums[i] += x[i];
}

// Adds consecutive rows of n elements, several at a time so that sums are written less often.
template <typename T>
OPWRIGHT_CPU_CLONES void AddRowsInto(int64_t rows, int64_t n, const T* x, T* sums) {
  constexpr int64_t kAtOnce = 4;
  int64_t row = 0;
  for (; row + kAtOnce <= rows; row += kAtOnce, x += kAtOnce * n) {
    for (int64_t i = 0; i < n; ++i) {
      sums[i] += (x[i] + x[n + i]) + (x[2 * n + i] + x[3 * n + i]);
    }
  }
  for (; row < rows; ++row, x += n) {
    for (int64_t i = 0; i < n; ++i) sums[i] += x[i];
  }
}

// Adds the rows that a window covers to `sums`.
template <typename T>
void AddWindowInto(const Window& window, int64_t n, const T* x, T* sums) {
  if (window.step == 1) {
    return AddRowsInto<T>(window.end - window.begin, n, x + window.begin * n, sums);
  }
  for (int64_t row = window.begin; row < window.end; row += window.step) {
    AddInto<T>(n, x + row * n, sums);
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void DivideInto(int64_t n, const T* x, T divisor, T* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] / divisor;
}

struct AveragePoolShape : PoolWindows {
  void Make(const opwright::Shape& x_shape, const opwright::Shape& out_shape,
            const AveragePoolAttrs& attrs) {
    PoolWindows::Make(x_shape, out_shape, attrs, attrs.count_include_pad);
    divisor = attrs.divisor;
  }
  using PoolWindows::Make;

  // Returns the divisor for the sum over a window.
  int64_t CountOf(const Window& slice, const Window& row, const Window& column) const {
    return divisor != 0 ? divisor : slice.count * row.count * column.count;
  }

  // The workspace has one row of sums per thread.
  uint64_t WorkspaceBytes(uint64_t item_bytes, int32_t n_threads) const {
    return RowBytes(item_bytes) * static_cast<uint64_t>(n_threads);
  }
  uint64_t RowBytes(uint64_t item_bytes) const {
    return (static_cast<uint64_t>(x.row()) * item_bytes + 63) / 64 * 64;
  }

  int64_t divisor = 0;  // 0 means the number of elements
};

// Calls function(row, sums) for all rows of all planes, in several threads if that pays off. `sums`
// is a buffer for one row.
template <typename Function>
void OverRows(const opwright::RunContext& ctx, int64_t n_rows, int64_t row_work, uint64_t row_bytes,
              const Function& function) {
  const int64_t most =
      std::max<int64_t>(1, n_rows * std::max<int64_t>(row_work, 1) / kElementGrain);
  const auto count = static_cast<int32_t>(std::min<int64_t>(ctx.n_threads(), most));
  char* workspace = ctx.workspace<char>();
  Parallel(count, [&](int32_t thread, int32_t n_threads) {
    const Part part = PartOf(n_rows, 1, thread, n_threads);
    char* sums = workspace + row_bytes * static_cast<uint64_t>(thread);
    for (int64_t row = part.begin; row < part.end; ++row) function(row, sums);
  });
}

// Sums down, then across, in kernel height + kernel width additions instead of their product.
template <typename T, typename Attrs>
struct AveragePool {
  static void Configure(opwright::KernelOptions& options) { options.library = "onednn"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs& attrs) {
    shape_.Make(ctx.input(0).shape(), ctx.output(0).shape(), attrs);
    for (const Window& row : shape_.rows) height_ = std::max(height_, row.size());
    ctx.SetWorkspace(shape_.WorkspaceBytes(sizeof(T), ctx.n_threads()));
    int64_t depth = 1;
    for (const Window& slice : shape_.slices) depth = std::max(depth, slice.size());
    height_ *= depth;
    const int64_t n_rows = shape_.out.planes * shape_.out_rows();
    ctx.SetEstimate(100 +
                    static_cast<uint64_t>(n_rows * height_ * shape_.x.row() / 4 / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const Attrs&) const {
    const T* x = ctx.input(0).data<T>();
    T* out = ctx.output(0).data<T>();
    const int64_t rows = shape_.out_rows();
    OverRows(ctx, shape_.out.planes * rows, height_ * shape_.x.row(), shape_.RowBytes(sizeof(T)),
             [&](int64_t row, char* sums) {
               PoolRow(row % rows, x + row / rows * shape_.x.plane(), reinterpret_cast<T*>(sums),
                       out + row * shape_.out.row());
             });
    return opwright::Status::Ok();
  }

 private:
  void PoolRow(int64_t row, const T* plane, T* sums, T* out) const {
    const int64_t run = shape_.x.run;
    const Window& slices = shape_.SliceOf(row);
    const Window& rows = shape_.RowOf(row);
    std::fill(sums, sums + shape_.x.row(), T(0));
    for (int64_t d = slices.begin; d < slices.end; d += slices.step) {
      AddWindowInto<T>(rows, shape_.x.row(), plane + d * shape_.x.slice(), sums);
    }
    for (int64_t j = 0; j < shape_.out.width; ++j) {
      const Window& columns = shape_.columns[static_cast<size_t>(j)];
      const T divisor = static_cast<T>(shape_.CountOf(slices, rows, columns));
      T* mean = out + j * run;
      if (run == 1) {
        T sum = 0;
        for (int64_t w = columns.begin; w < columns.end; w += columns.step) sum += sums[w];
        *mean = sum / divisor;
        continue;
      }
      std::fill(mean, mean + run, T(0));
      AddWindowInto<T>(columns, run, sums, mean);
      DivideInto<T>(run, mean, divisor, mean);
    }
  }

  AveragePoolShape shape_;
  int64_t height_ = 1;  // maximum number of rows of x that a window covers
};

// Slots: x (its shape only), out_grad -> x_grad?.
template <typename T, typename Attrs>
struct AveragePoolGrad {
  static void Configure(opwright::KernelOptions& options) { options.library = "onednn"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs& attrs) {
    if (!ctx.has_output(0)) return opwright::Status::Ok();
    shape_.Make(ctx.output(0).shape(), ctx.input(1).shape(), attrs);
    ctx.SetWorkspace(shape_.WorkspaceBytes(sizeof(T), ctx.n_threads()));
    ctx.SetEstimate(100 + static_cast<uint64_t>(ctx.output(0).numel() / 2 / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const Attrs&) const {
    if (!ctx.has_output(0)) return opwright::Status::Ok();
    T* x_grad = ctx.output(0).data<T>();
    const T* grad = ctx.input(1).data<T>();
    OverRows(ctx, shape_.x.planes, shape_.x.plane(), shape_.RowBytes(sizeof(T)),
             [&](int64_t plane, char* sums) {
               SpreadPlane(grad + plane * shape_.out.plane(), reinterpret_cast<T*>(sums),
                           x_grad + plane * shape_.x.plane());
             });
    return opwright::Status::Ok();
  }

 private:
  // Windows may overlap, so several rows of windows may contribute to a row of x.
  void SpreadPlane(const T* grad, T* sums, T* x_grad) const {
    std::fill(x_grad, x_grad + shape_.x.plane(), T(0));
    for (int64_t row = 0; row < shape_.out_rows(); ++row) {
      const Window& slices = shape_.SliceOf(row);
      const Window& rows = shape_.RowOf(row);
      SpreadRow(grad + row * shape_.out.row(), slices, rows, sums);
      for (int64_t d = slices.begin; d < slices.end; d += slices.step) {
        for (int64_t h = rows.begin; h < rows.end; h += rows.step) {
          AddInto<T>(shape_.x.row(), sums, x_grad + d * shape_.x.slice() + h * shape_.x.row());
        }
      }
    }
  }

  void SpreadRow(const T* grad, const Window& slices, const Window& rows, T* sums) const {
    const int64_t run = shape_.x.run;
    std::fill(sums, sums + shape_.x.row(), T(0));
    for (int64_t j = 0; j < shape_.out.width; ++j) {
      const Window& columns = shape_.columns[static_cast<size_t>(j)];
      const T divisor = static_cast<T>(shape_.CountOf(slices, rows, columns));
      for (int64_t w = columns.begin; w < columns.end; w += columns.step) {
        for (int64_t c = 0; c < run; ++c) sums[w * run + c] += grad[j * run + c] / divisor;
      }
    }
  }

  AveragePoolShape shape_;
};

template <typename T>
struct AvgPoolKernel : AveragePool<T, AveragePoolAttrs> {};
template <typename T>
struct AvgPoolGradKernel : AveragePoolGrad<T, AveragePoolAttrs> {};
template <typename T>
struct AdaptiveAvgPoolKernel : AveragePool<T, AdaptivePoolAttrs> {};
template <typename T>
struct AdaptiveAvgPoolGradKernel : AveragePoolGrad<T, AdaptivePoolAttrs> {};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("avg_pool2d", opwright_cpu::AvgPoolKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("avg_pool3d", opwright_cpu::AvgPoolKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("avg_pool2d_grad", opwright_cpu::AvgPoolGradKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("avg_pool3d_grad", opwright_cpu::AvgPoolGradKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("adaptive_avg_pool2d", opwright_cpu::AdaptiveAvgPoolKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("adaptive_avg_pool2d_grad", opwright_cpu::AdaptiveAvgPoolGradKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("adaptive_avg_pool3d", opwright_cpu::AdaptiveAvgPoolKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("adaptive_avg_pool3d_grad", opwright_cpu::AdaptiveAvgPoolGradKernel);
