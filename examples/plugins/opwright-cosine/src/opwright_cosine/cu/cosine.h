// The arithmetic of all kernels in this package, written once: the C++ compiler builds the CPU
// kernels from it, and NVRTC builds the GPU kernels.
#ifndef OPWRIGHT_COSINE_COSINE_H_
#define OPWRIGHT_COSINE_COSINE_H_

#include "opwright/functors.h"

namespace cosine {

// The sums over two rows, or over parts of them. They are double for floats, too, because a float
// sum of k products would lose half of its digits at k = 10^4, and the square of a large float
// would overflow.
struct Sums {
  double dot;
  double a_square;
  double b_square;

  OPWRIGHT_FUNCTOR double Norms() const {
    return opwright::functors::Sqrt(a_square) * opwright::functors::Sqrt(b_square);
  }
};

// Combines the sums of two parts of a row; opwright-cuda's block reduction uses it directly.
struct Add {
  static OPWRIGHT_FUNCTOR Sums Identity() { return {0.0, 0.0, 0.0}; }
  OPWRIGHT_FUNCTOR Sums operator()(Sums x, Sums y) const {
    return {x.dot + y.dot, x.a_square + y.a_square, x.b_square + y.b_square};
  }
};

template <typename T>
OPWRIGHT_FUNCTOR Sums TermOf(T a, T b) {
  const double x = static_cast<double>(a);
  const double y = static_cast<double>(b);
  return {x * y, x * x, y * y};
}

// out = scale <a, b> / (|a| |b|). A row of zeros has no angle: its similarity is 0.
struct Similarity {
  double scale;

  OPWRIGHT_FUNCTOR double operator()(Sums sums) const {
    const double norms = sums.Norms();
    return norms == 0.0 ? 0.0 : scale * sums.dot / norms;
  }
};

// The gradient of a row is a combination of both: d out / da = scale (b / (|a| |b|) -
// <a, b> a / (|a|^3 |b|)), and the same with a and b exchanged. The gradient of a row of zeros is
// 0.
struct Gradient {
  double along_other;
  double along_own;

  OPWRIGHT_FUNCTOR Gradient(Sums sums, double own_square, double scaled_out_grad) {
    const double norms = sums.Norms();
    along_other = norms == 0.0 ? 0.0 : scaled_out_grad / norms;
    along_own = norms == 0.0 ? 0.0 : -along_other * sums.dot / own_square;
  }

  template <typename T>
  OPWRIGHT_FUNCTOR T At(T own, T other) const {
    return static_cast<T>(along_other * static_cast<double>(other) +
                          along_own * static_cast<double>(own));
  }
};

}  // namespace cosine

#endif  // OPWRIGHT_COSINE_COSINE_H_
