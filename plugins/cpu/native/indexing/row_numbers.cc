#include "indexing/row_numbers.h"

#include <atomic>

#include "common/parallel.h"
#include "indexing/positions.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

template <typename Index>
bool FindPart(const std::vector<int64_t>& dims, const Index* index, int64_t* numbers, int64_t begin,
              int64_t end) {
  const auto k = static_cast<int64_t>(dims.size());
  bool is_wrong = false;
  for (int64_t i = begin; i < end; ++i) {
    int64_t number = 0;
    for (int64_t c = 0; c < k; ++c) {
      const int64_t dim = dims[static_cast<size_t>(c)];
      const auto position = static_cast<int64_t>(index[i * k + c]);
      is_wrong |= position < -dim || position >= dim;
      number = number * dim + FromFront(position, dim);
    }
    numbers[i] = number;
  }
  return !is_wrong;
}

}  // namespace

IndexedRows::IndexedRows(const std::vector<int64_t>& x, const std::vector<int64_t>& index) {
  const auto k = static_cast<size_t>(index.back());
  dims.assign(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(k));
  count = Product(x, 0, k);
  row = Product(x, k, x.size());
  n = Product(index, 0, index.size() - 1);
}

opwright::Status IndexedRows::Find(const opwright::InputTensor& index, int64_t* numbers,
                                   int32_t n_threads) const {
  const auto k = static_cast<int64_t>(dims.size());
  const Positions positions(index, n * k);
  std::atomic<bool> is_right{true};
  positions.Visit([&](const auto* data) {
    ParallelFor(n_threads, n, kElementGrain, 1, [&](int64_t begin, int64_t end) {
      if (!FindPart(dims, data, numbers, begin, end)) is_right = false;
    });
  });
  if (is_right) return opwright::Status::Ok();
  for (int64_t i = 0; i < n * k; ++i) {
    const int64_t dim = dims[static_cast<size_t>(i % k)];
    if (positions[i] >= -dim && positions[i] < dim) continue;
    return opwright::Status::Error("index[..., ", i % k, "] must be in [", -dim, ", ", dim,
                                   "), got ", positions[i]);
  }
  return opwright::Status::Ok();
}

}  // namespace opwright_cpu
