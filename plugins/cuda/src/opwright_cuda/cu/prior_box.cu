// prior_box: boxes depend only on shapes and attributes. This file is compiled without contraction
// so that results match NumPy.
#include "kernel.h"

using namespace opwright_cuda;

constexpr int kMostPriors = 64;  // maximum priors per launch

// Width and height, in image pixels, of up to kMostPriors boxes at each position.
struct Priors {
  double sizes[kMostPriors][2];
};

struct Places {
  int64_t rows;
  int64_t columns;
  int64_t priors;  // priors per position
  int64_t first;   // index of the first prior in this launch
  int64_t count;
  double extent[2];  // width and height of the image
  double pitch[2];
  double offset;
  double variance[4];
};

// One thread computes each box.
template <typename T>
__global__ void prior_box(Vector<T, 4>* out, Vector<T, 4>* variances, Priors priors, Places p,
                          bool is_clipped) {
  for (int64_t k = GlobalIndex(); k < p.rows * p.columns * p.count; k += GridThreads()) {
    const int64_t place = k / p.count, which = k - place * p.count;
    const int64_t row = place / p.columns, at[2] = {place - row * p.columns, row};
    Vector<T, 4> box, variance;
    for (int side = 0; side < 4; ++side) {
      const int axis = side % 2;
      const double center = (static_cast<double>(at[axis]) + p.offset) * p.pitch[axis];
      const double half = priors.sizes[which][axis] / 2;
      double edge = (side < 2 ? center - half : center + half) / p.extent[axis];
      if (is_clipped) edge = edge < 0.0 ? 0.0 : edge > 1.0 ? 1.0 : edge;
      box.at[side] = Store<T>(edge);
      variance.at[side] = Store<T>(p.variance[side]);
    }
    const int64_t to = place * p.priors + p.first + which;
    out[to] = box;
    variances[to] = variance;
  }
}
