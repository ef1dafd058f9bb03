// The rows of a table that lookups name, each once and dealt out to threads.
#ifndef OPWRIGHT_CPU_MOVEMENT_TOUCHED_ROWS_H_
#define OPWRIGHT_CPU_MOVEMENT_TOUCHED_ROWS_H_

#include <cstdint>

#include <opwright/sdk.hpp>

#include "movement/positions.h"

namespace opwright_cpu {

// A lookup of a row is a number in [0, n), counted through all index tensors. Lookups of one row
// are a chain in their order, and so are the rows of one thread, each as its first lookup. All of
// it lies in the workspace: a table of hashes, and a few numbers for each lookup. Nothing is as
// long as the table.
class TouchedRows {
 public:
  static constexpr int32_t kNone = -1;

  static uint64_t WorkspaceBytes(int64_t n);

  // Lists n lookups in `workspace`, which is aligned to 8 bytes.
  TouchedRows(int64_t n, void* workspace);

  // Says which rows lookups [first, first + n of index) name; those of `skipped` are left out.
  void Take(const Positions& index, int64_t n, int64_t first, int64_t skipped);

  // Finds the rows of one of n_threads threads; returns the first of them, or kNone. Every row has
  // one thread, whatever the order in which threads call it.
  int32_t Find(int32_t thread, int32_t n_threads);

  int64_t row(int32_t lookup) const { return rows_[lookup]; }
  int32_t next_row(int32_t lookup) const { return next_row_[lookup]; }
  int32_t next_of_row(int32_t lookup) const { return next_of_row_[lookup]; }

 private:
  uint64_t BucketOf(int64_t row) const;

  int64_t n_;
  int32_t bits_;          // of the number of buckets
  int64_t* rows_;         // of each lookup, -1: left out
  int32_t* buckets_;      // the last row that was found in it
  int32_t* in_bucket_;    // of a row: the one before it in its bucket
  int32_t* last_;         // of a row: its last lookup by now
  int32_t* next_row_;     // of a row: the next one of its thread
  int32_t* next_of_row_;  // of a lookup: the next one of its row
};

// sum += row, of n elements.
void AddRow(const float* row, float* sum, int64_t n);
void AddRow(const double* row, double* sum, int64_t n);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MOVEMENT_TOUCHED_ROWS_H_
