// The distinct rows of a table that occur in lookups, distributed among threads.
#ifndef OPWRIGHT_CPU_OPTIMIZERS_TOUCHED_ROWS_H_
#define OPWRIGHT_CPU_OPTIMIZERS_TOUCHED_ROWS_H_

#include <cstdint>

#include <opwright/sdk.hpp>

#include "indexing/positions.h"

namespace opwright_cpu {

// Lookups are numbered across all index tensors. Each thread lists the lookups of its rows as
// entries, in order. The entries of one row form a linked list, and the first entries of a thread's
// rows form another list. All data is in the workspace, which holds a hash table and a few integers
// per lookup; its size does not depend on the size of the table. Each thread writes contiguous
// data, so threads do not contend for cache lines.
class TouchedRows {
 public:
  static constexpr int32_t kNone = -1;

  static uint64_t WorkspaceBytes(int64_t n);

  // Makes an empty list for n lookups in `workspace`, which must be aligned to 8 bytes.
  TouchedRows(int64_t n, void* workspace);

  // Records the rows of the lookups [first, first + n), which are the n elements of `index`.
  // Lookups of row `skipped` are omitted.
  void Take(const Positions& index, int64_t n, int64_t first, int64_t skipped);

  // Finds the rows that belong to one of n_threads threads and returns the first entry, or kNone.
  // Every row belongs to exactly one thread, for any order of calls.
  int32_t Find(int32_t thread, int32_t n_threads);

  int64_t row(int32_t entry) const { return rows_[entries_[entry].lookup]; }
  int32_t lookup(int32_t entry) const { return entries_[entry].lookup; }
  int32_t next_row(int32_t entry) const { return entries_[entry].next_row; }
  int32_t next_of_row(int32_t entry) const { return entries_[entry].next_of_row; }

 private:
  struct Entry {
    int32_t lookup;
    int32_t next_of_row;
    int32_t next_row;   // in a row's first entry: the first entry of the next row
    int32_t in_bucket;  // in a row's first entry: the first entry of the previous row in its bucket
    int32_t last;       // in a row's first entry: the row's last entry so far
  };

  int64_t BucketOf(int64_t row) const;

  int64_t n_;
  int32_t bits_;      // log2 of the number of buckets
  int64_t* rows_;     // row of each lookup; -1 if it is skipped
  Entry* entries_;    // n entries, grouped by thread
  int32_t* buckets_;  // first entry of the row that was last added to each bucket
};

// Adds the n elements of `row` to `sum`.
void AddRow(const float* row, float* sum, int64_t n);
void AddRow(const double* row, double* sum, int64_t n);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_OPTIMIZERS_TOUCHED_ROWS_H_
