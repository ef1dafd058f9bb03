// Gradients of bfloat16 convolutions whose operands contain infinity or NaN.
#ifndef OPWRIGHT_CPU_CONVOLUTION_EXACT_GRADIENTS_H_
#define OPWRIGHT_CPU_CONVOLUTION_EXACT_GRADIENTS_H_

#include <cstdint>

#include <opwright/sdk.hpp>

#include "convolution/convolution.h"
#include "convolution/gradient_steps.h"
#include "onednn/dnnl.h"
#include "onednn/pipeline.h"

namespace opwright_cpu {

// Returns whether any of n values is infinite or NaN.
bool HasSpecial(int64_t n, const float* numbers);
bool HasSpecial(int64_t n, const opwright::BFloat16* numbers);

// Recomputes gradients in float32. oneDNN's bfloat16 code pads borders and tiles with zeros and
// multiplies them like data, so a NaN spreads to gradients that do not depend on it. oneDNN's
// float32 code skips the padding. When this happens, training has already failed, so this class
// saves memory rather than time, by working image by image in one thread.
class ExactGradients {
 public:
  // `image` is the convolution of one image in float32.
  opwright::Status Make(const ConvolutionShape& image, bool with_x, bool with_weight,
                        bool with_bias);

  uint64_t workspace_bytes() const { return bytes_; }

  struct Bound {
    PipelineExecution input, weight;
  };
  void Bind(Bound& bound) const {
    bound.input.Bind(input_);
    bound.weight.Bind(weight_);
  }

  struct Images {
    int64_t n;
    const opwright::BFloat16* x;
    const opwright::BFloat16* out_grad;
  };
  void InputGradient(Bound& bound, const Images& images, const opwright::BFloat16* weight,
                     opwright::BFloat16* x_grad, char* workspace) const;
  // Either result may be NULL.
  void WeightGradient(Bound& bound, const Images& images, opwright::BFloat16* weight_grad,
                      opwright::BFloat16* bias_grad, char* workspace) const;

 private:
  uint64_t Lay(uint64_t bytes);

  ConvolutionShape image_;
  Pipeline input_, weight_;
  dnnl::memory::desc weight_used_, weight_grad_used_, weight_grad_plain_;
  // Byte offsets in the workspace: the float copies, and the sums of one image, each followed by
  // the total over all images.
  uint64_t x_ = 0, out_grad_ = 0, weight_plain_ = 0, weight_packed_ = 0;
  uint64_t weight_sums_ = 0, weight_total_ = 0, bias_sums_ = 0, bias_total_ = 0, steps_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CONVOLUTION_EXACT_GRADIENTS_H_
