// lstm_cell and gru_cell: one step of lstm and gru, with a range of batch rows per thread.
#include "recurrent/recurrent_cells.h"
#include "common/widened.h"
#include "recurrent/recurrent_products.h"

namespace opwright_cpu {
namespace {

// h_out, (c_out), gates.
template <typename T, bool kHasCell>
struct CellKernel : CellOfLayer<T, kHasCell> {
  using Base = CellOfLayer<T, kHasCell>;
  using Base::gemm_;
  using Base::In;
  using Base::Out;
  using Base::s_;

  opwright::Status Prepare(opwright::PrepareContext& ctx, const opwright::NoAttrs&) {
    Base::SetShape(ctx);
    ctx.SetEstimate(static_cast<uint64_t>(1000 + s_.Multiplications() / (16 * ctx.n_threads())));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&) const {
    Base::ForRows(ctx.n_threads(),
                  [&](int64_t begin, int64_t end) { RunRows(ctx, begin, end - begin); });
    return opwright::Status::Ok();
  }

 private:
  void RunRows(const opwright::RunContext& ctx, int64_t begin, int64_t rows) const {
    const int64_t size = s_.size, gates = s_.gates(), width = s_.width(), first = begin * size;
    T* sums = Out(ctx, kHasCell ? 2 : 1, begin * width);
    gemm_({rows, gates, s_.inputs, In(ctx, 0, begin * s_.inputs), s_.inputs, 1,
           In(ctx, Base::kWeights), 1, s_.inputs, sums, width, T(1), T(0), ThreadScratch<T>()});
    const T *bias_ih = In(ctx, Base::kBiases), *bias_hh = In(ctx, Base::kBiases + 1);
    if (bias_ih != nullptr) AddBias(bias_ih, rows, gates, width, sums);
    if (kHasCell && bias_hh != nullptr) AddBias(bias_hh, rows, gates, width, sums);
    const T* state = In(ctx, 1, first);
    AddState<T>(gemm_, s_.kind, rows, size, state, {In(ctx, Base::kWeights + 1), 1, size, false},
                bias_hh, sums);
    RunStep<T>(s_.kind,
               {rows, size, nullptr, 0, sums, state, kHasCell ? In(ctx, 2, first) : nullptr,
                Out(ctx, 0, first), kHasCell ? Out(ctx, 1, first) : nullptr});
  }
};

template <typename T>
using LstmCellKernel = CellKernel<T, true>;
template <typename T>
using GruCellKernel = CellKernel<T, false>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("lstm_cell", opwright_cpu::LstmCellKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("gru_cell", opwright_cpu::GruCellKernel);
