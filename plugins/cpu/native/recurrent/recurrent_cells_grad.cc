// The gradients of lstm_cell and gru_cell: a backward step, then the gradients of the weights.
#include "common/widened.h"
#include "recurrent/recurrent_cells.h"
#include "recurrent/recurrent_products.h"
#include "recurrent/recurrent_weights.h"

namespace opwright_cpu {
namespace {

// (c_out), gates, h_out_grad, (c_out_grad).
template <typename T, bool kHasCell>
struct CellGradKernel : CellOfLayer<T, kHasCell> {
  using Base = CellOfLayer<T, kHasCell>;
  using Base::gemm_;
  using Base::In;
  using Base::Out;
  using Base::s_;
  static constexpr uint32_t kGates = Base::kBehind + (kHasCell ? 1 : 0);

  opwright::Status Prepare(opwright::PrepareContext& ctx, const opwright::NoAttrs&) {
    Base::SetShape(ctx);
    Arena<T> arena(nullptr);
    TakeBuffers(&arena);
    ctx.SetWorkspace(static_cast<uint64_t>(arena.taken()) * sizeof(T));
    ctx.SetEstimate(static_cast<uint64_t>(1000 + s_.Multiplications() / (8 * ctx.n_threads())));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&) const {
    Arena<T> arena(ctx.workspace<T>());
    const Buffers at = TakeBuffers(&arena);
    Base::ForRows(ctx.n_threads(),
                  [&](int64_t begin, int64_t end) { RunRows(ctx, begin, end - begin, at); });
    const T* x = In(ctx, 0);
    const WeightGrads<T> grads{s_,         gemm_,   ctx, Base::kWeights, 0, false, {0, s_.steps},
                               In(ctx, 1), nullptr, 0,   at.parts};
    grads.WriteSource(x, s_.inputs);
    grads.WriteState();
    return opwright::Status::Ok();
  }

 private:
  struct Buffers {
    T* parts;  // the pre-activation gradients
    T* state_grad;
    T* cell_grad;
  };

  Buffers TakeBuffers(Arena<T>* arena) const {
    const int64_t each = s_.n * s_.size;
    T* parts = arena->Take(s_.n * s_.width());
    T* state_grad = arena->Take(each);
    return {parts, state_grad, kHasCell ? arena->Take(each) : nullptr};
  }

  void RunRows(const opwright::RunContext& ctx, int64_t begin, int64_t rows,
               const Buffers& at) const {
    const int64_t size = s_.size, width = s_.width(), first = begin * size;
    StepBack<T> back{};
    // The backward step reads the results of the step except for its output state.
    back.at = {rows,
               size,
               nullptr,
               0,
               const_cast<T*>(In(ctx, kGates, begin * width)),
               In(ctx, 1, first),
               kHasCell ? In(ctx, 2, first) : nullptr,
               nullptr,
               kHasCell ? const_cast<T*>(In(ctx, Base::kBehind, first)) : nullptr};
    back.state_grad = at.state_grad + first;
    back.parts = at.parts + begin * width;
    StartGrad(In(ctx, kGates + 1, first), rows * size, back.state_grad);
    if (kHasCell) {
      back.cell_grad = at.cell_grad + first;
      StartGrad(In(ctx, kGates + 2, first), rows * size, back.cell_grad);
    }
    RunStepBack(s_.kind, back);
    WriteGrads(ctx, begin, back);
  }

  // Writes the gradients of x, h and c for the rows starting at `begin`.
  void WriteGrads(const opwright::RunContext& ctx, int64_t begin, const StepBack<T>& back) const {
    const int64_t rows = back.at.rows, count = rows * s_.size, first = begin * s_.size;
    if (T* grad = Out(ctx, 0, begin * s_.inputs)) {
      gemm_({rows, s_.inputs, s_.gates(), back.parts, s_.width(), 1, In(ctx, Base::kWeights),
             s_.inputs, 1, grad, s_.inputs, T(1), T(0), ThreadScratch<T>()});
    }
    if (T* grad = Out(ctx, 1, first)) {
      AddThroughState<T>(gemm_, s_.kind, {In(ctx, Base::kWeights + 1), s_.size, 1, false}, back);
      std::copy(back.state_grad, back.state_grad + count, grad);
    }
    T* cell_grad = kHasCell ? Out(ctx, 2, first) : nullptr;
    if (cell_grad != nullptr) std::copy(back.cell_grad, back.cell_grad + count, cell_grad);
  }
};

template <typename T>
using LstmCellGradKernel = CellGradKernel<T, true>;
template <typename T>
using GruCellGradKernel = CellGradKernel<T, false>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("lstm_cell_grad", opwright_cpu::LstmCellGradKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("gru_cell_grad", opwright_cpu::GruCellGradKernel);
