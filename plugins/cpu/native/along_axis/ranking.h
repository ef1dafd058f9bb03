// The order that top_k and accuracy use: better elements first, equal elements by position.
#ifndef OPWRIGHT_CPU_ALONG_AXIS_RANKING_H_
#define OPWRIGHT_CPU_ALONG_AXIS_RANKING_H_

#include <cstdint>

namespace opwright_cpu {

// Returns whether a ranks before b; NaN counts as greater than every number.
template <typename T>
inline bool IsAhead(T a, T b, bool largest) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan | b_nan) return largest ? a_nan & !b_nan : b_nan & !a_nan;
  return largest ? a > b : a < b;
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ALONG_AXIS_RANKING_H_
