// The rows of a table that lookups name, each once and dealt out to threads.
#ifndef OPWRIGHT_CPU_OPTIMIZERS_TOUCHED_ROWS_H_
#define OPWRIGHT_CPU_OPTIMIZERS_TOUCHED_ROWS_H_

#include <cstdint>

#include <opwright/sdk.hpp>

#include "indexing/positions.h"

namespace opwright_cpu {

// Lookups are counted through all index tensors. Each thread lists those of its rows as entries, in
// their order: those of one row are a chain, and so are its rows, each as its first entry.
// Everything is in the workspace: a table of hashes, and a few numbers for each lookup. Nothing is
// as long as the table. The data that a thread writes is contiguous, so that threads do not contend
// for cache lines.
class TouchedRows {
 public:
  static constexpr int32_t kNone = -1;

  static uint64_t WorkspaceBytes(int64_t n);

  // Lists n lookups in `workspace`, which is aligned to 8 bytes.
  TouchedRows(int64_t n, void* workspace);

  // Determines the rows of lookups [first, first + n of index), without those of row `skipped`.
  void Take(const Positions& index, int64_t n, int64_t first, int64_t skipped);

  // Finds the rows of one of n_threads threads; returns the first of them, or kNone. Every row has
  // one thread, for any order of calls.
  int32_t Find(int32_t thread, int32_t n_threads);

  int64_t row(int32_t entry) const { return rows_[entries_[entry].lookup]; }
  int32_t lookup(int32_t entry) const { return entries_[entry].lookup; }
  int32_t next_row(int32_t entry) const { return entries_[entry].next_row; }
  int32_t next_of_row(int32_t entry) const { return entries_[entry].next_of_row; }

 private:
  struct Entry {
    int32_t lookup;
    int32_t next_of_row;
    int32_t next_row;   // of the first entry of a row: that of the next row
    int32_t in_bucket;  // of the first entry of a row: that of the row before it in its bucket
    int32_t last;       // of the first entry of a row: its last one by now
  };

  int64_t BucketOf(int64_t row) const;

  int64_t n_;
  int32_t bits_;      // of the number of buckets
  int64_t* rows_;     // of each lookup, -1: left out
  Entry* entries_;    // n of them: those of the first thread, of the second one, ...
  int32_t* buckets_;  // the first entry of the row that was last found in it
};

// sum += row, of n elements.
void AddRow(const float* row, float* sum, int64_t n);
void AddRow(const double* row, double* sum, int64_t n);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_OPTIMIZERS_TOUCHED_ROWS_H_
