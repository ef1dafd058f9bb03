#include "convolution/own_convolution.h"

#include <algorithm>

#include "common/attributes.h"
#include "common/clones.h"
#include "common/parallel.h"
#include "convolution/attributes.h"
#include "convolution/columns.h"
#include "matmul/own_product.h"

namespace opwright_cpu {
namespace {

using Activation = GroupedEpilogue::Activation;

// Returns whether a convolution of channels-last images is a matrix product, pixels times weight.
bool IsPointwise(const opwright::Shape& weight, const ConvolutionAttrs& attrs) {
  if (!IsChannelsLast(attrs.data_format) || attrs.groups != 1) return false;
  for (int32_t axis = 2; axis < weight.rank(); ++axis) {
    if (weight.dim(axis) != 1) return false;
  }
  return std::all_of(attrs.paddings.begin(), attrs.paddings.end(),
                     [](int64_t padding) { return padding == 0; });
}

bool HasStride(const ConvolutionAttrs& attrs) {
  return std::any_of(attrs.strides.begin(), attrs.strides.end(),
                     [](int64_t stride) { return stride > 1; });
}

// The strides of a matrix that is stored as [rows, columns] or transposed.
struct ProductFactor {
  int64_t row_stride;
  int64_t column_stride;
};
ProductFactor Plain(int64_t columns) { return {columns, 1}; }
ProductFactor Transposed(int64_t columns) { return {1, columns}; }

// Makes a matrix product, which is empty if oneDNN does not support it.
Product MakeProduct(const GemmSize& size, ProductFactor x, ProductFactor y, bool with_bias,
                    int32_t n_threads) {
  ProductRequest request;
  request.with_bias = with_bias;
  request.shape = MakeMatrixShape(Laid{{size.m, size.k}, {x.row_stride, x.column_stride}},
                                  Laid{{size.k, size.n}, {y.row_stride, y.column_stride}}, {});
  request.n_threads = n_threads;
  Product product;
  if (!product.Make(request).ok()) product = Product();
  return product;
}

// Sets the activation for our own loops; returns whether they support it.
bool FindActivation(const Eltwise* eltwise, Activation* activation) {
  if (eltwise == nullptr) return true;
  *activation = eltwise->op == "relu" ? Activation::kRelu : Activation::kRelu6;
  return eltwise->op == "relu" || eltwise->op == "relu6";
}

OPWRIGHT_CPU_INLINE void AddIfThere(const float* x, int64_t n, float* sums) {
  for (int64_t i = 0; x != nullptr && i < n; ++i) sums[i] += x[i];
}

// Applies the operations that follow the sums to the first n channels of one pixel.
OPWRIGHT_CPU_CLONES void FinishChannels(const GroupedEpilogue& epilogue, int64_t n, float* sums) {
  AddIfThere(epilogue.bias, n, sums);
  for (int64_t i = 0; epilogue.scale != nullptr && i < n; ++i) sums[i] *= epilogue.scale[i];
  AddIfThere(epilogue.shift, n, sums);
  AddIfThere(epilogue.residual, n, sums);
}

}  // namespace

void PointwisePixels::Make(const opwright::Shape& x, const opwright::Shape& weight,
                           const opwright::Shape& out, const ConvolutionAttrs& attrs,
                           int32_t n_threads) {
  at_ = ImageWindows(x, weight, out, attrs);
  images_ = x.dim(0);
  n_threads_ = n_threads;
  are_all_ = !HasStride(attrs);
}

uint64_t PointwisePixels::workspace_bytes() const {
  if (are_all_) return 0;
  return WholeLines(static_cast<uint64_t>(images_ * at_.out.pixels() * at_.x.channels) *
                    sizeof(float));
}

void PointwisePixels::Gather(const float* x, float* pixels) const {
  const int64_t channels = at_.x.channels, columns = at_.out.sizes[2];
  const int64_t rows = at_.out_rows();
  ParallelFor(n_threads_, images_ * rows, kElementGrain / (columns * channels) + 1, 1,
              [&](int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; ++row) {
                  const float* from = x + row / rows * at_.x.size() + RowOf(row % rows);
                  for (int64_t i = 0; i < columns; ++i) {
                    std::copy_n(from + i * at_.strides[2] * channels, channels,
                                pixels + (row * columns + i) * channels);
                  }
                }
              });
}

void PointwisePixels::Scatter(const float* pixels, float* x) const {
  const int64_t channels = at_.x.channels, columns = at_.out.sizes[2];
  const int64_t rows = at_.out_rows();
  ParallelFor(n_threads_, images_, 1, 1, [&](int64_t begin, int64_t end) {
    for (int64_t image = begin; image < end; ++image) {
      float* to = x + image * at_.x.size();
      std::fill_n(to, at_.x.size(), 0.0f);
      for (int64_t i = 0; i < rows * columns; ++i) {
        std::copy_n(pixels + (image * rows * columns + i) * channels, channels,
                    to + RowOf(i / columns) + i % columns * at_.strides[2] * channels);
      }
    }
  });
}

// Returns the index of the first element of the image row that output row `row` reads.
int64_t PointwisePixels::RowOf(int64_t row) const {
  return row / at_.out.sizes[1] * at_.strides[0] * at_.x.slice +
         row % at_.out.sizes[1] * at_.strides[1] * at_.x.row;
}

void OwnForward::Make(const OwnConvolutionRequest& request) {
  const ConvolutionAttrs& attrs = *request.attrs;
  const int64_t filters = request.weight.dim(0), channels = request.weight.dim(1);
  // In measurements, oneDNN is faster for groups of 16 channels, a full vector, and for groups of 8
  // without strides.
  if (IsGroupedByFew(request.x, request.weight, attrs) &&
      (channels <= 4 || (channels <= 8 && HasStride(attrs))) &&
      FindActivation(request.activation, &activation_)) {
    is_grouped_ = true;
    grouped_.Make(request.x, request.weight, request.out, attrs, request.n_threads);
    packed_bytes_ = request.may_pack ? grouped_.packed_bytes() : 0;
    return;
  }
  WinogradShape tiled;
  if (FindActivation(request.activation, &activation_) &&
      FindWinogradShape(request.x, request.weight, request.out, attrs, request.may_pack, &tiled)) {
    winograd_.Make(tiled, false, request.n_threads);
    packed_bytes_ = request.may_pack ? winograd_.packed_bytes() : 0;
    return;
  }
  if (MakePanels(request)) return;
  const bool is_plain = !request.is_fused && request.activation == nullptr && !request.may_pack;
  if (!is_plain || !IsPointwise(request.weight, attrs)) return;
  pixels_.Make(request.x, request.weight, request.out, attrs, request.n_threads);
  product_ = MakeProduct({request.out.numel() / filters, filters, channels}, Plain(channels),
                         Transposed(channels), request.with_bias, request.n_threads);
}

// In measurements, oneDNN's convolution is faster for more than kFew pixels or, if the complete
// weight fits into each thread's L2 cache, for more than kOne pixels.
bool OwnForward::MakePanels(const OwnConvolutionRequest& request) {
  constexpr int64_t kOne = 4, kFew = 64, kManyWeights = 512 * 1024;
  filters_ = request.weight.dim(0);
  const int64_t channels = request.weight.dim(1), pixels = request.out.numel() / filters_;
  const int64_t most = filters_ * channels >= kManyWeights ? kFew : kOne;
  if (!request.may_pack || pixels > most || !IsPointwise(request.weight, *request.attrs)) {
    return false;
  }
  if (request.activation != nullptr) {
    activate_ = FindActivationLoop(request.activation->op);
    if (activate_ == nullptr) return false;
  }
  pixels_.Make(request.x, request.weight, request.out, *request.attrs, request.n_threads);
  panels_.Make(MakeMatrixShape({pixels, channels}, {filters_, channels}, false, true),
               request.n_threads);
  packed_bytes_ = panels_.packed_bytes();
  return true;
}

uint64_t OwnForward::workspace_bytes() const {
  if (!winograd_.empty()) {
    return winograd_.packed_bytes() - packed_bytes_ + winograd_.workspace_bytes();
  }
  if (!is_grouped_) return pixels_.workspace_bytes() + product_.workspace_bytes();
  return grouped_.packed_bytes() - packed_bytes_ + grouped_.forward_bytes();
}

void OwnForward::Pack(const float* weight, void* packed) const {
  if (is_grouped_) return grouped_.Pack(weight, packed);
  if (!panels_.empty()) return panels_.Pack(weight, packed);
  winograd_.Pack(weight, packed);
}

void OwnForward::RunPanels(const float* pixels, const void* packed, const GroupedEpilogue& epilogue,
                           float* out) const {
  panels_.Run(pixels, packed, out, [&](int64_t pixel, int64_t channel, int64_t n) {
    const int64_t at = pixel * filters_ + channel;
    GroupedEpilogue behind = epilogue.From(channel);
    if (behind.residual != nullptr) behind.residual += at;
    FinishChannels(behind, n, out + at);
    if (activate_ != nullptr) activate_(out + at, n);
  });
}

void OwnForward::Run(Bound& bound, const float* x, const float* weight, GroupedEpilogue epilogue,
                     float* out, char* workspace) const {
  if (!panels_.empty() || !product_.empty()) {
    if (!pixels_.are_all()) {
      auto* gathered = reinterpret_cast<float*>(workspace);
      pixels_.Gather(x, gathered);
      x = gathered;
      workspace += pixels_.workspace_bytes();
    }
    if (!panels_.empty()) return RunPanels(x, weight, epilogue, out);
    return bound.product.Run(workspace, x, weight, epilogue.bias, out);
  }
  const void* packed = weight;
  if (packed_bytes_ == 0) {
    Pack(weight, workspace);
    packed = workspace;
    workspace += is_grouped_ ? grouped_.packed_bytes() : winograd_.packed_bytes();
  }
  epilogue.activation = activation_;
  if (!winograd_.empty()) return winograd_.Run(x, packed, epilogue, out, workspace);
  grouped_.Forward(x, packed, epilogue, out, workspace);
}

void OwnGradients::Make(const OwnConvolutionRequest& request) {
  const ConvolutionAttrs& attrs = *request.attrs;
  is_grouped_ = IsGroupedByFew(request.x, request.weight, attrs);
  if (is_grouped_) {
    grouped_.Make(request.x, request.weight, request.out, attrs, request.n_threads);
    return;
  }
  const int64_t filters = request.weight.dim(0), channels = request.weight.dim(1);
  channels_ = filters;
  images_ = request.out.dim(0);
  n_pixels_ = request.out.numel() / filters / images_;
  WinogradShape tiled;
  if (FindWinogradShape(request.x, request.weight, request.out, attrs, false, &tiled)) {
    winograd_.Make(tiled.Backward(), true, request.n_threads);
    winograd_weight_.Make(tiled, request.n_threads);
    return;
  }
  if (!IsPointwise(request.weight, attrs)) return;
  pixels_.Make(request.x, request.weight, request.out, attrs, request.n_threads);
  of_weight_ = MakeProduct({filters, channels, images_ * n_pixels_}, Transposed(filters),
                           Plain(channels), false, request.n_threads);
  if (of_weight_.empty()) return;
  of_input_ = MakeProduct({images_ * n_pixels_, channels, filters}, Plain(filters), Plain(channels),
                          false, request.n_threads);
}

uint64_t OwnGradients::workspace_bytes() const {
  if (is_grouped_) return grouped_.gradient_bytes();
  if (!winograd_.empty()) {
    return std::max(winograd_.packed_bytes() + winograd_.workspace_bytes(),
                    winograd_weight_.workspace_bytes());
  }
  return pixels_.workspace_bytes() +
         std::max(of_input_.workspace_bytes(), of_weight_.workspace_bytes());
}

void OwnGradients::RunWinograd(const float* x, const float* weight, const float* out_grads,
                               const Results& results, char* workspace) const {
  if (results.weight != nullptr) winograd_weight_.Run(x, out_grads, results.weight, workspace);
  if (results.x != nullptr) {
    winograd_.Pack(weight, workspace);
    winograd_.Run(out_grads, workspace, {}, results.x, workspace + winograd_.packed_bytes());
  }
  if (results.bias != nullptr) SumOutGrads(out_grads, results.bias);
}

void OwnGradients::SumOutGrads(const float* out_grads, float* bias_grad) const {
  std::fill_n(bias_grad, channels_, 0.0f);
  for (int64_t image = 0; image < images_; ++image) {
    const float* of_image = out_grads + image * n_pixels_ * channels_;
    SumPixels<float>(n_pixels_, channels_, of_image, 1, bias_grad);
  }
}

void OwnGradients::Run(Bound& bound, const float* x, const float* weight, const float* out_grads,
                       const Results& results, char* workspace) const {
  if (is_grouped_) {
    if (results.x != nullptr) grouped_.InputGradient(out_grads, weight, results.x, workspace);
    grouped_.WeightGradient(x, out_grads, results.weight, results.bias, workspace);
    return;
  }
  if (!winograd_.empty()) return RunWinograd(x, weight, out_grads, results, workspace);
  auto* at_hand = reinterpret_cast<float*>(workspace);  // holds pixels of x, then of its gradient
  workspace += pixels_.workspace_bytes();
  if (results.weight != nullptr) {
    if (!pixels_.are_all()) pixels_.Gather(x, at_hand);
    bound.of_weight.Run(workspace, out_grads, pixels_.are_all() ? x : at_hand, nullptr,
                        results.weight);
  }
  if (results.x != nullptr) {
    float* pixels = pixels_.are_all() ? results.x : at_hand;
    bound.of_input.Run(workspace, out_grads, weight, nullptr, pixels);
    if (!pixels_.are_all()) pixels_.Scatter(pixels, results.x);
  }
  if (results.bias != nullptr) SumOutGrads(out_grads, results.bias);
}

}  // namespace opwright_cpu
