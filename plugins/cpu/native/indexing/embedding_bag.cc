// embedding_bag: sums, means or maxima of table rows per bag, and its gradients.
#include <algorithm>
#include <cstring>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "indexing/attributes.h"
#include "indexing/bags.h"

namespace opwright_cpu {
namespace {

constexpr int64_t kAhead = 8;     // prefetch distance in rows
constexpr int64_t kColumns = 16;  // a thread's columns are a multiple of this, a cache line or more

template <typename T>
OPWRIGHT_CPU_CLONES void AddScaledRow(int64_t n, const T* row, T scale, T* sums) {
  for (int64_t i = 0; i < n; ++i) sums[i] += row[i] * scale;
}

template <typename T>
OPWRIGHT_CPU_CLONES void AddPlainRow(int64_t n, const T* row, T* sums) {
  for (int64_t i = 0; i < n; ++i) sums[i] += row[i];
}

template <typename T>
OPWRIGHT_CPU_CLONES void DivideRow(int64_t n, T by, T* row) {
  for (int64_t i = 0; i < n; ++i) row[i] /= by;
}

// Replaces the elements of `most` by greater elements of `row`; NaN is greater than every number.
template <typename T>
OPWRIGHT_CPU_CLONES void TakeGreater(int64_t n, const T* row, T* most) {
  for (int64_t i = 0; i < n; ++i) most[i] = row[i] > most[i] || row[i] != row[i] ? row[i] : most[i];
}

template <typename T>
OPWRIGHT_CPU_CLONES T Dot(int64_t n, const T* a, const T* b) {
  T parts[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int64_t k = 0; k < 16; ++k) parts[k] += a[i + k] * b[i + k];
  }
  T sum = 0;
  for (; i < n; ++i) sum += a[i] * b[i];
  for (int64_t k = 0; k < 16; ++k) sum += parts[k];
  return sum;
}

struct BagTable {
  int64_t rows = 0, columns = 0, count = 0;
  bool is_max = false, is_mean = false;

  void Make(const opwright::Shape& weight, const opwright::Shape& out,
            const EmbeddingBagAttrs& attrs) {
    rows = weight.dim(0);
    columns = weight.dim(1);
    count = out.dim(0);
    is_max = attrs.mode == "max";
    is_mean = attrs.mode == "mean";
  }
};

inline int64_t CountKept(const Bags& bags, int64_t bag, int64_t skipped) {
  int64_t count = 0;
  for (int64_t i = bags.begin(bag); i < bags.end(bag); ++i) count += bags.id(i) != skipped;
  return count;
}

// Slots: weight, index, offsets?, per_sample_weights?; out.
template <typename T>
struct EmbeddingBagKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const EmbeddingBagAttrs& attrs) {
    table_.Make(ctx.input(0).shape(), ctx.output(0).shape(), attrs);
    const int64_t items = ctx.input(1).numel() * table_.columns + ctx.output(0).numel();
    ctx.SetEstimate(100 + static_cast<uint64_t>(items / 2 / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const EmbeddingBagAttrs& attrs) const {
    const Bags bags(ctx, table_.count);
    OPWRIGHT_RETURN_IF_ERROR(bags.Check(table_.rows));
    const T* weight = ctx.input(0).data<T>();
    const T* samples = ctx.has_input(3) ? ctx.input(3).data<T>() : nullptr;
    T* out = ctx.output(0).data<T>();
    const int64_t work =
        (bags.n() + bags.count()) * table_.columns / std::max<int64_t>(bags.count(), 1);
    const int64_t grain = kElementGrain / std::max<int64_t>(work, 1) + 1;
    ParallelFor(ctx.n_threads(), bags.count(), grain, 1, [&](int64_t begin, int64_t end) {
      for (int64_t bag = begin; bag < end; ++bag) {
        FillBag(bags, bag, attrs.padding_index, weight, samples, out + bag * table_.columns);
      }
    });
    return opwright::Status::Ok();
  }

 private:
  void FillBag(const Bags& bags, int64_t bag, int64_t skipped, const T* weight, const T* samples,
               T* out) const {
    const int64_t n = table_.columns, end = bags.end(bag);
    int64_t count = 0;
    for (int64_t i = bags.begin(bag); i < end; ++i) {
      if (i + kAhead < bags.n()) __builtin_prefetch(weight + bags.id(i + kAhead) * n);
      const int64_t id = bags.id(i);
      if (id == skipped) continue;
      const T* row = weight + id * n;
      if (count++ == 0) {
        std::copy_n(row, n, out);
        if (samples != nullptr) {
          for (int64_t c = 0; c < n; ++c) out[c] *= samples[i];
        }
      } else if (table_.is_max) {
        TakeGreater<T>(n, row, out);
      } else if (samples != nullptr) {
        AddScaledRow<T>(n, row, samples[i], out);
      } else {
        AddPlainRow<T>(n, row, out);
      }
    }
    if (count == 0) std::fill_n(out, n, T(0));
    if (table_.is_mean && count > 1) DivideRow<T>(n, static_cast<T>(count), out);
  }

  BagTable table_;
};

// Slots: weight, index, offsets?, per_sample_weights?,
// out_grad -> weight_grad?, per_sample_weights_grad?.
template <typename T>
struct EmbeddingBagGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const EmbeddingBagAttrs& attrs) {
    table_.Make(ctx.input(0).shape(), ctx.input(4).shape(), attrs);
    if (table_.is_max) ctx.SetWorkspace(static_cast<uint64_t>(table_.columns) * sizeof(int64_t));
    const int64_t items = ctx.input(1).numel() * table_.columns + ctx.input(0).numel();
    ctx.SetEstimate(100 + static_cast<uint64_t>(items / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const EmbeddingBagAttrs& attrs) const {
    const Bags bags(ctx, table_.count);
    OPWRIGHT_RETURN_IF_ERROR(bags.Check(table_.rows));
    if (ctx.has_output(0)) WriteTable(ctx, bags, attrs.padding_index);
    if (ctx.has_output(1)) WriteSamples(ctx, bags, attrs.padding_index);
    return opwright::Status::Ok();
  }

 private:
  // Each thread processes its own columns, so rows are summed in the order of the bags.
  void WriteTable(const opwright::RunContext& ctx, const Bags& bags, int64_t skipped) const {
    const T* weight = ctx.input(0).data<T>();
    const T* samples = ctx.has_input(3) ? ctx.input(3).data<T>() : nullptr;
    const T* grad = ctx.input(4).data<T>();
    T* table = ctx.output(0).data<T>();
    const int64_t n = table_.columns;
    ParallelFor(ctx.n_threads(), table_.rows * n, kElementGrain, kColumns,
                [=](int64_t begin, int64_t end) { std::fill(table + begin, table + end, T(0)); });
    const int64_t grain = kElementGrain / std::max<int64_t>(bags.n(), 1) + 1;
    ParallelFor(
        ctx.n_threads(), n, std::max(grain, kColumns), kColumns, [&](int64_t begin, int64_t end) {
          for (int64_t bag = 0; bag < bags.count(); ++bag) {
            if (table_.is_max) {
              int64_t* best = ctx.workspace<int64_t>();
              AddToGreatest(bags, bag, skipped, weight, grad + bag * n, {begin, end}, best, table);
            } else {
              AddToRows(bags, bag, skipped, samples, grad + bag * n, {begin, end}, table);
            }
          }
        });
  }

  void AddToRows(const Bags& bags, int64_t bag, int64_t skipped, const T* samples, const T* grad,
                 Part columns, T* table) const {
    const int64_t kept = table_.is_mean ? std::max<int64_t>(CountKept(bags, bag, skipped), 1) : 1;
    for (int64_t i = bags.begin(bag); i < bags.end(bag); ++i) {
      const int64_t id = bags.id(i);
      if (id == skipped) continue;
      const T scale = (samples != nullptr ? samples[i] : T(1)) / static_cast<T>(kept);
      AddScaledRow<T>(columns.end - columns.begin, grad + columns.begin, scale,
                      table + id * table_.columns + columns.begin);
    }
  }

  // If several rows have the same maximum, the first of these rows receives the gradient.
  void AddToGreatest(const Bags& bags, int64_t bag, int64_t skipped, const T* weight, const T* grad,
                     Part columns, int64_t* best, T* table) const {
    const int64_t n = table_.columns;
    int64_t count = 0;
    for (int64_t i = bags.begin(bag); i < bags.end(bag); ++i) {
      const int64_t id = bags.id(i);
      if (id == skipped) continue;
      const bool is_first = count++ == 0;
      for (int64_t c = columns.begin; c < columns.end; ++c) {
        const T value = weight[id * n + c];
        const T most = is_first ? value : weight[best[c] * n + c];
        if (is_first || value > most || (value != value && most == most)) best[c] = id;
      }
    }
    for (int64_t c = columns.begin; count > 0 && c < columns.end; ++c) {
      table[best[c] * n + c] += grad[c];
    }
  }

  void WriteSamples(const opwright::RunContext& ctx, const Bags& bags, int64_t skipped) const {
    const T* weight = ctx.input(0).data<T>();
    const T* grad = ctx.input(4).data<T>();
    T* samples = ctx.output(1).data<T>();
    const int64_t n = table_.columns;
    std::fill_n(samples, bags.n(), T(0));  // ids outside of all bags have gradient 0
    const int64_t work = bags.n() * n / std::max<int64_t>(bags.count(), 1);
    const int64_t grain = kElementGrain / std::max<int64_t>(work, 1) + 1;
    ParallelFor(ctx.n_threads(), bags.count(), grain, 1, [&](int64_t begin, int64_t end) {
      for (int64_t bag = begin; bag < end; ++bag) {
        for (int64_t i = bags.begin(bag); i < bags.end(bag); ++i) {
          if (bags.id(i) == skipped) continue;
          samples[i] = Dot<T>(n, weight + bags.id(i) * n, grad + bag * n);
        }
      }
    });
  }

  BagTable table_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("embedding_bag", opwright_cpu::EmbeddingBagKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("embedding_bag_grad", opwright_cpu::EmbeddingBagGradKernel);
