// Tensors that are sent together, as if they were concatenated.
#ifndef OPWRIGHT_MPI_PIECES_H_
#define OPWRIGHT_MPI_PIECES_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace opwright_mpi {

// `Byte` is char for writing and const char for reading.
template <typename Byte>
class Pieces {
 public:
  void Clear() { pieces_.clear(); }
  void Add(Byte* data, int64_t bytes) {
    if (bytes == 0) return;
    pieces_.push_back({data, this->bytes(), this->bytes() + bytes});
  }
  // Adds a gap without a tensor; a gap reads as zeros and discards writes.
  void AddGap(int64_t bytes) { Add(nullptr, bytes); }
  int64_t bytes() const { return pieces_.empty() ? 0 : pieces_.back().end; }

  // Copies `count` bytes, starting at `begin`, to memory.
  void Read(int64_t begin, int64_t count, char* to) const {
    Visit(begin, count, [to](const char* data, int64_t at, int64_t n) {
      if (data != nullptr) std::memcpy(to + at, data, static_cast<size_t>(n));
      if (data == nullptr) std::memset(to + at, 0, static_cast<size_t>(n));
    });
  }
  // Copies memory to `count` bytes, starting at `begin`.
  void Write(int64_t begin, int64_t count, const char* from) const {
    Visit(begin, count, [from](char* data, int64_t at, int64_t n) {
      if (data != nullptr) std::memcpy(data, from + at, static_cast<size_t>(n));
    });
  }

 private:
  struct Piece {
    Byte* data;
    int64_t begin;
    int64_t end;
  };

  // Calls function(data, at, n) for the part of each piece that lies in the range. `at` is relative
  // to the start of the range; `data` is null for a gap.
  template <typename Function>
  void Visit(int64_t begin, int64_t count, const Function& function) const {
    const int64_t end = begin + count;
    auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), begin,
                                  [](int64_t at, const Piece& one) { return at < one.end; });
    for (int64_t at = begin; at < end; ++piece) {
      const int64_t n = std::min(end, piece->end) - at;
      Byte* data = piece->data == nullptr ? nullptr : piece->data + (at - piece->begin);
      function(data, at - begin, n);
      at += n;
    }
  }

  std::vector<Piece> pieces_;
};

using Source = Pieces<const char>;
using Target = Pieces<char>;

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_PIECES_H_
