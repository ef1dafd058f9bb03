// Updates one or many parameters in one launch, by any rule. This file is compiled without
// contraction so that results are the same as on the CPU.
#include "adam_rules.h"
#include "adaptive_rules.h"

using namespace opwright_cuda;

// Up to `most` parameters. Unused entries have a first block after the last block.
template <int n_tensors, int n_scalars, int most>
struct Updates {
  void* tensors[n_tensors][most];  // param, grad, states
  const void* scalars[n_scalars == 0 ? 1 : n_scalars][most];
  int64_t sizes[most];
  uint32_t first_blocks[most];
  uint8_t has_double_scalars[most];  // bit i is set if scalar i is double
};

// Updates `width` adjacent elements, block `i` of each tensor.
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
    if (t != 1) static_cast<Many*>(tensors[t])[i] = loaded[t];  // all except the gradient
  }
}

// A block processes `chunk` elements of one parameter; `chunk` is a multiple of the vectors of all
// threads of the block. Every tensor is aligned for vectors.
template <template <typename> class RuleOf, typename T, int most>
__global__ void update(
    Updates<RuleOf<Compute<T>>::kTensors, RuleOf<Compute<T>>::kScalars, most> updates,
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
    double scalars[2] = {0, 0};
    for (int s = 0; s < Rule::kScalars; ++s) {
      const bool is_double = (updates.has_double_scalars[which] >> s & 1) != 0;
      scalars[s] = ReadNumber(updates.scalars[s][which], is_double);
    }
    rule_of_step[0] = Rule::Of(attrs, ReadNumber(rate.at, rate.is_double != 0), scalars);
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

// The scalars to advance to the next step, each in its own dtype. A separate launch advances the
// scalars, since every block of the update reads them.
template <int n_scalars, int most>
struct NextScalars {
  void* at[n_scalars][most];
  uint8_t is_double[most];  // bit i is set if scalar i is double
};

// A thread reads all scalars of one parameter before it advances any of them.
template <template <typename> class RuleOf, int most>
__global__ void advance(const __grid_constant__ NextScalars<RuleOf<float>::kScalars, most> scalars,
                        Attributes attrs, int32_t n) {
  using Rule = RuleOf<float>;
  const int32_t i = static_cast<int32_t>(GlobalIndex());
  if (i >= n) return;
  double values[Rule::kScalars];
  for (int s = 0; s < Rule::kScalars; ++s) {
    values[s] = ReadNumber(scalars.at[s][i], (scalars.is_double[i] >> s & 1) != 0);
  }
  for (int s = 0; s < Rule::kScalars; ++s) {
    if ((scalars.is_double[i] >> s & 1) != 0) {
      *static_cast<double*>(scalars.at[s][i]) = Rule::Next(attrs, s, values[s], values);
    } else {
      const float value = static_cast<float>(values[s]);
      *static_cast<float*>(scalars.at[s][i]) = Rule::Next(attrs, s, value, values);
    }
  }
}
