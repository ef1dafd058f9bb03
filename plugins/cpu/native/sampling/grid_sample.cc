// grid_sample, which interpolates images and volumes at the coordinates of a grid, and its
// gradients.
#include <algorithm>
#include <memory>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "sampling/attributes.h"
#include "sampling/grid_taps.h"

namespace opwright_cpu {
namespace {

// Elements of weight 0 do not contribute, even if they are NaN.
template <typename T>
OPWRIGHT_CPU_INLINE T Weighted(T value, T share) {
  return share != 0 ? value * share : T(0);
}

// Gathers pixels in a separate loop, because compilers do not vectorize loops with indexed reads.
template <typename T>
void Gather(int64_t n, const T* plane, const int32_t* offset, T* values) {
  for (int64_t i = 0; i < n; ++i) values[i] = plane[offset[i]];
}

template <typename T>
OPWRIGHT_CPU_CLONES void WeighTap(int64_t n, const T* values, const T* share, T* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = Weighted(values[i], share[i]);
}

// Processes four taps at a time and adds them to the sums of earlier taps.
template <typename T>
OPWRIGHT_CPU_CLONES void WeighTaps(int64_t n, const T (*values)[kGridBlock],
                                   const T (*share)[kGridBlock], bool is_first, T* out) {
  for (int64_t i = 0; i < n; ++i) {
    const T sum = (Weighted(values[0][i], share[0][i]) + Weighted(values[1][i], share[1][i])) +
                  (Weighted(values[2][i], share[2][i]) + Weighted(values[3][i], share[3][i]));
    out[i] = is_first ? sum : out[i] + sum;
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void AddProducts(int64_t n, const T* plane, const int32_t* offset,
                                     const T* grad, T* sums) {
  for (int64_t i = 0; i < n; ++i) sums[i] += plane[offset[i]] * grad[i];
}

template <typename T>
OPWRIGHT_CPU_CLONES void AddWeighted(int64_t n, const T* x, const T* share, T* sums) {
  for (int64_t i = 0; i < n; ++i) sums[i] += Weighted(x[i], share[i]);
}

// Adds gradients to the pixels of up to four taps, position by position.
template <typename T, int kTaps>
OPWRIGHT_CPU_CLONES void WriteTaps(int64_t n, const T* grad, const int32_t (*offset)[kGridBlock],
                                   const T (*share)[kGridBlock], T* plane) {
  for (int64_t i = 0; i < n; ++i) {
    for (int k = 0; k < kTaps; ++k) {
      if (share[k][i] != 0) plane[offset[k][i]] += grad[i] * share[k][i];
    }
  }
}

// Fills `taps` and calls function(image, first position, number of positions) for each of the
// blocks [begin, end) of all grids.
template <typename T, typename Function>
void OverBlocks(const GridShape& s, const T* grid, int64_t begin, int64_t end,
                bool with_derivatives, GridTaps<T>& taps, const Function& function) {
  const int64_t blocks = (s.places + kGridBlock - 1) / kGridBlock;
  for (int64_t block = begin; block < end; ++block) {
    const int64_t image = block / blocks, first = block % blocks * kGridBlock;
    const int64_t count = std::min(kGridBlock, s.places - first);
    taps.Fill(s, grid + (image * s.places + first) * s.rank, count, with_derivatives);
    function(image, first, count);
  }
}

inline int64_t BlocksOf(const GridShape& s) {
  return s.n * ((s.places + kGridBlock - 1) / kGridBlock);
}

inline int32_t ThreadsFor(const GridShape& s, int64_t parts, int32_t n_threads) {
  const int64_t work = s.n * s.places * (s.channels + 4) * s.taps();
  return static_cast<int32_t>(
      std::max<int64_t>(1, std::min({int64_t{n_threads}, parts, work / kElementGrain + 1})));
}

// The workspace holds the taps of each thread.
template <typename T>
GridTaps<T>& TapsOf(const opwright::RunContext& ctx, int32_t thread) {
  return ctx.workspace<GridTaps<T>>()[thread];
}

template <typename T>
uint64_t TapBytes(int32_t n_threads) {
  return sizeof(GridTaps<T>) * static_cast<uint64_t>(std::max(n_threads, 1));
}

template <typename T>
struct GridSampleKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const GridSampleAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(shape_.Make(ctx.input(0).shape(), ctx.input(1).shape(), attrs));
    ctx.SetWorkspace(TapBytes<T>(ctx.n_threads()));
    ctx.SetEstimate(
        100 + static_cast<uint64_t>(ctx.output(0).numel() * shape_.taps() / 2 / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const GridSampleAttrs&) const {
    const T* x = ctx.input(0).data<T>();
    const T* grid = ctx.input(1).data<T>();
    T* out = ctx.output(0).data<T>();
    const GridShape& s = shape_;
    const int64_t blocks = BlocksOf(s);
    Parallel(ThreadsFor(s, blocks, ctx.n_threads()), [&](int32_t thread, int32_t n_threads) {
      const Part part = PartOf(blocks, 1, thread, n_threads);
      GridTaps<T>& taps = TapsOf<T>(ctx, thread);
      OverBlocks<T>(s, grid, part.begin, part.end, false, taps,
                    [&](int64_t image, int64_t first, int64_t count) {
                      for (int64_t c = image * s.channels; c < (image + 1) * s.channels; ++c) {
                        T* row = out + c * s.places + first;
                        ReadPlane(taps, count, x + c * s.pixels, row);
                      }
                    });
    });
    return opwright::Status::Ok();
  }

 private:
  void ReadPlane(const GridTaps<T>& taps, int64_t count, const T* plane, T* out) const {
    T values[4][kGridBlock];
    if (shape_.taps() == 1) {
      Gather(count, plane, taps.offset[0], values[0]);
      WeighTap<T>(count, values[0], taps.share[0], out);
    }
    for (int32_t k = 0; k + 4 <= shape_.taps(); k += 4) {
      for (int32_t tap = 0; tap < 4; ++tap) {
        Gather(count, plane, taps.offset[k + tap], values[tap]);
      }
      WeighTaps<T>(count, values, taps.share + k, k == 0, out);
    }
  }

  GridShape shape_;
};

// Slots: x, grid, out_grad -> x_grad?, grid_grad?.
template <typename T>
struct GridSampleGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const GridSampleAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(shape_.Make(ctx.input(0).shape(), ctx.input(1).shape(), attrs));
    ctx.SetWorkspace(TapBytes<T>(ctx.n_threads()));
    ctx.SetEstimate(100 +
                    static_cast<uint64_t>(ctx.input(2).numel() * shape_.taps() / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const GridSampleAttrs&) const {
    if (ctx.has_output(0)) WriteImages(ctx);
    if (ctx.has_output(1)) WriteGrid(ctx);
    return opwright::Status::Ok();
  }

 private:
  // Each thread processes its own planes, so gradients are added in the order of the positions.
  void WriteImages(const opwright::RunContext& ctx) const {
    const GridShape& s = shape_;
    const T* grid = ctx.input(1).data<T>();
    const T* grad = ctx.input(2).data<T>();
    T* x_grad = ctx.output(0).data<T>();
    const int64_t planes = s.n * s.channels, blocks = s.n > 0 ? BlocksOf(s) / s.n : 0;
    Parallel(ThreadsFor(s, planes, ctx.n_threads()), [&](int32_t thread, int32_t n_threads) {
      const Part part = PartOf(planes, 1, thread, n_threads);
      GridTaps<T>& taps = TapsOf<T>(ctx, thread);
      std::fill_n(x_grad + part.begin * s.pixels, (part.end - part.begin) * s.pixels, T(0));
      for (int64_t begin = part.begin; begin < part.end;) {
        const int64_t image = begin / s.channels;
        const int64_t end = std::min(part.end, (image + 1) * s.channels);
        OverBlocks<T>(s, grid, image * blocks, (image + 1) * blocks, false, taps,
                      [&](int64_t, int64_t first, int64_t count) {
                        for (int64_t c = begin; c < end; ++c) {
                          WritePlane(taps, count, grad + c * s.places + first,
                                     x_grad + c * s.pixels);
                        }
                      });
        begin = end;
      }
    });
  }

  void WriteGrid(const opwright::RunContext& ctx) const {
    const GridShape& s = shape_;
    const T* x = ctx.input(0).data<T>();
    const T* grid = ctx.input(1).data<T>();
    const T* grad = ctx.input(2).data<T>();
    T* grid_grad = ctx.output(1).data<T>();
    const int64_t blocks = BlocksOf(s);
    Parallel(ThreadsFor(s, blocks, ctx.n_threads()), [&](int32_t thread, int32_t n_threads) {
      const Part part = PartOf(blocks, 1, thread, n_threads);
      GridTaps<T>& taps = TapsOf<T>(ctx, thread);
      OverBlocks<T>(s, grid, part.begin, part.end, true, taps,
                    [&](int64_t image, int64_t first, int64_t count) {
                      T dots[kMaxGridTaps][kGridBlock] = {};
                      for (int64_t c = image * s.channels; c < (image + 1) * s.channels; ++c) {
                        for (int32_t k = 0; k < s.taps(); ++k) {
                          AddProducts<T>(count, x + c * s.pixels, taps.offset[k],
                                         grad + c * s.places + first, dots[k]);
                        }
                      }
                      WriteDerivatives(taps, count, dots,
                                       grid_grad + (image * s.places + first) * s.rank);
                    });
    });
  }

  void WritePlane(const GridTaps<T>& taps, int64_t count, const T* grad, T* plane) const {
    if (shape_.taps() == 1) WriteTaps<T, 1>(count, grad, taps.offset, taps.share, plane);
    for (int32_t k = 0; k + 4 <= shape_.taps(); k += 4) {
      WriteTaps<T, 4>(count, grad, taps.offset + k, taps.share + k, plane);
    }
  }

  void WriteDerivatives(const GridTaps<T>& taps, int64_t count, const T (*dots)[kGridBlock],
                        T* grid_grad) const {
    for (int32_t by = 0; by < shape_.rank; ++by) {
      T sums[kGridBlock] = {};
      for (int32_t k = 0; k < shape_.taps(); ++k) {
        AddWeighted<T>(count, dots[k], taps.derivative[k][by], sums);
      }
      for (int64_t i = 0; i < count; ++i) grid_grad[i * shape_.rank + by] = sums[i];
    }
  }

  GridShape shape_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("grid_sample", opwright_cpu::GridSampleKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("grid_sample_grad", opwright_cpu::GridSampleGradKernel);
