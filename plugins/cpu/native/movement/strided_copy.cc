#include "movement/strided_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/clones.h"
#include "common/parallel.h"
#include "movement/stream.h"
#include "movement/tensors.h"
#include "movement/tiles.h"

namespace opwright_cpu {
namespace {

// Copies rows of one to two words as two words that may overlap; this is cheaper than a call.
template <typename Word>
void CopyShortRows(const char* source, char* destination, const CopyAxis& outer,
                   const CopyAxis& inner) {
  const int64_t last = inner.length * inner.destination - static_cast<int64_t>(sizeof(Word));
  for (int64_t i = 0; i < outer.length; ++i) {
    Word first;
    Word second;
    std::memcpy(&first, source, sizeof(Word));
    std::memcpy(&second, source + last, sizeof(Word));
    std::memcpy(destination, &first, sizeof(Word));
    std::memcpy(destination + last, &second, sizeof(Word));
    source += outer.source;
    destination += outer.destination;
  }
}

void CopyRows(const char* source, char* destination, const CopyAxis& outer, const CopyAxis& inner) {
  const auto n = static_cast<size_t>(inner.length * inner.destination);
  for (int64_t i = 0; i < outer.length; ++i) {
    std::memcpy(destination + i * outer.destination, source + i * outer.source, n);
  }
}

void StreamRows(const char* source, char* destination, const CopyAxis& outer,
                const CopyAxis& inner) {
  const int64_t n = inner.length * inner.destination;
  for (int64_t i = 0; i < outer.length; ++i) {
    StreamCopy(source + i * outer.source, destination + i * outer.destination, n);
  }
}

template <typename T>
void FillRows(const char* source, char* destination, const CopyAxis& outer, const CopyAxis& inner) {
  for (int64_t i = 0; i < outer.length; ++i) {
    T value;
    std::memcpy(&value, source + i * outer.source, sizeof(T));
    char* row = destination + i * outer.destination;
    for (int64_t j = 0; j < inner.length; ++j) {
      std::memcpy(row + j * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
    }
  }
}

// The type of a short row that is copied as a single, possibly unaligned item.
template <typename T>
struct Unaligned {
  // NOLINTNEXTLINE(modernize-use-using): GCC ignores attributes of dependent types there
  typedef T Item __attribute__((aligned(1), may_alias));
};

// Copies rows that are read backward, reversing items in registers.
template <typename T>
OPWRIGHT_CPU_CLONES void ReverseRow(const char* last, char* destination, int64_t n) {
  const auto* from = reinterpret_cast<const typename Unaligned<T>::Item*>(last);
  auto* to = reinterpret_cast<typename Unaligned<T>::Item*>(destination);
  for (int64_t j = 0; j < n; ++j) to[j] = from[-j];
}

template <typename T>
void ReverseRows(const char* source, char* destination, const CopyAxis& outer,
                 const CopyAxis& inner) {
  for (int64_t i = 0; i < outer.length; ++i) {
    ReverseRow<T>(source + i * outer.source, destination + i * outer.destination, inner.length);
  }
}

// Copies a row of items that are `step` items apart; cache lines are read in order.
template <typename T>
OPWRIGHT_CPU_CLONES void StepRow(const char* first, char* destination, int64_t n, int64_t step) {
  const auto* from = reinterpret_cast<const typename Unaligned<T>::Item*>(first);
  auto* to = reinterpret_cast<typename Unaligned<T>::Item*>(destination);
  if (step == 2) {
    for (int64_t j = 0; j < n; ++j) to[j] = from[2 * j];
  } else {
    for (int64_t j = 0; j < n; ++j) to[j] = from[step * j];
  }
}

template <typename T>
void StepRows(const char* source, char* destination, const CopyAxis& outer, const CopyAxis& inner) {
  const int64_t step = inner.source / inner.destination;
  for (int64_t i = 0; i < outer.length; ++i) {
    StepRow<T>(source + i * outer.source, destination + i * outer.destination, inner.length, step);
  }
}

// Interleaves a few planes, such as the color channels of images, into a dense output.
template <typename T, int64_t kPlanes>
OPWRIGHT_CPU_CLONES void InterleavePlanes(const char* first, int64_t stride, char* destination,
                                          int64_t n) {
  using Item = typename Unaligned<T>::Item;
  const Item* from[kPlanes];
  for (int64_t c = 0; c < kPlanes; ++c) {
    from[c] = reinterpret_cast<const Item*>(first + c * stride);
  }
  auto* to = reinterpret_cast<Item*>(destination);
#pragma GCC ivdep
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t c = 0; c < kPlanes; ++c) to[j * kPlanes + c] = from[c][j];
  }
}

// Interleaves planes: `outer` runs along a plane, `inner` over the planes.
template <typename T>
void InterleaveRows(const char* source, char* destination, const CopyAxis& outer,
                    const CopyAxis& inner) {
  switch (inner.length) {
    case 2:
      return InterleavePlanes<T, 2>(source, inner.source, destination, outer.length);
    case 3:
      return InterleavePlanes<T, 3>(source, inner.source, destination, outer.length);
    default:
      return InterleavePlanes<T, 4>(source, inner.source, destination, outer.length);
  }
}

template <typename T>
void CopyItems(const char* source, char* destination, const CopyAxis& outer,
               const CopyAxis& inner) {
  // The longer axis becomes the inner one.
  const bool swap = outer.length > inner.length;
  const CopyAxis& slow = swap ? inner : outer;
  const CopyAxis& fast = swap ? outer : inner;
  for (int64_t i = 0; i < slow.length; ++i) {
    const char* from = source + i * slow.source;
    char* to = destination + i * slow.destination;
    for (int64_t j = 0; j < fast.length; ++j) {
      std::memcpy(to, from, sizeof(T));
      from += fast.source;
      to += fast.destination;
    }
  }
}

template <typename T, bool kStream>
void CopyWholeTiles(const char* source, char* destination, const CopyAxis& outer,
                    const CopyAxis& inner) {
  constexpr int64_t kLanes = Register<T>::kLanes;
  constexpr int64_t kItem = sizeof(T);
  for (int64_t i = 0; i + kLanes <= outer.length; i += kLanes) {
    const char* from = source + i * kItem;
    char* to = destination + i * outer.destination;
    for (int64_t j = 0; j + kLanes <= inner.length; j += kLanes) {
      TransposeTile<T, kStream>(from + j * inner.source, inner.source, to + j * kItem,
                                outer.destination);
    }
  }
}

// Copies tiles: items along `outer` are adjacent in the source, items along `inner` in the
// destination.
template <typename T, bool kStream>
void CopyTiles(const char* source, char* destination, const CopyAxis& outer,
               const CopyAxis& inner) {
  constexpr int64_t kLanes = Register<T>::kLanes;
  constexpr int64_t kItem = sizeof(T);
  const int64_t n_outer = outer.length / kLanes * kLanes;
  const int64_t n_inner = inner.length / kLanes * kLanes;
  // Only complete lines are streamed, since streaming a part of a line would require reading and
  // merging the rest.
  const bool lines = (reinterpret_cast<uintptr_t>(destination) |
                      static_cast<uintptr_t>(outer.destination | inner.length * kItem)) %
                         64 ==
                     0;
  if (kStream && lines) {
    CopyWholeTiles<T, true>(source, destination, outer, inner);
  } else {
    CopyWholeTiles<T, false>(source, destination, outer, inner);
  }
  if (n_inner < inner.length) {
    CopyItems<T>(source + n_inner * inner.source, destination + n_inner * kItem,
                 CopyAxis{n_outer, kItem, outer.destination},
                 CopyAxis{inner.length - n_inner, inner.source, kItem});
  }
  if (n_outer < outer.length) {
    CopyItems<T>(source + n_outer * kItem, destination + n_outer * outer.destination,
                 CopyAxis{outer.length - n_outer, kItem, outer.destination}, inner);
  }
}

struct Wide {
  uint64_t words[2];
};
struct TwoWide {
  Wide words[2];
};

using CopyFunction = void (*)(const char*, char*, const CopyAxis&, const CopyAxis&);

// Selects the template instance for the item size.
#define OPWRIGHT_CPU_BY_SIZE(function, item_bytes)                      \
  ((item_bytes) == 1   ? static_cast<CopyFunction>(&function<uint8_t>)  \
   : (item_bytes) == 2 ? static_cast<CopyFunction>(&function<uint16_t>) \
   : (item_bytes) == 4 ? static_cast<CopyFunction>(&function<uint32_t>) \
   : (item_bytes) == 8 ? static_cast<CopyFunction>(&function<uint64_t>) \
                       : static_cast<CopyFunction>(&function<Wide>))

CopyFunction SelectRowKernel(int64_t row_bytes, bool stream) {
  if (row_bytes > 64) return stream && row_bytes >= kLeastStreamBytes ? &StreamRows : &CopyRows;
  if (row_bytes >= 32) return &CopyShortRows<TwoWide>;
  if (row_bytes >= 16) return &CopyShortRows<Wide>;
  if (row_bytes >= 8) return &CopyShortRows<uint64_t>;
  if (row_bytes >= 4) return &CopyShortRows<uint32_t>;
  if (row_bytes >= 2) return &CopyShortRows<uint16_t>;
  return &CopyShortRows<uint8_t>;
}

CopyFunction SelectReverseKernel(int64_t item_bytes) {
  if (item_bytes == 1) return &ReverseRows<uint8_t>;
  if (item_bytes == 2) return &ReverseRows<uint16_t>;
  return item_bytes == 4 ? &ReverseRows<uint32_t> : &ReverseRows<uint64_t>;
}

CopyFunction SelectStepKernel(int64_t item_bytes) {
  if (item_bytes == 1) return &StepRows<uint8_t>;
  if (item_bytes == 2) return &StepRows<uint16_t>;
  return item_bytes == 4 ? &StepRows<uint32_t> : &StepRows<uint64_t>;
}

bool IsInterleaved(int64_t item_bytes, const CopyAxis& outer, const CopyAxis& inner) {
  return item_bytes <= 4 && inner.length >= 2 && inner.length <= 4 && outer.source == item_bytes &&
         outer.destination == inner.length * item_bytes;
}

CopyFunction SelectInterleaveKernel(int64_t item_bytes) {
  if (item_bytes == 1) return &InterleaveRows<uint8_t>;
  return item_bytes == 2 ? &InterleaveRows<uint16_t> : &InterleaveRows<uint32_t>;
}

CopyFunction SelectTileKernel(int64_t item_bytes, bool stream) {
  // A tile of bytes has more rows than the processor has write-combining buffers.
  if (item_bytes == 1) return &CopyTiles<uint8_t, false>;
  if (item_bytes == 2) return stream ? &CopyTiles<uint16_t, true> : &CopyTiles<uint16_t, false>;
  if (item_bytes == 4) return stream ? &CopyTiles<uint32_t, true> : &CopyTiles<uint32_t, false>;
  return stream ? &CopyTiles<uint64_t, true> : &CopyTiles<uint64_t, false>;
}

int64_t Lanes(int64_t item_bytes) { return 16 / item_bytes; }

constexpr int64_t kLeastReversed = 8;       // row length from which a separate loop is faster
constexpr int64_t kLongestStep = 16;        // maximum step between items read from one line
constexpr int64_t kUnitBytes = 32 * 1024;   // a unit of work fits into the L1 cache
constexpr int64_t kLongBytes = 256 * 1024;  // longer rows are split
constexpr int64_t kTileItems = 64;          // a tile of 64 x 64 floats reads and writes 16 KiB

}  // namespace

StridedCopy::StridedCopy(int64_t item_bytes, std::vector<CopyAxis> axes)
    : item_bytes_(item_bytes), bytes_(item_bytes), axes_(std::move(axes)) {
  for (const CopyAxis& axis : axes_) bytes_ *= axis.length;
  if (bytes_ == 0) return;
  Simplify();
  stream_ = bytes_ >= kStreamBytes;
  if (!axes_.empty()) {
    inner_ = axes_.back();
    axes_.pop_back();
  } else {
    inner_ = CopyAxis{1, item_bytes_, item_bytes_};
  }
  size_t chosen = axes_.size();  // the second axis of a unit, besides `inner_`
  if (chosen > 0) --chosen;
  if (inner_.destination != item_bytes_) {
    kernel_ = OPWRIGHT_CPU_BY_SIZE(CopyItems, item_bytes_);
  } else if (inner_.source == item_bytes_) {
    kernel_ = SelectRowKernel(inner_.length * item_bytes_, stream_);
  } else if (inner_.source == 0) {
    kernel_ = OPWRIGHT_CPU_BY_SIZE(FillRows, item_bytes_);
  } else if (inner_.source == -item_bytes_ && item_bytes_ <= 8 && inner_.length >= kLeastReversed) {
    kernel_ = SelectReverseKernel(item_bytes_);
  } else {
    kernel_ = OPWRIGHT_CPU_BY_SIZE(CopyItems, item_bytes_);
    // Short rows that are copied as one item can overlap if they are closer together than their
    // length.
    const bool is_step = inner_.source > 0 && inner_.source <= kLongestStep * item_bytes_ &&
                         inner_.source % item_bytes_ == 0 && item_bytes_ <= 8 &&
                         inner_.length >= kLeastReversed;
    if (is_step) kernel_ = SelectStepKernel(item_bytes_);
    for (size_t i = 0; i < axes_.size(); ++i) {
      if (axes_[i].source != item_bytes_) continue;
      kernel_ = OPWRIGHT_CPU_BY_SIZE(CopyItems, item_bytes_);
      chosen = i;  // one of the loops must read adjacent items
      const int64_t lanes = Lanes(item_bytes_);
      if (IsInterleaved(item_bytes_, axes_[i], inner_)) {
        kernel_ = SelectInterleaveKernel(item_bytes_);
      } else if (item_bytes_ <= 8 && axes_[i].length >= lanes && inner_.length >= lanes) {
        is_tiled_ = true;
      }
    }
  }
  if (!axes_.empty()) {
    outer_ = axes_[chosen];
    axes_.erase(axes_.begin() + static_cast<std::ptrdiff_t>(chosen));
  }
  if (is_tiled_) {
    // Short rows are not streamed, since they are written from front to back anyway.
    stream_ = stream_ && inner_.length > kTileItems;
    kernel_ = SelectTileKernel(item_bytes_, stream_);
  }
  SplitUnits();
}

void StridedCopy::Simplify() {
  auto& axes = axes_;
  axes.erase(std::remove_if(axes.begin(), axes.end(),
                            [](const CopyAxis& axis) { return axis.length == 1; }),
             axes.end());
  std::stable_sort(axes.begin(), axes.end(), [](const CopyAxis& a, const CopyAxis& b) {
    return std::abs(a.destination) > std::abs(b.destination);
  });
  for (size_t i = axes.size(); i-- > 1;) {
    CopyAxis& outer = axes[i - 1];
    const CopyAxis& inner = axes[i];
    if (outer.source == inner.source * inner.length &&
        outer.destination == inner.destination * inner.length) {
      outer = CopyAxis{outer.length * inner.length, inner.source, inner.destination};
      axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  // A short contiguous row is treated as one larger item.
  if (axes.size() > 1 && axes.back().source == item_bytes_ &&
      axes.back().destination == item_bytes_) {
    const int64_t row = axes.back().length * item_bytes_;
    if (row == 2 || row == 4 || row == 8 || row == 16) {
      item_bytes_ = row;
      axes.pop_back();
    }
  }
}

void StridedCopy::SplitUnits() {
  if (is_tiled_) {
    // With streaming, a unit is one cache line wide, so only few source rows are in use at a time.
    inner_piece_ = std::min(inner_.length, stream_ ? 64 / item_bytes_ : kTileItems);
    outer_piece_ = std::min(outer_.length, 4 * kTileItems);
  } else if (inner_.length * item_bytes_ >= kLongBytes) {
    inner_piece_ = kLongBytes / item_bytes_;
    outer_piece_ = 1;
  } else {
    inner_piece_ = inner_.length;
    outer_piece_ =
        std::clamp<int64_t>(kUnitBytes / (inner_.length * item_bytes_), 1, outer_.length);
  }
  n_inner_pieces_ = (inner_.length + inner_piece_ - 1) / inner_piece_;
  n_outer_pieces_ = (outer_.length + outer_piece_ - 1) / outer_piece_;
  n_units_ = n_inner_pieces_ * n_outer_pieces_;
  for (const CopyAxis& axis : axes_) n_units_ *= axis.length;
}

void StridedCopy::RunPart(const char* source, char* destination, int32_t thread,
                          int32_t n_threads) const {
  const Part part = PartOf(n_units_, 1, thread, n_threads);
  for (int64_t unit = part.begin; unit < part.end; ++unit) {
    // Units are large, so these few divisions are negligible.
    int64_t rest = unit / n_inner_pieces_;
    const int64_t inner = unit % n_inner_pieces_ * inner_piece_;
    const int64_t outer = rest % n_outer_pieces_ * outer_piece_;
    rest /= n_outer_pieces_;
    const char* from = source + inner * inner_.source + outer * outer_.source;
    char* to = destination + inner * inner_.destination + outer * outer_.destination;
    for (size_t i = axes_.size(); i-- > 0;) {
      const int64_t place = rest % axes_[i].length;
      rest /= axes_[i].length;
      from += place * axes_[i].source;
      to += place * axes_[i].destination;
    }
    kernel_(
        from, to,
        CopyAxis{std::min(outer_piece_, outer_.length - outer), outer_.source, outer_.destination},
        CopyAxis{std::min(inner_piece_, inner_.length - inner), inner_.source, inner_.destination});
  }
  if (stream_) StreamFence();
}

void StridedCopy::Run(const char* source, char* destination, int32_t n_threads) const {
  ParallelParts(n_threads, bytes_, [&](int32_t thread, int32_t threads) {
    RunPart(source, destination, thread, threads);
  });
}

}  // namespace opwright_cpu
