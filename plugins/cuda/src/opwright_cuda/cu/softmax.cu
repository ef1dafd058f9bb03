// softmax, log_softmax and their gradients, along lines. Every thread writes only what it has read
// before, so that outputs may lie on inputs.
#include "softmax.h"

using namespace opwright_cuda;

template <typename Line, typename T>
__global__ void softmax_lines(T* out, const T* x, Lines lines, int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const Powers<C> powers = ReadPowers<true>(line, x);
  const C share = C(1) / powers.total;
  line.ForEach([&](int64_t i, C& kept) {
    out[line.At(i)] = Store<T>(PowerAt(line, x, i, kept, powers.top) * share);
  });
}

template <typename Line, typename T>
__global__ void log_softmax_lines(T* out, const T* x, Lines lines, int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const Powers<C> powers = ReadPowers<false>(line, x);
  const C log_total = functors::Log(powers.total);
  line.ForEach([&](int64_t i, C& kept) {
    out[line.At(i)] = Store<T>(ShiftedAt(line, x, i, kept, powers.top) - log_total);
  });
}

// Reads two arrays and adds up `term` of their elements; both are kept where there is room.
template <typename Line, typename T, typename Term>
OW_INLINE Compute<T> SumTerms(Line& line, const T* x, const T* y, Term term) {
  using C = Compute<T>;
  C total = C(0);
  line.ForEach([&](int64_t i, Pair<C>& kept) {
    kept = {Load(x[line.At(i)]), Load(y[line.At(i)])};
    total += term(kept);
  });
  return line.Reduce(total, SumOf<C>());
}
template <typename Line, typename T>
OW_INLINE Pair<Compute<T>> PairAt(const Line& line, const T* x, const T* y, int64_t i,
                                  Pair<Compute<T>> kept) {
  if (Line::kKeeps) return kept;
  return {Load(x[line.At(i)]), Load(y[line.At(i)])};
}

template <typename Line, typename T>
__global__ void softmax_grad_lines(T* x_grad, const T* out, const T* out_grad, Lines lines,
                                   int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const C inner =
      SumTerms(line, out, out_grad, [](Pair<C> pair) { return pair.first * pair.second; });
  line.ForEach([&](int64_t i, Pair<C>& kept) {
    const Pair<C> pair = PairAt(line, out, out_grad, i, kept);
    x_grad[line.At(i)] = Store<T>((pair.second - inner) * pair.first);
  });
}

template <typename Line, typename T>
__global__ void log_softmax_grad_lines(T* x_grad, const T* out, const T* out_grad, Lines lines,
                                       int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const C total = SumTerms(line, out, out_grad, [](Pair<C> pair) { return pair.second; });
  line.ForEach([&](int64_t i, Pair<C>& kept) {
    const Pair<C> pair = PairAt(line, out, out_grad, i, kept);
    x_grad[line.At(i)] = Store<T>(pair.second - functors::Exp(pair.first) * total);
  });
}

// The gradient of softmax_with_cross_entropy for distributions.
template <typename Line, typename T>
__global__ void soft_label_grad_lines(T* x_grad, const T* softmax, const T* label,
                                      const T* out_grad, Lines lines, int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const C total = SumTerms(line, softmax, label, [](Pair<C> pair) { return pair.second; });
  const C slope = line.is_there ? Load(out_grad[line.line]) : C(0);
  line.ForEach([&](int64_t i, Pair<C>& kept) {
    const Pair<C> pair = PairAt(line, softmax, label, i, kept);
    x_grad[line.At(i)] = Store<T>((pair.first * total - pair.second) * slope);
  });
}
