// The gradients of lstm, gru and rnn: the backward steps, then the gradients of the weights and of
// x as products over many steps.
#include "common/widened.h"
#include "recurrent/attributes.h"
#include "recurrent/recurrent.h"
#include "recurrent/recurrent_products.h"
#include "recurrent/recurrent_weights.h"

namespace opwright_cpu {
namespace {

// Slots: x, weight_ih*, weight_hh*, bias_ih*, bias_hh* (these two as shapes), h0, (c0 of an LSTM),
// lengths, (gates, except for a plain layer), states, (cells), out_grad, h_n_grad, (c_n_grad);
// x_grad, weight_ih_grad*, weight_hh_grad*, bias_ih_grad*, bias_hh_grad*, h0_grad, (c0_grad).
template <typename T, bool kHasCell, bool kHasGates>
struct RecurrentGradKernel {
  static constexpr uint32_t kLengths = kHasCell ? 7 : 6;
  static constexpr uint32_t kGates = kLengths + 1;
  static constexpr uint32_t kStates = kHasGates ? kGates + 1 : kGates;
  static constexpr uint32_t kOutGrad = kStates + (kHasCell ? 2 : 1);

  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.by_threads = true;  // the split of a product affects how its edges are computed
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const RecurrentAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(MakeRecurrentShape(ctx, kHasCell, kHasGates, attrs, &s_));
    gemm_ = BestGemm<T>();
    has_lengths_ = ctx.has_input(kLengths);
    Arena<T> arena(nullptr);
    TakeBuffers(&arena);
    ctx.SetWorkspace(static_cast<uint64_t>(arena.taken()) * sizeof(T));
    ctx.SetEstimate(static_cast<uint64_t>(1000 + s_.Multiplications() / (8 * ctx.n_threads())));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const RecurrentAttrs&) const {
    std::vector<int64_t> lengths;
    OPWRIGHT_RETURN_IF_ERROR(ReadLengths(ctx, kLengths, s_.steps, &lengths));
    Arena<T> arena(ctx.workspace<T>());
    Buffers at = TakeBuffers(&arena);
    std::fill(at.zeros, at.zeros + s_.n * s_.size, T(0));
    const T* flow = ctx.has_input(kOutGrad) ? ctx.input(kOutGrad).template data<T>() : nullptr;
    if (flow != nullptr && s_.batch_first) {
      SwapAxes(flow, s_.n, s_.steps, s_.joined(), at.flow);
      flow = at.flow;
    }
    for (int64_t layer = s_.layers - 1; layer >= 0; --layer) {
      if (PacksWeights()) {
        for (int64_t d = 0; d < s_.directions; ++d) {
          PackBack(s_.kind, WeightOf(ctx, layer * s_.directions + d), s_.size, PackedOf(at, d));
        }
      }
      T* to = TargetOf(ctx, layer, at);
      RunLayer(ctx, layer, flow, to, at, lengths);
      flow = to;
    }
    if (s_.batch_first && ctx.has_output(0)) {
      SwapAxes(flow, s_.steps, s_.n, s_.inputs, ctx.output(0).template data<T>());
    }
    return opwright::Status::Ok();
  }

 private:
  struct Buffers {
    T* zeros;       // [n, size]
    T* source;      // a layer's input
    T* flow;        // the gradient of the layer's output, then of its input
    T* parts;       // the pre-activation gradients of some steps, per direction
    T* state_grad;  // [directions, n, size]
    T* cell_grad;
    T* weights;  // weight_hh of each direction, in panels
  };

  // Returns the destination of a layer's input gradient, or NULL if it is not requested. Steps run
  // backward, and narrower rows are written to the end, so unread rows of `flow` are never
  // overwritten.
  T* TargetOf(const opwright::RunContext& ctx, int64_t layer, const Buffers& at) const {
    if (layer > 0) return at.flow;
    if (!ctx.has_output(0)) return nullptr;
    if (!s_.batch_first) return ctx.output(0).template data<T>();
    return at.flow + s_.rows() * (std::max(s_.inputs, s_.joined()) - s_.inputs);
  }

  // Processes one layer, StepsAtOnce() steps at a time. `flow` is the output gradient of the layer,
  // or NULL for zeros. `to` receives the layer's input gradient, or is NULL if that is not
  // requested; `to` may be `flow`.
  void RunLayer(const opwright::RunContext& ctx, int64_t layer, const T* flow, T* to,
                const Buffers& at, const std::vector<int64_t>& lengths) const {
    const T* source = SourceOf(ctx, layer, lengths, at.source);
    const int64_t inputs = s_.InputsOf(layer);
    Part steps{0, s_.steps};
    do {
      steps.begin = std::max<int64_t>(0, steps.end - StepsAtOnce());
      ForRowsOfDirections(s_, ctx.n_threads(), [&](int64_t d, int64_t begin, int64_t end) {
        RunRows(ctx, layer * s_.directions + d, d, steps, {begin, end}, flow, at, lengths);
      });
      const int64_t before = steps.begin * s_.n * inputs;
      for (int64_t i = layer * s_.directions; i < (layer + 1) * s_.directions; ++i) {
        const bool reverse = i % s_.directions == 1;
        const WeightGrads<T> grads{s_,
                                   gemm_,
                                   ctx,
                                   1,
                                   static_cast<uint32_t>(i),
                                   reverse,
                                   steps,
                                   In(ctx, 5, i, s_.n * s_.size),
                                   In(ctx, kStates, i, s_.rows() * s_.size),
                                   0,
                                   PartsOf(at, reverse ? 1 : 0),
                                   has_lengths_};
        grads.WriteSource(source + before, inputs);
        grads.WriteState();
      }
      for (int64_t d = 0; to != nullptr && d < s_.directions; ++d) {
        AddSourceGrad(ctx, layer, d, (steps.end - steps.begin) * s_.n, at, to + before);
      }
      steps.end = steps.begin;
    } while (steps.end > 0);
  }

  // Returns how many steps have their pre-activation gradients in memory at once, with enough rows
  // for efficient products. Two directions process the steps from opposite ends, so all steps are
  // needed.
  int64_t StepsAtOnce() const {
    constexpr int64_t kRows = 512;
    if (s_.directions > 1) return std::max<int64_t>(s_.steps, 1);
    return std::max<int64_t>(1, kRows / std::max<int64_t>(s_.n, 1));
  }

  // For few steps, packing takes longer than it saves.
  bool PacksWeights() const { return s_.steps >= 4; }

  // Returns whether a layer reads a copy of x, or of the states of the previous layer.
  bool CopiesSource() const {
    return s_.batch_first || (s_.layers > 1 && (s_.directions > 1 || has_lengths_));
  }

  Buffers TakeBuffers(Arena<T>* arena) const {
    const int64_t each = s_.n * s_.size, width = std::max(s_.inputs, s_.joined());
    Buffers at;
    at.zeros = arena->Take(each);
    at.source = arena->Take(CopiesSource() ? s_.rows() * width : 0);
    at.flow = arena->Take(s_.batch_first || s_.layers > 1 ? s_.rows() * width : 0);
    const int64_t steps = std::min(s_.steps, StepsAtOnce());
    at.parts = arena->Take(s_.directions * steps * s_.n * s_.width());
    at.state_grad = arena->Take(s_.directions * each);
    at.cell_grad = arena->Take(s_.directions * each);
    at.weights = arena->Take(PacksWeights() ? s_.directions * s_.gates() * s_.size : 0);
    return at;
  }

  static const T* In(const opwright::RunContext& ctx, uint32_t slot, int64_t index, int64_t each,
                     int64_t first = 0) {
    if (!ctx.has_input(slot)) return nullptr;
    return ctx.input(slot).template data<T>() + index * each + first;
  }

  const T* SourceOf(const opwright::RunContext& ctx, int64_t layer,
                    const std::vector<int64_t>& lengths, T* buffer) const {
    const T* x = ctx.input(0).template data<T>();
    if (layer > 0) {
      const T* states = In(ctx, kStates, (layer - 1) * s_.directions, s_.rows() * s_.size);
      if (s_.directions == 1 && lengths.empty()) return states;
      JoinStates(s_, states, lengths, buffer);
    } else if (s_.batch_first) {
      SwapAxes(x, s_.n, s_.steps, s_.inputs, buffer);
    } else {
      return x;
    }
    return buffer;
  }

  static const T* WeightOf(const opwright::RunContext& ctx, int64_t i) {
    return ctx.input(2, static_cast<uint32_t>(i)).template data<T>();
  }

  T* PackedOf(const Buffers& at, int64_t d) const { return at.weights + d * s_.gates() * s_.size; }

  T* PartsOf(const Buffers& at, int64_t d) const { return at.parts + d * s_.rows() * s_.width(); }

  // Runs the backward pass through `steps` for a range of batch rows.
  void RunRows(const opwright::RunContext& ctx, int64_t i, int64_t d, Part steps, Part rows,
               const T* flow, const Buffers& at, const std::vector<int64_t>& lengths) const {
    const int64_t each = s_.n * s_.size, first = rows.begin * s_.size, last = rows.end * s_.size;
    T* state_grad = at.state_grad + d * each;
    T* cell_grad = at.cell_grad + d * each;
    if (steps.end == s_.steps) {
      StartGrad(In(ctx, kOutGrad + 1, i, each, first), last - first, state_grad + first);
      if (kHasCell) {
        StartGrad(In(ctx, kOutGrad + 2, i, each, first), last - first, cell_grad + first);
      }
    }
    const T* h0 = ctx.has_input(5) ? In(ctx, 5, i, each) : at.zeros;
    const T* c0 = kHasCell && ctx.has_input(6) ? In(ctx, 6, i, each) : at.zeros;
    const T* states = In(ctx, kStates, i, s_.rows() * s_.size);
    const T* cells = kHasCell ? In(ctx, kStates + 1, i, s_.rows() * s_.size) : nullptr;
    const T* gates = In(ctx, kGates, i, s_.rows() * s_.width());
    for (int64_t k = steps.end - 1; k >= steps.begin; --k) {
      const int64_t step = d == 1 ? s_.steps - 1 - k : k, before = d == 1 ? step + 1 : step - 1;
      const int64_t row = step * s_.n + rows.begin;
      StepBack<T> back{};
      // The backward step reads the results of RunStep.
      back.at = {rows.end - rows.begin,
                 s_.size,
                 lengths.empty() ? nullptr : lengths.data() + rows.begin,
                 step,
                 const_cast<T*>(gates + row * s_.width()),
                 (k == 0 ? h0 : states + before * each) + first,
                 kHasCell ? (k == 0 ? c0 : cells + before * each) + first : nullptr,
                 const_cast<T*>(states + step * each + first),
                 kHasCell ? const_cast<T*>(cells + step * each + first) : nullptr};
      back.out_grad = flow == nullptr ? nullptr : flow + row * s_.joined() + d * s_.size;
      back.out_stride = s_.joined();
      back.state_grad = state_grad + first;
      back.cell_grad = cell_grad + first;
      back.parts = PartsOf(at, d) + (row - steps.begin * s_.n) * s_.width();
      RunStepBack(s_.kind, back);
      AddThroughState<T>(
          gemm_, s_.kind,
          {PacksWeights() ? PackedOf(at, d) : WeightOf(ctx, i), s_.size, 1, PacksWeights()}, back);
    }
    if (steps.begin > 0) return;
    Finish(ctx, 5, i, each, first, last, state_grad);
    if (kHasCell) Finish(ctx, 6, i, each, first, last, cell_grad);
  }

  static void Finish(const opwright::RunContext& ctx, uint32_t slot, int64_t i, int64_t each,
                     int64_t first, int64_t last, const T* grad) {
    if (!ctx.has_output(slot)) return;
    std::copy(grad + first, grad + last, ctx.output(slot).template data<T>() + i * each + first);
  }

  // Adds the contribution of direction d to a layer's input gradient; direction 0 initializes it.
  void AddSourceGrad(const opwright::RunContext& ctx, int64_t layer, int64_t d, int64_t rows,
                     const Buffers& at, T* to) const {
    const auto i = static_cast<uint32_t>(layer * s_.directions + d);
    const int64_t inputs = s_.InputsOf(layer);
    ParallelGemm<T>(gemm_,
                    {rows, inputs, s_.gates(), PartsOf(at, d), s_.width(), 1,
                     ctx.input(1, i).template data<T>(), inputs, 1, to, inputs, T(1),
                     d == 0 ? T(0) : T(1), nullptr},
                    ctx.n_threads());
  }

  RecurrentShape s_;
  bool has_lengths_ = false;
  GemmFn<T> gemm_ = nullptr;
};

template <typename T>
using LstmGradKernel = RecurrentGradKernel<T, true, true>;
template <typename T>
using GruGradKernel = RecurrentGradKernel<T, false, true>;
template <typename T>
using RnnGradKernel = RecurrentGradKernel<T, false, false>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("lstm_grad", opwright_cpu::LstmGradKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("gru_grad", opwright_cpu::GruGradKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("rnn_grad", opwright_cpu::RnnGradKernel);
