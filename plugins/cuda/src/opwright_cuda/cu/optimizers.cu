// sgd, momentum, adam and adamw, of one parameter or of many in one launch. Compiled without
// contraction, so that an element has the result that it has on the CPU.
#include "kernel.h"

using namespace opwright_cuda;

// A tensor of one element, float or double.
struct Number {
  const void* at;
  int32_t is_double;
};

OW_INLINE double ReadNumber(const void* at, bool is_double) {
  return is_double ? *static_cast<const double*>(at)
                   : static_cast<double>(*static_cast<const float*>(at));
}

// Attributes: weight_decay of sgd; mu and nesterov of momentum; betas, epsilon and weight_decay.
struct Attributes {
  double a;
  double b;
  double c;
  double d;
};

// Up to `most` parameters. Those that lie behind the last one begin behind the last block.
template <int n_tensors, int n_powers, int most>
struct Updates {
  void* tensors[n_tensors][most];  // param, grad, states
  const void* powers[n_powers == 0 ? 1 : n_powers][most];
  int64_t sizes[most];
  uint32_t first_blocks[most];
  uint8_t has_double_powers[most];  // bit i: power i
};

// What an update is: the tensors that it reads and overwrites, the factors of a step, computed once
// in a block, and what happens to an element, whose values are those of param, grad and states.
template <typename C>
struct Sgd {
  static constexpr int kTensors = 2;
  static constexpr int kPowers = 0;
  C rate;
  C keep;
  static OW_INLINE Sgd Of(const Attributes& attrs, double rate, const double*) {
    return {static_cast<C>(rate), static_cast<C>(1 - rate * attrs.a)};
  }
  OW_INLINE void Update(C* values) const { values[0] = values[0] * keep - values[1] * rate; }
};

template <typename C>
struct Momentum {
  static constexpr int kTensors = 3;
  static constexpr int kPowers = 0;
  C rate;
  C mu;
  bool is_nesterov;
  static OW_INLINE Momentum Of(const Attributes& attrs, double rate, const double*) {
    return {static_cast<C>(rate), static_cast<C>(attrs.a), attrs.b != 0};
  }
  OW_INLINE void Update(C* values) const {
    const C next = values[2] * mu + values[1];
    const C step = is_nesterov ? next * mu + values[1] : next;
    values[2] = next;
    values[0] = values[0] - step * rate;
  }
};

template <typename C>
struct Adam {
  static constexpr int kTensors = 4;
  static constexpr int kPowers = 2;
  C beta1;
  C beta2;
  C rest1;  // 1 - beta1
  C rest2;
  C epsilon;
  C rate;
  C keep;
  // Both corrections of the bias are taken out of the loop over the elements.
  static OW_INLINE Adam Of(const Attributes& attrs, double rate, const double* powers) {
    const double correction = opwright::functors::Sqrt(1 - powers[1]);
    return {static_cast<C>(attrs.a),
            static_cast<C>(attrs.b),
            static_cast<C>(1 - attrs.a),
            static_cast<C>(1 - attrs.b),
            static_cast<C>(attrs.c * correction),
            static_cast<C>(rate * correction / (1 - powers[0])),
            static_cast<C>(1 - rate * attrs.d)};
  }
  OW_INLINE void Update(C* values) const {
    const C grad = values[1];
    const C first = values[2] * beta1 + grad * rest1;
    const C second = values[3] * beta2 + grad * grad * rest2;
    const C step = first / (opwright::functors::Sqrt(second) + epsilon) * this->rate;
    values[2] = first;
    values[3] = second;
    values[0] = values[0] * keep - step;
  }
};

// Updates `width` neighbours, number `i` of each tensor.
template <typename Rule, typename T, int width>
OW_INLINE void UpdateAt(const Rule& rule, void* const* tensors, int64_t i) {
  using Many = Vector<T, width>;
  Many loaded[Rule::kTensors];
#pragma unroll
  for (int t = 0; t < Rule::kTensors; ++t) loaded[t] = static_cast<const Many*>(tensors[t])[i];
#pragma unroll
  for (int k = 0; k < width; ++k) {
    Compute<T> values[Rule::kTensors];
#pragma unroll
    for (int t = 0; t < Rule::kTensors; ++t) values[t] = Load(loaded[t].at[k]);
    rule.Update(values);
#pragma unroll
    for (int t = 0; t < Rule::kTensors; ++t) loaded[t].at[k] = Store<T>(values[t]);
  }
#pragma unroll
  for (int t = 0; t < Rule::kTensors; ++t) {
    if (t != 1) static_cast<Many*>(tensors[t])[i] = loaded[t];  // all but the gradient
  }
}

// A block takes `chunk` elements of one parameter, a multiple of the vectors of all its threads.
// Every tensor begins where vectors may.
template <template <typename> class RuleOf, typename T, int most>
__global__ void update(
    Updates<RuleOf<Compute<T>>::kTensors, RuleOf<Compute<T>>::kPowers, most> updates,
    Attributes attrs, Number rate, int64_t chunk) {
  using Rule = RuleOf<Compute<T>>;
  constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  int low = 0;
  int high = most;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (updates.first_blocks[middle] <= blockIdx.x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const int which = low;
  OW_SHARED(Rule, rule_of_step, 1);
  if (threadIdx.x == 0) {
    double powers[2] = {0, 0};
    for (int p = 0; p < Rule::kPowers; ++p) {
      const bool is_double = (updates.has_double_powers[which] >> p & 1) != 0;
      powers[p] = ReadNumber(updates.powers[p][which], is_double);
    }
    rule_of_step[0] = Rule::Of(attrs, ReadNumber(rate.at, rate.is_double != 0), powers);
  }
  __syncthreads();
  const Rule rule = rule_of_step[0];
  void* tensors[Rule::kTensors];
#pragma unroll
  for (int t = 0; t < Rule::kTensors; ++t) tensors[t] = updates.tensors[t][which];
  const int64_t begin = static_cast<int64_t>(blockIdx.x - updates.first_blocks[which]) * chunk;
  const int64_t end = begin + chunk < updates.sizes[which] ? begin + chunk : updates.sizes[which];
  const int64_t vectors = end / kWidth;
  for (int64_t i = begin / kWidth + threadIdx.x; i < vectors; i += blockDim.x) {
    UpdateAt<Rule, T, kWidth>(rule, tensors, i);
  }
  const int64_t i = vectors * kWidth + threadIdx.x;
  if (i < end) UpdateAt<Rule, T, 1>(rule, tensors, i);
}

// Powers that go on to the next step, each in its own dtype: a launch of its own, for every block
// of the update reads them.
template <int most>
struct Powers {
  void* at[most];
  double betas[most];
  uint8_t is_double[most];
};

template <int most>
__global__ void advance(const __grid_constant__ Powers<most> powers, int32_t n) {
  const int32_t i = static_cast<int32_t>(GlobalIndex());
  if (i >= n) return;
  if (powers.is_double[i] != 0) {
    double* power = static_cast<double*>(powers.at[i]);
    *power = *power * powers.betas[i];
  } else {
    float* power = static_cast<float*>(powers.at[i]);
    *power = *power * static_cast<float>(powers.betas[i]);
  }
}
