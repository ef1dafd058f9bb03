// Updates looked-up rows of a table. This file is compiled without contraction, like the updates of
// complete parameters.
#include "adam_rules.h"
#include "adaptive_rules.h"
#include "listed.h"

using namespace opwright_cuda;

// Converts row indices to int64: -1 for the padding row and for rows out of range, which are
// reported.
template <typename Index>
__global__ void list_rows(int64_t* rows, const Index* given, int64_t n, int64_t count,
                          int64_t padding, Fault* fault, int32_t text) {
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    const auto row = static_cast<int64_t>(given[i]);
    const bool is_right = row >= 0 && row < count;
    if (!is_right) Report(fault, text, row);
    rows[i] = is_right && row != padding ? row : -1;
  }
}

// A table and its states, in the tensor order of the rule but without the gradient.
template <int n_tensors, int n_scalars>
struct Table {
  void* tensors[n_tensors];
  const void* scalars[n_scalars == 0 ? 1 : n_scalars];
  int64_t size;                // elements per row
  uint8_t has_double_scalars;  // bit i is set if scalar i is double
};

// A block updates one listed row; `sums` contains the gradient of each listed row.
template <template <typename> class RuleOf, typename T>
__global__ void update_rows(
    Table<RuleOf<Compute<T>>::kTensors - 1, RuleOf<Compute<T>>::kScalars> table,
    const Compute<T>* sums, Listed listed, Attributes attrs, Number rate) {
  using Rule = RuleOf<Compute<T>>;
  OW_SHARED(Rule, rule_of_step, 1);
  if (blockIdx.x >= listed.used->n_positions) return;  // true for the whole block
  if (threadIdx.x == 0) {
    double scalars[2] = {0, 0};
    for (int s = 0; s < Rule::kScalars; ++s) {
      scalars[s] = ReadNumber(table.scalars[s], (table.has_double_scalars >> s & 1) != 0);
    }
    rule_of_step[0] = Rule::Of(attrs, ReadNumber(rate.at, rate.is_double != 0), scalars);
  }
  __syncthreads();
  const Rule rule = rule_of_step[0];
  const int64_t first = listed.present[blockIdx.x] * table.size;
  for (int64_t column = threadIdx.x; column < table.size; column += blockDim.x) {
    Compute<T> values[Rule::kTensors];
#pragma unroll
    for (int t = 0; t < Rule::kTensors; ++t) {
      if (t != 1)
        values[t] = Load(static_cast<T*>(table.tensors[t > 1 ? t - 1 : 0])[first + column]);
    }
    values[1] = sums[blockIdx.x * table.size + column];
    rule.Update(values);
#pragma unroll
    for (int t = 0; t < Rule::kTensors; ++t) {
      if (t == 1) continue;
      static_cast<T*>(table.tensors[t > 1 ? t - 1 : 0])[first + column] = Store<T>(values[t]);
    }
  }
}
