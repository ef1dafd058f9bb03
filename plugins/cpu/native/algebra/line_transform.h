// Discrete Fourier transforms of several lines at once, by Stockham's method in mixed radix.
//
// Real and imaginary parts are in separate planes, with element k of line l at [k * width + l]. One
// SIMD vector holds the same element of many lines, so no butterfly moves data between lanes.
#ifndef OPWRIGHT_CPU_ALGEBRA_LINE_TRANSFORM_H_
#define OPWRIGHT_CPU_ALGEBRA_LINE_TRANSFORM_H_

#include <cstdint>
#include <vector>

namespace opwright_cpu {

template <typename T>
struct Planes {
  T* re;
  T* im;
};

template <typename T>
Planes<T> Swapped(Planes<T> planes) {
  return {planes.im, planes.re};
}

template <typename T>
class LineTransform {
 public:
  static constexpr int64_t kLanes = static_cast<int64_t>(64 / sizeof(T));

  // Returns whether all prime factors of n are at most 31.
  static bool Takes(int64_t n);

  LineTransform() = default;
  // `n` is the number of elements per line, at least 1, and Takes(n) must be true; `width` is
  // kLanes or 1.
  LineTransform(int64_t n, int64_t width);

  // Computes out[k] = sum(x[j] exp(-2 pi i j k / n)). Overwrites both pairs of planes and returns
  // the pair with the result. To compute the inverse transform times n, swap the real and imaginary
  // planes before and after.
  Planes<T> Run(Planes<T> x, Planes<T> other) const;

 private:
  struct Stage {
    int64_t radix;
    int64_t count;            // butterflies with different twiddle factors
    std::vector<T> twiddles;  // [count, radix - 1, 2]
  };

  int64_t width_ = 1;
  std::vector<Stage> stages_;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ALGEBRA_LINE_TRANSFORM_H_
