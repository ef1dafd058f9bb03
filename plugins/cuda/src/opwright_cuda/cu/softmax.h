// Sums exponentials along a line, relative to the largest element to avoid overflow.
#ifndef OPWRIGHT_CUDA_SOFTMAX_H_
#define OPWRIGHT_CUDA_SOFTMAX_H_

#include "functions.h"
#include "lines.h"

namespace opwright_cuda {

// Returns NaN if either operand is NaN. For 0 and -0, the sign of the result is unspecified.
OW_INLINE float LargerOf(float x, float y) {
#if defined(__CUDACC_RTC__)
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(x), "f"(y));
  return larger;
#else
  return functors::Maximum(x, y);
#endif
}
OW_INLINE double LargerOf(double x, double y) { return functors::Maximum(x, y); }

// Returns exp(x) for a sum that includes 1, in which small terms need less precision. The error is
// 2 ulp, plus 1.2 ulp for each unit by which x is below 0. Denormal results are replaced by 0.
OW_INLINE float AddedPower(float x) {
#if defined(__CUDACC_RTC__)
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * 1.44269504f));
  return power;
#else
  return functors::Exp(x);
#endif
}
OW_INLINE double AddedPower(double x) { return functors::Exp(x); }

// The line type for exponentials. An exponential in double needs so many registers that a thread
// computes only two elements at a time.
template <typename Line>
struct PowerLineOf {
  using Type = Line;
};
template <typename Team, int vector>
struct PowerLineOf<StreamedLine<Team, double, vector>> {
  using Type = StreamedLine<Team, double, vector, 2 / vector>;
};
template <typename Line>
using PowerLine = typename PowerLineOf<Line>::Type;

// The value that ReadPowers keeps for each element x: exp(x - top), x - top, or nothing. In
// compute-bound code, keeping nothing takes a third of the instructions.
enum Left { kPowers, kShifted, kNothing };

// Returns exp of a non-positive difference; the result is exactly 1 for 0.
template <Left left, typename T>
OW_INLINE T PowerFor(T shifted) {
  return left == kNothing ? AddedPower(shifted) : functors::Exp(shifted);
}

// The largest element so far, and the sum of exp(x - top). NaN and infinity make the sum NaN.
template <typename T>
struct Powers {
  T top;
  T total;

  // If all elements so far are minus infinity, the shift is 0, so the sum stays 0.
  OW_INLINE T Shift() const { return top == Lowest<T>() ? T(0) : top; }
  template <Left left, typename Stored, int n>
  OW_INLINE void Add(const Vector<Stored, n>& block) {
    T x[n];
    T largest = Lowest<T>();
#pragma unroll
    for (int k = 0; k < n; ++k) {
      x[k] = Load(block.at[k]);
      largest = LargerOf(largest, x[k]);
    }
    const T before = top;
    top = LargerOf(top, largest);
    const T shift = Shift();
    total *= PowerFor<left>(before - shift);  // a branch would serialize reads
#pragma unroll
    for (int k = 0; k < n; ++k) total += PowerFor<left>(x[k] - shift);
  }
};
template <typename T>
struct PowersOf {
  static OW_INLINE Powers<T> Identity() { return {Lowest<T>(), T(0)}; }
  OW_INLINE Powers<T> operator()(Powers<T> x, Powers<T> y) const {
    const Powers<T> both{functors::Maximum(x.top, y.top), T(0)};
    const T shift = both.Shift();
    return {both.top,
            x.total * functors::Exp(x.top - shift) + y.total * functors::Exp(y.top - shift)};
  }
};

// Reads a line once, and calls meanwhile() while the reads are in flight.
template <Left left, typename Line, typename T, typename Function>
OW_INLINE Powers<Compute<T>> ReadPowers(Line& line, const T* x, Function meanwhile) {
  using C = Compute<T>;
  if constexpr (Line::kKeeps) {
    C top = Lowest<C>();
    ForEach(
        line,
        [&](int64_t, C& kept, C value) {
          kept = value;
          top = LargerOf(top, kept);
        },
        x);
    meanwhile();
    top = line.Reduce(top, MaxOf<C>());
    C total = C(0);
    ForEach(line, [&](int64_t, C& kept) {
      const C shifted = kept - top;
      const C power = PowerFor<left>(shifted);
      total += power;
      if (left != kNothing) kept = left == kPowers ? power : shifted;
    });
    return {top, line.Reduce(total, SumOf<C>())};
  } else {
    Powers<C> powers = PowersOf<C>::Identity();
    line.EachBlock([&](auto width, int64_t i, C*) {
      powers.template Add<left>(ReadBlock<decltype(width)::value>(line, x, i));
    });
    meanwhile();
    return line.Reduce(powers, PowersOf<C>());
  }
}
template <Left left, typename Line, typename T>
OW_INLINE Powers<Compute<T>> ReadPowers(Line& line, const T* x) {
  return ReadPowers<left>(line, x, [] {});
}

// Returns the value that ReadPowers has kept, or recomputes it from a reread element.
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
