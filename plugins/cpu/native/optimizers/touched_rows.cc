#include "optimizers/touched_rows.h"

#include <algorithm>

#include "common/clones.h"
#include "common/parallel.h"

namespace opwright_cpu {
namespace {

// There are at least twice as many buckets as lookups so that few rows share a bucket.
int32_t BitsOf(int64_t n) {
  int32_t bits = 4;
  while ((int64_t{1} << bits) < 2 * n) ++bits;
  return bits;
}

template <typename T>
OPWRIGHT_CPU_CLONES void Add(const T* row, T* sum, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] += row[i];
}

}  // namespace

uint64_t TouchedRows::WorkspaceBytes(int64_t n) {
  return static_cast<uint64_t>(n) * (sizeof(int64_t) + sizeof(Entry)) +
         (uint64_t{1} << BitsOf(n)) * sizeof(int32_t);
}

TouchedRows::TouchedRows(int64_t n, void* workspace)
    : n_(n),
      bits_(BitsOf(n)),
      rows_(static_cast<int64_t*>(workspace)),
      entries_(reinterpret_cast<Entry*>(rows_ + n)),
      buckets_(reinterpret_cast<int32_t*>(entries_ + n)) {}

void TouchedRows::Take(const Positions& index, int64_t n, int64_t first, int64_t skipped) {
  index.Visit([&](const auto* positions) {
    for (int64_t i = 0; i < n; ++i) {
      const auto row = static_cast<int64_t>(positions[i]);
      rows_[first + i] = row == skipped ? kNone : row;
    }
  });
}

// Fibonacci hashing: the upper bits of a product with the golden ratio distribute rows evenly.
int64_t TouchedRows::BucketOf(int64_t row) const {
  return static_cast<int64_t>((static_cast<uint64_t>(row) * 0x9E3779B97F4A7C15u) >> (64 - bits_));
}

// Each thread owns a range of buckets, and thus all lookups of the rows in them. A thread first
// counts the entries of the previous threads, because its own entries follow them.
int32_t TouchedRows::Find(int32_t thread, int32_t n_threads) {
  const Part own = PartOf(int64_t{1} << bits_, 1, thread, n_threads);
  std::fill(buckets_ + own.begin, buckets_ + own.end, kNone);
  int32_t entry = 0;
  for (int64_t i = 0; i < n_ && thread > 0; ++i) {
    entry += rows_[i] != kNone && BucketOf(rows_[i]) < own.begin ? 1 : 0;
  }
  int32_t first = kNone;
  int32_t latest = kNone;
  for (int64_t i = 0; i < n_; ++i) {
    const int64_t row = rows_[i];
    const int64_t bucket = BucketOf(row);
    if (row == kNone || bucket < own.begin || bucket >= own.end) continue;
    int32_t known = buckets_[bucket];
    while (known != kNone && this->row(known) != row) known = entries_[known].in_bucket;
    entries_[entry] = Entry{static_cast<int32_t>(i), kNone, kNone, buckets_[bucket], entry};
    if (known != kNone) {
      entries_[entries_[known].last].next_of_row = entry;
      entries_[known].last = entry;
    } else {
      buckets_[bucket] = entry;
      (latest == kNone ? first : entries_[latest].next_row) = entry;
      latest = entry;
    }
    ++entry;
  }
  return first;
}

void AddRow(const float* row, float* sum, int64_t n) { Add(row, sum, n); }
void AddRow(const double* row, double* sum, int64_t n) { Add(row, sum, n); }

}  // namespace opwright_cpu
