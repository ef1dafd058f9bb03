// The gates of lstm_cell and gru_cell between the products, and back: a thread for each element of
// the state. Gates lie side by side in a row.
#include "functions.h"

using namespace opwright_cuda;

// What x and h give to the gates, [n, gates * size]; biases may be null.
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
    return bias_hh == nullptr ? of_h[at] : of_h[at] + Load(bias_hh[column]);
  }
  OW_INLINE Compute<T> Sum(int64_t at, int64_t column) const {
    return FromX(at, column) + FromH(at, column);
  }
};

template <typename T>
OW_INLINE Compute<T> LoadOr0(const T* x, int64_t i) {
  return x == nullptr ? Compute<T>(0) : Load(x[i]);
}

template <typename T>
__global__ void lstm_step(T* h_out, T* c_out, T* gates, const T* c, Parts<T> parts, int64_t n,
                          int64_t size) {
  using C = Compute<T>;
  for (int64_t k = GlobalIndex(); k < n * size; k += GridThreads()) {
    const int64_t row = k / size, j = k - row * size, at = row * 4 * size + j;
    const C i = functors::Sigmoid(parts.Sum(at, j));
    const C f = functors::Sigmoid(parts.Sum(at + size, j + size));
    const C g = functors::Tanh(parts.Sum(at + 2 * size, j + 2 * size));
    const C o = functors::Sigmoid(parts.Sum(at + 3 * size, j + 3 * size));
    const C cell = f * Load(c[k]) + i * g;
    gates[at] = Store<T>(i);
    gates[at + size] = Store<T>(f);
    gates[at + 2 * size] = Store<T>(g);
    gates[at + 3 * size] = Store<T>(o);
    c_out[k] = Store<T>(cell);
    h_out[k] = Store<T>(o * functors::Tanh(cell));
  }
}

// `parts` gets the gradients of the sums.
template <typename T>
__global__ void lstm_step_back(T* parts, T* c_grad, const T* gates, const T* c, const T* c_out,
                               const T* h_out_grad, const T* c_out_grad, int64_t n, int64_t size) {
  using C = Compute<T>;
  for (int64_t k = GlobalIndex(); k < n * size; k += GridThreads()) {
    const int64_t row = k / size, at = row * 4 * size + (k - row * size);
    const C i = Load(gates[at]), f = Load(gates[at + size]);
    const C g = Load(gates[at + 2 * size]), o = Load(gates[at + 3 * size]);
    const C tanh = functors::Tanh(Load(c_out[k])), grad = LoadOr0(h_out_grad, k);
    const C inner = LoadOr0(c_out_grad, k) + grad * o * (C(1) - tanh * tanh);
    parts[at] = Store<T>(inner * g * i * (C(1) - i));
    parts[at + size] = Store<T>(inner * Load(c[k]) * f * (C(1) - f));
    parts[at + 2 * size] = Store<T>(inner * i * (C(1) - g * g));
    parts[at + 3 * size] = Store<T>(grad * tanh * o * (C(1) - o));
    if (c_grad != nullptr) c_grad[k] = Store<T>(inner * f);
  }
}

// The fourth of the gates is what h gives to the third.
template <typename T>
__global__ void gru_step(T* h_out, T* gates, const T* h, Parts<T> parts, int64_t n, int64_t size) {
  using C = Compute<T>;
  for (int64_t k = GlobalIndex(); k < n * size; k += GridThreads()) {
    const int64_t row = k / size, j = k - row * size, from = row * 3 * size + j;
    const C r = functors::Sigmoid(parts.Sum(from, j));
    const C z = functors::Sigmoid(parts.Sum(from + size, j + size));
    const C of_h = parts.FromH(from + 2 * size, j + 2 * size);
    const C fresh = functors::Tanh(parts.FromX(from + 2 * size, j + 2 * size) + r * of_h);
    const int64_t at = row * 4 * size + j;
    gates[at] = Store<T>(r);
    gates[at + size] = Store<T>(z);
    gates[at + 2 * size] = Store<T>(fresh);
    gates[at + 3 * size] = Store<T>(of_h);
    h_out[k] = Store<T>((C(1) - z) * fresh + z * Load(h[k]));
  }
}

// `of_x` and `of_h` get the gradients of what x and h gave; `direct` that of h beside the product.
template <typename T>
__global__ void gru_step_back(T* of_x, T* of_h, Compute<T>* direct, const T* gates, const T* h,
                              const T* h_out_grad, int64_t n, int64_t size) {
  using C = Compute<T>;
  for (int64_t k = GlobalIndex(); k < n * size; k += GridThreads()) {
    const int64_t row = k / size, j = k - row * size, at = row * 4 * size + j;
    const C r = Load(gates[at]), z = Load(gates[at + size]), fresh = Load(gates[at + 2 * size]);
    const C grad = Load(h_out_grad[k]);
    const C fresh_grad = grad * (C(1) - z) * (C(1) - fresh * fresh);
    const C r_grad = fresh_grad * Load(gates[at + 3 * size]) * r * (C(1) - r);
    const C z_grad = grad * (Load(h[k]) - fresh) * z * (C(1) - z);
    const int64_t to = row * 3 * size + j;
    of_x[to] = of_h[to] = Store<T>(r_grad);
    of_x[to + size] = of_h[to + size] = Store<T>(z_grad);
    of_x[to + 2 * size] = Store<T>(fresh_grad);
    of_h[to + 2 * size] = Store<T>(fresh_grad * r);
    direct[k] = grad * z;
  }
}

template <typename T>
__global__ void add_both(T* out, const Compute<T>* x, const Compute<T>* y, int64_t n) {
  for (int64_t k = GlobalIndex(); k < n; k += GridThreads()) out[k] = Store<T>(x[k] + y[k]);
}
