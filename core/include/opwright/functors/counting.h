// Counting, written once for every device: the bins of a histogram, the area under a ROC curve,
// precision and recall. Included after opwright/functors.h, which defines
// OPWRIGHT_FUNCTOR.
#ifndef OPWRIGHT_FUNCTORS_COUNTING_H_
#define OPWRIGHT_FUNCTORS_COUNTING_H_

namespace opwright {
namespace functors {

// Bins of equal width. Without contraction of products and sums, the edges are bitwise identical to
// the result of numpy.linspace.
struct HistogramBins {
  double low;
  double high;
  int64_t count;

  // Returns the lower edge of a bin; for bin `count`, the upper edge of the last bin.
  OPWRIGHT_FUNCTOR double Edge(int64_t bin) const {
    if (bin >= count) return high;
    const double extent = high - low;
    const double bins = static_cast<double>(count), at = static_cast<double>(bin);
    const double step = extent / bins;
    return (step == 0.0 ? at / bins * extent : at * step) + low;
  }
  OPWRIGHT_FUNCTOR double Scale() const { return static_cast<double>(count) / (high - low); }
  // NaN is in no bin.
  OPWRIGHT_FUNCTOR bool Holds(double value) const { return value >= low && value <= high; }
};

// Returns the bin of a value within `bins`. The product with the scale may be off by one, so the
// edges from edge_of(bin) decide.
template <typename EdgeOf>
OPWRIGHT_FUNCTOR int64_t BinOf(const HistogramBins& bins, double scale, double value,
                               const EdgeOf& edge_of) {
  const int64_t last = bins.count - 1;
  const double guess = (value - bins.low) * scale;
  int64_t bin = guess < static_cast<double>(last) ? static_cast<int64_t>(guess) : last;
  while (bin > 0 && value < edge_of(bin)) --bin;
  while (bin < last && value >= edge_of(bin + 1)) ++bin;
  return bin;
}

// The number of pairs of a positive and a negative row in which the positive row has the higher
// score; equal scores count half. Scores must be added in ascending order.
struct RocArea {
  double area;
  double positives;
  double negatives;

  // Adds `behind`, the counts of a range with higher scores.
  OPWRIGHT_FUNCTOR void Join(const RocArea& behind) {
    area += behind.area + behind.positives * negatives;
    positives += behind.positives;
    negatives += behind.negatives;
  }
  OPWRIGHT_FUNCTOR double Share() const {
    const double pairs = positives * negatives;
    return pairs > 0 ? area / pairs : 0.0;
  }
};

OPWRIGHT_FUNCTOR RocArea RocAreaOfBin(int64_t positives, int64_t negatives) {
  const double more = static_cast<double>(positives), fewer = static_cast<double>(negatives);
  return {more * fewer / 2, more, fewer};
}

// Adds precision, recall and F1 to `sums`, computed from the numbers of true positives, false
// positives and false negatives; a ratio is 0 if its divisor is 0.
OPWRIGHT_FUNCTOR void AddRatios(int64_t right, int64_t too_many, int64_t too_few, double* sums) {
  if (right == 0) return;
  const double hits = static_cast<double>(right);
  const double more = static_cast<double>(too_many), fewer = static_cast<double>(too_few);
  sums[0] += hits / (hits + more);
  sums[1] += hits / (hits + fewer);
  sums[2] += hits / (hits + (more + fewer) / 2);
}

}  // namespace functors
}  // namespace opwright

#endif  // OPWRIGHT_FUNCTORS_COUNTING_H_
