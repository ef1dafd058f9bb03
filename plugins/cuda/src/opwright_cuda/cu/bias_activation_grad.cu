// The gradient of an activation and its row sums, which are the gradient of the preceding bias.
#include "functions.h"
#include "lines.h"

using namespace opwright_cuda;

// Lines are columns.
template <template <typename> class Derivative, typename T>
__global__ void derivative_and_sums(T* x_grad, T* sums, const T* out, const T* out_grad,
                                    Lines lines, int32_t width) {
  using C = Compute<T>;
  const Derivative<C> derivative{};
  StreamedLine<TileTeam, C, 1> line(lines, width);
  C total = C(0);
  const auto apply = [&](int64_t, C&, C value, C grad) {
    const C made = Rounded<T>(derivative(value, grad));
    total += made;
    return made;
  };
  Transform(line, x_grad, apply, out, out_grad);
  total = line.Reduce(total, SumOf<C>());
  if (line.IsFirst()) sums[line.line] = Store<T>(total);
}
