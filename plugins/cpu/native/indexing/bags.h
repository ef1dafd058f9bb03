// Bags of ids: the range and the ids of each bag. Ids are checked before any row is read.
#ifndef OPWRIGHT_CPU_INDEXING_BAGS_H_
#define OPWRIGHT_CPU_INDEXING_BAGS_H_

#include <cstdint>

#include <opwright/sdk.hpp>

#include "common/whole_numbers.h"

namespace opwright_cpu {

// Slots 1 and 2 of embedding_bag and its gradient: index, and offsets if the index is [n].
class Bags {
 public:
  Bags(const opwright::RunContext& ctx, int64_t count)
      : ids_(ctx.input(1)),
        offsets_(ctx.has_input(2) ? WholeNumbers(ctx.input(2)) : ids_),
        has_offsets_(ctx.has_input(2)),
        count_(count),
        length_(count > 0 ? ids_.size() / count : 0) {}

  int64_t count() const { return count_; }
  int64_t n() const { return ids_.size(); }
  int64_t id(int64_t i) const { return ids_[i]; }
  int64_t begin(int64_t bag) const { return has_offsets_ ? offsets_[bag] : bag * length_; }
  int64_t end(int64_t bag) const {
    if (!has_offsets_) return (bag + 1) * length_;
    return bag + 1 < offsets_.size() ? offsets_[bag + 1] : ids_.size();
  }

  opwright::Status Check(int64_t rows) const {
    for (int64_t i = 0; i < ids_.size(); ++i) {
      if (ids_[i] < 0 || ids_[i] >= rows) {
        return opwright::Status::Error("index must be in [0, ", rows, "), got ", ids_[i]);
      }
    }
    int64_t before = 0;
    for (int64_t i = 0; has_offsets_ && i < offsets_.size(); ++i) {
      const int64_t offset = offsets_[i];
      if (i == 0 && offset != 0) {
        return opwright::Status::Error("offsets must begin with 0, got ", offset);
      }
      if (offset < before || offset > ids_.size()) {
        return opwright::Status::Error("offsets must rise from 0 to at most ", ids_.size(),
                                       ", got ", offset, " at ", i);
      }
      before = offset;
    }
    return opwright::Status::Ok();
  }

 private:
  WholeNumbers ids_, offsets_;
  bool has_offsets_;
  int64_t count_, length_;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_INDEXING_BAGS_H_
