// lstm, gru and rnn. One product computes the contribution of x to all steps; then the steps run.
#include "recurrent/recurrent.h"
#include "common/widened.h"
#include "recurrent/attributes.h"
#include "recurrent/recurrent_products.h"

namespace opwright_cpu {
namespace {

// Slots: x, weight_ih*, weight_hh*, bias_ih*, bias_hh*, h0, (c0 of an LSTM), lengths; out, h_n,
// (c_n), (gates, except for a plain layer), states, (cells).
template <typename T, bool kHasCell, bool kHasGates>
struct RecurrentKernel {
  static constexpr uint32_t kLengths = kHasCell ? 7 : 6;
  static constexpr uint32_t kGates = kHasCell ? 3 : 2;
  static constexpr uint32_t kStates = kHasGates ? kGates + 1 : kGates;

  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.by_threads = true;  // the split of a product affects how its edges are computed
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const RecurrentAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(MakeRecurrentShape(ctx, kHasCell, kHasGates, attrs, &s_));
    gemm_ = BestGemm<T>();
    // Whether states are joined in a copy; otherwise, the next layer reads them in place.
    joins_ = s_.batch_first || (s_.layers > 1 && (s_.directions > 1 || ctx.has_input(kLengths)));
    PackWeights(ctx);
    Arena<T> arena(nullptr);
    TakeBuffers(&arena);
    ctx.SetWorkspace(static_cast<uint64_t>(arena.taken()) * sizeof(T));
    ctx.SetEstimate(static_cast<uint64_t>(1000 + s_.Multiplications() / (16 * ctx.n_threads())));
    return opwright::Status::Ok();
  }

  // Packs weight_ih, transposed, for the product over all steps, or weight_hh for each step.
  opwright::Status Pack(const opwright::RunContext& ctx, uint32_t arg,
                        const opwright::InputTensor& weight, void* packed) const {
    const T* data = weight.data<T>();
    if (arg < ctx.frame()->slot_begin[2]) {
      const int64_t inputs = weight.dim(1);
      PackPanels<T>({data, 1, inputs, false}, inputs, s_.gates(), static_cast<T*>(packed));
    } else {
      PackForward(s_.kind, data, s_.size, static_cast<T*>(packed));
    }
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const RecurrentAttrs&) const {
    std::vector<int64_t> lengths;
    OPWRIGHT_RETURN_IF_ERROR(ReadLengths(ctx, kLengths, s_.steps, &lengths));
    Arena<T> arena(ctx.workspace<T>());
    const Buffers buffers = TakeBuffers(&arena);
    std::fill(buffers.zeros, buffers.zeros + s_.n * s_.size, T(0));
    const T* source = ctx.input(0).data<T>();
    T* out = ctx.output(0).data<T>();
    if (s_.batch_first) {
      SwapAxes(source, s_.n, s_.steps, s_.inputs, buffers.source);
      source = buffers.source;
    }
    for (int64_t layer = 0; layer < s_.layers; ++layer) {
      RunLayer(ctx, layer, source, buffers, lengths);
      const bool is_last = layer + 1 == s_.layers;
      T* states = At(ctx, kStates, layer * s_.directions, s_.rows() * s_.size);
      T* joined = is_last && !s_.batch_first ? out : buffers.source;
      if (joined != nullptr) JoinStates(s_, states, lengths, joined);
      source = joined != nullptr ? joined : states;
    }
    if (s_.batch_first) SwapAxes(source, s_.steps, s_.n, s_.joined(), out);
    return opwright::Status::Ok();
  }

 private:
  // Requests packed copies of all weights, unless training changes them.
  void PackWeights(const opwright::PrepareContext& ctx) {
    const uint32_t count = ctx.input_count(1);
    is_packed_ = s_.size > 0 && s_.inputs > 0;
    for (uint32_t i = 0; i < count; ++i) {
      is_packed_ = is_packed_ && ctx.packable(1, i) && ctx.packable(2, i);
    }
    if (!is_packed_) return;
    auto* frame =
        const_cast<ow_prepare*>(ctx.frame());  // ctx.Pack supports only the first item of a list
    for (uint32_t slot = 1; slot <= 2; ++slot) {
      for (uint32_t i = 0; i < count; ++i) {
        const opwright::Meta weight = ctx.input(slot, i);
        const auto numel = static_cast<uint64_t>(weight.dim(0) * weight.dim(1));
        frame->packs[frame->n_packs++] = {frame->slot_begin[slot] + i, 64, numel * sizeof(T)};
      }
    }
  }

  struct Buffers {
    T* zeros;    // [n, size]
    T* source;   // the input of a layer, if it must be concatenated
    T* weights;  // weight_hh of each direction, in panels, unless it is packed
  };

  Buffers TakeBuffers(Arena<T>* arena) const {
    T* zeros = arena->Take(s_.n * s_.size);
    const int64_t width = std::max(s_.inputs, s_.joined());
    T* source = joins_ ? arena->Take(s_.rows() * width) : nullptr;
    const int64_t weights = is_packed_ ? 0 : s_.directions * s_.gates() * s_.size;
    return {zeros, source, arena->Take(weights)};
  }

  static T* At(const opwright::RunContext& ctx, uint32_t slot, int64_t index, int64_t each) {
    return ctx.output(slot).template data<T>() + index * each;
  }

  void RunLayer(const opwright::RunContext& ctx, int64_t layer, const T* source,
                const Buffers& buffers, const std::vector<int64_t>& lengths) const {
    for (int64_t d = 0; d < s_.directions; ++d) {
      const auto i = static_cast<uint32_t>(layer * s_.directions + d);
      T* sums = At(ctx, kGates, i, s_.rows() * s_.width());
      WriteSums<T>(s_, gemm_, ctx, i, {source, s_.InputsOf(layer)}, sums, is_packed_);
      if (!is_packed_) {
        PackForward(s_.kind, ctx.input(2, i).template data<T>(), s_.size,
                    buffers.weights + d * s_.gates() * s_.size);
      }
    }
    ForRowsOfDirections(s_, ctx.n_threads(), [&](int64_t d, int64_t begin, int64_t end) {
      RunRows(ctx, layer * s_.directions + d, d, begin, end, buffers, lengths);
    });
  }

  // Runs all steps of the rows [begin, end) of the batch.
  void RunRows(const opwright::RunContext& ctx, int64_t i, int64_t d, int64_t begin, int64_t end,
               const Buffers& buffers, const std::vector<int64_t>& lengths) const {
    const int64_t each = s_.n * s_.size, first = begin * s_.size;
    T* states = At(ctx, kStates, i, s_.rows() * s_.size);
    T* cells = kHasCell ? At(ctx, kStates + 1, i, s_.rows() * s_.size) : nullptr;
    T* gates = At(ctx, kGates, i, s_.rows() * s_.width());
    const T* state = ctx.has_input(5) ? ctx.input(5).template data<T>() + i * each : buffers.zeros;
    const bool has_c0 = kHasCell && ctx.has_input(6);
    const T* cell = has_c0 ? ctx.input(6).template data<T>() + i * each : buffers.zeros;
    const T* bias =
        ctx.has_input(4) ? ctx.input(4, static_cast<uint32_t>(i)).template data<T>() : nullptr;
    const T* weight = is_packed_ ? ctx.input(2, static_cast<uint32_t>(i)).template data<T>()
                                 : buffers.weights + d * s_.gates() * s_.size;
    // If there is only one row and one direction, threads share the products of each step.
    const int32_t n_threads = s_.directions * s_.n == 1 ? ctx.n_threads() : 1;
    for (int64_t k = 0; k < s_.steps; ++k) {
      const int64_t step = d == 1 ? s_.steps - 1 - k : k;
      T* sums = gates + (step * s_.n + begin) * s_.width();
      AddState<T>(gemm_, s_.kind, end - begin, s_.size, state + first, {weight, 1, s_.size, true},
                  bias, sums, k % 2 == 1, n_threads);
      T* new_state = states + step * each;
      T* new_cell = kHasCell ? cells + step * each : nullptr;
      RunStep<T>(s_.kind, {end - begin, s_.size, lengths.empty() ? nullptr : lengths.data() + begin,
                           step, sums, state + first, cell + first, new_state + first,
                           kHasCell ? new_cell + first : nullptr});
      state = new_state;
      cell = kHasCell ? new_cell : cell;
    }
    std::copy(state + first, state + end * s_.size, At(ctx, 1, i, each) + first);
    if (kHasCell) std::copy(cell + first, cell + end * s_.size, At(ctx, 2, i, each) + first);
  }

  RecurrentShape s_;
  bool joins_ = false;
  bool is_packed_ = false;
  GemmFn<T> gemm_ = nullptr;
};

template <typename T>
using LstmKernel = RecurrentKernel<T, true, true>;
template <typename T>
using GruKernel = RecurrentKernel<T, false, true>;
template <typename T>
using RnnKernel = RecurrentKernel<T, false, false>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("lstm", opwright_cpu::LstmKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("gru", opwright_cpu::GruKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("rnn", opwright_cpu::RnnKernel);
