// Computes the gradients of a convolution if only max pooling reads the convolution output.
//
// Pooling passes one output gradient to each maximum; at all other pixels of the convolution
// output, the gradient is zero. Sums therefore run over the maxima only, which are a quarter of the
// pixels for 2 x 2 windows. The output gradient, four times as large as the gradient of the pooled
// images, is never written.
#include <algorithm>
#include <cstring>
#include <vector>

#include "common/parallel.h"
#include "convolution/attributes.h"
#include "convolution/columns.h"
#include "gemm/run_sums.h"
#include "pooling/places.h"

namespace opwright_cpu {
namespace {

// Slots: x, weight, index, grad -> x_grad?, weight_grad?, bias_grad?.
enum Input : uint32_t { kXSlot, kWeightSlot, kIndexSlot, kGradSlot };
enum Output : uint32_t { kXGrad, kWeightGrad, kBiasGrad };

// The limits of the supported sizes. Images and weights must fit into the caches of a core, maxima
// must be few, and windows must have more than two runs, because the positions of the maxima are
// sorted first. Beyond these limits, oneDNN is faster or has not been compared.
constexpr int64_t kMostElements = int64_t{1} << 15;  // elements per image
constexpr int64_t kMostWeights = int64_t{1} << 17;
constexpr int64_t kLeastPixels = 3;  // pixels per maximum
constexpr int64_t kLeastRuns = 3;
constexpr int64_t kMostLanes = 4;  // lanes per element of a window

int64_t RoundUp(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// A window is read and written in runs. A run consists of the pixels of one window row; they are
// contiguous, with all of their channels. Runs are processed in blocks, one per call of RunSums.
//
// Weights are packed block by block and, within a block, filter by filter, with zeros after each
// run.
struct WindowRuns {
  std::vector<Run> read;             // runs from an image to packed weights
  std::vector<Run> write;            // runs from packed weights to an image
  std::vector<int64_t> packed;       // packed position of each weight element of the first filter
  std::vector<int32_t> first;        // index of each window's first image element
  int64_t filters = 0, depth = 0;    // number of filters; elements per window
  int64_t blocks = 0, in_block = 0;  // number of blocks; runs per block
  int64_t width = 0;                 // elements per block for one filter

  WindowRuns() = default;
  WindowRuns(const opwright::Shape& weight, const opwright::Shape& x, const ConvolutionAttrs& attrs,
             int64_t pixel_row) {
    const int64_t channels = weight.dim(1), height = weight.dim(2), columns = weight.dim(3);
    filters = weight.dim(0);
    depth = channels * height * columns;
    const int64_t length = columns * channels;
    const int64_t runs_of_row = (length + kRunLanes - 1) / kRunLanes;
    const int64_t n_runs = height * runs_of_row;
    blocks = (n_runs + kMostRuns - 1) / kMostRuns;
    in_block = (n_runs + blocks - 1) / blocks;
    width = in_block * kRunLanes;
    for (int64_t r = 0; r < n_runs; ++r) {
      const int64_t at = r % runs_of_row * kRunLanes;
      const auto place =
          static_cast<int32_t>(r / runs_of_row * attrs.dilations[0] * pixel_row + at);
      const auto in_width = static_cast<int32_t>(r % in_block * kRunLanes);
      const int64_t lanes = std::min<int64_t>(kRunLanes, length - at);
      read.push_back({place, in_width, kRunLanes});
      write.push_back({in_width, place, static_cast<int32_t>(lanes)});
    }
    for (int64_t i = 0; i < depth; ++i) {
      const int64_t channel = i / (height * columns), tap = i % (height * columns);
      const int64_t at = tap % columns * channels + channel;
      const int64_t r = tap / columns * runs_of_row + at / kRunLanes;
      packed.push_back(r / in_block * filters * width + r % in_block * kRunLanes + at % kRunLanes);
    }
    const int64_t out_height = Windows(x.dim(1), height, attrs, 0);
    const int64_t out_width = Windows(x.dim(2), columns, attrs, 1);
    for (int64_t w = 0; w < out_height * out_width; ++w) {
      first.push_back(static_cast<int32_t>(w / out_width * attrs.strides[0] * pixel_row +
                                           w % out_width * attrs.strides[1] * channels));
    }
  }

  static int64_t Windows(int64_t size, int64_t kernel, const ConvolutionAttrs& attrs, size_t axis) {
    const int64_t padded = size + attrs.paddings[2 * axis] + attrs.paddings[2 * axis + 1];
    return (padded - (kernel - 1) * attrs.dilations[axis] - 1) / attrs.strides[axis] + 1;
  }

  int64_t n_windows() const { return static_cast<int64_t>(first.size()); }
  int64_t n_runs() const { return static_cast<int64_t>(read.size()); }
  int64_t packed_size() const { return blocks * filters * width; }
  int32_t InBlock(int64_t block) const {
    return static_cast<int32_t>(std::min(in_block, n_runs() - block * in_block));
  }
};

template <typename T>
struct Conv2dPoolGradKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "onednn";
    options.by_threads = true;  // each thread sums the weight gradient over its images
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const ConvolutionAttrs& attrs) {
    const opwright::Shape x = ctx.input(kXSlot).shape(), weight = ctx.input(kWeightSlot).shape();
    const opwright::Shape pooled = ctx.input(kIndexSlot).shape();
    if (attrs.data_format != "NHWC" || attrs.groups != 1 || attrs.dilations[1] != 1) {
      return opwright::Status::Refused("does not support noncontiguous window rows");
    }
    if (x.numel() == 0 || weight.numel() == 0 || pooled.numel() == 0) {
      return opwright::Status::Refused("does not support empty images or weights");
    }
    images_ = x.dim(0);
    if (images_ < ctx.n_threads() && !ctx.deterministic()) {
      return opwright::Status::Refused("needs at least one image per thread");
    }
    height_ = x.dim(1);
    row_ = x.dim(2) * x.dim(3);
    padded_row_ = row_ + (attrs.paddings[2] + attrs.paddings[3]) * x.dim(3);
    interior_ = attrs.paddings[0] * padded_row_ + attrs.paddings[2] * x.dim(3);
    // A read of the last run extends beyond the end of the image.
    padded_ = RoundUp((height_ + attrs.paddings[0] + attrs.paddings[1]) * padded_row_ + kRunLanes,
                      kRunLanes);
    if (padded_ > kMostElements || weight.numel() > kMostWeights) {
      return opwright::Status::Refused("images or weights do not fit into the caches");
    }
    runs_ = WindowRuns(weight, x, attrs, padded_row_);
    maxima_ = pooled.numel() / images_;
    if (runs_.n_windows() * runs_.filters < kLeastPixels * maxima_ || runs_.n_runs() < kLeastRuns ||
        runs_.n_runs() * kRunLanes > kMostLanes * runs_.depth) {
      return opwright::Status::Refused("too many maxima, or too few or too short runs");
    }
    n_threads_ = static_cast<int32_t>(std::min<int64_t>(images_, ctx.n_threads()));
    sum_runs_ = BestRunSums();
    Lay();
    ctx.SetWorkspace(static_cast<uint64_t>(runs_.packed_size() + thread_size_ * n_threads_) *
                     sizeof(float));
    const int64_t products =
        (ctx.has_output(kXGrad) ? 1 : 0) + (ctx.has_output(kWeightGrad) ? 1 : 0);
    const int64_t sums = images_ * maxima_ * (runs_.n_runs() * products + 4);
    ctx.SetEstimate(1000 + static_cast<uint64_t>(sums / 2 / n_threads_));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const ConvolutionAttrs&) const {
    const float* x = ctx.input(kXSlot).data<float>();
    const float* weight = ctx.input(kWeightSlot).data<float>();
    const int32_t* index = ctx.input(kIndexSlot).data<int32_t>();
    const float* grad = ctx.input(kGradSlot).data<float>();
    float* grads[3] = {};
    for (uint32_t slot = 0; slot < 3; ++slot) {
      if (ctx.has_output(slot)) grads[slot] = ctx.output(slot).data<float>();
    }
    float* packed = ctx.workspace<float>();
    Parallel(n_threads_, [&](int32_t thread, int32_t n_threads) {
      const Part filters = PartOf(runs_.filters, 1, thread, n_threads);
      if (grads[kXGrad] != nullptr) Pack(weight, filters, packed);
      const Scratch own = ScratchOf(packed, thread);
      std::fill_n(own.image, padded_, 0.0F);
      std::fill_n(own.sums, runs_.packed_size(), 0.0F);
      std::fill_n(own.bias, runs_.filters, 0.0F);
    });
    PlaceCheck check(runs_.n_windows());
    Parallel(n_threads_, [&](int32_t thread, int32_t n_threads) {
      const Scratch own = ScratchOf(packed, thread);
      const Part part = PartOf(images_, 1, thread, n_threads);
      for (int64_t image = part.begin; image < part.end; ++image) {
        const int64_t size = height_ * row_;
        const float* out_grads = grad + image * maxima_;
        const int32_t* at = index + image * maxima_;
        if (!check.Admits(at, maxima_)) return;
        if (grads[kWeightGrad] != nullptr) AddToWeight(x + image * size, out_grads, at, own);
        if (grads[kBiasGrad] != nullptr) {
          SumPixels<float>(maxima_ / runs_.filters, runs_.filters, out_grads, 1, own.bias);
        }
        if (grads[kXGrad] != nullptr) {
          InputGradient(packed, out_grads, at, own, grads[kXGrad] + image * size);
        }
      }
    });
    Parallel(n_threads_, [&](int32_t thread, int32_t n_threads) {
      const Part filters = PartOf(runs_.filters, 1, thread, n_threads);
      Gather(packed, n_threads, filters, grads[kWeightGrad], grads[kBiasGrad]);
    });
    return check.ToStatus();
  }

 private:
  // The arrays of one thread, consecutive in memory.
  struct Scratch {
    float* image;     // an image with its padding
    float* sums;      // the packed weight gradient
    float* bias;      // the bias gradient
    float* factors;   // the output gradients, group by group
    int32_t* places;  // position of each maximum in an image, or of its filter in packed weights
    int32_t* ends;    // the end of each window's group
  };

  void Lay() {
    filter_places_.clear();
    filter_ends_.clear();
    for (int64_t f = 0; f < runs_.filters; ++f) {
      filter_places_.push_back(static_cast<int32_t>(f * runs_.width));
      filter_ends_.push_back(static_cast<int32_t>((f + 1) * maxima_ / runs_.filters));
    }
    thread_size_ = padded_ + runs_.packed_size();
    for (const int64_t n : {runs_.filters, maxima_, maxima_, runs_.n_windows() + 1}) {
      thread_size_ += RoundUp(n, kRunLanes);
    }
  }

  Scratch ScratchOf(float* workspace, int32_t thread) const {
    static_assert(sizeof(int32_t) == sizeof(float), "one array holds both");
    float* at = workspace + runs_.packed_size() + thread_size_ * thread;
    const auto take = [&at](int64_t n) {
      float* taken = at;
      at += RoundUp(n, kRunLanes);
      return taken;
    };
    Scratch scratch{};
    scratch.image = take(padded_);
    scratch.sums = take(runs_.packed_size());
    scratch.bias = take(runs_.filters);
    scratch.factors = take(maxima_);
    scratch.places = reinterpret_cast<int32_t*>(take(maxima_));
    scratch.ends = reinterpret_cast<int32_t*>(take(runs_.n_windows() + 1));
    return scratch;
  }

  void Pack(const float* weight, Part filters, float* packed) const {
    for (int64_t block = 0; block < runs_.blocks; ++block) {
      float* first = packed + block * runs_.filters * runs_.width;
      std::fill(first + filters.begin * runs_.width, first + filters.end * runs_.width, 0.0F);
    }
    for (int64_t f = filters.begin; f < filters.end; ++f) {
      for (int64_t i = 0; i < runs_.depth; ++i) {
        packed[runs_.packed[static_cast<size_t>(i)] + f * runs_.width] =
            weight[f * runs_.depth + i];
      }
    }
  }

  // Accumulates the sums of all threads for a range of filters.
  void Gather(float* workspace, int32_t n_threads, Part filters, float* weight_grad,
              float* bias_grad) const {
    for (int32_t thread = 0; thread < n_threads; ++thread) {
      const Scratch scratch = ScratchOf(workspace, thread);
      for (int64_t f = filters.begin; f < filters.end; ++f) {
        if (bias_grad != nullptr) bias_grad[f] = scratch.bias[f] + (thread > 0 ? bias_grad[f] : 0);
        for (int64_t i = 0; weight_grad != nullptr && i < runs_.depth; ++i) {
          float& sum = weight_grad[f * runs_.depth + i];
          const float share = scratch.sums[runs_.packed[static_cast<size_t>(i)] + f * runs_.width];
          sum = thread > 0 ? sum + share : share;
        }
      }
    }
  }

  // For each filter, adds the image windows of its maxima, times their output gradients.
  void AddToWeight(const float* x, const float* out_grads, const int32_t* index,
                   const Scratch& own) const {
    for (int64_t h = 0; h < height_; ++h) {
      std::copy_n(x + h * row_, row_, own.image + interior_ + h * padded_row_);
    }
    const int64_t pixels = maxima_ / runs_.filters;
    for (int64_t f = 0; f < runs_.filters; ++f) {
      for (int64_t p = 0; p < pixels; ++p) {
        const int64_t i = p * runs_.filters + f;
        own.factors[f * pixels + p] = out_grads[i];
        own.places[f * pixels + p] = runs_.first[static_cast<size_t>(index[i])];
      }
    }
    for (int64_t block = 0; block < runs_.blocks; ++block) {
      sum_runs_({runs_.filters, filter_ends_.data(), own.factors, own.places, own.image,
                 own.sums + block * runs_.filters * runs_.width, filter_places_.data(),
                 runs_.read.data() + block * runs_.in_block, runs_.InBlock(block)});
    }
  }

  // For each window, adds the filters that have a maximum there, times their output gradients.
  void InputGradient(const float* packed, const float* out_grads, const int32_t* index,
                     const Scratch& own, float* x_grad) const {
    SortByWindow(out_grads, index, own);
    std::fill_n(own.image, padded_, 0.0F);
    for (int64_t block = 0; block < runs_.blocks; ++block) {
      const float* from = packed + block * runs_.filters * runs_.width;
      sum_runs_({runs_.n_windows(), own.ends, own.factors, own.places, from, own.image,
                 runs_.first.data(), runs_.write.data() + block * runs_.in_block,
                 runs_.InBlock(block)});
    }
    for (int64_t h = 0; h < height_; ++h) {
      std::copy_n(own.image + interior_ + h * padded_row_, row_, x_grad + h * row_);
    }
    std::fill_n(own.image, padded_, 0.0F);
  }

  // Groups output gradients and filters by window, each group in the order of the pooled pixels.
  void SortByWindow(const float* out_grads, const int32_t* index, const Scratch& own) const {
    std::fill_n(own.ends, runs_.n_windows() + 1, 0);
    for (int64_t i = 0; i < maxima_; ++i) ++own.ends[index[i] + 1];
    for (int64_t w = 0; w < runs_.n_windows(); ++w) own.ends[w + 1] += own.ends[w];
    for (int64_t i = 0; i < maxima_; i += runs_.filters) {
      for (int64_t f = 0; f < runs_.filters; ++f) {
        const int32_t to = own.ends[index[i + f]]++;
        own.factors[to] = out_grads[i + f];
        own.places[to] = filter_places_[static_cast<size_t>(f)];
      }
    }
  }

  WindowRuns runs_;
  std::vector<int32_t> filter_places_;  // position of each filter in a block of packed weights
  std::vector<int32_t> filter_ends_;    // end of each filter's maxima, stored filter by filter
  int64_t images_ = 0, height_ = 0, row_ = 0;
  int64_t padded_row_ = 0, interior_ = 0, padded_ = 0;  // elements of an image with its padding
  int64_t maxima_ = 0;                                  // maxima per image
  int64_t thread_size_ = 0;
  int32_t n_threads_ = 1;
  RunSumsFn sum_runs_ = nullptr;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("std.conv2d_pool_grad", "cpu", opwright_cpu::Conv2dPoolGradKernel,
                             float);
