// Max pooling and its gradient.
#include <algorithm>
#include <vector>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "pooling/attributes.h"
#include "pooling/max_pool_steps.h"
#include "pooling/places.h"
#include "pooling/windows.h"

namespace opwright_cpu {
namespace {

template <typename T>
OPWRIGHT_CPU_CLONES void AddWhereFound(int64_t n, const T* grad, const int32_t* index,
                                       int32_t position, T* sums) {
  for (int64_t i = 0; i < n; ++i) sums[i] += index[i] == position ? grad[i] : T(0);
}

// Returns, for each position along an axis, the range of windows that cover it.
std::vector<Part> WindowsOver(const std::vector<Window>& windows, int64_t size) {
  std::vector<Part> covering(static_cast<size_t>(size), Part{0, 0});
  for (size_t i = 0; i < windows.size(); ++i) {
    const auto number = static_cast<int64_t>(i);
    for (int64_t place = windows[i].begin; place < windows[i].end; place += windows[i].step) {
      Part& known = covering[static_cast<size_t>(place)];
      known = {known.begin == known.end ? number : known.begin, number + 1};
    }
  }
  return covering;
}

struct MaxPoolShape : PoolWindows {
  void Make(const opwright::Shape& x_shape, const opwright::Shape& out_shape,
            const PoolAttrs& attrs) {
    PoolWindows::Make(x_shape, out_shape, attrs, false);
    stride = (attrs.strides.empty() ? attrs.kernel : attrs.strides).back();
    kernel = attrs.kernel.back();
    step = attrs.dilations.back();
    left = attrs.paddings[attrs.paddings.size() - 2];
  }
  void Make(const opwright::Shape& x_shape, const opwright::Shape& out_shape,
            const AdaptivePoolAttrs& attrs) {
    PoolWindows::Make(x_shape, out_shape, attrs);
    // Equal-sized bins are processed as windows if a row has enough bins to fill vectors;
    // otherwise, bins are processed one by one.
    constexpr int64_t kManyBins = 16;
    const bool is_even = x.width % out.width == 0 && out.width >= kManyBins;
    kernel = stride = is_even ? x.width / out.width : 0;
  }

  // Returns the maximum number of elements that a window covers.
  int64_t taps() const {
    int64_t count = 1;
    for (const std::vector<Window>* axis : {&slices, &rows, &columns}) {
      int64_t most = 1;
      for (const Window& window : *axis) most = std::max(most, window.size());
      count *= most;
    }
    return count;
  }

  // The column parameters of windows; the stride is 0 if windows are unevenly spaced.
  int64_t stride = 1, kernel = 1, step = 1, left = 0;
};

template <typename T, typename Attrs>
struct MaxPool {
  static constexpr int64_t kMostColumns = 256;  // maximum number of column maxima in the buffer

  static void Configure(opwright::KernelOptions& options) { options.library = "onednn"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs& attrs) {
    shape_.Make(ctx.input(0).shape(), ctx.output(0).shape(), attrs);
    const int64_t taps = shape_.taps();
    const int64_t work = ctx.output(0).numel() * taps;
    grain_ = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, shape_.out.row() * taps));
    ctx.SetEstimate(100 + static_cast<uint64_t>(work / 4 / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const Attrs&) const {
    const T* x = ctx.input(0).data<T>();
    T* out = ctx.output(0).data<T>();
    int32_t* index = ctx.output(1).data<int32_t>();
    const int64_t rows = shape_.out_rows();
    ParallelFor(ctx.n_threads(), shape_.x.planes * rows, grain_, 1,
                [=](int64_t begin, int64_t end) {
                  for (int64_t row = begin; row < end; ++row) {
                    PoolRow(row % rows, x + row / rows * shape_.x.plane(),
                            out + row * shape_.out.row(), index + row * shape_.out.row());
                  }
                });
    return opwright::Status::Ok();
  }

 private:
  void PoolRow(int64_t row, const T* plane, T* out, int32_t* index) const {
    const Window& slices = shape_.SliceOf(row);
    const Window& rows = shape_.RowOf(row);
    if (shape_.x.run != 1) return PoolPixels(slices, rows, plane, out, index);
    const int64_t length = shape_.out.row();
    std::fill(index, index + length, -1);
    std::fill(out, out + length, Order<T>::Least());
    if (shape_.stride == 0 && shape_.x.width <= kMostColumns) {
      return PoolColumns(slices, rows, plane, out, index);
    }
    for (int64_t d = slices.begin; d < slices.end; d += slices.step) {
      for (int64_t h = rows.begin; h < rows.end; h += rows.step) {
        const int64_t first = (d * shape_.x.height + h) * shape_.x.width;
        if (shape_.stride == 0) {
          TakeBins(plane + first, static_cast<int32_t>(first), out, index);
        } else {
          TakeRow(plane + first, static_cast<int32_t>(first), out, index);
        }
      }
    }
  }

  // Pools unevenly spaced windows of a narrow image with channels first. Computes the maximum of
  // each column in a vectorized loop, then the maxima of the windows.
  void PoolColumns(const Window& slices, const Window& rows, const T* plane, T* out,
                   int32_t* index) const {
    T best[kMostColumns];
    int32_t places[kMostColumns];
    std::fill_n(best, shape_.x.width, Order<T>::Least());
    std::fill_n(places, shape_.x.width, -1);
    for (int64_t d = slices.begin; d < slices.end; ++d) {
      for (int64_t h = rows.begin; h < rows.end; ++h) {
        const int64_t first = (d * shape_.x.height + h) * shape_.x.width;
        TakeColumns<T>(shape_.x.width, plane + first, 1, static_cast<int32_t>(first), best, places);
      }
    }
    for (int64_t j = 0; j < shape_.out.width; ++j) {
      const Window& columns = shape_.columns[static_cast<size_t>(j)];
      for (int64_t w = columns.begin; w < columns.end; ++w) {
        const bool is_before = places[w] < index[j] && !IsGreater(out[j], best[w]);
        if (places[w] < 0 || !(index[j] < 0 || is_before || IsGreater(best[w], out[j]))) continue;
        out[j] = best[w];
        index[j] = places[w];
      }
    }
  }

  // Pools unevenly spaced windows with channels first. Positions are searched only in rows with an
  // element greater than the maximum so far; such rows are few.
  void TakeBins(const T* x, int32_t first, T* out, int32_t* index) const {
    for (int64_t j = 0; j < shape_.out.width; ++j) {
      const Window& columns = shape_.columns[static_cast<size_t>(j)];
      if (columns.begin == columns.end) continue;
      const auto most = GreatestOf(x + columns.begin, columns.end - columns.begin);
      if (!Order<T>::IsGreater(most, Order<T>::Of(out[j])) && index[j] >= 0) continue;
      int64_t w = columns.begin;
      while (w + 1 < columns.end && Order<T>::IsGreater(most, Order<T>::Of(x[w]))) ++w;
      out[j] = x[w];
      index[j] = first + static_cast<int32_t>(w);
    }
  }

  // Pools a row of windows with channels first, tap by tap.
  void TakeRow(const T* x, int32_t first, T* out, int32_t* index) const {
    for (int64_t tap = 0; tap < shape_.kernel; ++tap) {
      const int64_t shift = tap * shape_.step - shape_.left;
      const int64_t begin = shift < 0 ? (-shift + shape_.stride - 1) / shape_.stride : 0;
      if (shift >= shape_.x.width) continue;
      const int64_t end =
          std::min(shape_.out.width, (shape_.x.width - 1 - shift) / shape_.stride + 1);
      if (begin >= end) continue;
      const int64_t at = begin * shape_.stride + shift;
      TakeColumns<T>(end - begin, x + at, shape_.stride, first + static_cast<int32_t>(at),
                     out + begin, index + begin);
    }
  }

  // Pools windows with channels last; windows that cover the same pixels relative to their
  // positions are processed together.
  void PoolPixels(const Window& slices, const Window& rows, const T* plane, T* out,
                  int32_t* index) const {
    const int64_t run = shape_.x.run, width = shape_.out.width;
    int64_t next = 0;
    for (int64_t j = 0; j < width; j = next) {
      const Window& columns = shape_.columns[static_cast<size_t>(j)];
      for (next = j + 1; next < width; ++next) {
        const Window& other = shape_.columns[static_cast<size_t>(next)];
        const int64_t shift = (next - j) * shape_.stride;
        if (other.begin != columns.begin + shift || other.end != columns.end + shift) break;
      }
      TakeCovered(slices, rows, columns, next - j, plane, out + j * run, index + j * run);
    }
  }

  // Pools `count` windows; the first window covers these slices, rows and columns.
  void TakeCovered(const Window& slices, const Window& rows, const Window& columns, int64_t count,
                   const T* plane, T* out, int32_t* index) const {
    const int64_t run = shape_.x.run;
    bool is_first = true;
    Taps taps;
    const auto take = [&] {
      // Unused taps repeat a pixel, which does not change the maximum.
      for (int t = taps.count; t < kTaps; ++t) {
        taps.elements[t] = taps.elements[0];
        taps.positions[t] = taps.positions[0];
      }
      const auto function = is_first ? &TakeWindows<T, true> : &TakeWindows<T, false>;
      function(count, shape_.stride, run, plane, taps, out, index);
      is_first = false;
      taps.count = 0;
    };
    for (int64_t d = slices.begin; d < slices.end; d += slices.step) {
      for (int64_t h = rows.begin; h < rows.end; h += rows.step) {
        for (int64_t w = columns.begin; w < columns.end; w += columns.step) {
          const int64_t position = (d * shape_.x.height + h) * shape_.x.width + w;
          taps.elements[taps.count] = position * run;
          taps.positions[taps.count] = static_cast<int32_t>(position);
          if (++taps.count == kTaps) take();
        }
      }
    }
    if (taps.count > 0) take();
    if (is_first) {
      std::fill(out, out + count * run, Order<T>::Least());
      std::fill(index, index + count * run, -1);
    }
  }

  MaxPoolShape shape_;
  int64_t grain_ = 1;
};

// Slots of max_pool2d_grad: x (its shape only), index, out_grad -> x_grad?.
template <typename T, typename Attrs>
struct MaxPoolGrad {
  static void Configure(opwright::KernelOptions& options) { options.library = "onednn"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs& attrs) {
    if (!ctx.has_output(0)) return opwright::Status::Ok();
    shape_.Make(ctx.input(0).shape(), ctx.input(1).shape(), attrs);
    if (shape_.x.run != 1) {
      slices_ = WindowsOver(shape_.slices, shape_.x.depth);
      rows_ = WindowsOver(shape_.rows, shape_.x.height);
      columns_ = WindowsOver(shape_.columns, shape_.x.width);
    }
    const int64_t taps = shape_.x.run == 1 ? 2 : shape_.taps();
    const int64_t work = ctx.input(1).numel() * taps + ctx.output(0).numel();
    grain_ = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, shape_.x.plane()));
    row_grain_ = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, shape_.x.row()));
    ctx.SetEstimate(100 + static_cast<uint64_t>(work / 2 / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const Attrs&) const {
    if (!ctx.has_output(0)) return opwright::Status::Ok();
    const int32_t* index = ctx.input(1).data<int32_t>();
    const T* grad = ctx.input(2).data<T>();
    T* x_grad = ctx.output(0).data<T>();
    PlaceCheck check(shape_.x.pixels());
    ParallelFor(ctx.n_threads(), shape_.x.planes, grain_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const int64_t at = plane * shape_.out.plane();
        // Scatter rereads the positions from the L1 cache.
        if (!check.Admits(index + at, shape_.out.plane())) return;
        if (shape_.x.run == 1) Scatter(index + at, grad + at, x_grad + plane * shape_.x.plane());
      }
    });
    OPWRIGHT_RETURN_IF_ERROR(check.ToStatus());
    if (shape_.x.run != 1) TakePixels(ctx.n_threads(), index, grad, x_grad);
    return opwright::Status::Ok();
  }

 private:
  void Scatter(const int32_t* index, const T* grad, T* x_grad) const {
    std::fill_n(x_grad, shape_.x.plane(), T(0));
    for (int64_t i = 0; i < shape_.out.plane(); ++i) x_grad[index[i]] += grad[i];
  }

  void TakePixels(int32_t n_threads, const int32_t* index, const T* grad, T* x_grad) const {
    const int64_t rows = shape_.x.depth * shape_.x.height;
    ParallelFor(n_threads, shape_.x.planes * rows, row_grain_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row / rows * shape_.out.plane();
        TakeRow(row % rows, index + at, grad + at, x_grad + row * shape_.x.row());
      }
    });
  }

  // Each pixel of a row gathers gradients from the windows that cover it, so it is written once.
  // The comparison with the positions of all channels is vectorized.
  void TakeRow(int64_t row, const int32_t* index, const T* grad, T* x_grad) const {
    constexpr int64_t kMostChannels = 256;
    T sums[kMostChannels];
    const Part& slices = slices_[static_cast<size_t>(row / shape_.x.height)];
    const Part& rows = rows_[static_cast<size_t>(row % shape_.x.height)];
    const int64_t run = shape_.x.run;
    for (int64_t w = 0; w < shape_.x.width; ++w) {
      const Part& columns = columns_[static_cast<size_t>(w)];
      const auto position = static_cast<int32_t>(row * shape_.x.width + w);
      for (int64_t first = 0; first < run; first += kMostChannels) {
        const int64_t n = std::min(kMostChannels, run - first);
        std::fill_n(sums, n, T(0));
        for (int64_t d = slices.begin; d < slices.end; ++d) {
          for (int64_t h = rows.begin; h < rows.end; ++h) {
            for (int64_t c = columns.begin; c < columns.end; ++c) {
              const int64_t window = (d * shape_.out.height + h) * shape_.out.width + c;
              const int64_t at = window * run + first;
              AddWhereFound<T>(n, grad + at, index + at, position, sums);
            }
          }
        }
        std::copy_n(sums, n, x_grad + w * run + first);
      }
    }
  }

  std::vector<Part> slices_, rows_, columns_;  // windows over each position, if channels are last
  int64_t row_grain_ = 1;
  MaxPoolShape shape_;
  int64_t grain_ = 1;
};

template <typename T>
struct MaxPoolKernel : MaxPool<T, PoolAttrs> {};
template <typename T>
struct MaxPoolGradKernel : MaxPoolGrad<T, PoolAttrs> {};
template <typename T>
struct AdaptiveMaxPoolKernel : MaxPool<T, AdaptivePoolAttrs> {};
template <typename T>
struct AdaptiveMaxPoolGradKernel : MaxPoolGrad<T, AdaptivePoolAttrs> {};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("max_pool2d", "cpu", opwright_cpu::MaxPoolKernel, float, double,
                             int8_t, int16_t, int32_t, int64_t, uint8_t, OPWRIGHT_CPU_HALVES);
OPWRIGHT_REGISTER_KERNEL_FOR("max_pool3d", "cpu", opwright_cpu::MaxPoolKernel, float, double,
                             int8_t, int16_t, int32_t, int64_t, uint8_t, OPWRIGHT_CPU_HALVES);
OPWRIGHT_CPU_REGISTER_FLOATS("max_pool2d_grad", opwright_cpu::MaxPoolGradKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("max_pool3d_grad", opwright_cpu::MaxPoolGradKernel);
OPWRIGHT_REGISTER_KERNEL_FOR("adaptive_max_pool2d", "cpu", opwright_cpu::AdaptiveMaxPoolKernel,
                             float, double, OPWRIGHT_CPU_HALVES);
OPWRIGHT_CPU_REGISTER_FLOATS("adaptive_max_pool2d_grad", opwright_cpu::AdaptiveMaxPoolGradKernel);
OPWRIGHT_REGISTER_KERNEL_FOR("adaptive_max_pool3d", "cpu", opwright_cpu::AdaptiveMaxPoolKernel,
                             float, double, OPWRIGHT_CPU_HALVES);
OPWRIGHT_CPU_REGISTER_FLOATS("adaptive_max_pool3d_grad", opwright_cpu::AdaptiveMaxPoolGradKernel);
