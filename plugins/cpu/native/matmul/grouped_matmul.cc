// Matrix products with one matrix per group of rows, and the sums of outer products of each group.
// The sizes of groups are known only at run time: bfloat16 uses a product of oneDNN without fixed
// sizes, and all other dtypes use our own loops.
#include <algorithm>
#include <cstdint>

#include "common/parallel.h"
#include "common/whole_numbers.h"
#include "common/widened.h"
#include "matmul/any_size_product.h"
#include "matmul/attributes.h"
#include "matmul/gemm.h"
#include "matmul/matrix_shape.h"
#include "matmul/own_product.h"

namespace opwright_cpu {
namespace {

// Group g consists of the rows [begin(g), end(g)); the first group begins at row 0.
class RowGroups {
 public:
  explicit RowGroups(const opwright::InputTensor& offsets) : offsets_(offsets) {}

  int64_t count() const { return offsets_.size(); }
  int64_t begin(int64_t group) const { return group == 0 ? 0 : offsets_[group - 1]; }
  int64_t end(int64_t group) const { return offsets_[group]; }
  int64_t all() const { return begin(count()); }  // the number of rows that belong to a group

  opwright::Status Check(int64_t rows) const {
    for (int64_t group = 0; group < count(); ++group) {
      if (end(group) < begin(group) || end(group) > rows) {
        return opwright::Status::Error("offsets must ascend in [0, ", rows, "], got ", end(group),
                                       " at ", group,
                                       "; pass the row at which each group ends, such as the "
                                       "cumulative sum of the numbers of rows");
      }
    }
    return opwright::Status::Ok();
  }

 private:
  WholeNumbers offsets_;
};

// Divides the products of all groups among threads by rows or columns. The work of a thread
// therefore does not depend on the group sizes, even if one group has most rows.
class GroupedParts {
 public:
  // `size` describes the product of a single group with all rows.
  template <typename T>
  void Make(opwright::PrepareContext& ctx, const GemmSize& size) {
    MatrixShape shape;
    shape.size = size;
    const int64_t most = std::max<int64_t>(1, shape.Multiplications() / kProductGrain);
    n_threads_ = static_cast<int32_t>(std::min<int64_t>(ctx.n_threads(), most));
    // If columns are enough for all threads, each thread packs only its own part of a matrix.
    by_columns_ = size.n >= kPanelWidth * n_threads_;
    rows_ = size.m;
    columns_ = size.n;
    ctx.SetEstimate(EstimateProductNs<T>(shape, n_threads_));
    ctx.SetWorkspace(AnySizeProduct<T>::kWorkspaceBytes * static_cast<uint64_t>(n_threads_));
  }

  // Calls function(rows, columns, scratch) for each nonempty part.
  template <typename T, typename Function>
  void Run(const opwright::RunContext& ctx, const Function& function) const {
    char* workspace = ctx.workspace<char>();
    Parallel(n_threads_, [&](int32_t thread, int32_t n_threads) {
      const Part part = PartOf(by_columns_ ? columns_ : rows_, kStep, thread, n_threads);
      if (part.begin >= part.end) return;
      const Part rows = by_columns_ ? Part{0, rows_} : part;
      const Part columns = by_columns_ ? part : Part{0, columns_};
      if (columns.begin >= columns.end) return;
      constexpr uint64_t kBytes = AnySizeProduct<T>::kWorkspaceBytes;
      function(rows, columns, workspace + kBytes * static_cast<uint64_t>(thread));
    });
  }

 private:
  static constexpr int64_t kStep = 16;  // complete cache lines of columns

  int64_t rows_ = 0, columns_ = 0;
  int32_t n_threads_ = 1;
  bool by_columns_ = true;
};

template <typename T>
void FillZeros(MatrixView<T> out, int64_t rows, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row) std::fill_n(out.At(row, 0).data, columns, T{});
}

// Slots: x [n, k], weight [groups, k, m], offsets [groups]; out [n, m].
template <typename T>
struct GroupedMatmulKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "onednn";
    options.by_threads = true;  // the rows of a part determine the algorithm
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const GroupedMatmulAttrs& attrs) {
    size_ = {ctx.input(0).shape().dim(0), ctx.output(0).shape().dim(1),
             ctx.input(0).shape().dim(1)};
    parts_.Make<T>(ctx, size_);
    return product_.Make(false, attrs.transpose_weight);
  }

  opwright::Status Run(const opwright::RunContext& ctx, const GroupedMatmulAttrs& attrs) const {
    const RowGroups groups(ctx.input(2));
    OPWRIGHT_RETURN_IF_ERROR(groups.Check(size_.m));
    const MatrixView<const T> x{ctx.input(0).data<T>(), size_.k, 1};
    const T* weight = ctx.input(1).data<T>();
    const MatrixView<T> out{ctx.output(0).data<T>(), size_.n, 1};
    parts_.Run<T>(ctx, [&](Part rows, Part columns, void* scratch) {
      const int64_t width = columns.end - columns.begin;
      for (int64_t group = 0; size_.k > 0 && group < groups.count(); ++group) {
        const int64_t begin = std::max(groups.begin(group), rows.begin);
        const int64_t end = std::min(groups.end(group), rows.end);
        if (begin >= end) continue;
        MatrixView<const T> matrix{weight + group * size_.k * size_.n, size_.n, 1};
        if (attrs.transpose_weight) matrix = {matrix.data, 1, size_.k};
        product_.Run({end - begin, width, size_.k}, x.At(begin, 0), matrix.At(0, columns.begin),
                     out.At(begin, columns.begin), scratch);
      }
      const int64_t rest = size_.k > 0 ? std::max(groups.all(), rows.begin) : rows.begin;
      FillZeros(out.At(rest, columns.begin), rows.end - rest, width);
    });
    return opwright::Status::Ok();
  }

 private:
  GemmSize size_{};
  GroupedParts parts_;
  AnySizeProduct<T> product_;
};

// Slots: x [n, k], y [n, m], offsets [groups]; out [groups, k, m].
template <typename T>
struct GroupedOuterKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "onednn";
    options.by_threads = true;
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const opwright::NoAttrs&) {
    size_ = {ctx.input(0).shape().dim(1), ctx.input(1).shape().dim(1), ctx.input(0).shape().dim(0)};
    parts_.Make<T>(ctx, size_);
    return product_.Make(true, false);
  }

  opwright::Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&) const {
    const RowGroups groups(ctx.input(2));
    OPWRIGHT_RETURN_IF_ERROR(groups.Check(size_.k));
    const MatrixView<const T> x{ctx.input(0).data<T>(), 1, size_.m};
    const MatrixView<const T> y{ctx.input(1).data<T>(), size_.n, 1};
    T* out = ctx.output(0).data<T>();
    parts_.Run<T>(ctx, [&](Part rows, Part columns, void* scratch) {
      const GemmSize part{rows.end - rows.begin, columns.end - columns.begin, 0};
      for (int64_t group = 0; group < groups.count(); ++group) {
        const int64_t begin = groups.begin(group), terms = groups.end(group) - begin;
        const MatrixView<T> to = MatrixView<T>{out + group * size_.m * size_.n, size_.n, 1}.At(
            rows.begin, columns.begin);
        if (terms == 0) {
          FillZeros(to, part.m, part.n);
        } else {
          product_.Run({part.m, part.n, terms}, x.At(rows.begin, begin), y.At(begin, columns.begin),
                       to, scratch);
        }
      }
    });
    return opwright::Status::Ok();
  }

 private:
  GemmSize size_{};
  GroupedParts parts_;
  AnySizeProduct<T> product_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("grouped_matmul", "cpu", opwright_cpu::GroupedMatmulKernel, float,
                             double, opwright::BFloat16);
OPWRIGHT_CPU_REGISTER_WIDENED("grouped_matmul", opwright_cpu::GroupedMatmulKernel);
OPWRIGHT_REGISTER_KERNEL_FOR("grouped_outer", "cpu", opwright_cpu::GroupedOuterKernel, float,
                             double, opwright::BFloat16);
OPWRIGHT_CPU_REGISTER_WIDENED("grouped_outer", opwright_cpu::GroupedOuterKernel);
