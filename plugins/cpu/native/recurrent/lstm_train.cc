// An LSTM in training. Each layer overwrites the states of the previous layer once they have been
// read.
#include "recurrent/lstm_train.h"
#include "recurrent/attributes.h"
#include "recurrent/recurrent_products.h"

namespace opwright_cpu {
namespace {

using opwright::Status;

// Slots: x, weight_ih*, weight_hh*, bias_ih*, bias_hh*, h0, c0, lengths; out, h_n, c_n, gates,
// marks.
template <typename T>
struct LstmTrainKernel {
  static constexpr uint32_t kH0 = 5, kC0 = 6, kLengths = 7;

  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.by_threads = true;  // the split of a product affects how its edges are computed
  }

  Status Prepare(opwright::PrepareContext& ctx, const LstmTrainAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(s_.Describe(ctx, attrs));
    gemm_ = BestGemm<T>();
    s_.template Request<T>(ctx, 16, [&](Arena<T>* arena) { TakeBuffers(arena); });
    return Status::Ok();
  }

  Status Run(const opwright::RunContext& ctx, const LstmTrainAttrs&) const {
    std::vector<int64_t> lengths;
    OPWRIGHT_RETURN_IF_ERROR(ReadLengths(ctx, kLengths, s_.steps, &lengths));
    Arena<T> arena(ctx.workspace<T>());
    const Buffers at = TakeBuffers(&arena);
    std::fill(at.zeros, at.zeros + s_.each(), T(0));
    T* out = ctx.output(0).data<T>();
    T* states = s_.batch_first ? at.rows : out;
    const T* source = ctx.input(0).data<T>();
    if (s_.batch_first) {
      SwapAxes(source, s_.n, s_.steps, s_.inputs, at.rows);
      source = at.rows;
    }
    for (int64_t layer = 0; layer < s_.layers; ++layer) {
      RunLayer(ctx, layer, source, states, at, lengths);
      source = states;
    }
    if (s_.batch_first) SwapAxes(source, s_.steps, s_.n, s_.size, out);
    return Status::Ok();
  }

 private:
  struct Buffers {
    T* zeros;    // [n, size]
    T* cells;    // [n, size], the cells of the current step
    T* weights;  // weight_hh in panels
    T* rows;     // if x has n before t: the inputs of a layer, then its states
  };

  Buffers TakeBuffers(Arena<T>* arena) const {
    T *zeros = arena->Take(s_.each()), *cells = arena->Take(s_.each());
    T* weights = arena->Take(s_.gates() * s_.size);
    const int64_t width = std::max(s_.inputs, s_.size);
    return {zeros, cells, weights, arena->Take(s_.batch_first ? s_.rows() * width : 0)};
  }

  static T* At(const opwright::RunContext& ctx, uint32_t slot, int64_t first) {
    return ctx.output(slot).template data<T>() + first;
  }

  void RunLayer(const opwright::RunContext& ctx, int64_t layer, const T* source, T* states,
                const Buffers& at, const std::vector<int64_t>& lengths) const {
    const auto i = static_cast<uint32_t>(layer);
    T* gates = At(ctx, 3, layer * s_.rows() * s_.width());
    WriteSums<T>(s_, gemm_, ctx, i, {source, s_.InputsOf(layer)}, gates);
    PackForward(s_.kind, ctx.input(2, i).template data<T>(), s_.size, at.weights);
    ForRowsOfDirections(s_, ctx.n_threads(), [&](int64_t, int64_t begin, int64_t end) {
      RunRows(ctx, layer, {begin, end}, gates, states, at, lengths);
    });
    if (!lengths.empty()) ClearEnded(lengths, states);
  }

  // Runs all steps for a range of batch rows.
  void RunRows(const opwright::RunContext& ctx, int64_t layer, Part rows, T* gates, T* states,
               const Buffers& at, const std::vector<int64_t>& lengths) const {
    const int64_t first = rows.begin * s_.size, last = rows.end * s_.size;
    const T *state = Start(ctx, kH0, layer, at), *cell = Start(ctx, kC0, layer, at);
    std::copy(cell + first, cell + last, at.cells + first);
    for (int64_t step = 0, part = 0; step < s_.steps; ++step) {
      if (step == s_.StepsOf(part).begin) {
        T* mark = At(ctx, 4, (layer * s_.parts() + part++) * s_.each());
        std::copy(at.cells + first, at.cells + last, mark + first);
      }
      T* sums = gates + (step * s_.n + rows.begin) * s_.width();
      T* next = states + step * s_.each();
      AddState<T>(gemm_, s_.kind, rows.end - rows.begin, s_.size, state + first,
                  {at.weights, 1, s_.size, true}, nullptr, sums);
      RunStep<T>(s_.kind, {rows.end - rows.begin, s_.size,
                           lengths.empty() ? nullptr : lengths.data() + rows.begin, step, sums,
                           state + first, at.cells + first, next + first, at.cells + first});
      state = next;
    }
    std::copy(state + first, state + last, At(ctx, 1, layer * s_.each()) + first);
    std::copy(at.cells + first, at.cells + last, At(ctx, 2, layer * s_.each()) + first);
  }

  const T* Start(const opwright::RunContext& ctx, uint32_t slot, int64_t layer,
                 const Buffers& at) const {
    return ctx.has_input(slot) ? ctx.input(slot).template data<T>() + layer * s_.each() : at.zeros;
  }

  void ClearEnded(const std::vector<int64_t>& lengths, T* states) const {
    for (int64_t row = 0; row < s_.n; ++row) {
      for (int64_t step = lengths[static_cast<size_t>(row)]; step < s_.steps; ++step) {
        std::fill_n(states + (step * s_.n + row) * s_.size, s_.size, T(0));
      }
    }
  }

  LstmTrainShape s_;
  GemmFn<T> gemm_ = nullptr;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("cpu.lstm_train", "cpu", opwright_cpu::LstmTrainKernel, float, double);
