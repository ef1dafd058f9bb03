// A small product, fused with the bias and the activation of a layer.
#include "functions.h"
#include "small_products.h"

using namespace opwright_cuda;

// The rows and columns of out, the inner dimension, and the batch strides of x, y and out.
struct SmallSizes {
  int32_t m;
  int32_t n;
  int32_t k;
  int32_t x_stack;
  int32_t y_stack;
};

// `x_along` and `y_along` indicate whether adjacent steps are adjacent in memory.
template <typename T, typename Tile, bool x_along, int x_width, bool y_along, int y_width,
          template <typename> class Activation>
__global__ void __launch_bounds__(Tile::kThreads)
    multiply_small(T* out, const T* x, const T* y, const T* bias, SmallSizes sizes) {
  const auto stack = static_cast<int32_t>(blockIdx.y);
  const SmallSide<T, x_along, x_width> left{x + stack * sizes.x_stack, x_along ? sizes.k : sizes.m,
                                            sizes.m, sizes.k};
  const SmallSide<T, y_along, y_width> right{y + stack * sizes.y_stack, y_along ? sizes.k : sizes.n,
                                             sizes.n, sizes.k};
  const BiasedActivation<T, Activation> epilogue{out + stack * sizes.m * sizes.n, bias, sizes.n};
  using Value = Compute<T>;
  constexpr int kParts = SmallParts<Value, Tile>();
  OW_SHARED(SmallPart<Value>, memory, kParts);
  MultiplySmall<Tile, Value>(left, right, blockIdx.x, epilogue, memory);
}
