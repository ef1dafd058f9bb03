// edit_distance: computes the table of prefix distances row by row.
#include <algorithm>
#include <limits>
#include <vector>

#include "common/parallel.h"
#include "metrics/attributes.h"
#include "sequences/lengths.h"

namespace opwright_cpu {
namespace {

// Returns the number of edits that change x into label; `row` is scratch memory of u + 1 elements.
template <typename T>
int64_t CountEdits(const T* x, int64_t t, const T* label, int64_t u, int32_t* row) {
  for (int64_t j = 0; j <= u; ++j) row[j] = static_cast<int32_t>(j);
  for (int64_t i = 0; i < t; ++i) {
    const T token = x[i];
    int32_t diagonal = row[0];
    int32_t left = static_cast<int32_t>(i + 1);
    row[0] = left;
    for (int64_t j = 1; j <= u; ++j) {
      const int32_t above = row[j];
      const int32_t other = std::min(above + 1, diagonal + (label[j - 1] != token ? 1 : 0));
      left = std::min(left + 1, other);
      row[j] = left;
      diagonal = above;
    }
  }
  return row[u];
}

// Slots: x, label, lengths, label_lengths; out.
template <typename T>
struct EditDistanceKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const EditDistanceAttrs&) {
    n_ = ctx.input(0).dim(0);
    t_ = ctx.input(0).dim(1);
    u_ = ctx.input(1).dim(1);
    if (std::max(t_, u_) >= std::numeric_limits<int32_t>::max() / 2) {
      return opwright::Status::Refused("sequences must have fewer than 2**30 steps, got ",
                                       std::max(t_, u_));
    }
    ctx.SetEstimate(static_cast<uint64_t>(100 + n_ * (t_ + 1) * (u_ + 1) / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const EditDistanceAttrs& attrs) const {
    std::vector<int64_t> lengths, label_lengths;
    OPWRIGHT_RETURN_IF_ERROR(FillLengths(ctx, 2, t_, n_, &lengths));
    OPWRIGHT_RETURN_IF_ERROR(FillLengths(ctx, 3, u_, n_, &label_lengths, "label_lengths"));
    const T* x = ctx.input(0).template data<T>();
    const T* label = ctx.input(1).template data<T>();
    float* out = ctx.output(0).template data<float>();
    const int64_t grain = kElementGrain / ((t_ + 1) * (u_ + 1)) + 1;
    ParallelFor(ctx.n_threads(), n_, grain, 1, [&](int64_t begin, int64_t end) {
      std::vector<int32_t> row(static_cast<size_t>(u_ + 1));
      for (int64_t i = begin; i < end; ++i) {
        const int64_t length = label_lengths[i];
        const int64_t edits =
            CountEdits(x + i * t_, lengths[i], label + i * u_, length, row.data());
        // The distance is infinite if a positive number of edits is divided by a length of 0, but a
        // distance of 0 stays 0 for every length.
        const double divisor = attrs.normalized && edits > 0 ? static_cast<double>(length) : 1.0;
        out[i] = divisor > 0 ? static_cast<float>(static_cast<double>(edits) / divisor)
                             : std::numeric_limits<float>::infinity();
      }
    });
    return opwright::Status::Ok();
  }

  int64_t n_ = 0;
  int64_t t_ = 0;
  int64_t u_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("edit_distance", "cpu", opwright_cpu::EditDistanceKernel, int32_t,
                             int64_t);
