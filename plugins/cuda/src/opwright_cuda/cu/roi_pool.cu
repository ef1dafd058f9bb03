// roi_pool: max pooling over the bins of boxes. Corners are scaled in double without contraction so
// that they round to the same pixel on all devices.
#include "regions.h"

#include "opwright/functors/regions.h"

using namespace opwright_cuda;
using opwright::functors::PooledSpan;

// Returns the pixels of a box along an axis. Boxes too far outside are reported and count as empty.
template <typename T, typename Index>
OW_INLINE PooledSpan SpanOf(const Regions<T, Index>& r, int64_t box, int axis) {
  const double first = r.Corner(box, 1 - axis), last = r.Corner(box, 3 - axis);
  const bool is_near = fabs(first) <= kMostCoordinate && fabs(last) <= kMostCoordinate;
  return opwright::functors::PooledSpanOf(is_near ? first : -2.0, is_near ? last : -2.0,
                                          r.size[axis], r.bins[axis]);
}

// One thread processes each bin. NaN is greater than all numbers; the first of equal elements wins.
template <typename T, typename Index>
__global__ void roi_pool(T* out, int32_t* index, const T* x, Regions<T, Index> r) {
  using C = Compute<T>;
  const int64_t of_box = r.bins[0] * r.bins[1];
  for (int64_t k = GlobalIndex(); k < r.boxes * r.channels * of_box; k += GridThreads()) {
    const int64_t plane = k / of_box, box = plane / r.channels, bin = k - plane * of_box;
    const PooledSpan down = SpanOf(r, box, 0), along = SpanOf(r, box, 1);
    const int64_t i = bin / r.bins[1], j = bin - i * r.bins[1];
    const int64_t left = along.Low(j), right = along.High(j);
    const int64_t bottom = r.HasImage(box) ? down.High(i) : 0;
    C greatest = C(0);
    int64_t place = -1;
    for (int64_t h = down.Low(i); h < bottom; ++h) {
      const T* const line = x + r.PlaneOf(box, plane - box * r.channels) + h * r.size[1];
      for (int64_t w = left; w < right && greatest == greatest; ++w) {
        const C value = Load(line[w]);
        if (place >= 0 && !(value > greatest) && value == value) continue;
        greatest = value;
        place = h * r.size[1] + w;
      }
    }
    out[k] = Store<T>(greatest);
    index[k] = static_cast<int32_t>(place);
  }
}

// Computes the flat index in x to which the gradient of each bin belongs. The index is -1 for an
// empty bin and for invalid inputs, which are reported.
template <typename Index>
__global__ void roi_pool_places(int64_t* places, const int32_t* index, const Index* images,
                                int64_t n, int64_t channels, int64_t of_box, int64_t n_images,
                                int64_t pixels, Fault* fault, int32_t index_text,
                                int32_t image_text) {
  for (int64_t k = GlobalIndex(); k < n; k += GridThreads()) {
    const int64_t plane = k / of_box, box = plane / channels;
    const auto image = static_cast<int64_t>(images[box]);
    const int64_t pixel = index[k];
    const bool has_image = image >= 0 && image < n_images;
    if (!has_image) Report(fault, image_text, image);
    if (pixel < -1 || pixel >= pixels) Report(fault, index_text, pixel);
    const bool is_there = has_image && pixel >= 0 && pixel < pixels;
    places[k] = is_there ? (image * channels + plane % channels) * pixels + pixel : -1;
  }
}
