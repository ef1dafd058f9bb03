// histogram: counts in bins of equal width. Bin edges are bitwise identical to numpy.linspace.
#include <opwright/functors.h>
#include <opwright/functors/counting.h>
#include <vector>

#include "common/half_rows.h"
#include "indexing/attributes.h"
#include "indexing/counts.h"
#include "movement/widths.h"

namespace opwright_cpu {
namespace {

template <typename T>
struct HistogramKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const HistogramAttrs& attrs) {
    bins_ = {attrs.min, attrs.max, attrs.bins};
    edges_.clear();
    for (int64_t i = 0; i <= attrs.bins; ++i) edges_.push_back(bins_.Edge(i));
    counts_ = Counts(ctx.input(0).numel(), attrs.bins, ctx.n_threads());
    ctx.SetWorkspace(counts_.workspace_bytes());
    ctx.SetEstimate(4 * counts_.estimate_ns());
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const HistogramAttrs&) const {
    const T* x = ctx.input(0).template data<T>();
    const double* edges = edges_.data();
    const double scale = bins_.Scale();
    const auto edge_of = [edges](int64_t bin) { return edges[bin]; };
    const auto count = [&](int64_t begin, int64_t end, int64_t* counts) {
      for (int64_t i = begin; i < end; ++i) {
        const auto value = static_cast<double>(NumberOf(x[i]));
        if (!bins_.Holds(value)) continue;
        ++counts[opwright::functors::BinOf(bins_, scale, value, edge_of)];
      }
    };
    counts_.Run(count, ctx.workspace<int64_t>(), ctx.output(0).template data<int64_t>());
    return opwright::Status::Ok();
  }

 private:
  opwright::functors::HistogramBins bins_ = {0, 1, 1};
  std::vector<double> edges_;  // beginnings of all bins, and the end of the last bin
  Counts counts_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("histogram", "cpu", opwright_cpu::HistogramKernel, float, double,
                             int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                             uint64_t, OPWRIGHT_CPU_HALVES);
