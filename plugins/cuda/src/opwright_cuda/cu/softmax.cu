// softmax, log_softmax and their gradients, along lines. Every thread writes only elements that it
// has read before, so outputs may share memory with inputs.
#include "softmax.h"

using namespace opwright_cuda;

template <typename Line, typename T>
__global__ void __launch_bounds__(kMostLineThreads)
    softmax_lines(T* out, const T* x, Lines lines, int32_t width) {
  using C = Compute<T>;
  PowerLine<Line> line(lines, width);
  const Powers<C> powers = ReadPowers<kPowers>(line, x);
  const C share = C(1) / powers.total;
  const auto apply = [&](int64_t, C kept, C again) {
    return PowerOf<Line>(kept, again, powers.top) * share;
  };
  Transform(line, out, apply, Again<T>{x});
}

template <typename Line, typename T>
__global__ void __launch_bounds__(kMostLineThreads)
    log_softmax_lines(T* out, const T* x, Lines lines, int32_t width) {
  using C = Compute<T>;
  PowerLine<Line> line(lines, width);
  const Powers<C> powers = ReadPowers<kShifted>(line, x);
  const C log_total = functors::Log(powers.total);
  const auto apply = [&](int64_t, C kept, C again) {
    return ShiftedOf<Line>(kept, again, powers.top) - log_total;
  };
  Transform(line, out, apply, Again<T>{x});
}

// Reads two arrays, sums `term` of their elements and writes function(pair, sum). Elements are kept
// in registers in between if possible.
template <typename Line, typename T, typename Term, typename Function>
OW_INLINE void SumAndTransform(Line& line, T* out, const T* x, const T* y, Term term,
                               Function function) {
  using C = Compute<T>;
  C sum = C(0);
  const auto add = [&](int64_t, Pair<C>& kept, C first, C second) {
    kept = {first, second};
    sum += term(kept);
  };
  ForEach(line, add, x, y);
  sum = line.Reduce(sum, SumOf<C>());
  const auto apply = [&](int64_t, Pair<C> kept, C first, C second) {
    return function(Line::kKeeps ? kept : Pair<C>{first, second}, sum);
  };
  Transform(line, out, apply, Again<T>{x}, Again<T>{y});
}

template <typename Line, typename T>
__global__ void __launch_bounds__(kMostLineThreads)
    softmax_grad_lines(T* x_grad, const T* out, const T* out_grad, Lines lines, int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  SumAndTransform(
      line, x_grad, out, out_grad, [](Pair<C> pair) { return pair.first * pair.second; },
      [](Pair<C> pair, C inner) { return (pair.second - inner) * pair.first; });
}

template <typename Line, typename T>
__global__ void __launch_bounds__(kMostLineThreads)
    log_softmax_grad_lines(T* x_grad, const T* out, const T* out_grad, Lines lines, int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  SumAndTransform(
      line, x_grad, out, out_grad, [](Pair<C> pair) { return pair.second; },
      [](Pair<C> pair, C total) { return pair.second - functors::Exp(pair.first) * total; });
}

// Computes the gradient of softmax_with_cross_entropy for distributions.
template <typename Line, typename T>
__global__ void __launch_bounds__(kMostLineThreads)
    soft_label_grad_lines(T* x_grad, const T* softmax, const T* label, const T* out_grad,
                          Lines lines, int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const C grad = line.is_there ? Load(out_grad[line.line]) : C(0);
  SumAndTransform(
      line, x_grad, softmax, label, [](Pair<C> pair) { return pair.second; },
      [&](Pair<C> pair, C total) { return (pair.first * total - pair.second) * grad; });
}
