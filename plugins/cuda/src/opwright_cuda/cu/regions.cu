// roi_align. Bin positions are computed in double, as on all devices, so samples are on the same
// side of pixel edges everywhere.
#include "functions.h"
#include "regions.h"

using namespace opwright_cuda;

// Reports boxes that are non-finite or far outside the image, and image indices out of range.
template <typename T, typename Index>
__global__ void check_regions(Regions<T, Index> r, Fault* fault, int32_t far_text,
                              int32_t image_text) {
  for (int64_t box = GlobalIndex(); box < r.boxes; box += GridThreads()) {
    for (int corner = 0; corner < 4; ++corner) {
      const double at = r.Corner(box, corner);
      if (!(at >= -kMostCoordinate && at <= kMostCoordinate)) Report(fault, far_text, box);
    }
    if (!r.HasImage(box)) Report(fault, image_text, static_cast<int64_t>(r.images[box]));
  }
}

// The pixels that have a weight in a bin, along one axis.
struct Span {
  int64_t begin;
  int64_t end;
};

// Computes the weight of each pixel of an axis in each bin, [boxes, bins, size]. One thread
// processes each bin.
template <typename T, typename Index, int axis>
__global__ void share_pixels(double* shares, Span* spans, Regions<T, Index> r, int64_t ratio,
                             bool aligned) {
  const int64_t bins = r.bins[axis], size = r.size[axis];
  for (int64_t k = GlobalIndex(); k < r.boxes * bins; k += GridThreads()) {
    const int64_t box = k / bins;
    double* const line = shares + k * size;
    for (int64_t i = 0; i < size; ++i) line[i] = 0.0;
    const double low = r.Corner(box, 1 - axis), wanted = r.Corner(box, 3 - axis) - low;
    const double extent = !aligned && !(wanted >= 1.0) ? 1.0 : wanted;
    const double begin = aligned ? low - 0.5 : low, step = extent / static_cast<double>(bins);
    int64_t samples = ratio;
    if (ratio <= 0) {
      samples = step > 0.0 && step <= 2 * kMostCoordinate ? static_cast<int64_t>(step) : 0;
      if (static_cast<double>(samples) < step && step <= 2 * kMostCoordinate) ++samples;
    }
    Span span{size, 0};
    for (int64_t s = 0; s < samples; ++s) {
      const double part = (static_cast<double>(s) + 0.5) / static_cast<double>(samples);
      const double place = begin + (static_cast<double>(k - box * bins) + part) * step;
      if (!(place >= -1.0 && place <= static_cast<double>(size))) continue;
      const double most = static_cast<double>(size - 1);
      const double held = place < 0.0 ? 0.0 : place > most ? most : place;
      const auto first = static_cast<int64_t>(held);
      const int64_t second = first + 1 < size ? first + 1 : size - 1;
      const double rest = held - static_cast<double>(first);
      line[first] += (1.0 - rest) / static_cast<double>(samples);
      line[second] += rest / static_cast<double>(samples);
      if (first < span.begin) span.begin = first;
      if (second >= span.end) span.end = second + 1;
    }
    spans[k] = span;
  }
}

struct Shares {
  const double* of[2];
  const Span* spans[2];
};

// Only pixels with nonzero weight are read, because 0 * NaN is NaN.
template <typename T, typename Index>
__global__ void roi_align(T* out, const T* x, Regions<T, Index> r, Shares shares) {
  using C = Compute<T>;
  const int64_t of_box = r.bins[0] * r.bins[1];
  for (int64_t k = GlobalIndex(); k < r.boxes * r.channels * of_box; k += GridThreads()) {
    const int64_t plane = k / of_box, box = plane / r.channels, bin = k - plane * of_box;
    const int64_t row = box * r.bins[0] + bin / r.bins[1];
    const int64_t column = box * r.bins[1] + bin % r.bins[1];
    const Span down = shares.spans[0][row], along = shares.spans[1][column];
    C sum = C(0);
    for (int64_t h = down.begin; r.HasImage(box) && h < down.end; ++h) {
      const double of_row = shares.of[0][row * r.size[0] + h];
      const T* const line = x + r.PlaneOf(box, plane - box * r.channels) + h * r.size[1];
      for (int64_t w = along.begin; of_row != 0.0 && w < along.end; ++w) {
        const double share = of_row * shares.of[1][column * r.size[1] + w];
        if (share != 0.0) sum += static_cast<C>(share) * Load(line[w]);
      }
    }
    out[k] = Store<T>(sum);
  }
}

// A thread sums the contributions of all boxes of an image to a pixel in a fixed order.
template <typename T, typename Index>
__global__ void roi_align_grad(T* x_grad, const T* out_grad, Regions<T, Index> r, Shares shares) {
  using C = Compute<T>;
  const int64_t pixels = r.size[0] * r.size[1];
  for (int64_t k = GlobalIndex(); k < r.n * r.channels * pixels; k += GridThreads()) {
    const int64_t plane = k / pixels, image = plane / r.channels, pixel = k - plane * pixels;
    const int64_t h = pixel / r.size[1], w = pixel - h * r.size[1];
    C sum = C(0);
    for (int64_t box = 0; box < r.boxes; ++box) {
      if (!r.IsIn(box, image)) continue;
      const T* grad = out_grad + (box * r.channels + plane % r.channels) * r.bins[0] * r.bins[1];
      for (int64_t i = 0; i < r.bins[0]; ++i, grad += r.bins[1]) {
        const double of_row = shares.of[0][(box * r.bins[0] + i) * r.size[0] + h];
        for (int64_t j = 0; of_row != 0.0 && j < r.bins[1]; ++j) {
          const double share = of_row * shares.of[1][(box * r.bins[1] + j) * r.size[1] + w];
          if (share != 0.0) sum += static_cast<C>(share) * Load(grad[j]);
        }
      }
    }
    x_grad[k] = Store<T>(sum);
  }
}
