// Code shared by lstm_cell, gru_cell and their gradients.
#ifndef OPWRIGHT_CPU_RECURRENT_RECURRENT_CELLS_H_
#define OPWRIGHT_CPU_RECURRENT_RECURRENT_CELLS_H_

#include <algorithm>
#include <cstdint>

#include <opwright/sdk.hpp>

#include "common/parallel.h"
#include "gemm/gemm.h"
#include "recurrent/recurrent.h"

namespace opwright_cpu {

// Slots: x, h, (c of an LSTM), weight_ih, weight_hh, bias_ih, bias_hh, then the slots of each
// kernel. The outputs of the gradient kernels are the gradients of these seven or six inputs.
template <typename T, bool kHasCell>
struct CellOfLayer {
  static constexpr uint32_t kWeights = kHasCell ? 3 : 2;
  static constexpr uint32_t kBiases = kWeights + 2;
  static constexpr uint32_t kBehind = kBiases + 2;

  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.by_threads = true;  // the split of a product affects how its edges are computed
  }

  void SetShape(opwright::PrepareContext& ctx) {
    s_.kind = kHasCell ? Recurrent::kLstm : Recurrent::kGru;
    s_.steps = 1;
    s_.n = ctx.input(0).dim(0);
    s_.inputs = ctx.input(0).dim(1);
    s_.size = ctx.input(1).dim(1);
    gemm_ = BestGemm<T>();
  }

  // Calls function(begin, end) in parallel for ranges of batch rows.
  template <typename Function>
  void ForRows(int32_t n_threads, const Function& function) const {
    constexpr int64_t kThreadWork = 64 * 1024;
    const int64_t each = std::max<int64_t>(1, s_.gates() * (s_.inputs + s_.size));
    ParallelFor(n_threads, s_.n, std::max<int64_t>(4, kThreadWork / each), 4, function);
  }

  // Returns the elements of an input or output, starting at `first`, or NULL if the slot is absent.
  static const T* In(const opwright::RunContext& ctx, uint32_t slot, int64_t first = 0) {
    return ctx.has_input(slot) ? ctx.input(slot).template data<T>() + first : nullptr;
  }
  static T* Out(const opwright::RunContext& ctx, uint32_t slot, int64_t first = 0) {
    return ctx.has_output(slot) ? ctx.output(slot).template data<T>() + first : nullptr;
  }

  RecurrentShape s_;
  GemmFn<T> gemm_ = nullptr;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_RECURRENT_RECURRENT_CELLS_H_
