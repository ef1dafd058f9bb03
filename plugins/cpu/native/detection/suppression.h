// The boxes that nms or multiclass_nms has kept so far, and the test for whether a new box overlaps
// any of them too much. All computations are in double so that every dtype gives the same decision,
// and every operation is rounded as in the reference.
#ifndef OPWRIGHT_CPU_DETECTION_SUPPRESSION_H_
#define OPWRIGHT_CPU_DETECTION_SUPPRESSION_H_

#include <algorithm>
#include <cstdint>

#include <opwright/sdk.hpp>

#include "common/clones.h"
#include "common/digit_sort.h"
#include "movement/widths.h"

namespace opwright_cpu {

OPWRIGHT_CPU_INLINE double AreaOf(double left, double top, double right, double bottom,
                                  double border) {
  const double width = right - left, height = bottom - top;
  return (width < 0 ? 0.0 : width + border) * (height < 0 ? 0.0 : height + border);
}

// Returns whether the intersection over union of `box` and any of n boxes exceeds `threshold`. The
// n boxes are stored in five columns.
bool AnyOverlaps(const double* columns, int64_t stride, int64_t n, const double* box,
                 double threshold, double border);

template <typename T>
class KeptBoxes {
 public:
  static uint64_t Bytes(int64_t capacity) {
    return 5 * static_cast<uint64_t>(capacity) * sizeof(double);
  }

  KeptBoxes(void* memory, int64_t capacity, double threshold, double eta, double border)
      : columns_(static_cast<double*>(memory)),
        capacity_(capacity),
        threshold_(threshold),
        eta_(eta),
        border_(border) {}

  // Keeps the box unless it overlaps a kept box; returns whether it is kept.
  bool Keep(const T* corners) {
    double box[5];
    for (int i = 0; i < 4; ++i) box[i] = static_cast<double>(NumberOf(corners[i]));
    box[4] = AreaOf(box[0], box[1], box[2], box[3], border_);
    if (AnyOverlaps(columns_, capacity_, n_, box, threshold_, border_)) return false;
    for (int i = 0; i < 5; ++i) columns_[i * capacity_ + n_] = box[i];
    ++n_;
    if (threshold_ > 0.5) threshold_ *= eta_;
    return true;
  }

 private:
  double* columns_;
  int64_t capacity_;
  int64_t n_ = 0;
  double threshold_;
  double eta_;
  double border_;
};

template <typename T>
using ScoreKey = typename UnsignedOf<sizeof(T)>::Type;
template <typename T>
using Scored = Keyed<ScoreKey<T>>;

// Returns a score with its sort key. A radix sort puts the best score first, keeps equal scores in
// order, and puts NaN before all numbers.
template <typename T>
Scored<T> ScoredAt(const T* scores, int64_t i) {
  const auto key = static_cast<ScoreKey<T>>(~KeyOf<T, ScoreKey<T>>(scores[i]));
  return Scored<T>{key, static_cast<decltype(Scored<T>::position)>(i)};
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_DETECTION_SUPPRESSION_H_
