#include "convolution/exact_gradients.h"

#include <algorithm>
#include <array>

#include "common/clones.h"
#include "common/half.h"
#include "common/half_rows.h"

namespace opwright_cpu {
namespace {

using dnnl::memory;
using opwright::BFloat16;

template <typename Bits>
OPWRIGHT_CPU_CLONES bool AnyHas(int64_t n, const Bits* bits, Bits exponent) {
  Bits any = 0;
#pragma omp simd reduction(| : any)
  for (int64_t i = 0; i < n; ++i) {
    any |= static_cast<Bits>((bits[i] & exponent) == exponent);
  }
  return any != 0;
}

OPWRIGHT_CPU_CLONES void AddTo(int64_t n, const float* from, float* to) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

const HalfRows& Rows() { return HalfRowsOf(opwright::DtypeOf<BFloat16>()); }

int64_t CountOf(const memory::desc& layout) {
  return static_cast<int64_t>(layout.get_size() / sizeof(float));
}

}  // namespace

bool HasSpecial(int64_t n, const float* numbers) {
  return AnyHas<uint32_t>(n, reinterpret_cast<const uint32_t*>(numbers), 0x7f800000u);
}

bool HasSpecial(int64_t n, const BFloat16* numbers) {
  return AnyHas<uint16_t>(n, reinterpret_cast<const uint16_t*>(numbers), uint16_t{0x7f80});
}

opwright::Status ExactGradients::Make(const ConvolutionShape& image, bool with_x, bool with_weight,
                                      bool with_bias) {
  image_ = image;
  const ThreadCount count(1);
  const dnnl::convolution_forward::primitive_desc forward = ForwardOf(image_);
  if (!forward.get(true)) return opwright::Status::Unsupported("oneDNN has no such convolution");
  weight_used_ = image_.AnyWeight();
  weight_grad_used_ = image_.AnyWeightSums();
  weight_grad_plain_ = memory::desc(image_.weight().get_dims(), memory::data_type::bf16,
                                    image_.weight().get_strides());
  out_grad_ = Lay(image_.out().get_size());
  if (with_x || with_weight) x_ = Lay(image_.x().get_size());
  if (with_x) {
    GradientSteps steps(image_);
    OPWRIGHT_RETURN_IF_ERROR(steps.AddInputGradient(forward, &weight_used_));
    input_ = std::move(steps.pipeline);
    weight_plain_ = Lay(image_.weight().get_size());
    weight_packed_ = Lay(weight_used_.get_size());
  }
  if (with_weight) {
    GradientSteps steps(image_);
    OPWRIGHT_RETURN_IF_ERROR(steps.AddWeightGradient(forward, with_bias, &weight_grad_used_));
    weight_ = std::move(steps.pipeline);
    weight_sums_ = Lay(weight_grad_used_.get_size());
    weight_total_ = Lay(weight_grad_used_.get_size());
    bias_sums_ = Lay(image_.bias_sum_bytes());
    bias_total_ = Lay(image_.bias_sum_bytes());
  }
  steps_ = Lay(std::max(input_.workspace_bytes(), weight_.workspace_bytes()));
  return opwright::Status::Ok();
}

uint64_t ExactGradients::Lay(uint64_t bytes) {
  const uint64_t at = bytes_;
  bytes_ += WholeLines(bytes);
  return at;
}

void ExactGradients::InputGradient(Bound& bound, const Images& images, const BFloat16* weight,
                                   BFloat16* x_grad, char* workspace) const {
  const int64_t n_x = CountOf(image_.x()), n_out = CountOf(image_.out());
  const auto at = [&](uint64_t byte) { return reinterpret_cast<float*>(workspace + byte); };
  Rows().widen(weight, at(weight_plain_), CountOf(image_.weight()));
  Reorder(image_.weight(), at(weight_plain_), weight_used_, at(weight_packed_));
  std::array<void*, kGradOperands> tensors{};
  tensors[kWeightOperand] = at(weight_packed_);
  tensors[kOutGradOperand] = at(out_grad_);
  tensors[kXGradOperand] = at(x_);
  for (int64_t i = 0; i < images.n; ++i) {
    Rows().widen(images.out_grad + i * n_out, at(out_grad_), n_out);
    bound.input.Run(1, workspace + steps_, tensors.data());
    Rows().narrow(at(x_), x_grad + i * n_x, n_x);
  }
}

void ExactGradients::WeightGradient(Bound& bound, const Images& images, BFloat16* weight_grad,
                                    BFloat16* bias_grad, char* workspace) const {
  const int64_t n_x = CountOf(image_.x()), n_out = CountOf(image_.out());
  const int64_t n_weight = CountOf(weight_grad_used_), n_bias = image_.channels();
  const auto at = [&](uint64_t byte) { return reinterpret_cast<float*>(workspace + byte); };
  std::fill_n(at(weight_total_), n_weight, 0.0f);
  std::fill_n(at(bias_total_), n_bias, 0.0f);
  std::array<void*, kGradOperands> tensors{};
  tensors[kXOperand] = at(x_);
  tensors[kOutGradOperand] = at(out_grad_);
  tensors[kWeightSums] = at(weight_sums_);
  tensors[kBiasSums] = at(bias_sums_);
  for (int64_t i = 0; i < images.n; ++i) {
    Rows().widen(images.x + i * n_x, at(x_), n_x);
    Rows().widen(images.out_grad + i * n_out, at(out_grad_), n_out);
    bound.weight.Run(1, workspace + steps_, tensors.data());
    AddTo(n_weight, at(weight_sums_), at(weight_total_));
    if (bias_grad != nullptr) AddTo(n_bias, at(bias_sums_), at(bias_total_));
  }
  if (weight_grad != nullptr) {
    Reorder(weight_grad_used_, at(weight_total_), weight_grad_plain_, weight_grad);
  }
  if (bias_grad != nullptr) Rows().narrow(at(bias_total_), bias_grad, n_bias);
}

}  // namespace opwright_cpu
