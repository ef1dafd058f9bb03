#include "movement/touched_rows.h"

#include <algorithm>

#include "common/clones.h"
#include "common/parallel.h"

namespace opwright_cpu {
namespace {

constexpr int kPerLookup = 4;  // arrays of int32_t

int32_t BitsOf(int64_t n) {
  int32_t bits = 4;
  while ((int64_t{1} << bits) < n) ++bits;
  return bits;
}

template <typename T>
OPWRIGHT_CPU_CLONES void Add(const T* row, T* sum, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] += row[i];
}

}  // namespace

uint64_t TouchedRows::WorkspaceBytes(int64_t n) {
  const uint64_t numbers = static_cast<uint64_t>(n) * kPerLookup + (uint64_t{1} << BitsOf(n));
  return static_cast<uint64_t>(n) * sizeof(int64_t) + numbers * sizeof(int32_t);
}

TouchedRows::TouchedRows(int64_t n, void* workspace)
    : n_(n),
      bits_(BitsOf(n)),
      rows_(static_cast<int64_t*>(workspace)),
      buckets_(reinterpret_cast<int32_t*>(rows_ + n)),
      in_bucket_(buckets_ + (int64_t{1} << bits_)),
      last_(in_bucket_ + n),
      next_row_(last_ + n),
      next_of_row_(next_row_ + n) {}

void TouchedRows::Take(const Positions& index, int64_t n, int64_t first, int64_t skipped) {
  index.Visit([&](const auto* positions) {
    for (int64_t i = 0; i < n; ++i) {
      const auto row = static_cast<int64_t>(positions[i]);
      rows_[first + i] = row == skipped ? kNone : row;
    }
  });
}

// The upper bits of a product with the golden ratio: neighbours lie far apart.
uint64_t TouchedRows::BucketOf(int64_t row) const {
  return (static_cast<uint64_t>(row) * 0x9E3779B97F4A7C15u) >> (64 - bits_);
}

// A thread has a range of the buckets, so that it has every lookup of its rows.
int32_t TouchedRows::Find(int32_t thread, int32_t n_threads) {
  const Part own = PartOf(int64_t{1} << bits_, 1, thread, n_threads);
  std::fill(buckets_ + own.begin, buckets_ + own.end, kNone);
  int32_t first = kNone;
  int32_t latest = kNone;
  for (int64_t i = 0; i < n_; ++i) {
    const int64_t row = rows_[i];
    const auto bucket = static_cast<int64_t>(BucketOf(row));
    if (row == kNone || bucket < own.begin || bucket >= own.end) continue;
    const auto lookup = static_cast<int32_t>(i);
    next_of_row_[lookup] = kNone;
    int32_t known = buckets_[bucket];
    while (known != kNone && rows_[known] != row) known = in_bucket_[known];
    if (known != kNone) {
      next_of_row_[last_[known]] = lookup;
      last_[known] = lookup;
      continue;
    }
    in_bucket_[lookup] = buckets_[bucket];
    buckets_[bucket] = lookup;
    last_[lookup] = lookup;
    next_row_[lookup] = kNone;
    (latest == kNone ? first : next_row_[latest]) = lookup;
    latest = lookup;
  }
  return first;
}

void AddRow(const float* row, float* sum, int64_t n) { Add(row, sum, n); }
void AddRow(const double* row, double* sum, int64_t n) { Add(row, sum, n); }

}  // namespace opwright_cpu
