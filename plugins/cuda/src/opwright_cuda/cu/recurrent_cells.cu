// The gates of lstm_cell and gru_cell between the products, forward and backward, with one thread
// per element of the state. The gates of a row are adjacent.
#include "recurrent.h"

using namespace opwright_cuda;

template <typename T>
__global__ void lstm_step(T* h_out, T* c_out, T* gates, const T* c, Parts<T> parts, int64_t n,
                          int64_t size) {
  for (int64_t k = GlobalIndex(); k < n * size; k += GridThreads()) {
    const int64_t row = k / size, j = k - row * size, at = row * 4 * size + j;
    const auto made = Lstm<T>::Step({parts, at, at, j, size}, {0, Load(c[k])}, gates + at);
    c_out[k] = Store<T>(made.cell);
    h_out[k] = Store<T>(made.state);
  }
}

// `parts` receives the pre-activation gradients.
template <typename T>
__global__ void lstm_step_back(T* parts, T* c_grad, const T* gates, const T* c, const T* c_out,
                               const T* h_out_grad, const T* c_out_grad, int64_t n, int64_t size) {
  using C = Compute<T>;
  for (int64_t k = GlobalIndex(); k < n * size; k += GridThreads()) {
    const int64_t row = k / size, at = row * 4 * size + (k - row * size);
    const Saved<T> saved{gates + at, size, C(0), Load(c[k]), C(0), Load(c_out[k])};
    const StateCell<C> grad{LoadOr0(h_out_grad, k), LoadOr0(c_out_grad, k)};
    const auto before = Lstm<T>::Back({parts + at, nullptr, nullptr, size}, saved, grad);
    if (c_grad != nullptr) c_grad[k] = Store<T>(before.cell);
  }
}

template <typename T>
__global__ void gru_step(T* h_out, T* gates, const T* h, Parts<T> parts, int64_t n, int64_t size) {
  for (int64_t k = GlobalIndex(); k < n * size; k += GridThreads()) {
    const int64_t row = k / size, j = k - row * size, from = row * 3 * size + j;
    T* const to = gates + row * 4 * size + j;
    h_out[k] = Store<T>(Gru<T>::Step({parts, from, from, j, size}, {Load(h[k]), 0}, to).state);
  }
}

// `of_x` and `of_h` receive the gradients of the contributions of x and h; `direct` receives the
// gradient of h that does not pass through the product.
template <typename T>
__global__ void gru_step_back(T* of_x, T* of_h, Compute<T>* direct, const T* gates, const T* h,
                              const T* h_out_grad, int64_t n, int64_t size) {
  using C = Compute<T>;
  for (int64_t k = GlobalIndex(); k < n * size; k += GridThreads()) {
    const int64_t row = k / size, j = k - row * size, to = row * 3 * size + j;
    const T* const read = gates + row * 4 * size + j;
    const Saved<T> saved{read, size, Load(h[k]), C(0), C(0), C(0)};
    const StateCell<C> grad{Load(h_out_grad[k]), C(0)};
    direct[k] = Gru<T>::Back({of_x + to, of_h + to, nullptr, size}, saved, grad).state;
  }
}

template <typename T>
__global__ void add_both(T* out, const Compute<T>* x, const Compute<T>* y, int64_t n) {
  for (int64_t k = GlobalIndex(); k < n; k += GridThreads()) out[k] = Store<T>(x[k] + y[k]);
}
