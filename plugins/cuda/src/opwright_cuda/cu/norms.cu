// Operators that scale by the norm of a complete tensor: clip_by_norm, clip_by_global_norm and
// lamb. Squares are summed in double. Each block writes to `sums`, and one block sums the results.
#include "reduce.h"
#include "update_rules.h"

using namespace opwright_cuda;

template <typename T>
__global__ void add_squares(double* sums, const T* x, int64_t n) {
  double sum = 0;
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    const double value = static_cast<double>(Load(x[i]));
    sum += value * value;
  }
  sum = BlockReduce(sum, SumOf<double>());
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// Runs in one block. The factor is exactly 1 if the norm is within the bound, and NaN if the norm
// is NaN. `norm` may be null.
template <typename T>
__global__ void find_factor(double* factor, T* norm, const double* sums, int32_t n,
                            double max_norm) {
  double sum = 0;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < n; i += blockDim.x) sum += sums[i];
  sum = BlockReduce(sum, SumOf<double>());
  if (threadIdx.x != 0) return;
  const double length = functors::Sqrt(sum);
  *factor = length <= max_norm ? 1.0 : max_norm / length;
  if (norm != nullptr) *norm = Store<T>(length);
}

template <typename T>
__global__ void scale_by(T* out, const T* x, const double* factor, int64_t n) {
  const Compute<T> by = static_cast<Compute<T>>(*factor);
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) out[i] = Store<T>(Load(x[i]) * by);
}

// The coefficients of Adam with steps proportional to the norm of the parameter.
template <typename C>
struct Lamb {
  C beta1;
  C beta2;
  C rest1;
  C rest2;
  C epsilon;
  C scale;
  C weight_decay;
  static OW_INLINE Lamb Of(const Attributes& attrs, const double* powers) {
    const double correction = functors::Sqrt(1 - powers[1]);
    return {static_cast<C>(attrs.a),
            static_cast<C>(attrs.b),
            static_cast<C>(1 - attrs.a),
            static_cast<C>(1 - attrs.b),
            static_cast<C>(attrs.c * correction),
            static_cast<C>(correction / (1 - powers[0])),
            static_cast<C>(attrs.d)};
  }
  OW_INLINE C Direction(C param, C first, C second) const {
    return first / (functors::Sqrt(second) + epsilon) * scale + param * weight_decay;
  }
};

// A parameter, its gradient and its states, all of the same size.
template <typename T>
struct LambTensors {
  T* param;
  const T* grad;
  T* moment1;
  T* moment2;
};

struct LambPowers {
  void* at[2];
  int32_t is_double[2];
};

template <typename C>
OW_INLINE Lamb<C> ReadLamb(const Attributes& attrs, const LambPowers& powers) {
  const double values[2] = {ReadNumber(powers.at[0], powers.is_double[0] != 0),
                            ReadNumber(powers.at[1], powers.is_double[1] != 0)};
  return Lamb<C>::Of(attrs, values);
}

// Updates the moments; `sums` receives two sums of squares per block, of parameter and direction.
template <typename T>
__global__ void move_moments(LambTensors<T> tensors, double* sums, Attributes attrs,
                             LambPowers powers, int64_t n) {
  using C = Compute<T>;
  const Lamb<C> lamb = ReadLamb<C>(attrs, powers);
  double of_param = 0;
  double of_direction = 0;
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    const C grad = Load(tensors.grad[i]);
    const C param = Load(tensors.param[i]);
    const T first = Store<T>(Load(tensors.moment1[i]) * lamb.beta1 + grad * lamb.rest1);
    const T second = Store<T>(Load(tensors.moment2[i]) * lamb.beta2 + grad * grad * lamb.rest2);
    tensors.moment1[i] = first;
    tensors.moment2[i] = second;
    const double direction = static_cast<double>(lamb.Direction(param, Load(first), Load(second)));
    of_direction += direction * direction;
    of_param += static_cast<double>(param) * static_cast<double>(param);
  }
  of_param = BlockReduce(of_param, SumOf<double>());
  of_direction = BlockReduce(of_direction, SumOf<double>());
  if (threadIdx.x != 0) return;
  sums[2 * blockIdx.x] = of_param;
  sums[2 * blockIdx.x + 1] = of_direction;
}

// Computes the step length, then the next powers, in a single block. The last launch must not read
// the powers.
template <typename C>
__global__ void find_step(double* step, Lamb<C>* rule, const double* sums, int32_t n,
                          Attributes attrs, Number rate, LambPowers powers) {
  double totals[2] = {0, 0};
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < n; i += blockDim.x) {
    totals[0] += sums[2 * i];
    totals[1] += sums[2 * i + 1];
  }
  totals[0] = BlockReduce(totals[0], SumOf<double>());
  totals[1] = BlockReduce(totals[1], SumOf<double>());
  if (threadIdx.x != 0) return;
  const bool has_norms = totals[0] != 0 && totals[1] != 0;
  const double trust = has_norms ? functors::Sqrt(totals[0]) / functors::Sqrt(totals[1]) : 1.0;
  *step = ReadNumber(rate.at, rate.is_double != 0) * trust;
  *rule = ReadLamb<C>(attrs, powers);
  for (int i = 0; i < 2; ++i) {
    const double beta = i == 0 ? attrs.a : attrs.b;
    if (powers.is_double[i] != 0) {
      *static_cast<double*>(powers.at[i]) *= beta;
    } else {
      *static_cast<float*>(powers.at[i]) *= static_cast<float>(beta);
    }
  }
}

template <typename T>
__global__ void take_step(LambTensors<T> tensors, const double* step, const Lamb<Compute<T>>* rule,
                          int64_t n) {
  using C = Compute<T>;
  const Lamb<C> lamb = *rule;
  const C rate = static_cast<C>(*step);
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    const C param = Load(tensors.param[i]);
    const C direction = lamb.Direction(param, Load(tensors.moment1[i]), Load(tensors.moment2[i]));
    tensors.param[i] = Store<T>(param - direction * rate);
  }
}
