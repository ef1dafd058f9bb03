// Discrete Fourier transforms of several lines at once, by Stockham's method in mixed radix.
//
// Real and imaginary parts are in separate planes, element k of line l at [k * width + l]: one
// vector has the same element of many lines, so that no butterfly moves anything between lanes.
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

  // Whether n has no prime factor above 31.
  static bool Takes(int64_t n);

  LineTransform() = default;
  // For n elements, at least 1 and supported; `width` is kLanes or 1.
  LineTransform(int64_t n, int64_t width);

  // out[k] = sum(x[j] exp(-2 pi i j k / n)). Both pairs of planes are written; returns
  // the pair with the result. With the planes swapped before and after it is the inverse times n.
  Planes<T> Run(Planes<T> x, Planes<T> other) const;

 private:
  struct Stage {
    int64_t radix;
    int64_t count;            // butterflies whose factors differ
    std::vector<T> twiddles;  // [count, radix - 1, 2]
  };

  int64_t width_ = 1;
  std::vector<Stage> stages_;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ALGEBRA_LINE_TRANSFORM_H_
