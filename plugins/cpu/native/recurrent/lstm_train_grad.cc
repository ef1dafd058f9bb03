// The gradient of an LSTM in training, which processes segments of steps from the last to the
// first. The pre-activation gradients may overwrite the gates. Separate memory is allocated only
// for one segment: the cells and states of its steps, and their gradients.
#include "recurrent/attributes.h"
#include "recurrent/lstm_train.h"
#include "recurrent/recurrent_products.h"
#include "recurrent/recurrent_weights.h"

namespace opwright_cpu {
namespace {

using opwright::Status;

// Slots: x, weight_ih*, weight_hh*, h0, lengths, gates, marks, out_grad, h_n_grad, c_n_grad;
// x_grad, weight_ih_grad*, weight_hh_grad*, bias_ih_grad*, bias_hh_grad*, h0_grad, c0_grad,
// sums_grad.
template <typename T>
struct LstmTrainGradKernel {
  static constexpr uint32_t kH0 = 3, kLengths = 4, kGates = 5, kMarks = 6, kOutGrad = 7;
  static constexpr uint32_t kStartGrad = 5, kSumsGrad = 7;

  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.by_threads = true;  // the split of a product affects how its edges are computed
    options.may_reuse = {{"sums_grad", "gates"}};
  }

  Status Prepare(opwright::PrepareContext& ctx, const LstmTrainAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(s_.Describe(ctx, attrs));
    gemm_ = BestGemm<T>();
    s_.template Request<T>(ctx, 8, [&](Arena<T>* arena) { TakeBuffers(arena); });
    return Status::Ok();
  }

  Status Run(const opwright::RunContext& ctx, const LstmTrainAttrs&) const {
    std::vector<int64_t> lengths;
    OPWRIGHT_RETURN_IF_ERROR(ReadLengths(ctx, kLengths, s_.steps, &lengths));
    Arena<T> arena(ctx.workspace<T>());
    const Buffers at = TakeBuffers(&arena);
    for (int64_t layer = s_.layers - 1; layer >= 0; --layer) {
      if (PacksWeights()) PackBack(s_.kind, Weight(ctx, 2, layer), s_.size, at.weights);
      for (int64_t part = s_.parts() - 1; part >= 0; --part) {
        RunPart(ctx, layer, part, at, lengths);
      }
    }
    return Status::Ok();
  }

 private:
  struct Buffers {
    T* cells;       // [part_steps, n, size], the results of steps
    T* states;      // [1 + part_steps, n, size], beginning with the state before the segment
    T* flow;        // [part_steps, n, size], the gradient of a layer's output
    T* rows;        // [part_steps, n, inputs], if x has n before t: x, then its gradient
    T* state_grad;  // [n, size]
    T* cell_grad;
    T* weights;  // weight_hh in panels
  };

  // The work of one thread: a range of batch rows in one segment.
  struct Task {
    const opwright::RunContext& ctx;
    const Buffers& at;
    const std::vector<int64_t>& lengths;
    const T* flow;
    int64_t layer;
    int64_t part;
    Part rows;
  };

  // For few steps, packing takes longer than it saves.
  bool PacksWeights() const { return s_.steps >= 4; }

  Buffers TakeBuffers(Arena<T>* arena) const {
    const int64_t each = s_.each(), part = s_.part_steps * each;
    const bool flows = s_.batch_first || s_.layers > 1;
    Buffers at;
    at.cells = arena->Take(part);
    at.states = arena->Take(each + part);
    at.flow = arena->Take(flows ? part : 0);
    at.rows = arena->Take(s_.batch_first ? s_.part_steps * s_.n * s_.inputs : 0);
    at.state_grad = arena->Take(each);
    at.cell_grad = arena->Take(each);
    at.weights = arena->Take(PacksWeights() ? s_.gates() * s_.size : 0);
    return at;
  }

  void RunPart(const opwright::RunContext& ctx, int64_t layer, int64_t part, const Buffers& at,
               const std::vector<int64_t>& lengths) const {
    const Part steps = s_.StepsOf(part);
    const T* flow = FlowOf(ctx, layer, steps, at);
    ForRowsOfDirections(s_, ctx.n_threads(), [&](int64_t, int64_t begin, int64_t end) {
      RunRows({ctx, at, lengths, flow, layer, part, {begin, end}});
    });
    GradsOf(ctx, layer, steps, at).WriteState();
    if (layer + 1 < s_.layers) {
      GradsOf(ctx, layer + 1, steps, at).WriteSource(at.states + s_.each(), s_.size);
    }
    if (layer == 0) WriteFirst(ctx, steps, at);
  }

  // Returns the output gradient of a layer in `steps`; NULL means zeros.
  const T* FlowOf(const opwright::RunContext& ctx, int64_t layer, Part steps,
                  const Buffers& at) const {
    if (layer + 1 < s_.layers) {
      WriteSourceGrad(ctx, layer + 1, steps, at.flow);
      return at.flow;
    }
    if (!ctx.has_input(kOutGrad)) return nullptr;
    const T* given = ctx.input(kOutGrad).template data<T>();
    if (!s_.batch_first) return given + steps.begin * s_.each();
    for (int64_t row = 0; row < s_.n; ++row) CopyRow<true>(given, row, steps, s_.size, at.flow);
    return at.flow;
  }

  // Writes the gradients of x and of weight_ih of the first layer.
  void WriteFirst(const opwright::RunContext& ctx, Part steps, const Buffers& at) const {
    const int64_t before = steps.begin * s_.n * s_.inputs;
    const T* x = ctx.input(0).template data<T>();
    T* x_grad = ctx.has_output(0) ? ctx.output(0).template data<T>() : nullptr;
    if (!s_.batch_first) {
      GradsOf(ctx, 0, steps, at).WriteSource(x + before, s_.inputs);
      if (x_grad != nullptr) WriteSourceGrad(ctx, 0, steps, x_grad + before);
      return;
    }
    for (int64_t row = 0; row < s_.n; ++row) CopyRow<true>(x, row, steps, s_.inputs, at.rows);
    GradsOf(ctx, 0, steps, at).WriteSource(at.rows, s_.inputs);
    if (x_grad == nullptr) return;
    WriteSourceGrad(ctx, 0, steps, at.rows);
    for (int64_t row = 0; row < s_.n; ++row) {
      CopyRow<false>(at.rows, row, steps, s_.inputs, x_grad);
    }
  }

  // Copies `steps` of one row from [n, t, width] to [steps, n, width], or back.
  template <bool kGather>
  void CopyRow(const T* from, int64_t row, Part steps, int64_t width, T* to) const {
    for (int64_t step = steps.begin; step < steps.end; ++step) {
      const int64_t apart = (row * s_.steps + step) * width;
      const int64_t together = ((step - steps.begin) * s_.n + row) * width;
      std::copy_n(from + (kGather ? apart : together), width, to + (kGather ? together : apart));
    }
  }

  // Writes the input gradient of a layer in `steps`.
  void WriteSourceGrad(const opwright::RunContext& ctx, int64_t layer, Part steps, T* to) const {
    const int64_t inputs = s_.InputsOf(layer), rows = (steps.end - steps.begin) * s_.n;
    ParallelGemm<T>(gemm_,
                    {rows, inputs, s_.gates(), SumsGrad(ctx, layer, steps.begin), s_.width(), 1,
                     Weight(ctx, 1, layer), inputs, 1, to, inputs, T(1), T(0), nullptr},
                    ctx.n_threads());
  }

  WeightGrads<T> GradsOf(const opwright::RunContext& ctx, int64_t layer, Part steps,
                         const Buffers& at) const {
    return {s_,
            gemm_,
            ctx,
            1,
            static_cast<uint32_t>(layer),
            false,
            steps,
            In(ctx, kH0, layer * s_.each()),
            at.states,
            steps.begin - 1,
            SumsGrad(ctx, layer, steps.begin),
            ctx.has_input(kLengths)};
  }

  // Runs a segment for a range of batch rows, forward to recompute the cells, then backward.
  void RunRows(const Task& task) const {
    const Part steps = s_.StepsOf(task.part);
    if (steps.end == s_.steps) StartGrads(task);
    for (int64_t step = steps.begin; step < steps.end; ++step) RunCellsAgain(RowsOf(task, step));
    if (steps.begin > 0) RunStatesAgain(RowsBefore(task));
    for (int64_t step = steps.end - 1; step >= steps.begin; --step) RunBack(task, step);
    if (steps.begin == 0) FinishGrads(task);
  }

  void RunBack(const Task& task, int64_t step) const {
    const int64_t first = task.rows.begin * s_.size;
    const int64_t row = (step - s_.StepsOf(task.part).begin) * s_.n + task.rows.begin;
    StepBack<T> back{};
    back.at = RowsOf(task, step);
    back.out_grad = task.flow == nullptr ? nullptr : task.flow + row * s_.size;
    back.out_stride = s_.size;
    back.state_grad = task.at.state_grad + first;
    back.cell_grad = task.at.cell_grad + first;
    back.parts = SumsGrad(task.ctx, task.layer, step) + task.rows.begin * s_.width();
    back.states = task.at.states + (s_.n + row) * s_.size;
    RunStepBack(s_.kind, back);
    const T* weight = PacksWeights() ? task.at.weights : Weight(task.ctx, 2, task.layer);
    AddThroughState<T>(gemm_, s_.kind, {weight, s_.size, 1, PacksWeights()}, back);
  }

  // Returns the results of RunStep for a step of the segment, with its input cell and output cell.
  StepRows<T> RowsOf(const Task& task, int64_t step) const {
    const int64_t before = step - s_.StepsOf(task.part).begin, first = task.rows.begin * s_.size;
    T* cell = task.at.cells + before * s_.each() + first;
    StepRows<T> rows = GatesOfStep(task, step);
    rows.old_cell = before == 0 ? Mark(task) + first : cell - s_.each();
    rows.cell = cell;
    return rows;
  }

  // Returns gates and cell of the step before the segment, and the destination of its state.
  StepRows<T> RowsBefore(const Task& task) const {
    const int64_t first = task.rows.begin * s_.size;
    StepRows<T> rows = GatesOfStep(task, s_.StepsOf(task.part).begin - 1);
    rows.cell = const_cast<T*>(Mark(task) + first);
    rows.state = task.at.states + first;
    return rows;
  }

  StepRows<T> GatesOfStep(const Task& task, int64_t step) const {
    const int64_t row = (task.layer * s_.steps + step) * s_.n + task.rows.begin;
    StepRows<T> rows{};
    rows.rows = task.rows.end - task.rows.begin;
    rows.size = s_.size;
    rows.lengths = task.lengths.empty() ? nullptr : task.lengths.data() + task.rows.begin;
    rows.step = step;
    rows.gates = const_cast<T*>(In(task.ctx, kGates, row * s_.width()));
    return rows;
  }

  const T* Mark(const Task& task) const {
    return In(task.ctx, kMarks, (task.layer * s_.parts() + task.part) * s_.each());
  }

  void StartGrads(const Task& task) const {
    const int64_t first = task.rows.begin * s_.size, count = task.rows.end * s_.size - first;
    const int64_t given = task.layer * s_.each() + first;
    StartGrad(In(task.ctx, kOutGrad + 1, given), count, task.at.state_grad + first);
    StartGrad(In(task.ctx, kOutGrad + 2, given), count, task.at.cell_grad + first);
  }

  void FinishGrads(const Task& task) const {
    const int64_t first = task.rows.begin * s_.size, last = task.rows.end * s_.size;
    const T* grads[] = {task.at.state_grad, task.at.cell_grad};
    for (uint32_t slot = 0; slot < 2; ++slot) {
      if (!task.ctx.has_output(kStartGrad + slot)) continue;
      T* to = task.ctx.output(kStartGrad + slot).template data<T>() + task.layer * s_.each();
      std::copy(grads[slot] + first, grads[slot] + last, to + first);
    }
  }

  T* SumsGrad(const opwright::RunContext& ctx, int64_t layer, int64_t step) const {
    T* all = ctx.output(kSumsGrad).template data<T>();
    return all + (layer * s_.steps + step) * s_.n * s_.width();
  }

  static const T* In(const opwright::RunContext& ctx, uint32_t slot, int64_t first) {
    return ctx.has_input(slot) ? ctx.input(slot).template data<T>() + first : nullptr;
  }

  static const T* Weight(const opwright::RunContext& ctx, uint32_t slot, int64_t layer) {
    return ctx.input(slot, static_cast<uint32_t>(layer)).template data<T>();
  }

  LstmTrainShape s_;
  GemmFn<T> gemm_ = nullptr;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("cpu.lstm_train_grad", "cpu", opwright_cpu::LstmTrainGradKernel, float,
                             double);
