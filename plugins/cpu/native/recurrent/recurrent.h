// Code shared by the kernels of recurrent layers: sizes, products and the order of steps.
// Internally, all arrays are time-major, [t, n, ...].
#ifndef OPWRIGHT_CPU_RECURRENT_RECURRENT_H_
#define OPWRIGHT_CPU_RECURRENT_RECURRENT_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include <opwright/sdk.hpp>

#include "common/parallel.h"
#include "gemm/gemm.h"
#include "gemm/scratch.h"
#include "recurrent/attributes.h"
#include "recurrent/recurrent_products.h"
#include "sequences/lengths.h"

namespace opwright_cpu {

struct RecurrentShape {
  Recurrent kind = Recurrent::kLstm;
  bool batch_first = false;
  int64_t directions = 1;
  int64_t layers = 1;
  int64_t steps = 0;
  int64_t n = 0;
  int64_t inputs = 0;
  int64_t size = 0;

  int64_t gates() const { return GatesOf(kind) * size; }
  int64_t width() const { return WidthOf(kind) * size; }
  int64_t rows() const { return steps * n; }
  int64_t joined() const { return directions * size; }  // output width of a layer
  int64_t InputsOf(int64_t layer) const { return layer == 0 ? inputs : joined(); }
  int64_t MostInputs() const { return std::max(inputs, layers > 1 ? joined() : int64_t{0}); }
  int64_t Multiplications() const {
    return rows() * gates() * directions * (inputs + size + (layers - 1) * (joined() + size));
  }
};

// Makes the shape for a kernel whose slots 0 to 2 are x, weight_ih and weight_hh.
inline opwright::Status MakeRecurrentShape(opwright::PrepareContext& ctx, bool has_cell,
                                           bool has_gates, const RecurrentAttrs& attrs,
                                           RecurrentShape* shape) {
  const opwright::Meta x = ctx.input(0);
  shape->batch_first = attrs.batch_first;
  shape->steps = x.dim(attrs.batch_first ? 1 : 0);
  shape->n = x.dim(attrs.batch_first ? 0 : 1);
  shape->inputs = x.dim(2);
  shape->size = ctx.input(2).dim(1);
  shape->directions = attrs.bidirectional ? 2 : 1;
  shape->layers = ctx.input_count(1) / shape->directions;
  const bool is_relu = attrs.activation.value_or("tanh") == "relu";
  shape->kind = has_cell    ? Recurrent::kLstm
                : has_gates ? Recurrent::kGru
                : is_relu   ? Recurrent::kRelu
                            : Recurrent::kTanh;
  return opwright::Status::Ok();
}

// Allocates consecutive blocks of a workspace. If the workspace is NULL, only sums their sizes.
template <typename T>
class Arena {
 public:
  explicit Arena(T* base) : base_(base) {}
  T* Take(int64_t count) {
    T* part = base_ == nullptr ? nullptr : base_ + taken_;
    taken_ += (count + 15) / 16 * 16;
    return part;
  }
  int64_t taken() const { return taken_; }

 private:
  T* base_;
  int64_t taken_ = 0;
};

// Computes a product in several threads, divided by rows; b may be in panels.
template <typename T>
void ParallelGemm(GemmFn<T> gemm, const GemmCall<T>& call, int32_t n_threads,
                  bool in_panels = false) {
  constexpr int64_t kThreadWork = 64 * 1024;
  const int64_t each = std::max<int64_t>(1, call.n * call.k);
  ParallelFor(n_threads, call.m, std::max<int64_t>(16, kThreadWork / each), 16,
              [&](int64_t begin, int64_t end) {
                GemmCall<T> part = call;
                part.m = end - begin;
                part.a += begin * call.a_row;
                part.c += begin * call.ldc;
                part.scratch = ThreadScratch<T>();
                if (in_panels) {
                  MultiplyWeight<T>(gemm, part, {part.b, part.b_row, part.b_col, true});
                } else {
                  gemm(part);
                }
              });
}

// The input rows of a layer for all steps.
template <typename T>
struct LayerSource {
  const T* data;
  int64_t inputs;
};

// For entry `i` of the parameter lists, computes the contribution of the source to the
// pre-activations of all steps, including the biases that affect only the sum. Slots 1 to 4 are the
// parameters; weight_ih is transposed if it is in panels.
template <typename T>
void WriteSums(const RecurrentShape& s, GemmFn<T> gemm, const opwright::RunContext& ctx, uint32_t i,
               const LayerSource<T>& source, T* sums, bool in_panels = false) {
  const T* weight = ctx.input(1, i).template data<T>();
  ParallelGemm<T>(gemm,
                  {s.rows(), s.gates(), source.inputs, source.data, source.inputs, 1, weight, 1,
                   source.inputs, sums, s.width(), T(1), T(0), nullptr},
                  ctx.n_threads(), in_panels);
  if (ctx.has_input(3)) {
    AddBias(ctx.input(3, i).template data<T>(), s.rows(), s.gates(), s.width(), sums);
  }
  if (ctx.has_input(4) && s.kind != Recurrent::kGru) {
    AddBias(ctx.input(4, i).template data<T>(), s.rows(), s.gates(), s.width(), sums);
  }
}

// Copies [a, b, width] to [b, a, width].
template <typename T>
void SwapAxes(const T* from, int64_t a, int64_t b, int64_t width, T* to) {
  for (int64_t i = 0; i < a; ++i) {
    for (int64_t j = 0; j < b; ++j, from += width) {
      std::copy(from, from + width, to + (j * a + i) * width);
    }
  }
}

// Writes the output of a layer: the states of its directions side by side, and 0 after the end of a
// sequence. `states` points to the states of the first direction.
template <typename T>
void JoinStates(const RecurrentShape& s, const T* states, const std::vector<int64_t>& lengths,
                T* joined) {
  for (int64_t step = 0; step < s.steps; ++step) {
    for (int64_t row = 0; row < s.n; ++row) {
      const bool ended = !lengths.empty() && step >= lengths[static_cast<size_t>(row)];
      for (int64_t d = 0; d < s.directions; ++d, joined += s.size) {
        const T* from = states + ((d * s.steps + step) * s.n + row) * s.size;
        if (ended) {
          std::fill(joined, joined + s.size, T(0));
        } else {
          std::copy(from, from + s.size, joined);
        }
      }
    }
  }
}

// Calls function(direction, begin, end) for ranges of batch rows of each direction. Rows are
// independent, so all steps of a row run in one thread.
template <typename Function>
void ForRowsOfDirections(const RecurrentShape& s, int32_t n_threads, const Function& function) {
  const int64_t work = s.rows() * s.gates() * s.size;
  const int64_t useful = std::max<int64_t>(1, work / (64 * 1024));
  const int64_t wanted = std::max<int64_t>(1, n_threads / s.directions);
  const int64_t chunks = std::min(std::min(wanted, useful), std::max<int64_t>(1, s.n));
  ParallelFor(n_threads, s.directions * chunks, 1, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Part part =
          PartOf(s.n, 1, static_cast<int32_t>(i % chunks), static_cast<int32_t>(chunks));
      function(i / chunks, part.begin, part.end);
    }
  });
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_RECURRENT_RECURRENT_H_
