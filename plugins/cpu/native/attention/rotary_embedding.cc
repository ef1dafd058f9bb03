// rotary_embedding, and its gradient, which rotates in the opposite direction.
#include <algorithm>

#include "attention/attributes.h"
#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"

namespace opwright_cpu {
namespace {

// x is [outer, t, size]; `repeats` consecutive indices of outer share positions.
struct RotaryShape {
  int64_t outer = 1;
  int64_t t = 0;
  int64_t size = 0;
  int64_t half = 0;
  int64_t positions = 0;
  int64_t repeats = 1;
};

template <typename T>
OPWRIGHT_CPU_CLONES void TurnRow(const T* x, const T* cos, const T* sin, int64_t half, int64_t size,
                                 bool interleaved, T sign, T* out) {
  if (interleaved) {
    for (int64_t i = 0; i < half; ++i) {
      const T a = x[2 * i], b = x[2 * i + 1], sine = sign * sin[i];
      out[2 * i] = a * cos[i] - b * sine;
      out[2 * i + 1] = b * cos[i] + a * sine;
    }
  } else {
#pragma omp simd
    for (int64_t i = 0; i < half; ++i) {
      const T a = x[i], b = x[half + i], sine = sign * sin[i];
      out[i] = a * cos[i] - b * sine;
      out[half + i] = b * cos[i] + a * sine;
    }
  }
  for (int64_t i = 2 * half; i < size; ++i) out[i] = x[i];
}

// Slots: x, cos, sin, index; out. Slots of the gradient:
// x (its shape only), cos, sin, index, out_grad; x_grad.
template <typename T, bool kGrad>
struct RotaryKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    if (kGrad) {
      options.may_reuse = {{"x_grad", "out_grad"}};
    } else {
      options.may_reuse = {{"out", "x"}};
    }
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const RotaryAttrs&) {
    const std::vector<int64_t> dims = ctx.input(0).shape().dims();
    const size_t rank = dims.size();
    for (size_t i = 0; i + 2 < rank; ++i) shape_.outer *= dims[i];
    shape_.t = dims[rank - 2];
    shape_.size = dims[rank - 1];
    shape_.positions = ctx.input(1).dim(0);
    shape_.half = ctx.input(1).dim(1);
    has_rows_ = ctx.has_input(3) && ctx.input(3).rank() == 2;
    if (has_rows_)
      shape_.repeats = std::max<int64_t>(1, shape_.outer / std::max<int64_t>(1, dims[0]));
    const int64_t bytes = 2 * shape_.outer * shape_.t * shape_.size * int64_t{sizeof(T)};
    ctx.SetEstimate(static_cast<uint64_t>(50 + bytes / 10));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const RotaryAttrs& attrs) const {
    const bool has_index = ctx.has_input(3);
    const opwright::InputTensor index = ctx.input(has_index ? 3 : 0);
    const bool is_wide = index.dtype().bits == 64;
    const auto position_of = [=](int64_t i) -> int64_t {
      return is_wide ? static_cast<const int64_t*>(index.raw())[i]
                     : static_cast<const int32_t*>(index.raw())[i];
    };
    for (int64_t i = 0; has_index && i < index.numel(); ++i) {
      // A negative position, cast to an unsigned integer, also exceeds the limit.
      if (static_cast<uint64_t>(position_of(i)) < static_cast<uint64_t>(shape_.positions)) continue;
      return opwright::Status::Error("index must be in [0, ", shape_.positions, "), got ",
                                     position_of(i));
    }
    const T* x = ctx.input(kGrad ? 4 : 0).template data<T>();
    const T* cos = ctx.input(1).data<T>();
    const T* sin = ctx.input(2).data<T>();
    T* out = ctx.output(0).data<T>();
    const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, shape_.size));
    ParallelFor(ctx.n_threads(), shape_.outer * shape_.t, grain, 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t row = begin; row < end; ++row) {
                    const int64_t at = row % shape_.t;
                    int64_t position = at;
                    if (has_rows_) {
                      position = position_of(row / shape_.t / shape_.repeats * shape_.t + at);
                    } else if (has_index) {
                      position = position_of(at);
                    }
                    TurnRow(x + row * shape_.size, cos + position * shape_.half,
                            sin + position * shape_.half, shape_.half, shape_.size,
                            attrs.interleaved, kGrad ? T(-1) : T(1), out + row * shape_.size);
                  }
                });
    return opwright::Status::Ok();
  }

  RotaryShape shape_;
  bool has_rows_ = false;
};

template <typename T>
using RotaryEmbeddingKernel = RotaryKernel<T, false>;
template <typename T>
using RotaryEmbeddingGradKernel = RotaryKernel<T, true>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("rotary_embedding", opwright_cpu::RotaryEmbeddingKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("rotary_embedding_grad", opwright_cpu::RotaryEmbeddingGradKernel);
