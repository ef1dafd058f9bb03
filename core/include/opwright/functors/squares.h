// Sums of squares of numbers whose squares would overflow or underflow.
//
// A square is added in one of three scales, which are powers of two and therefore exact; see James
// Blue, A Portable Fortran Program to Find the Euclidean Norm of a Vector, 1978. Kernels first sum
// the squares without scales, and repeat the sum in this way if IsOrdinary is false for the result.
#ifndef OPWRIGHT_FUNCTORS_SQUARES_H_
#define OPWRIGHT_FUNCTORS_SQUARES_H_

#include "opwright/functors/elementary.h"

namespace opwright {
namespace functors {
namespace detail {

// Between kSmall and kLarge, squares neither overflow nor underflow. The scales move all other
// numbers into that range, including the least denormal and 2**30 times the largest number.
template <typename T>
struct SquareRange;
template <>
struct SquareRange<float> {
  static constexpr float kSmall = 0x1p-50f;
  static constexpr float kLarge = 0x1p50f;
  static constexpr float kOfSmall = 0x1p100f;
  static constexpr float kOfLarge = 0x1p-80f;
};
template <>
struct SquareRange<double> {
  static constexpr double kSmall = 0x1p-400;
  static constexpr double kLarge = 0x1p400;
  static constexpr double kOfSmall = 0x1p700;
  static constexpr double kOfLarge = 0x1p-650;
};

template <typename T>
OPWRIGHT_FUNCTOR T SizeOf(T x) {
  return x < T(0) ? -x : x;
}

// Returns the factor by which numbers up to this size are scaled before they are squared, mostly 1.
template <typename T>
OPWRIGHT_FUNCTOR T ScaleOf(T size) {
  using Range = SquareRange<T>;
  const T of_small = size < Range::kSmall ? Range::kOfSmall : T(1);
  return size > Range::kLarge ? Range::kOfLarge : of_small;
}

}  // namespace detail

// Whether a sum of squares is accurate, because no significant square has overflowed or
// underflowed.
template <typename T>
OPWRIGHT_FUNCTOR bool IsOrdinary(T sum) {
  constexpr T kLeast = detail::SquareRange<T>::kSmall * detail::SquareRange<T>::kSmall;
  return sum >= kLeast && sum - sum == T(0);
}

template <typename T>
struct SquareSum {
  T small;  // each in its scale
  T middle;
  T large;

  OPWRIGHT_FUNCTOR void Add(T x) {
    using Range = detail::SquareRange<T>;
    const T size = detail::SizeOf(x);
    const T scaled = x * detail::ScaleOf(size);
    const T square = scaled * scaled;
    const bool is_small = size < Range::kSmall;
    const bool is_large = size > Range::kLarge;
    small += is_small ? square : T(0);
    large += is_large ? square : T(0);
    middle += is_small || is_large ? T(0) : square;  // includes NaN
  }
  OPWRIGHT_FUNCTOR void Join(const SquareSum& other) {
    small += other.small;
    middle += other.middle;
    large += other.large;
  }
  // Returns the square root of the sum.
  OPWRIGHT_FUNCTOR T Root() const {
    using Range = detail::SquareRange<T>;
    const T above = large + middle * Range::kOfLarge * Range::kOfLarge;
    const T below = middle + small / Range::kOfSmall / Range::kOfSmall;
    if (large > T(0)) return Sqrt(above) / Range::kOfLarge;
    return middle == T(0) ? Sqrt(small) / Range::kOfSmall : Sqrt(below);
  }
};

// sqrt(x**2 + y**2).
template <typename T>
OPWRIGHT_FUNCTOR T Hypotenuse(T x, T y) {
  const T x_size = detail::SizeOf(x);
  const T y_size = detail::SizeOf(y);
  const T scale = detail::ScaleOf(x_size > y_size ? x_size : y_size);
  return Sqrt(x * scale * (x * scale) + y * scale * (y * scale)) / scale;
}

// 1 / sqrt(norm**2 / count + epsilon).
template <typename T>
OPWRIGHT_FUNCTOR T InverseDeviation(T norm, T count, T epsilon) {
  return T(1) / Hypotenuse(norm / Sqrt(count), Sqrt(epsilon));
}

// y / (x**2 + y**2), the derivative of the angle of the point (y, x) with respect to its height x.
template <typename T>
OPWRIGHT_FUNCTOR T Atan2Derivative(T x, T y) {
  const T x_size = detail::SizeOf(x);
  const T y_size = detail::SizeOf(y);
  const T scale = detail::ScaleOf(x_size > y_size ? x_size : y_size);
  const T height = x * scale;
  const T width = y * scale;
  return width / (height * height + width * width) * scale;
}

template <typename T>
OPWRIGHT_FUNCTOR T AtanGrad(T x, T out_grad) {
  using Range = detail::SquareRange<T>;
  const T scale = detail::SizeOf(x) > Range::kLarge ? Range::kOfLarge : T(1);
  const T scaled = x * scale;
  return out_grad * scale / (scaled * scaled + scale * scale) * scale;
}

}  // namespace functors
}  // namespace opwright

#endif  // OPWRIGHT_FUNCTORS_SQUARES_H_
