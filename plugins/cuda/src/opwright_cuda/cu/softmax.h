// The sum of the powers of e along a line, each divided by the largest: nothing overflows.
#ifndef OPWRIGHT_CUDA_SOFTMAX_H_
#define OPWRIGHT_CUDA_SOFTMAX_H_

#include "functions.h"
#include "lines.h"

namespace opwright_cuda {

// The largest element so far, and the sum of e**(x - top). NaN and infinity make the sum NaN.
template <typename T>
struct Powers {
  T top;
  T total;

  // Where all are minus infinity, nothing counts: later ones may be larger.
  static OW_INLINE T PowerOf(T x, T top) {
    return top == Lowest<T>() ? T(0) : functors::Exp(x - top);
  }
  OW_INLINE void Add(T x) {
    if (x <= top) {
      total += PowerOf(x, top);
      return;
    }
    const T now = functors::Maximum(top, x);
    total = total * PowerOf(top, now) + PowerOf(x, now);
    top = now;
  }
};
template <typename T>
struct PowersOf {
  static OW_INLINE Powers<T> Identity() { return {Lowest<T>(), T(0)}; }
  OW_INLINE Powers<T> operator()(Powers<T> x, Powers<T> y) const {
    const T top = functors::Maximum(x.top, y.top);
    return {top,
            x.total * Powers<T>::PowerOf(x.top, top) + y.total * Powers<T>::PowerOf(y.top, top)};
  }
};

// Reads a line once, and calls meanwhile() as soon as all its reads are on their way. Where the
// line is kept, x - top is left of each element, or e**(x - top).
template <bool keeps_powers, typename Line, typename T, typename Function>
OW_INLINE Powers<Compute<T>> ReadPowers(Line& line, const T* x, Function meanwhile) {
  using C = Compute<T>;
  if constexpr (Line::kKeeps) {
    C top = Lowest<C>();
    ForEach(
        line,
        [&](int64_t, C& kept, C value) {
          kept = value;
          top = functors::Maximum(top, kept);
        },
        x);
    meanwhile();
    top = line.Reduce(top, MaxOf<C>());
    C total = C(0);
    ForEach(line, [&](int64_t, C& kept) {
      kept -= top;
      const C power = functors::Exp(kept);
      total += power;
      if (keeps_powers) kept = power;
    });
    return {top, line.Reduce(total, SumOf<C>())};
  } else {
    Powers<C> powers = PowersOf<C>::Identity();
    ForEach(line, [&](int64_t, C&, C value) { powers.Add(value); }, x);
    meanwhile();
    return line.Reduce(powers, PowersOf<C>());
  }
}
template <bool keeps_powers, typename Line, typename T>
OW_INLINE Powers<Compute<T>> ReadPowers(Line& line, const T* x) {
  return ReadPowers<keeps_powers>(line, x, [] {});
}

// What ReadPowers has left, or the same made again of a value that is read again.
template <typename Line, typename C>
OW_INLINE C ShiftedOf(C kept, C again, C top) {
  return Line::kKeeps ? kept : again - top;
}
template <typename Line, typename C>
OW_INLINE C PowerOf(C kept, C again, C top) {
  return Line::kKeeps ? kept : functors::Exp(again - top);
}

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_SOFTMAX_H_
