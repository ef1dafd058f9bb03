// histogram: counts in bins of equal width, whose edges are numpy.linspace's to the last bit.
#include <algorithm>
#include <vector>

#include "common/half_rows.h"
#include "movement/attributes.h"
#include "movement/counts.h"
#include "movement/widths.h"

namespace opwright_cpu {
namespace {

std::vector<double> EdgesOf(const HistogramAttrs& attrs) {
  std::vector<double> edges;
  const double extent = attrs.max - attrs.min;
  const auto bins = static_cast<double>(attrs.bins);
  const double step = extent / bins;
  for (int64_t i = 0; i < attrs.bins; ++i) {
    const auto at = static_cast<double>(i);
    edges.push_back((step == 0.0 ? at / bins * extent : at * step) + attrs.min);
  }
  edges.push_back(attrs.max);
  return edges;
}

template <typename T>
struct HistogramKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const HistogramAttrs& attrs) {
    edges_ = EdgesOf(attrs);
    scale_ = static_cast<double>(attrs.bins) / (attrs.max - attrs.min);
    counts_ = Counts(ctx.input(0).numel(), attrs.bins, ctx.n_threads());
    ctx.SetWorkspace(counts_.workspace_bytes());
    ctx.SetEstimate(4 * counts_.estimate_ns());
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const HistogramAttrs&) const {
    const T* x = ctx.input(0).template data<T>();
    const auto count = [&](int64_t begin, int64_t end, int64_t* counts) {
      for (int64_t i = begin; i < end; ++i) {
        const auto value = static_cast<double>(NumberOf(x[i]));
        if (value >= edges_.front() && value <= edges_.back()) ++counts[BinOf(value)];
      }
    };
    counts_.Run(count, ctx.workspace<int64_t>(), ctx.output(0).template data<int64_t>());
    return opwright::Status::Ok();
  }

 private:
  // The product may be one bin off: the edges decide.
  int64_t BinOf(double value) const {
    const auto last = static_cast<int64_t>(edges_.size()) - 2;
    const double guess = (value - edges_.front()) * scale_;
    int64_t bin = guess < static_cast<double>(last) ? static_cast<int64_t>(guess) : last;
    const double* edges = edges_.data();
    while (bin > 0 && value < edges[bin]) --bin;
    while (bin < last && value >= edges[bin + 1]) ++bin;
    return bin;
  }

  std::vector<double> edges_;  // of the bins, and the end of the last one
  double scale_ = 1.0;
  Counts counts_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("histogram", "cpu", opwright_cpu::HistogramKernel, float, double,
                             int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                             uint64_t, OPWRIGHT_CPU_HALVES);
