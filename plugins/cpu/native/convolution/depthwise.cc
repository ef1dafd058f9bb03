#include "convolution/depthwise.h"

#include <algorithm>

#include "common/clones.h"
#include "common/parallel.h"
#include "convolution/attributes.h"
#include "convolution/columns.h"

namespace opwright_cpu {
namespace {

// Number of adjacent channels per block; each thread processes complete blocks.
constexpr int64_t kBlock = 16;

// Computes out[i * to] += factor * x[i * from].
template <typename T>
OPWRIGHT_CPU_CLONES void AddMultiple(int64_t n, T factor, const T* x, int64_t from, T* out,
                                     int64_t to) {
  if (from == 1 && to == 1) {
    for (int64_t i = 0; i < n; ++i) out[i] += factor * x[i];
  } else if (to == 1) {
    for (int64_t i = 0; i < n; ++i) out[i] += factor * x[i * from];
  } else {
    for (int64_t i = 0; i < n; ++i) out[i * to] += factor * x[i * from];
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES T Dot(int64_t n, const T* a, const T* b, int64_t stride) {
  constexpr int64_t kLanes = 8;  // separate sums, which the compiler keeps in a vector
  T sums[kLanes] = {};
  int64_t i = 0;
  for (; stride == 1 && i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  T sum = 0;
  for (; i < n; ++i) sum += a[i] * b[i * stride];
  for (const T lane : sums) sum += lane;
  return sum;
}

// Computes out += x * weight for the channels of one pixel, each with `multiplier` filters.
template <typename T>
OPWRIGHT_CPU_CLONES void AddToFilters(int64_t channels, int64_t multiplier, const T* x,
                                      const T* weight, T* out) {
  if (multiplier == 1) {
    for (int64_t c = 0; c < channels; ++c) out[c] += x[c] * weight[c];
    return;
  }
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t m = 0; m < multiplier; ++m) {
      out[c * multiplier + m] += x[c] * weight[c * multiplier + m];
    }
  }
}

// Adds the sum of grad * weight over the filters of each channel to x.
template <typename T>
OPWRIGHT_CPU_CLONES void AddToChannels(int64_t channels, int64_t multiplier, const T* grad,
                                       const T* weight, T* x) {
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t m = 0; m < multiplier; ++m) {
      x[c] += grad[c * multiplier + m] * weight[c * multiplier + m];
    }
  }
}

}  // namespace

template <typename T>
void Depthwise<T>::Make(const opwright::Shape& x, const opwright::Shape& weight,
                        const opwright::Shape& out, const ConvolutionAttrs& attrs,
                        int32_t n_threads) {
  n_ = x.dim(0);
  filters_ = weight.dim(0);
  multiplier_ = filters_ / attrs.groups;
  n_threads_ = n_threads;
  at_ = ImageWindows(x, weight, out, attrs);
}

template <typename T>
template <typename Function>
void Depthwise<T>::OverBlocks(bool by_images, const Function& function) const {
  const int64_t channels = at_.x.channels;
  const int64_t width = at_.x.is_channels_last() ? kBlock : 1;
  const int64_t blocks = (channels + width - 1) / width, images = by_images ? n_ : 1;
  const int64_t work = n_ * at_.out.size() * at_.taps() / (blocks * images);
  const int64_t grain = kElementGrain / std::max<int64_t>(work, 1) + 1;
  ParallelFor(n_threads_, images * blocks, grain, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      const int64_t image = i / blocks, first = i % blocks;
      const int64_t last = std::min(end - image * blocks, blocks);
      function(by_images ? Range{image, image + 1} : Range{0, n_},
               Range{first * width, std::min(last * width, channels)});
      i = image * blocks + last;
    }
  });
}

template <typename T>
template <typename Function>
void Depthwise<T>::OverPlane(int64_t filter, const Function& function) const {
  const int64_t out = filter * at_.out.channel, x = filter / multiplier_ * at_.x.channel;
  for (int64_t row = 0; row < at_.out_rows(); ++row) {
    at_.OverRows(row, [&](int64_t x_row, int64_t first_tap) {
      for (int64_t q = 0; q < at_.kernel[2]; ++q) {
        const Range columns = at_.ColumnsOf(q);
        if (columns.begin >= columns.end) continue;
        const int64_t from = columns.begin * at_.strides[2] + at_.ShiftOf(q);
        function(columns.end - columns.begin, out + row * at_.out.row + columns.begin,
                 x + x_row + from, first_tap + q);
      }
    });
  }
}

template <typename T>
template <typename Function>
void Depthwise<T>::OverPixels(const Function& function) const {
  const int64_t width = at_.out.sizes[2];
  for (int64_t window = 0; window < at_.out.pixels(); ++window) {
    const Range taps = at_.TapsOf(window % width, 2);
    at_.OverRows(window / width, [&](int64_t x_row, int64_t first_tap) {
      for (int64_t q = taps.begin; q < taps.end; ++q) {
        const int64_t column = window % width * at_.strides[2] + at_.ShiftOf(q);
        function(window * filters_, x_row + column * at_.x.pixel, first_tap + q);
      }
    });
  }
}

template <typename T>
void Depthwise<T>::Forward(const T* x, const T* weight, const T* bias, T* out,
                           char* workspace) const {
  T* packed = reinterpret_cast<T*>(workspace);
  const int64_t n_taps = at_.taps();
  for (int64_t i = 0; i < filters_ * n_taps; ++i) {
    packed[i % n_taps * filters_ + i / n_taps] = weight[i];
  }
  OverBlocks(true, [&](Range images, Range channels) {
    const T* from = x + images.begin * at_.x.size();
    T* to = out + images.begin * at_.out.size();
    const Range filters{channels.begin * multiplier_, channels.end * multiplier_};
    const int64_t count = filters.end - filters.begin;
    if (at_.x.is_channels_last()) {
      for (int64_t i = 0; i < at_.out.pixels(); ++i) {
        T* pixel = to + i * filters_ + filters.begin;
        if (bias == nullptr) {
          std::fill_n(pixel, count, T(0));
        } else {
          std::copy_n(bias + filters.begin, count, pixel);
        }
      }
      OverPixels([&](int64_t o, int64_t i, int64_t tap) {
        AddToFilters<T>(channels.end - channels.begin, multiplier_, from + i + channels.begin,
                        packed + tap * filters_ + filters.begin, to + o + filters.begin);
      });
      return;
    }
    for (int64_t f = filters.begin; f < filters.end; ++f) {
      std::fill_n(to + f * at_.out.channel, at_.out.channel, bias == nullptr ? T(0) : bias[f]);
      OverPlane(f, [&](int64_t n, int64_t o, int64_t i, int64_t tap) {
        AddMultiple<T>(n, weight[f * n_taps + tap], from + i, at_.strides[2], to + o, 1);
      });
    }
  });
}

template <typename T>
void Depthwise<T>::InputGradient(const T* out_grad, const T* weight, T* x_grad,
                                 char* workspace) const {
  T* packed = reinterpret_cast<T*>(workspace);
  const int64_t n_taps = at_.taps();
  for (int64_t i = 0; i < filters_ * n_taps; ++i) {
    packed[i % n_taps * filters_ + i / n_taps] = weight[i];
  }
  OverBlocks(true, [&](Range images, Range channels) {
    const T* from = out_grad + images.begin * at_.out.size();
    T* to = x_grad + images.begin * at_.x.size();
    const int64_t count = channels.end - channels.begin;
    if (at_.x.is_channels_last()) {
      for (int64_t i = 0; i < at_.x.pixels(); ++i) {
        std::fill_n(to + i * at_.x.pixel + channels.begin, count, T(0));
      }
      const int64_t first = channels.begin * multiplier_;
      OverPixels([&](int64_t o, int64_t i, int64_t tap) {
        AddToChannels<T>(count, multiplier_, from + o + first, packed + tap * filters_ + first,
                         to + i + channels.begin);
      });
      return;
    }
    std::fill_n(to + channels.begin * at_.x.channel, count * at_.x.channel, T(0));
    for (int64_t f = channels.begin * multiplier_; f < channels.end * multiplier_; ++f) {
      OverPlane(f, [&](int64_t n, int64_t o, int64_t i, int64_t tap) {
        AddMultiple<T>(n, weight[f * n_taps + tap], from + o, 1, to + i, at_.strides[2]);
      });
    }
  });
}

template <typename T>
void Depthwise<T>::WeightGradient(const T* x, const T* out_grad, T* weight_grad, T* bias_grad,
                                  char* workspace) const {
  T* packed = reinterpret_cast<T*>(workspace);
  const int64_t n_taps = at_.taps();
  if (bias_grad != nullptr) {
    std::fill_n(bias_grad, filters_, T(0));
    for (int64_t image = 0; image < n_; ++image) {
      SumPixels<T>(at_.out.pixels(), filters_, out_grad + image * at_.out.size(), at_.out.channel,
                   bias_grad);
    }
  }
  if (weight_grad == nullptr) return;
  OverBlocks(false, [&](Range images, Range channels) {
    const Range filters{channels.begin * multiplier_, channels.end * multiplier_};
    for (int64_t f = filters.begin; f < filters.end; ++f) {
      for (int64_t tap = 0; tap < n_taps; ++tap) packed[tap * filters_ + f] = T(0);
    }
    for (int64_t image = images.begin; image < images.end; ++image) {
      const T* out_grads = out_grad + image * at_.out.size();
      const T* from = x + image * at_.x.size();
      if (at_.x.is_channels_last()) {
        OverPixels([&](int64_t o, int64_t i, int64_t tap) {
          AddToFilters<T>(channels.end - channels.begin, multiplier_, from + i + channels.begin,
                          out_grads + o + filters.begin, packed + tap * filters_ + filters.begin);
        });
        continue;
      }
      for (int64_t f = filters.begin; f < filters.end; ++f) {
        OverPlane(f, [&](int64_t n, int64_t o, int64_t i, int64_t tap) {
          packed[tap * filters_ + f] += Dot<T>(n, out_grads + o, from + i, at_.strides[2]);
        });
      }
    }
    for (int64_t i = filters.begin * n_taps; i < filters.end * n_taps; ++i) {
      weight_grad[i] = packed[i % n_taps * filters_ + i / n_taps];
    }
  });
}

template class Depthwise<double>;

}  // namespace opwright_cpu
