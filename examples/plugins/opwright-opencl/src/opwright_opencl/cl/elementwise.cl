// One work-item for each output element. Only the work-item that writes an element reads it, so
// that an output may share an input's memory.
#define UNARY(NAME, FORMULA)                                                      \
  __kernel void NAME(const ulong n, __global const T* xs, __global T* outs) {     \
    const size_t i = get_global_id(0);                                            \
    if (i >= n) return;                                                           \
    const T x = xs[i];                                                            \
    outs[i] = FORMULA;                                                            \
  }

UNARY(negative, -x)
UNARY(relu, relu_of(x))
UNARY(sigmoid, sigmoid_of(x))
UNARY(tanh_, tanh_of(x))

// Gradients of activations, from their outputs.
#define GRADIENT(NAME, FORMULA)                                                          \
  __kernel void NAME(const ulong n, __global const T* outs, __global const T* out_grads, \
                     __global T* x_grads) {                                              \
    const size_t i = get_global_id(0);                                                   \
    if (i >= n) return;                                                                  \
    const T out = outs[i], out_grad = out_grads[i];                                      \
    x_grads[i] = FORMULA;                                                                \
  }

GRADIENT(relu_grad, out <= 0 ? (T)0 : out_grad)
GRADIENT(sigmoid_grad, out_grad * (1 - out) * out)
GRADIENT(tanh_grad, out_grad * (1 - out * out))

// Each operator has two forms, for operands of equal shape and for broadcast operands.
#define BINARY(NAME, FORMULA)                                                              \
  __kernel void NAME(const ulong n, __global const T* xs, __global const T* ys,            \
                     __global T* outs) {                                                   \
    const size_t i = get_global_id(0);                                                     \
    if (i >= n) return;                                                                    \
    const T x = xs[i], y = ys[i];                                                          \
    outs[i] = FORMULA;                                                                     \
  }                                                                                        \
  __kernel void NAME##_broadcast(const ulong n, __global const T* xs, __global const T* ys, \
                                 __global T* outs, const uint4 shape,                      \
                                 const uint4 x_strides, const uint4 y_strides) {           \
    const size_t i = get_global_id(0);                                                     \
    if (i >= n) return;                                                                    \
    const T x = xs[place_of(i, shape, x_strides)];                                         \
    const T y = ys[place_of(i, shape, y_strides)];                                         \
    outs[i] = FORMULA;                                                                     \
  }

BINARY(add, x + y)
BINARY(subtract, x - y)
BINARY(multiply, x * y)
BINARY(divide, x / y)

__kernel void scale(const ulong n, __global const T* xs, __global T* outs, const T factor,
                    const T bias) {
  const size_t i = get_global_id(0);
  if (i < n) outs[i] = factor * xs[i] + bias;
}

__kernel void fill(const ulong n, __global T* outs, const T value) {
  const size_t i = get_global_id(0);
  if (i < n) outs[i] = value;
}

// Broadcasts x to a larger shape and divides each element.
__kernel void spread(const ulong n, __global const T* xs, __global T* outs, const uint4 shape,
                     const uint4 x_strides, const T divisor) {
  const size_t i = get_global_id(0);
  if (i < n) outs[i] = xs[place_of(i, shape, x_strides)] / divisor;
}

// param - rate * (grad + decay * param); `next` may share `param`'s memory. The rate may be a float
// if T is double.
#define SGD(NAME, RATE)                                                                   \
  __kernel void NAME(const ulong n, __global const T* param, __global const T* grad,      \
                     __global const RATE* rate, __global T* next, const T decay) {        \
    const size_t i = get_global_id(0);                                                    \
    if (i >= n) return;                                                                   \
    const T r = (T)rate[0];                                                               \
    next[i] = param[i] * (1 - r * decay) - grad[i] * r;                                   \
  }

SGD(sgd, T)
SGD(sgd_by_float, float)
