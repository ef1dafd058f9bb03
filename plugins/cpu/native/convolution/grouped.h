// Convolution of images, channels last, in groups of few channels: oneDNN works on such groups one
// by one or spreads them with zeros, and spends most of its time outside the products.
#ifndef OPWRIGHT_CPU_CONVOLUTION_GROUPED_H_
#define OPWRIGHT_CPU_CONVOLUTION_GROUPED_H_

#include <cstdint>

#include <opwright/sdk.hpp>

#include "convolution/attributes.h"
#include "convolution/grouped_rows.h"
#include "convolution/image_windows.h"

namespace opwright_cpu {

// Whether float32 images are convolved in this way: groups of 2, 4, 8, 16 or 32 input and output
// channels.
bool IsGroupedByFew(const opwright::Shape& x, const opwright::Shape& weight,
                    const ConvolutionAttrs& attrs);

// Immutable after Make. Shapes have elements and satisfy IsGroupedByFew. Each number is the sum of
// one thread in one order, for any number of threads.
class GroupedConvolution {
 public:
  void Make(const opwright::Shape& x, const opwright::Shape& weight, const opwright::Shape& out,
            const ConvolutionAttrs& attrs, int32_t n_threads);

  // The weight as Forward reads it.
  uint64_t packed_bytes() const;
  void Pack(const float* weight, void* packed) const;

  uint64_t forward_bytes() const { return Count(n_threads_) * BytesOf(forward_); }
  void Forward(const float* x, const void* packed, const GroupedEpilogue& epilogue, float* out,
               char* workspace) const;

  uint64_t gradient_bytes() const;
  void InputGradient(const float* out_grads, const float* weight, float* x_grad,
                     char* workspace) const;
  // Either result may be NULL.
  void WeightGradient(const float* x, const float* out_grads, float* weight_grad, float* bias_grad,
                      char* workspace) const;

 private:
  static uint64_t Count(int64_t n) { return static_cast<uint64_t>(n); }
  template <typename Function>
  void OverWeights(bool is_backward, const Function& function) const;
  void PackFor(bool is_backward, const float* weight, float* packed) const;
  uint64_t OutGradBytes() const;  // of a row, of one thread
  void MakeSweep(bool is_backward, GroupedSweep* sweep) const;
  // Row of `from` that tap `tap` of row `row` of `to` reads, or -1.
  int64_t SourceRow(const GroupedSweep& sweep, int64_t row, int64_t tap) const;
  uint64_t BytesOf(const GroupedSweep& sweep) const;  // of one thread
  template <typename Function>
  void OverRows(const GroupedSweep& sweep, const float* from, int64_t first_unit, int64_t n_units,
                char* scratch, const Function& function) const;
  void Run(const GroupedSweep& sweep, const float* from, const float* packed,
           const GroupedEpilogue& epilogue, float* to, char* workspace) const;
  void SumOverImages(const float* x, const float* out_grads, Range units, float* sums, float* one,
                     char* scratch) const;

  ImageWindows at_;
  int64_t n_ = 0, group_ = 0, unit_ = 0, n_units_ = 0;
  int64_t units_at_once_ = 0;  // the most of them that a thread processes in an image
  int32_t n_threads_ = 1;
  GroupedSweep forward_, backward_;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CONVOLUTION_GROUPED_H_
