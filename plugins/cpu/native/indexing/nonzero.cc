#include <cstring>

#include "common/attributes.h"
#include "common/clones.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

// Counts the elements in which one of `bits` is set; for floats, `bits` excludes the sign bit.
template <typename Word>
OPWRIGHT_CPU_CLONES int64_t Count(const Word* x, int64_t n, Word bits) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += (x[i] & bits) != 0;
  return count;
}

// A tensor as rows along its last axis. The output is [rank, n_found].
struct Rows {
  const std::vector<int64_t>* shape;
  int64_t length;
  int64_t n_found;
};

// Finds (end - at) nonzero elements in the rows starting at `begin`, and writes their positions to
// columns [at, end) of out.
template <typename Word>
void Find(const Word* x, Word bits, const Rows& rows, int64_t begin, int64_t at, int64_t end,
          int64_t* out) {
  const size_t rank = rows.shape->size();
  int64_t* last = out + static_cast<int64_t>(rank - 1) * rows.n_found;
  for (int64_t row = begin; at < end; ++row) {
    const int64_t first = at;
    const Word* line = x + row * rows.length;
    // Every position is written; unless its element is nonzero, the next position overwrites it. A
    // branch would be unpredictable. The loop ends with the last nonzero element.
    for (int64_t j = 0; j < rows.length && at < end; ++j) {
      last[at] = j;
      at += (line[j] & bits) != 0;
    }
    int64_t rest = row;
    for (size_t axis = rank - 1; axis-- > 0;) {
      const int64_t place = rest % (*rows.shape)[axis];
      rest /= (*rows.shape)[axis];
      int64_t* line_out = out + static_cast<int64_t>(axis) * rows.n_found;
      for (int64_t k = first; k < at; ++k) line_out[k] = place;
    }
  }
}

template <typename T>
struct NonzeroKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs&) {
    const opwright::Meta x = ctx.input(0);
    shape_ = x.shape().dims();
    item_bytes_ = ItemBytes(x.dtype());
    is_float_ = x.dtype().code == kDLFloat || x.dtype().code == kDLBfloat;
    n_rows_ = x.numel() == 0 ? 0 : x.numel() / shape_.back();
    // The workspace has one count per thread.
    ctx.SetWorkspace(static_cast<uint64_t>(ctx.n_threads()) * sizeof(int64_t));
    ctx.SetEstimate(MoveNanoseconds(x.numel() * (item_bytes_ + 8), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const NoAttrs&) const {
    switch (item_bytes_) {
      case 1:
        return RunTyped<uint8_t>(ctx);
      case 2:
        return RunTyped<uint16_t>(ctx);
      case 4:
        return RunTyped<uint32_t>(ctx);
      default:
        return RunTyped<uint64_t>(ctx);
    }
  }

  template <typename Word>
  opwright::Status RunTyped(const opwright::RunContext& ctx) const {
    const auto all = static_cast<Word>(~Word{0});
    const Word bits = is_float_ ? static_cast<Word>(all >> 1) : all;
    const Word* x = static_cast<const Word*>(ctx.input(0).raw());
    const int64_t length = shape_.back();
    auto* found = ctx.workspace<int64_t>();
    const int64_t grain_rows = kElementGrain / std::max<int64_t>(length, 1) + 1;
    const auto threads =
        static_cast<int32_t>(std::clamp<int64_t>(n_rows_ / grain_rows, 1, ctx.n_threads()));
    // Both passes use the same parts, even if they run in fewer threads.
    const auto each_part = [&](const auto& function) {
      Parallel(threads, [&](int32_t thread, int32_t count) {
        for (int32_t part = thread; part < threads; part += count) {
          function(part, PartOf(n_rows_, 1, part, threads));
        }
      });
    };
    each_part([&](int32_t part, const Part& rows) {
      found[part] = Count(x + rows.begin * length, (rows.end - rows.begin) * length, bits);
    });
    int64_t total = 0;
    for (int32_t part = 0; part < threads; ++part) total += found[part];
    const auto rank = static_cast<int64_t>(shape_.size());
    OPWRIGHT_RETURN_IF_ERROR(ctx.Resize(0, opwright::Shape{rank, total}));
    if (total == 0) return opwright::Status::Ok();
    int64_t* out = ctx.output(0).data<int64_t>();
    each_part([&](int32_t part, const Part& rows) {
      int64_t at = 0;
      for (int32_t before = 0; before < part; ++before) at += found[before];
      Find(x, bits, Rows{&shape_, length, total}, rows.begin, at, at + found[part], out);
    });
    return opwright::Status::Ok();
  }

  std::vector<int64_t> shape_;
  int64_t item_bytes_ = 1;
  int64_t n_rows_ = 0;
  bool is_float_ = false;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("nonzero", "cpu", opwright_cpu::NonzeroKernel, opwright::AnyDtype);
