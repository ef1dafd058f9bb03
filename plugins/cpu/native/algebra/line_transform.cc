#include "algebra/line_transform.h"

#include <cmath>
#include <utility>

#include "algebra/vectors.h"
#include "common/clones.h"

namespace opwright_cpu {
namespace {

constexpr double kTurn = 6.283185307179586476925286766559;
constexpr int64_t kRadices[] = {4, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31};
constexpr int64_t kMostRadix = 31;

// Computes one stage, in which butterfly p of `count` reads the elements p + k * count, each a row
// of `row` numbers, and writes the elements radix * p + k.
template <typename T>
struct Rows {
  int64_t radix;
  int64_t count;
  int64_t row;
  const T* twiddles;
  const T* x_re;
  const T* x_im;
  T* y_re;
  T* y_im;
};

template <typename V>
OPWRIGHT_CPU_INLINE void Butterfly2(V* re, V* im) {
  const V r = re[0] - re[1], i = im[0] - im[1];
  re[0] += re[1];
  im[0] += im[1];
  re[1] = r;
  im[1] = i;
}

template <typename V>
OPWRIGHT_CPU_INLINE void Butterfly4(V* re, V* im) {
  const V sum_r = re[0] + re[2], sum_i = im[0] + im[2];
  const V less_r = re[0] - re[2], less_i = im[0] - im[2];
  const V odd_r = re[1] + re[3], odd_i = im[1] + im[3];
  const V turned_r = im[1] - im[3], turned_i = re[3] - re[1];  // -i (x1 - x3)
  re[0] = sum_r + odd_r;
  im[0] = sum_i + odd_i;
  re[1] = less_r + turned_r;
  im[1] = less_i + turned_i;
  re[2] = sum_r - odd_r;
  im[2] = sum_i - odd_i;
  re[3] = less_r - turned_r;
  im[3] = less_i - turned_i;
}

// Computes a butterfly of odd radix. The sums and differences of x[k] and x[radix - k] yield two
// outputs at once.
template <typename V, typename T>
OPWRIGHT_CPU_INLINE void ButterflyOdd(int64_t radix, const T* cosines, const T* sines, V* re,
                                      V* im) {
  constexpr int64_t kMost = kMostRadix / 2 + 1;
  const int64_t half = radix / 2;
  V sum_r[kMost], sum_i[kMost], less_r[kMost], less_i[kMost];
  V all_r = re[0], all_i = im[0];
  for (int64_t k = 1; k <= half; ++k) {
    sum_r[k] = re[k] + re[radix - k];
    sum_i[k] = im[k] + im[radix - k];
    less_r[k] = re[k] - re[radix - k];
    less_i[k] = im[k] - im[radix - k];
    all_r += sum_r[k];
    all_i += sum_i[k];
  }
  for (int64_t j = 1; j <= half; ++j) {
    V u_r = re[0], u_i = im[0], v_r = less_r[1] * sines[j], v_i = less_i[1] * sines[j];
    for (int64_t k = 1; k <= half; ++k) {
      const int64_t turn = j * k % radix;
      u_r += sum_r[k] * cosines[turn];
      u_i += sum_i[k] * cosines[turn];
      if (k == 1) continue;
      v_r += less_r[k] * sines[turn];
      v_i += less_i[k] * sines[turn];
    }
    re[j] = u_r + v_i;
    im[j] = u_i - v_r;
    re[radix - j] = u_r - v_i;
    im[radix - j] = u_i + v_r;
  }
  re[0] = all_r;
  im[0] = all_i;
}

// Computes the butterflies of one stage; kRadix 0 means any odd radix.
template <typename V, typename T, int64_t kRadix>
OPWRIGHT_CPU_CLONES void RunStage(const Rows<T>& rows) {
  constexpr int64_t kStep = static_cast<int64_t>(sizeof(V) / sizeof(T));
  constexpr int64_t kMost = kRadix > 0 ? kRadix : kMostRadix;
  const int64_t radix = kRadix > 0 ? kRadix : rows.radix;
  T cosines[kMost], sines[kMost];
  for (int64_t k = 0; k < radix && radix % 2 == 1; ++k) {
    const double angle = kTurn * static_cast<double>(k) / static_cast<double>(radix);
    cosines[k] = static_cast<T>(std::cos(angle));
    sines[k] = static_cast<T>(std::sin(angle));
  }
  const int64_t far = rows.count * rows.row;
  for (int64_t p = 0; p < rows.count; ++p) {
    const T* twiddles = rows.twiddles + p * (radix - 1) * 2;
    for (int64_t q = 0; q < rows.row; q += kStep) {
      V re[kMost], im[kMost];
      const int64_t from = p * rows.row + q, to = radix * p * rows.row + q;
      for (int64_t k = 0; k < radix; ++k) {
        Get(rows.x_re + from + k * far, re[k]);
        Get(rows.x_im + from + k * far, im[k]);
      }
      if constexpr (kRadix == 2) {
        Butterfly2(re, im);
      } else if constexpr (kRadix == 4) {
        Butterfly4(re, im);
      } else {
        ButterflyOdd<V, T>(radix, cosines, sines, re, im);
      }
      Put(re[0], rows.y_re + to);
      Put(im[0], rows.y_im + to);
      for (int64_t k = 1; k < radix; ++k) {
        if (p > 0) {  // the twiddle factors of the first butterfly are 1
          const T c = twiddles[2 * k - 2], s = twiddles[2 * k - 1];
          const V r = re[k] * c - im[k] * s;
          im[k] = re[k] * s + im[k] * c;
          re[k] = r;
        }
        Put(re[k], rows.y_re + to + k * rows.row);
        Put(im[k], rows.y_im + to + k * rows.row);
      }
    }
  }
}

template <typename V, typename T>
void RunRadix(const Rows<T>& rows) {
  switch (rows.radix) {
    case 2:
      return RunStage<V, T, 2>(rows);
    case 3:
      return RunStage<V, T, 3>(rows);
    case 4:
      return RunStage<V, T, 4>(rows);
    case 5:
      return RunStage<V, T, 5>(rows);
    case 7:
      return RunStage<V, T, 7>(rows);
    default:
      return RunStage<V, T, 0>(rows);
  }
}

}  // namespace

template <typename T>
bool LineTransform<T>::Takes(int64_t n) {
  for (const int64_t radix : kRadices) {
    while (n % radix == 0) n /= radix;
  }
  return n == 1;
}

template <typename T>
LineTransform<T>::LineTransform(int64_t n, int64_t width) : width_(width) {
  for (const int64_t radix : kRadices) {
    for (; n % radix == 0; n /= radix) {
      Stage stage{radix, n / radix, {}};
      for (int64_t p = 0; p < stage.count; ++p) {
        for (int64_t k = 1; k < radix; ++k) {
          const double angle = kTurn * static_cast<double>(p * k) / static_cast<double>(n);
          stage.twiddles.push_back(static_cast<T>(std::cos(angle)));
          stage.twiddles.push_back(static_cast<T>(-std::sin(angle)));
        }
      }
      stages_.push_back(std::move(stage));
    }
  }
}

template <typename T>
Planes<T> LineTransform<T>::Run(Planes<T> x, Planes<T> other) const {
  int64_t row = width_;
  for (const Stage& stage : stages_) {
    const Rows<T> rows{stage.radix, stage.count, row,      stage.twiddles.data(),
                       x.re,        x.im,        other.re, other.im};
    if (row % kLanes == 0) {
      RunRadix<typename Vector<T>::Type, T>(rows);
    } else {
      RunRadix<T, T>(rows);
    }
    row *= stage.radix;
    std::swap(x, other);
  }
  return x;
}

template class LineTransform<float>;
template class LineTransform<double>;

}  // namespace opwright_cpu
