// The part of a step of lstm, gru and rnn between the matrix products, forward and backward. One
// thread computes one element of the state. Rows of x and out have the order of x; rows of all
// other arrays are in time order.
#include "recurrent.h"

using namespace opwright_cuda;

// One direction of a layer. If `lengths` is null, all sequences have full length.
template <typename Index>
struct Direction {
  const Index* lengths;
  int64_t steps;
  int64_t n;
  int64_t size;
  int64_t step_rows;   // row stride between steps of x
  int64_t batch_rows;  // row stride between sequences of x
  int64_t width;       // width of a row of out, with the states of all directions
  int64_t begin;       // offset of this direction in a row of out

  OW_INLINE bool Reaches(int64_t row, int64_t t) const {
    return lengths == nullptr || t < static_cast<int64_t>(lengths[row]);
  }
  OW_INLINE int64_t RowOfX(int64_t row, int64_t t) const {
    return t * step_rows + row * batch_rows;
  }
  OW_INLINE int64_t PlaceInOut(int64_t row, int64_t t, int64_t j) const {
    return RowOfX(row, t) * width + begin + j;
  }
};

// The state of a direction, the cell, and the saved values of all steps. The state exists twice,
// rounded for the product with the weights and unrounded; both share memory if nothing is rounded.
template <typename T>
struct Trace {
  T* rounded;
  Compute<T>* state;
  Compute<T>* cell;  // like `cells`, null if the kind has no cell
  T* states;
  T* cells;
  T* gates;
  T* out;
};

// Initializes the unrounded state or cell before the first step; `first` may be null.
template <typename T>
__global__ void begin_layer(Compute<T>* state, const T* first, int64_t n) {
  for (int64_t k = GlobalIndex(); k < n; k += GridThreads()) state[k] = LoadOr0(first, k);
}

// Runs step `t`. After the end of a sequence, its state and cell are kept, and its gates are 0.
template <typename T, typename Index, typename Kind>
__global__ void layer_step(Trace<T> trace, Parts<T> parts, Direction<Index> d, int64_t t) {
  using C = Compute<T>;
  for (int64_t k = GlobalIndex(); k < d.n * d.size; k += GridThreads()) {
    const int64_t row = k / d.size, j = k - row * d.size, place = t * d.n * d.size + k;
    const int64_t gates_at = (t * d.n + row) * Kind::kSaved * d.size + j;
    T* const saved = Kind::kSaved == 0 ? nullptr : trace.gates + gates_at;
    const bool reaches = d.Reaches(row, t);
    if (reaches) {
      const int64_t x_at = d.RowOfX(row, t) * Kind::kGates * d.size + j;
      const Sums<T> sums{parts, x_at, row * Kind::kGates * d.size + j, j, d.size};
      const auto now = Kind::Step(sums, {trace.state[k], LoadOr0(trace.cell, k)}, saved);
      trace.state[k] = now.state;
      trace.rounded[k] = Store<T>(now.state);
      if (Kind::kHasCell) trace.cell[k] = now.cell;
    } else {
      for (int g = 0; g < Kind::kSaved; ++g) saved[g * d.size] = Store<T>(C(0));
    }
    trace.states[place] = trace.rounded[k];
    if (Kind::kHasCell) trace.cells[place] = Store<T>(trace.cell[k]);
    trace.out[d.PlaceInOut(row, t, j)] = reaches ? trace.rounded[k] : Store<T>(C(0));
  }
}

// Writes the output of a direction, which the next layer reads, from the states of the direction.
template <typename T, typename Index>
__global__ void join_states(T* out, const T* states, Direction<Index> d) {
  const int64_t of_step = d.n * d.size;
  for (int64_t i = GlobalIndex(); i < d.steps * of_step; i += GridThreads()) {
    const int64_t t = i / of_step, k = i - t * of_step, row = k / d.size;
    const T state = d.Reaches(row, t) ? states[i] : Store<T>(Compute<T>(0));
    out[d.PlaceInOut(row, t, k - row * d.size)] = state;
  }
}

// The gradient of a state, in two parts: through the product with the weights, and direct.
template <typename T>
struct StateFlow {
  Compute<T>* direct;
  Compute<T>* cell;
  const Compute<T>* through;  // null at the last step, for which the next two pointers are used
  const T* h_n_grad;
  const T* c_n_grad;

  OW_INLINE StateCell<Compute<T>> At(int64_t k) const {
    if (through == nullptr) return {LoadOr0(h_n_grad, k), LoadOr0(c_n_grad, k)};
    return {direct[k] + through[k], cell == nullptr ? Compute<T>(0) : cell[k]};
  }
};

// The saved values of a direction in all steps, and the states and cells before each step.
template <typename T>
struct Kept {
  const T* gates;
  const T* states;
  const T* cells;  // like `old_cells`, null if the kind has no cell
  const T* old_states;
  const T* old_cells;
};

// Runs step `t` backward; `out_grad` may be null. `to` begins at the first element of the first
// step.
template <typename T, typename Index, typename Kind>
__global__ void layer_step_back(PartGrads<T> to, StateFlow<T> flow, const T* out_grad, Kept<T> kept,
                                Direction<Index> d, int64_t t) {
  using C = Compute<T>;
  for (int64_t k = GlobalIndex(); k < d.n * d.size; k += GridThreads()) {
    const int64_t row = k / d.size, j = k - row * d.size, place = t * d.n * d.size + k;
    const int64_t width = Kind::kGates * d.size;
    const int64_t gates_at = (t * d.n + row) * Kind::kSaved * d.size + j;
    PartGrads<T> mine = to;
    mine.of_x += d.RowOfX(row, t) * width + j;
    if (mine.of_h != nullptr) mine.of_h += (t * d.n + row) * width + j;
    mine.of_h_now += row * width + j;
    StateCell<C> grad = flow.At(k);
    if (d.Reaches(row, t)) {
      grad.state += LoadOr0(out_grad, d.PlaceInOut(row, t, j));
      const Saved<T> read{Kind::kSaved == 0 ? nullptr : kept.gates + gates_at,
                          d.size,
                          Load(kept.old_states[place]),
                          LoadOr0(kept.old_cells, place),
                          Load(kept.states[place]),
                          LoadOr0(kept.cells, place)};
      grad = Kind::Back(mine, read, grad);
    } else {
      for (int g = 0; g < Kind::kGates; ++g) mine.Put(g, C(0));
    }
    flow.direct[k] = grad.state;
    if (Kind::kHasCell) flow.cell[k] = grad.cell;
  }
}

// Writes the gradients of the first state and cell; either output may be null.
template <typename T>
__global__ void first_grads(T* h0_grad, T* c0_grad, StateFlow<T> flow, int64_t n) {
  for (int64_t k = GlobalIndex(); k < n; k += GridThreads()) {
    const StateCell<Compute<T>> grad = flow.At(k);
    if (h0_grad != nullptr) h0_grad[k] = Store<T>(grad.state);
    if (c0_grad != nullptr) c0_grad[k] = Store<T>(grad.cell);
  }
}

template <typename T>
__global__ void add_directions(T* out, const Compute<T>* x, const Compute<T>* y, int64_t n) {
  for (int64_t k = GlobalIndex(); k < n; k += GridThreads()) out[k] = Store<T>(x[k] + y[k]);
}
