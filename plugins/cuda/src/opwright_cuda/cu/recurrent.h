// Element-wise steps of all recurrent kinds, starting from gate pre-activations, and their
// gradients. Cells and layers share this code. The gates of a row are adjacent, with `size`
// elements each.
#ifndef OPWRIGHT_CUDA_RECURRENT_H_
#define OPWRIGHT_CUDA_RECURRENT_H_

#include "functions.h"

namespace opwright_cuda {

// The contributions of x and h to the gates, [n, gates * size]; the contribution of h and the
// biases may be null.
template <typename T>
struct Parts {
  const Compute<T>* of_x;
  const Compute<T>* of_h;
  const T* bias_ih;
  const T* bias_hh;

  OW_INLINE Compute<T> FromX(int64_t at, int64_t column) const {
    return bias_ih == nullptr ? of_x[at] : of_x[at] + Load(bias_ih[column]);
  }
  OW_INLINE Compute<T> FromH(int64_t at, int64_t column) const {
    const Compute<T> product = of_h == nullptr ? Compute<T>(0) : of_h[at];
    return bias_hh == nullptr ? product : product + Load(bias_hh[column]);
  }
};

template <typename T>
OW_INLINE Compute<T> LoadOr0(const T* x, int64_t i) {
  return x == nullptr ? Compute<T>(0) : Load(x[i]);
}

// The pre-activations of an element, given the offset of its first gate and its state index.
template <typename T>
struct Sums {
  Parts<T> parts;
  int64_t x_at;
  int64_t h_at;
  int64_t j;
  int64_t size;

  OW_INLINE Compute<T> FromX(int gate) const {
    return parts.FromX(x_at + gate * size, j + gate * size);
  }
  OW_INLINE Compute<T> FromH(int gate) const {
    return parts.FromH(h_at + gate * size, j + gate * size);
  }
  OW_INLINE Compute<T> Both(int gate) const { return FromX(gate) + FromH(gate); }
};

// The destinations of the gradients with respect to the contributions of x and h. The gradient for
// the contribution of h has two destinations, either of which may be null.
template <typename T>
struct PartGrads {
  T* of_x;
  T* of_h;
  T* of_h_now;
  int64_t size;

  OW_INLINE void Put(int gate, Compute<T> x_part, Compute<T> h_part) const {
    of_x[gate * size] = Store<T>(x_part);
    if (of_h != nullptr) of_h[gate * size] = Store<T>(h_part);
    if (of_h_now != nullptr) of_h_now[gate * size] = Store<T>(h_part);
  }
  OW_INLINE void Put(int gate, Compute<T> both) const { Put(gate, both, both); }
};

// A state and, for an LSTM, a cell; or the gradients of both.
template <typename C>
struct StateCell {
  C state;
  C cell;
};

// The inputs of the gradient of one element; `gates` are the saved gates.
template <typename T>
struct Saved {
  const T* gates;
  int64_t size;
  Compute<T> old_state;
  Compute<T> old_cell;
  Compute<T> state;
  Compute<T> cell;

  OW_INLINE Compute<T> Gate(int gate) const { return Load(gates[gate * size]); }
};

// Each kind has `Step`, which saves the gates, and `Back`, which returns the gradient of the old
// cell, and the gradient of the old state except for the part through the product.
template <typename T>
struct Lstm {
  using C = Compute<T>;
  static constexpr int kGates = 4;
  static constexpr int kSaved = 4;
  static constexpr bool kHasCell = true;

  static OW_INLINE StateCell<C> Step(const Sums<T>& sums, StateCell<C> old, T* gates) {
    const C i = functors::Sigmoid(sums.Both(0)), f = functors::Sigmoid(sums.Both(1));
    const C g = functors::Tanh(sums.Both(2)), o = functors::Sigmoid(sums.Both(3));
    gates[0] = Store<T>(i);
    gates[sums.size] = Store<T>(f);
    gates[2 * sums.size] = Store<T>(g);
    gates[3 * sums.size] = Store<T>(o);
    const C cell = f * old.cell + i * g;
    return {o * functors::Tanh(cell), cell};
  }

  static OW_INLINE StateCell<C> Back(const PartGrads<T>& to, const Saved<T>& saved,
                                     StateCell<C> grad) {
    const C i = saved.Gate(0), f = saved.Gate(1), g = saved.Gate(2), o = saved.Gate(3);
    const C tanh = functors::Tanh(saved.cell);
    const C inner = grad.cell + grad.state * o * (C(1) - tanh * tanh);
    to.Put(0, inner * g * i * (C(1) - i));
    to.Put(1, inner * saved.old_cell * f * (C(1) - f));
    to.Put(2, inner * i * (C(1) - g * g));
    to.Put(3, grad.state * tanh * o * (C(1) - o));
    return {C(0), inner * f};
  }
};

// The fourth saved gate is the contribution of h to the third.
template <typename T>
struct Gru {
  using C = Compute<T>;
  static constexpr int kGates = 3;
  static constexpr int kSaved = 4;
  static constexpr bool kHasCell = false;

  static OW_INLINE StateCell<C> Step(const Sums<T>& sums, StateCell<C> old, T* gates) {
    const C r = functors::Sigmoid(sums.Both(0)), z = functors::Sigmoid(sums.Both(1));
    const C of_h = sums.FromH(2);
    const C fresh = functors::Tanh(sums.FromX(2) + r * of_h);
    gates[0] = Store<T>(r);
    gates[sums.size] = Store<T>(z);
    gates[2 * sums.size] = Store<T>(fresh);
    gates[3 * sums.size] = Store<T>(of_h);
    return {(C(1) - z) * fresh + z * old.state, C(0)};
  }

  static OW_INLINE StateCell<C> Back(const PartGrads<T>& to, const Saved<T>& saved,
                                     StateCell<C> grad) {
    const C r = saved.Gate(0), z = saved.Gate(1), fresh = saved.Gate(2);
    const C fresh_grad = grad.state * (C(1) - z) * (C(1) - fresh * fresh);
    to.Put(0, fresh_grad * saved.Gate(3) * r * (C(1) - r));
    to.Put(1, grad.state * (saved.old_state - fresh) * z * (C(1) - z));
    to.Put(2, fresh_grad, fresh_grad * r);
    return {grad.state * z, C(0)};
  }
};

// Plain RNNs save only the state.
template <typename T>
struct TanhRnn {
  using C = Compute<T>;
  static constexpr int kGates = 1;
  static constexpr int kSaved = 0;
  static constexpr bool kHasCell = false;

  static OW_INLINE StateCell<C> Step(const Sums<T>& sums, StateCell<C>, T*) {
    return {functors::Tanh(sums.Both(0)), C(0)};
  }
  static OW_INLINE StateCell<C> Back(const PartGrads<T>& to, const Saved<T>& saved,
                                     StateCell<C> grad) {
    to.Put(0, grad.state * (C(1) - saved.state * saved.state));
    return {C(0), C(0)};
  }
};

template <typename T>
struct ReluRnn {
  using C = Compute<T>;
  static constexpr int kGates = 1;
  static constexpr int kSaved = 0;
  static constexpr bool kHasCell = false;

  static OW_INLINE StateCell<C> Step(const Sums<T>& sums, StateCell<C>, T*) {
    const C sum = sums.Both(0);
    return {sum < C(0) ? C(0) : sum, C(0)};  // NaN stays NaN
  }
  static OW_INLINE StateCell<C> Back(const PartGrads<T>& to, const Saved<T>& saved,
                                     StateCell<C> grad) {
    to.Put(0, saved.state > C(0) ? grad.state : C(0));
    return {C(0), C(0)};
  }
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_RECURRENT_H_
