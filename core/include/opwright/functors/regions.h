// Computes which pixels the bins of a box cover. Included after opwright/functors.h.
#ifndef OPWRIGHT_FUNCTORS_REGIONS_H_
#define OPWRIGHT_FUNCTORS_REGIONS_H_

namespace opwright {
namespace functors {

// Rounds to the nearest integer, ties away from 0; x must be in the range of int64.
OPWRIGHT_FUNCTOR int64_t RoundAwayFrom0(double x) {
  const double size = x < 0.0 ? -x : x;
  const int64_t whole = static_cast<int64_t>(size);
  const int64_t rounded = size - static_cast<double>(whole) >= 0.5 ? whole + 1 : whole;
  return x < 0.0 ? -rounded : rounded;
}

// The pixels of one axis that a box covers, both ends included, divided into bins.
struct PooledSpan {
  int64_t begin;
  int64_t extent;
  int64_t size;
  int64_t bins;

  // The pixels of bin `bin` are [Low, High).
  OPWRIGHT_FUNCTOR int64_t Low(int64_t bin) const { return Held(begin + bin * extent / bins); }
  OPWRIGHT_FUNCTOR int64_t High(int64_t bin) const {
    return Held(begin + ((bin + 1) * extent + bins - 1) / bins);
  }
  OPWRIGHT_FUNCTOR int64_t Held(int64_t at) const { return at < 0 ? 0 : at > size ? size : at; }
};

OPWRIGHT_FUNCTOR PooledSpan PooledSpanOf(double first, double last, int64_t size, int64_t bins) {
  const int64_t begin = RoundAwayFrom0(first);
  const int64_t extent = RoundAwayFrom0(last) - begin + 1;
  return {begin, extent > 1 ? extent : 1, size, bins};
}

}  // namespace functors
}  // namespace opwright

#endif  // OPWRIGHT_FUNCTORS_REGIONS_H_
