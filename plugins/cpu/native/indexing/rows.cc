#include "indexing/rows.h"

#include <algorithm>
#include <cstring>

#include "common/clones.h"
#include "common/parallel.h"
#include "movement/stream.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

constexpr int64_t kAhead = 8;  // prefetch distance in rows

// Prefetches a row, since the processor cannot predict irregular positions. The target is the L2
// cache, which allows more outstanding lines than the L1 cache.
OPWRIGHT_CPU_INLINE void FetchRow(const char* row, int64_t bytes) {
  for (int64_t i = 0; i < std::min<int64_t>(bytes, 512); i += 64) __builtin_prefetch(row + i, 0, 2);
}

template <typename Word, typename Index>
void CopyWords(const RowBlocks& blocks, const char* x, const Index* index, char* out, int64_t begin,
               int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    Word word;
    const int64_t place = FromFront(index[i], blocks.count);
    std::memcpy(&word, x + place * static_cast<int64_t>(sizeof(Word)), sizeof(Word));
    std::memcpy(out + i * static_cast<int64_t>(sizeof(Word)), &word, sizeof(Word));
  }
}

template <typename Index>
void CopyLongRows(const RowBlocks& blocks, const char* x, const Index* index, char* out,
                  int64_t begin, int64_t end) {
  const int64_t row = blocks.row;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t next = index[std::min(i + kAhead, end - 1)];
    FetchRow(x + FromFront(next, blocks.count) * row, row);
    std::memcpy(out + i * row, x + FromFront(index[i], blocks.count) * row,
                static_cast<size_t>(row));
  }
}

template <typename Index>
void CopyRange(const RowBlocks& blocks, const char* x, const Index* index, char* out, int64_t begin,
               int64_t end) {
  switch (blocks.row) {
    case 1:
      return CopyWords<uint8_t>(blocks, x, index, out, begin, end);
    case 2:
      return CopyWords<uint16_t>(blocks, x, index, out, begin, end);
    case 4:
      return CopyWords<uint32_t>(blocks, x, index, out, begin, end);
    case 8:
      return CopyWords<uint64_t>(blocks, x, index, out, begin, end);
    default:
      return CopyLongRows(blocks, x, index, out, begin, end);
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void AddRow(const T* row, T* out, int64_t n) {
  for (int64_t j = 0; j < n; ++j) out[j] += row[j];
}

// One thread's share of every block: some columns of the output rows [place_begin, place_end).
struct Share {
  int64_t place_begin;
  int64_t place_end;
  int64_t column_begin;
  int64_t column_end;
};

// Handles the special case of rows of one item and all output rows, without an inner loop.
template <typename T, typename Index>
void AddItems(const RowBlocks& blocks, const T* items, const Index* index, T* out) {
  for (int64_t i = 0; i < blocks.n; ++i) out[FromFront(index[i], blocks.count)] += items[i];
}

template <typename T, typename Index>
void AddBlock(const RowBlocks& blocks, const T* rows, const Index* index, T* out,
              const Share& share) {
  const int64_t row = blocks.row;
  if (row == 1 && share.place_end - share.place_begin == blocks.count) {
    return AddItems(blocks, rows, index, out);
  }
  const int64_t width = share.column_end - share.column_begin;
  for (int64_t i = 0; i < blocks.n; ++i) {
    const int64_t place = FromFront(index[i], blocks.count);
    if (place < share.place_begin || place >= share.place_end) continue;
    const T* from = rows + i * row + share.column_begin;
    T* to = out + place * row + share.column_begin;
    if (width < 8) {
      for (int64_t j = 0; j < width; ++j) to[j] += from[j];
    } else {
      const int64_t next = FromFront(index[std::min(i + kAhead, blocks.n - 1)], blocks.count);
      FetchRow(reinterpret_cast<const char*>(out + next * row + share.column_begin),
               width * static_cast<int64_t>(sizeof(T)));
      AddRow(from, to, width);
    }
  }
}

}  // namespace

void CopyRowsAt(const RowBlocks& blocks, const char* x, const Positions& index, char* out,
                int32_t n_threads) {
  if (blocks.row == 0 || blocks.n == 0) return;
  index.Visit([&](const auto* places) {
    const int64_t grain = kCopyGrainBytes / blocks.row + 1;
    ParallelFor(n_threads, blocks.outer * blocks.n, grain, 1, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin / blocks.n; o * blocks.n < end; ++o) {
        const int64_t first = o * blocks.n;
        CopyRange(blocks, x + o * blocks.count * blocks.row, places, out + first * blocks.row,
                  std::max(begin, first) - first, std::min(end, first + blocks.n) - first);
      }
    });
  });
}

template <typename T>
void AddRowsAt(const RowBlocks& blocks, const T* rows, const Positions& index, T* out,
               int32_t n_threads) {
  const auto item = static_cast<int64_t>(sizeof(T));
  const int64_t total = blocks.outer * blocks.count * blocks.row;
  if (total == 0) return;
  ZeroBytes(reinterpret_cast<char*>(out), total * item, n_threads);
  const int64_t added = blocks.outer * blocks.n * blocks.row;
  if (added == 0) return;
  index.Visit([&](const auto* places) {
    ParallelParts(n_threads, added * item, [&](int32_t thread, int32_t threads) {
      Share share{0, blocks.count, 0, blocks.row};
      Part outer{0, blocks.outer};
      if (blocks.outer >= threads) {
        outer = PartOf(blocks.outer, 1, thread, threads);
      } else if (blocks.row * item >= 512 * threads) {
        // Threads divide the columns, so the work is balanced however the positions are
        // distributed. Each part consists of complete cache lines of a compact table.
        const Part columns = PartOf(blocks.row, 64 / item, thread, threads);
        share.column_begin = columns.begin;
        share.column_end = columns.end;
      } else {
        const Part owned = PartOf(blocks.count, 1, thread, threads);
        share.place_begin = owned.begin;
        share.place_end = owned.end;
      }
      for (int64_t o = outer.begin; o < outer.end; ++o) {
        AddBlock(blocks, rows + o * blocks.n * blocks.row, places,
                 out + o * blocks.count * blocks.row, share);
      }
    });
  });
}

template void AddRowsAt<float>(const RowBlocks&, const float*, const Positions&, float*, int32_t);
template void AddRowsAt<double>(const RowBlocks&, const double*, const Positions&, double*,
                                int32_t);

}  // namespace opwright_cpu
