#include "convolution/columns.h"

#include <algorithm>
#include <cstring>

#include "common/clones.h"
#include "common/parallel.h"
#include "convolution/attributes.h"

namespace opwright_cpu {
namespace {

uint64_t AlignedBytes(int64_t items, uint64_t item_bytes) {
  return (static_cast<uint64_t>(items) * item_bytes + 63) / 64 * 64;
}

template <typename T>
OPWRIGHT_CPU_CLONES void AddRun(int64_t n, const T* from, T* to, int64_t stride) {
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] += from[i];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * stride] += from[i];
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void AddToPixels(int64_t pixels, int64_t channels, const T* bias,
                                     int64_t channel_stride, T* image) {
  for (int64_t i = 0; channel_stride == 1 && i < pixels; ++i) {
    for (int64_t c = 0; c < channels; ++c) image[i * channels + c] += bias[c];
  }
  for (int64_t c = 0; channel_stride != 1 && c < channels; ++c) {
    for (int64_t i = 0; i < pixels; ++i) image[c * channel_stride + i] += bias[c];
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void AddPixelSums(int64_t pixels, int64_t channels, const T* image,
                                      int64_t channel_stride, T* sums) {
  constexpr int64_t kStrip = 64;
  for (int64_t first = 0; first < channels; first += kStrip) {
    const int64_t count = std::min(kStrip, channels - first);
    T partial[kStrip] = {};
    for (int64_t i = 0; channel_stride == 1 && i < pixels; ++i) {
      for (int64_t c = 0; c < count; ++c) partial[c] += image[i * channels + first + c];
    }
    for (int64_t c = 0; channel_stride != 1 && c < count; ++c) {
      const T* plane = image + (first + c) * channel_stride;
      for (int64_t i = 0; i < pixels; ++i) partial[c] += plane[i];
    }
    for (int64_t c = 0; c < count; ++c) sums[first + c] += partial[c];
  }
}

template <typename T>
void CopyRun(int64_t n, const T* from, int64_t stride, T* to) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
  }
}

}  // namespace

template <typename T>
void SumPixels(int64_t pixels, int64_t channels, const T* image, int64_t channel_stride, T* sums) {
  AddPixelSums<T>(pixels, channels, image, channel_stride, sums);
}

template <typename T>
void AddBias(int64_t pixels, int64_t channels, const T* bias, int64_t channel_stride, T* image) {
  AddToPixels<T>(pixels, channels, bias, channel_stride, image);
}

template <typename T>
void Columns<T>::Make(const opwright::Shape& x, const opwright::Shape& weight,
                      const opwright::Shape& out, const ConvolutionAttrs& attrs,
                      int32_t n_threads) {
  n_ = x.dim(0);
  groups_ = attrs.groups;
  filters_ = weight.dim(0) / groups_;
  channels_ = weight.dim(1);
  at_ = ImageWindows(x, weight, out, attrs);
  windows_ = at_.out.pixels();
  depth_ = at_.taps() * channels_;
  n_threads_ = static_cast<int32_t>(std::min<int64_t>(n_threads, n_));
  weight_bytes_ = AlignedBytes(groups_ * depth_ * filters_, sizeof(T));
  column_bytes_ = AlignedBytes(windows_ * depth_, sizeof(T));
  // Each thread has a weight gradient, the weight gradient of one image, and a bias gradient.
  product_bytes_ = AlignedBytes(groups_ * filters_ * (2 * depth_ + 1), sizeof(T));
  thread_bytes_ = column_bytes_ + product_bytes_ + kGemmWorkspaceBytes<T>;
}

template <typename T>
typename Columns<T>::Scratch Columns<T>::ScratchOf(char* workspace, int32_t thread) const {
  char* own = workspace + weight_bytes_ + thread_bytes_ * Count(thread);
  return {reinterpret_cast<T*>(own), reinterpret_cast<T*>(own + column_bytes_),
          own + column_bytes_ + product_bytes_};
}

template <typename T>
void Columns<T>::PackWeight(const T* weight, bool transposed, T* packed) const {
  const int64_t taps = at_.taps();
  for (int64_t filter = 0; filter < groups_ * filters_; ++filter) {
    T* group = packed + filter / filters_ * depth_ * filters_;
    const int64_t column = filter % filters_;
    for (int64_t c = 0; c < channels_; ++c) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t row = tap * channels_ + c;
        const T value = weight[(filter * channels_ + c) * taps + tap];
        group[transposed ? column * depth_ + row : row * filters_ + column] = value;
      }
    }
  }
}

template <typename T>
template <typename Function>
void Columns<T>::OverWindow(int64_t window, const Function& function) const {
  const int64_t width = at_.out.sizes[2], column = window % width;
  const Range taps = at_.TapsOf(column, 2);
  if (taps.begin >= taps.end) return;
  const int64_t w = column * at_.strides[2] + at_.ShiftOf(taps.begin);
  at_.OverRows(window / width, [&](int64_t row, int64_t tap) {
    function(row + w * at_.x.pixel, tap + taps.begin, taps.end - taps.begin);
  });
}

template <typename T>
void Columns<T>::Gather(const T* image, int64_t group, T* columns) const {
  const bool joined = groups_ == 1 && at_.dilations[2] == 1 && at_.x.is_channels_last();
  const T* first = image + group * channels_ * at_.x.channel;
  std::memset(columns, 0, static_cast<size_t>(windows_ * depth_) * sizeof(T));
  for (int64_t window = 0; window < windows_; ++window) {
    T* row = columns + window * depth_;
    OverWindow(window, [&](int64_t place, int64_t tap, int64_t taps) {
      const T* from = first + place;
      if (joined) {  // adjacent pixels with all of their channels are contiguous
        CopyRun<T>(taps * channels_, from, 1, row + tap * channels_);
        return;
      }
      for (int64_t i = 0; i < taps; ++i) {
        CopyRun<T>(channels_, from + i * at_.dilations[2] * at_.x.pixel, at_.x.channel,
                   row + (tap + i) * channels_);
      }
    });
  }
}

template <typename T>
void Columns<T>::Scatter(const T* columns, int64_t group, T* image) const {
  const bool joined = groups_ == 1 && at_.dilations[2] == 1 && at_.x.is_channels_last();
  T* first = image + group * channels_ * at_.x.channel;
  for (int64_t window = 0; window < windows_; ++window) {
    const T* row = columns + window * depth_;
    OverWindow(window, [&](int64_t place, int64_t tap, int64_t taps) {
      T* to = first + place;
      if (joined) {
        AddRun<T>(taps * channels_, row + tap * channels_, to, 1);
        return;
      }
      for (int64_t i = 0; i < taps; ++i) {
        AddRun<T>(channels_, row + (tap + i) * channels_, to + i * at_.dilations[2] * at_.x.pixel,
                  at_.x.channel);
      }
    });
  }
}

template <typename T>
void Columns<T>::Forward(const T* x, const T* weight, const T* bias, T* out,
                         char* workspace) const {
  T* packed = reinterpret_cast<T*>(workspace);
  const bool is_nhwc = at_.out.is_channels_last();
  PackWeight(weight, !is_nhwc, packed);
  Parallel(n_threads_, [&](int32_t thread, int32_t n_threads) {
    const Scratch scratch = ScratchOf(workspace, thread);
    const Part part = PartOf(n_, 1, thread, n_threads);
    for (int64_t image = part.begin; image < part.end; ++image) {
      T* result = out + image * at_.out.size();
      for (int64_t group = 0; group < groups_; ++group) {
        const MatrixView<const T> by{packed + group * depth_ * filters_,
                                     is_nhwc ? filters_ : depth_, 1};
        Gather(x + image * at_.x.size(), group, scratch.columns);
        const MatrixView<const T> columns{scratch.columns, depth_, 1};
        T* first = result + group * filters_ * at_.out.channel;
        if (is_nhwc) {
          Gemm<T>({windows_, filters_, depth_}, columns, by, {first, at_.out.pixel, 1},
                  scratch.gemm);
        } else {
          Gemm<T>({filters_, windows_, depth_}, by, columns.Transposed(),
                  {first, at_.out.channel, 1}, scratch.gemm);
        }
      }
      if (bias != nullptr) AddBias<T>(windows_, at_.out.channels, bias, at_.out.channel, result);
    }
  });
}

template <typename T>
void Columns<T>::InputGradient(const T* out_grad, const T* weight, T* x_grad,
                               char* workspace) const {
  T* packed = reinterpret_cast<T*>(workspace);
  PackWeight(weight, true, packed);
  Parallel(n_threads_, [&](int32_t thread, int32_t n_threads) {
    const Scratch scratch = ScratchOf(workspace, thread);
    const Part part = PartOf(n_, 1, thread, n_threads);
    for (int64_t image = part.begin; image < part.end; ++image) {
      T* result = x_grad + image * at_.x.size();
      std::memset(result, 0, static_cast<size_t>(at_.x.size()) * sizeof(T));
      for (int64_t group = 0; group < groups_; ++group) {
        Gemm<T>({windows_, depth_, filters_}, OutMatrix(out_grad + image * at_.out.size(), group),
                {packed + group * depth_ * filters_, depth_, 1}, {scratch.columns, depth_, 1},
                scratch.gemm);
        Scatter(scratch.columns, group, result);
      }
    }
  });
}

template <typename T>
void Columns<T>::WeightGradient(const T* x, const T* out_grad, T* weight_grad, T* bias_grad,
                                char* workspace) const {
  const int64_t group_size = depth_ * filters_, size = groups_ * group_size;
  int32_t n_used = 1;
  Parallel(n_threads_, [&](int32_t thread, int32_t n_threads) {
    if (thread == 0) n_used = n_threads;
    const Scratch scratch = ScratchOf(workspace, thread);
    T* sums = scratch.product;
    T* bias_sums = sums + 2 * size;
    std::memset(sums, 0, static_cast<size_t>(2 * size + at_.out.channels) * sizeof(T));
    const Part part = PartOf(n_, 1, thread, n_threads);
    for (int64_t image = part.begin; image < part.end; ++image) {
      const T* out_grads = out_grad + image * at_.out.size();
      if (bias_grad != nullptr)
        SumPixels<T>(windows_, at_.out.channels, out_grads, at_.out.channel, bias_sums);
      for (int64_t group = 0; weight_grad != nullptr && group < groups_; ++group) {
        Gather(x + image * at_.x.size(), group, scratch.columns);
        Gemm<T>({filters_, depth_, windows_}, OutMatrix(out_grads, group).Transposed(),
                {scratch.columns, depth_, 1}, {sums + size, depth_, 1}, scratch.gemm);
        AddRun<T>(group_size, sums + size, sums + group * group_size, 1);
      }
    }
  });
  T* sums = ScratchOf(workspace, 0).product;
  for (int32_t thread = 1; thread < n_used; ++thread) {
    const T* others = ScratchOf(workspace, thread).product;
    AddRun<T>(size, others, sums, 1);
    AddRun<T>(at_.out.channels, others + 2 * size, sums + 2 * size, 1);
  }
  if (bias_grad != nullptr) std::copy_n(sums + 2 * size, at_.out.channels, bias_grad);
  if (weight_grad != nullptr) UnpackWeight(sums, weight_grad);
}

template <typename T>
void Columns<T>::UnpackWeight(const T* packed, T* weight) const {
  const int64_t taps = at_.taps();
  for (int64_t filter = 0; filter < groups_ * filters_; ++filter) {
    for (int64_t c = 0; c < channels_; ++c) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        weight[(filter * channels_ + c) * taps + tap] =
            packed[filter * depth_ + tap * channels_ + c];
      }
    }
  }
}

template void AddBias<float>(int64_t, int64_t, const float*, int64_t, float*);
template void AddBias<double>(int64_t, int64_t, const double*, int64_t, double*);
template void SumPixels<double>(int64_t, int64_t, const double*, int64_t, double*);
template void SumPixels<float>(int64_t, int64_t, const float*, int64_t, float*);
template class Columns<float>;
template class Columns<double>;

}  // namespace opwright_cpu
