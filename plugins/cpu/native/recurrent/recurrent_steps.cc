#include "recurrent/recurrent_steps.h"

#include <algorithm>

#include <opwright/functors.h>

#include "common/clones.h"

namespace opwright_cpu {
namespace {

using opwright::functors::Sigmoid;
using opwright::functors::Tanh;

template <typename T>
OPWRIGHT_CPU_INLINE T NextCell(T in, T kept, T fresh, T old) {
  return kept * old + in * fresh;
}

template <typename T>
OPWRIGHT_CPU_INLINE void LstmRow(int64_t n, T* gates, const T* old_cell, T* state, T* cell) {
  T *i = gates, *f = gates + n, *g = gates + 2 * n, *o = gates + 3 * n;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T in = Sigmoid(i[j]), kept = Sigmoid(f[j]), fresh = Tanh(g[j]), shown = Sigmoid(o[j]);
    const T now = NextCell(in, kept, fresh, old_cell[j]);
    i[j] = in;
    f[j] = kept;
    g[j] = fresh;
    o[j] = shown;
    cell[j] = now;
    state[j] = shown * Tanh(now);
  }
}

template <bool kStates, typename T>
OPWRIGHT_CPU_INLINE void LstmRowBack(int64_t n, const StepBack<T>& back, int64_t row) {
  const T *i = back.at.gates + row * 4 * n, *f = i + n, *g = f + n, *o = g + n;
  const T *cell = back.at.cell + row * n, *old = back.at.old_cell + row * n;
  T *to = back.parts + row * 4 * n, *state_grad = back.state_grad + row * n;
  T *cell_grad = back.cell_grad + row * n, *state = kStates ? back.states + row * n : nullptr;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T in = i[j], kept = f[j], fresh = g[j], shown = o[j];  // read first: `to` may alias them
    const T tanh = Tanh(cell[j]), grad = state_grad[j];
    const T inner = cell_grad[j] + grad * shown * (T(1) - tanh * tanh);
    to[j] = inner * fresh * in * (T(1) - in);
    to[n + j] = inner * old[j] * kept * (T(1) - kept);
    to[2 * n + j] = inner * in * (T(1) - fresh * fresh);
    to[3 * n + j] = grad * tanh * shown * (T(1) - shown);
    cell_grad[j] = inner * kept;
    state_grad[j] = T(0);
    if (kStates) state[j] = shown * tanh;
  }
}

template <typename T>
OPWRIGHT_CPU_INLINE void GruRow(int64_t n, T* gates, const T* old_state, T* state) {
  T *r = gates, *z = gates + n, *fresh = gates + 2 * n;
  const T* from_state = gates + 3 * n;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T reset = Sigmoid(r[j]), kept = Sigmoid(z[j]);
    const T now = Tanh(fresh[j] + reset * from_state[j]);
    r[j] = reset;
    z[j] = kept;
    fresh[j] = now;
    state[j] = (T(1) - kept) * now + kept * old_state[j];
  }
}

template <typename T>
OPWRIGHT_CPU_INLINE void GruRowBack(int64_t n, const StepBack<T>& back, int64_t row) {
  const T *r = back.at.gates + row * 4 * n, *z = r + n, *fresh = z + n, *from_state = fresh + n;
  const T* old = back.at.old_state + row * n;
  T *to = back.parts + row * 4 * n, *state_grad = back.state_grad + row * n;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T grad = state_grad[j];
    const T inner = grad * (T(1) - z[j]) * (T(1) - fresh[j] * fresh[j]);
    to[j] = inner * from_state[j] * r[j] * (T(1) - r[j]);
    to[n + j] = grad * (old[j] - fresh[j]) * z[j] * (T(1) - z[j]);
    to[2 * n + j] = inner;
    to[3 * n + j] = inner * r[j];
    state_grad[j] = grad * z[j];
  }
}

template <typename T>
OPWRIGHT_CPU_INLINE void PlainRow(Recurrent kind, int64_t n, const T* sums, T* state) {
  if (kind == Recurrent::kTanh) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) state[j] = Tanh(sums[j]);
  } else {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) state[j] = opwright::functors::Relu(sums[j]);
  }
}

template <typename T>
OPWRIGHT_CPU_INLINE void PlainRowBack(Recurrent kind, int64_t n, const StepBack<T>& back,
                                      int64_t row) {
  const T* state = back.at.state + row * n;
  T *to = back.parts + row * n, *grad = back.state_grad + row * n;
  for (int64_t j = 0; j < n; ++j) {
    to[j] = kind == Recurrent::kTanh ? opwright::functors::TanhGrad(state[j], grad[j])
                                     : opwright::functors::ReluGrad(state[j], grad[j]);
    grad[j] = T(0);
  }
}

template <typename T>
OPWRIGHT_CPU_INLINE bool HasEnded(const StepRows<T>& at, int64_t row) {
  return at.lengths != nullptr && at.step >= at.lengths[row];
}

}  // namespace

template <typename T>
OPWRIGHT_CPU_CLONES void RunStep(Recurrent kind, const StepRows<T>& at) {
  const int64_t n = at.size;
  for (int64_t row = 0; row < at.rows; ++row) {
    T* gates = at.gates + row * WidthOf(kind) * n;
    T* state = at.state + row * n;
    const T* old_state = at.old_state + row * n;
    if (HasEnded(at, row)) {
      if (GatesOf(kind) > 1) std::fill(gates, gates + WidthOf(kind) * n, T(0));
      std::copy(old_state, old_state + n, state);
      if (kind != Recurrent::kLstm || at.cell == at.old_cell) continue;
      std::copy(at.old_cell + row * n, at.old_cell + (row + 1) * n, at.cell + row * n);
    } else if (kind == Recurrent::kLstm) {
      LstmRow(n, gates, at.old_cell + row * n, state, at.cell + row * n);
    } else if (kind == Recurrent::kGru) {
      GruRow(n, gates, old_state, state);
    } else {
      PlainRow(kind, n, gates, state);
    }
  }
}

// Prefetch distance in rows. Only loads of the gates are slow, since hardware prefetching stops at
// the end of a page, and a row is often as long as a page.
constexpr int64_t kAhead = 2;

template <typename T>
OPWRIGHT_CPU_INLINE void FetchGates(const T* row, int64_t n) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t j = 0; j < 4 * n; j += kLine) __builtin_prefetch(row + j);
}

template <typename T>
OPWRIGHT_CPU_CLONES void RunCellsAgain(const StepRows<T>& at) {
  const int64_t n = at.size;
  for (int64_t row = 0; row < at.rows; ++row) {
    const T *i = at.gates + row * 4 * n, *f = i + n, *g = f + n, *old = at.old_cell + row * n;
    T* cell = at.cell + row * n;
    if (HasEnded(at, row)) {
      std::copy(old, old + n, cell);
      continue;
    }
    FetchGates(i + kAhead * 4 * n, n);
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) cell[j] = NextCell(i[j], f[j], g[j], old[j]);
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void RunStatesAgain(const StepRows<T>& at) {
  const int64_t n = at.size;
  for (int64_t row = 0; row < at.rows; ++row) {
    const T *o = at.gates + (row * 4 + 3) * n, *cell = at.cell + row * n;
    T* state = at.state + row * n;
    if (HasEnded(at, row)) {
      std::fill(state, state + n, T(0));
      continue;
    }
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) state[j] = o[j] * Tanh(cell[j]);
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void RunStepBack(Recurrent kind, const StepBack<T>& back) {
  const int64_t n = back.at.size, width = WidthOf(kind) * n;
  for (int64_t row = 0; row < back.at.rows; ++row) {
    if (HasEnded(back.at, row)) {
      std::fill(back.parts + row * width, back.parts + (row + 1) * width, T(0));
      if (back.states != nullptr) std::fill_n(back.states + row * n, n, T(0));
      continue;
    }
    T* grad = back.state_grad + row * n;
    if (back.out_grad != nullptr) {
      const T* out_grad = back.out_grad + row * back.out_stride;
      for (int64_t j = 0; j < n; ++j) grad[j] += out_grad[j];
    }
    if (kind == Recurrent::kLstm && back.states != nullptr) {
      LstmRowBack<true>(n, back, row);
    } else if (kind == Recurrent::kLstm) {
      LstmRowBack<false>(n, back, row);
    } else if (kind == Recurrent::kGru) {
      GruRowBack(n, back, row);
    } else {
      PlainRowBack(kind, n, back, row);
    }
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void AddBias(const T* bias, int64_t rows, int64_t n, int64_t stride, T* x) {
  for (int64_t row = 0; row < rows; ++row, x += stride) {
    for (int64_t j = 0; j < n; ++j) x[j] += bias[j];
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void AddRows(const T* x, int64_t rows, int64_t n, int64_t stride, T* sums) {
  for (int64_t row = 0; row < rows; ++row, x += stride) {
    for (int64_t j = 0; j < n; ++j) sums[j] += x[j];
  }
}

#define OPWRIGHT_CPU_INSTANTIATE(T)                               \
  template void RunStep(Recurrent, const StepRows<T>&);           \
  template void RunCellsAgain(const StepRows<T>&);                \
  template void RunStatesAgain(const StepRows<T>&);               \
  template void RunStepBack(Recurrent, const StepBack<T>&);       \
  template void AddBias(const T*, int64_t, int64_t, int64_t, T*); \
  template void AddRows(const T*, int64_t, int64_t, int64_t, T*);
OPWRIGHT_CPU_INSTANTIATE(float)
OPWRIGHT_CPU_INSTANTIATE(double)
#undef OPWRIGHT_CPU_INSTANTIATE

}  // namespace opwright_cpu
