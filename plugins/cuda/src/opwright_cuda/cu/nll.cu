// nll: the negative log-probability of each line at its class id, and the gradient.
#include "labels.h"

using namespace opwright_cuda;

// One thread processes each line of `labels.n_classes` elements, which are `inner` apart.
template <typename T>
__global__ void pick_losses(T* out, const T* x, Labels labels, int64_t n_lines, int64_t inner) {
  using C = Compute<T>;
  for (int64_t line = GlobalIndex(); line < n_lines; line += GridThreads()) {
    const int64_t id = labels.At(line);
    const int64_t first = line / inner * labels.n_classes * inner + line % inner;
    out[line] = Store<T>(id < 0 ? C(0) : -Load(x[first + id * inner]));
  }
}

// One thread processes each element of x.
template <typename T>
__global__ void spread_losses(T* x_grad, const T* out_grad, Labels labels, int64_t n,
                              int64_t inner) {
  using C = Compute<T>;
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    const int64_t outer = i / inner / labels.n_classes;
    const int64_t line = outer * inner + i % inner;
    const bool is_picked = i / inner % labels.n_classes == labels.At(line);
    x_grad[i] = Store<T>(is_picked ? -Load(out_grad[line]) : C(0));
  }
}
