// Convolution of channels-last images in groups of few channels. oneDNN processes such groups one
// by one or pads them with zeros, and spends most of its time outside the products.
#ifndef OPWRIGHT_CPU_CONVOLUTION_GROUPED_H_
#define OPWRIGHT_CPU_CONVOLUTION_GROUPED_H_

#include <cstdint>

#include <opwright/sdk.hpp>

#include "convolution/attributes.h"
#include "convolution/grouped_rows.h"
#include "convolution/image_windows.h"

namespace opwright_cpu {

// Returns whether this method supports the convolution of float32 images. Groups must have 2, 4, 8,
// 16 or 32 input and output channels.
bool IsGroupedByFew(const opwright::Shape& x, const opwright::Shape& weight,
                    const ConvolutionAttrs& attrs);

// A grouped convolution. Objects are immutable after Make. Shapes must be nonempty and satisfy
// IsGroupedByFew. Each result is summed by one thread, in an order that does not depend on the
// number of threads.
class GroupedConvolution {
 public:
  void Make(const opwright::Shape& x, const opwright::Shape& weight, const opwright::Shape& out,
            const ConvolutionAttrs& attrs, int32_t n_threads);

  // Returns the size in bytes of the packed weight that Forward reads.
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
  uint64_t OutGradBytes() const;  // size of a row for one thread
  void MakeSweep(bool is_backward, GroupedSweep* sweep) const;
  // Returns the row of `from` that row `row` of `to` reads at `tap`, or -1 if there is none.
  int64_t SourceRow(const GroupedSweep& sweep, int64_t row, int64_t tap) const;
  uint64_t BytesOf(const GroupedSweep& sweep) const;  // scratch memory of one thread
  template <typename Function>
  void OverRows(const GroupedSweep& sweep, const float* from, int64_t first_unit, int64_t n_units,
                char* scratch, const Function& function) const;
  void Run(const GroupedSweep& sweep, const float* from, const float* packed,
           const GroupedEpilogue& epilogue, float* to, char* workspace) const;
  void SumOverImages(const float* x, const float* out_grads, Range units, float* sums, float* one,
                     char* scratch) const;

  ImageWindows at_;
  int64_t n_ = 0, group_ = 0, unit_ = 0, n_units_ = 0;
  int64_t units_at_once_ = 0;  // maximum number of units that a thread processes in an image
  int32_t n_threads_ = 1;
  GroupedSweep forward_, backward_;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CONVOLUTION_GROUPED_H_
