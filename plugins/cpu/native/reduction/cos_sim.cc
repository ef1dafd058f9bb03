// cos_sim along one axis, with broadcasting along the other axes, and its gradient.
#include <opwright/functors.h>
#include <algorithm>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "reduction/attributes.h"
#include "reduction/blocks.h"
#include "reduction/layout.h"

namespace opwright_cpu {
namespace {

// A pair of vectors: their offsets, and their line indices, which also index their norms.
struct Pair {
  int64_t x, y;
  int64_t x_line, y_line;
};

// Finds the vectors of each line of the output.
class Pairs {
 public:
  Pairs() = default;
  Pairs(const opwright::Shape& x, const opwright::Shape& y, int64_t axis)
      : x_(LinesAlong(x, axis)), y_(LinesAlong(y, axis)) {
    const size_t at = FromFront(axis, x.rank());
    int64_t x_lines = 1, y_lines = 1;
    for (size_t i = x.dims().size(); i-- > 0;) {
      if (i == at) continue;
      const int64_t a = x.dims()[i], b = y.dims()[i];
      loops_.push_back(Loop{a == 1 ? b : a, a == 1 ? 0 : x_lines, b == 1 ? 0 : y_lines});
      x_lines *= a;
      y_lines *= b;
      count_ *= loops_.back().size;
    }
    is_plain_ = x == y;
  }

  int64_t count() const { return count_; }
  int64_t length() const { return x_.length; }
  bool is_plain() const { return is_plain_; }  // no axis broadcasts, so no vector is shared
  const Lines& x() const { return x_; }
  const Lines& y() const { return y_; }

  Pair operator[](int64_t line) const {
    Pair pair{0, 0, 0, 0};
    for (const Loop& loop : loops_) {
      pair.x_line += line % loop.size * loop.x_step;
      pair.y_line += line % loop.size * loop.y_step;
      line /= loop.size;
    }
    pair.x = OffsetOf(x_, pair.x_line);
    pair.y = OffsetOf(y_, pair.y_line);
    return pair;
  }

  static int64_t OffsetOf(const Lines& lines, int64_t line) {
    return line / lines.inner * lines.length * lines.inner + line % lines.inner;
  }

 private:
  struct Loop {
    int64_t size;
    int64_t x_step;  // step in lines, 0 if x is repeated
    int64_t y_step;
  };

  Lines x_;
  Lines y_;
  std::vector<Loop> loops_;  // innermost first
  int64_t count_ = 1;
  bool is_plain_ = false;
};

template <typename T>
OPWRIGHT_CPU_INLINE T SumOfSquares(const T* x, int64_t n, int64_t stride) {
  if (stride == 1) {
    return SumOver<T>(n, [=](int64_t i) OPWRIGHT_CPU_TERM { return x[i] * x[i]; });
  }
  return SumOver<T>(n, [=](int64_t i) OPWRIGHT_CPU_TERM { return x[i * stride] * x[i * stride]; });
}

// Computes the norms; returns the number of norms whose squares overflow or underflow.
template <typename T>
OPWRIGHT_CPU_CLONES int64_t FindNorms(const T* x, const Lines& lines, int64_t begin, int64_t end,
                                      T epsilon, T* norms) {
  int64_t n_extreme = 0;
  for (int64_t line = begin; line < end; ++line) {
    const T* from = x + Pairs::OffsetOf(lines, line);
    const T square = SumOfSquares(from, lines.length, lines.inner);
    const T norm = opwright::functors::Sqrt(square);
    n_extreme += opwright::functors::IsOrdinary(square) ? 0 : 1;
    norms[line] = norm < epsilon ? epsilon : norm;
  }
  return n_extreme;
}

// Recomputes the norms whose squares overflow or underflow. Norms that are raised to an ordinary
// epsilon are already correct.
template <typename T>
void FindExtremeNorms(const T* x, const Lines& lines, int64_t begin, int64_t end, T epsilon,
                      T* norms) {
  for (int64_t line = begin; line < end; ++line) {
    if (opwright::functors::IsOrdinary(norms[line] * norms[line])) continue;
    const T* from = x + Pairs::OffsetOf(lines, line);
    opwright::functors::SquareSum<T> sum{};
    for (int64_t i = 0; i < lines.length; ++i) sum.Add(from[i * lines.inner]);
    norms[line] = sum.Root() < epsilon ? epsilon : sum.Root();
  }
}

// Each factor is divided by its own norm, since the product of the norms might underflow.
template <typename T>
OPWRIGHT_CPU_CLONES T Cosine(const T* x, const T* y, int64_t n, int64_t x_stride, int64_t y_stride,
                             T x_norm, T y_norm) {
  if (x_stride == 1 && y_stride == 1) {
    return SumOver<T>(
        n, [=](int64_t i) OPWRIGHT_CPU_TERM { return (x[i] / x_norm) * (y[i] / y_norm); });
  }
  return SumOver<T>(n, [=](int64_t i) OPWRIGHT_CPU_TERM {
    return (x[i * x_stride] / x_norm) * (y[i * y_stride] / y_norm);
  });
}

int64_t PairGrain(int64_t length) {
  return std::max<int64_t>(1, kElementGrain / std::max<int64_t>(length, 1));
}

// Rejects scalars, different ranks, and shapes that would require broadcasting of vectors.
opwright::Status CheckPair(const opwright::Shape& x, const opwright::Shape& y, int64_t axis) {
  if (x.rank() > 0 && x.rank() == y.rank() && x.dim(axis) == y.dim(axis)) {
    return opwright::Status::Ok();
  }
  return opwright::Status::Refused("reads vectors of equal length and rank, got ", x.rank(),
                                   " and ", y.rank(), " axes, or other lengths along axis ", axis);
}

// Slots: x, y; out, x_norm, y_norm.
template <typename T>
struct CosSimKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const CosSimAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(CheckPair(ctx.input(0).shape(), ctx.input(1).shape(), attrs.axis));
    pairs_ = Pairs(ctx.input(0).shape(), ctx.input(1).shape(), attrs.axis);
    const int64_t bytes = pairs_.count() * pairs_.length() * static_cast<int64_t>(4 * sizeof(T));
    ctx.SetEstimate(StreamNs(bytes, ctx.n_threads()) + static_cast<uint64_t>(5 * pairs_.count()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const CosSimAttrs& attrs) const {
    const T* x = ctx.input(0).data<T>();
    const T* y = ctx.input(1).data<T>();
    T* out = ctx.output(0).data<T>();
    T* x_norm = ctx.output(1).data<T>();
    T* y_norm = ctx.output(2).data<T>();
    const int64_t n = pairs_.length();
    const T epsilon = static_cast<T>(attrs.epsilon), scale = static_cast<T>(attrs.scale);
    const auto find_norms = [&](const T* from, const Lines& lines, T* norms) {
      ParallelFor(ctx.n_threads(), lines.count(), PairGrain(n), 16,
                  [&](int64_t begin, int64_t end) {
                    const int64_t n_extreme = FindNorms(from, lines, begin, end, epsilon, norms);
                    if (n_extreme > 0) FindExtremeNorms(from, lines, begin, end, epsilon, norms);
                  });
    };
    find_norms(x, pairs_.x(), x_norm);
    find_norms(y, pairs_.y(), y_norm);
    ParallelFor(ctx.n_threads(), pairs_.count(), PairGrain(n), 16, [=](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        const Pair pair = pairs_[line];
        out[line] = scale * Cosine(x + pair.x, y + pair.y, n, pairs_.x().inner, pairs_.y().inner,
                                   x_norm[pair.x_line], y_norm[pair.y_line]);
      }
    });
    return opwright::Status::Ok();
  }

  Pairs pairs_;
};

// The values of a pair from which the gradient of one side is computed.
template <typename T>
struct Derivatives {
  T norm;
  T other_norm;
  T cosine;  // 0 if epsilon bounds the norm, which is then constant
  T factor;  // out_grad / norm
  T scale;
};

// Adds d cos / dx = (y/|y| - cos * x/|x|) / |x|, times out_grad.
template <typename T>
OPWRIGHT_CPU_CLONES void AddGradient(const T* own, const T* other, int64_t n, int64_t stride,
                                     int64_t other_stride, const Derivatives<T>& s, T* grad) {
  for (int64_t i = 0; i < n; ++i) {
    const T across =
        other[i * other_stride] / s.other_norm * s.scale - s.cosine * (own[i * stride] / s.norm);
    grad[i * stride] += across * s.factor;
  }
}

// Slots: x, y, out, x_norm, y_norm, out_grad; x_grad, y_grad.
template <typename T>
struct CosSimGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const CosSimAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(CheckPair(ctx.input(0).shape(), ctx.input(1).shape(), attrs.axis));
    pairs_ = Pairs(ctx.input(0).shape(), ctx.input(1).shape(), attrs.axis);
    const int64_t bytes = pairs_.count() * pairs_.length() * static_cast<int64_t>(8 * sizeof(T));
    ctx.SetEstimate(StreamNs(bytes, pairs_.is_plain() ? ctx.n_threads() : 1));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const CosSimAttrs& attrs) const {
    const T* values[] = {ctx.input(0).data<T>(), ctx.input(1).data<T>()};
    const T* norms[] = {ctx.input(3).data<T>(), ctx.input(4).data<T>()};
    const T* out = ctx.input(2).data<T>();
    const T* out_grad = ctx.input(5).data<T>();
    const int64_t strides[] = {pairs_.x().inner, pairs_.y().inner};
    const int64_t n = pairs_.length();
    const T epsilon = static_cast<T>(attrs.epsilon), scale = static_cast<T>(attrs.scale);
    // If vectors are repeated, a single thread sums the gradients of all lines that share a vector.
    const int32_t n_threads = pairs_.is_plain() ? ctx.n_threads() : 1;
    for (uint32_t side = 0; side < 2; ++side) {
      if (!ctx.has_output(side)) continue;
      T* grad = ctx.output(side).data<T>();
      std::fill(grad, grad + ctx.output(side).numel(), T(0));
      ParallelFor(n_threads, pairs_.count(), PairGrain(n), 16, [&](int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; ++line) {
          const Pair pair = pairs_[line];
          const int64_t at[] = {pair.x, pair.y};
          const int64_t norm_at[] = {pair.x_line, pair.y_line};
          const uint32_t other = 1 - side;
          const T norm = norms[side][norm_at[side]];
          const Derivatives<T> derivatives{norm, norms[other][norm_at[other]],
                                           norm > epsilon ? out[line] : T(0), out_grad[line] / norm,
                                           scale};
          AddGradient(values[side] + at[side], values[other] + at[other], n, strides[side],
                      strides[other], derivatives, grad + at[side]);
        }
      });
    }
    return opwright::Status::Ok();
  }

  Pairs pairs_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("cos_sim", opwright_cpu::CosSimKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("cos_sim_grad", opwright_cpu::CosSimGradKernel);
