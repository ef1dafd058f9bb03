// The gradient of an activation, and its sums over rows: the gradient of the bias before it.
#include "functions.h"
#include "lines.h"

using namespace opwright_cuda;

// Lines are columns.
template <template <typename> class Derivative, typename T>
__global__ void derivative_and_sums(T* x_grad, T* sums, const T* out, const T* out_grad,
                                    Lines lines, int32_t width) {
  using C = Compute<T>;
  const Derivative<C> derivative{};
  StreamedLine<C, TileTeam> line(lines, width);
  C total = C(0);
  line.ForEach([&](int64_t i, C&) {
    const int64_t at = line.At(i);
    const T grad = Store<T>(derivative(Load(out[at]), Load(out_grad[at])));
    x_grad[at] = grad;
    total += Load(grad);
  });
  total = line.Reduce(total, SumOf<C>());
  if (line.IsFirst()) sums[line.line] = Store<T>(total);
}
