// Computes all gradients of a small layer in one launch. The bias gradient is an extra row of the
// product for the weight gradient. The third gradient is for the layer input, or for the input of a
// preceding activation.
#include "functions.h"
#include "small_products.h"

using namespace opwright_cuda;

// The sizes of x [rows, inputs], the weight [inputs, outputs] and out_grad [rows, outputs].
struct LayerSizes {
  int32_t rows;
  int32_t inputs;
  int32_t outputs;
};

// Writes the sums. The sums after the last row are the bias gradient.
template <typename T>
struct WeightAndBias {
  T* weight;
  T* bias;
  int32_t n_rows;
  int32_t n_columns;
  using Value = Compute<T>;

  OW_INLINE Value Fetch(int32_t, int32_t) const { return Value(0); }
  OW_INLINE void Put(int32_t row, int32_t column, Value sum, Value) const {
    T* const to = row < n_rows ? weight + row * n_columns : bias;
    to[column] = Store<T>(sum);
  }
};

// Writes Derivative(saved, sum), where `saved` is the output of the activation.
template <typename T, template <typename> class Derivative>
struct SavedDerivative {
  T* out;
  const T* saved;
  int32_t n_columns;
  using Value = Compute<T>;

  OW_INLINE Value Fetch(int32_t row, int32_t column) const {
    return Load(saved[row * n_columns + column]);
  }
  OW_INLINE void Put(int32_t row, int32_t column, Value sum, Value fetched) const {
    out[row * n_columns + column] = Store<T>(Derivative<Value>()(fetched, sum));
  }
};

// Computes weight_grad = transpose(x) out_grad, and bias_grad, the sum of out_grad over rows.
template <typename Tile, int x_width, int grad_width, bool with_bias, typename T, typename Part>
OW_INLINE void ComputeWeightGrad(T* weight_grad, T* bias_grad, const T* x, const T* out_grad,
                                 LayerSizes sizes, uint32_t tile, Part* memory) {
  const SmallSide<T, false, x_width, with_bias> left{x, sizes.inputs, sizes.inputs, sizes.rows};
  const SmallSide<T, false, grad_width> right{out_grad, sizes.outputs, sizes.outputs, sizes.rows};
  const WeightAndBias<T> epilogue{weight_grad, bias_grad, sizes.inputs, sizes.outputs};
  MultiplySmall<Tile, Compute<T>>(left, right, tile, epilogue, memory);
}

template <typename T, typename Tile, int x_width, int grad_width, bool with_bias>
__global__ void __launch_bounds__(Tile::kThreads)
    weight_grads(T* weight_grad, T* bias_grad, const T* x, const T* out_grad, LayerSizes sizes) {
  using Value = Compute<T>;
  constexpr int kParts = SmallParts<Value, Tile>();
  OW_SHARED(SmallPart<Value>, memory, kParts);
  ComputeWeightGrad<Tile, x_width, grad_width, with_bias>(weight_grad, bias_grad, x, out_grad,
                                                          sizes, blockIdx.x, memory);
}

// The first blocks, whose sums are longer, compute x_grad = out_grad transpose(weight) and apply
// `Epilogue` to it and x.
template <typename T, typename InputTile, typename WeightTile, int x_width, int grad_width,
          bool with_bias, typename Epilogue>
__global__ void __launch_bounds__(WeightTile::kThreads)
    layer_grads(T* x_grad, T* weight_grad, T* bias_grad, const T* x, const T* saved,
                const T* weight, const T* out_grad, LayerSizes sizes, uint32_t n_input_tiles) {
  using Value = Compute<T>;
  constexpr int kInputParts = SmallParts<Value, InputTile>();
  constexpr int kWeightParts = SmallParts<Value, WeightTile>();
  constexpr int kParts = kInputParts > kWeightParts ? kInputParts : kWeightParts;
  OW_SHARED(SmallPart<Value>, memory, kParts);
  if (blockIdx.x >= n_input_tiles) {
    ComputeWeightGrad<WeightTile, x_width, grad_width, with_bias>(
        weight_grad, bias_grad, x, out_grad, sizes, blockIdx.x - n_input_tiles, memory);
    return;
  }
  const SmallSide<T, true, grad_width> left{out_grad, sizes.outputs, sizes.rows, sizes.outputs};
  const SmallSide<T, true, grad_width> right{weight, sizes.outputs, sizes.inputs, sizes.outputs};
  const Epilogue epilogue{x_grad, saved, sizes.inputs};
  MultiplySmall<InputTile, Value>(left, right, blockIdx.x, epilogue, memory);
}
