// triangular_solve: solves the unknowns block by block, by substitution. Matrix products subtract
// the contributions of unknowns that have been solved.
#include <algorithm>

#include "algebra/attributes.h"
#include "algebra/stacks.h"
#include "common/clones.h"
#include "common/parallel.h"
#include "gemm/gemm.h"

namespace opwright_cpu {
namespace {

constexpr int64_t kBlock = 32;    // unknowns per substitution
constexpr int64_t kSystems = 64;  // columns, or rows from the right, that are solved together

// A matrix whose element (i, j) is data[i * row + j * col].
template <typename T>
struct Matrix {
  const T* data;
  int64_t row;
  int64_t col;
  Matrix Turned() const { return {data, col, row}; }
  const T* At(int64_t i, int64_t j) const { return data + i * row + j * col; }
};

// Solves for one row of x after another; each row has one element per system.
template <typename T>
OPWRIGHT_CPU_CLONES void Substitute(int64_t size, const Matrix<T>& a, bool backward, bool is_unit,
                                    int64_t columns, T* x, int64_t ldx) {
  for (int64_t step = 0; step < size; ++step) {
    const int64_t i = backward ? size - 1 - step : step;
    T* unknown = x + i * ldx;
    for (int64_t before = 0; before < step; ++before) {
      const int64_t j = backward ? size - 1 - before : before;
      const T factor = a.data[i * a.row + j * a.col];
      const T* known = x + j * ldx;
#pragma GCC ivdep
      for (int64_t c = 0; c < columns; ++c) unknown[c] -= factor * known[c];
    }
    if (is_unit) continue;
    const T diagonal = a.data[i * (a.row + a.col)];
    for (int64_t c = 0; c < columns; ++c) unknown[c] /= diagonal;
  }
}

// A block of unknowns, and the unknowns that have been solved before it.
struct Turn {
  Part block;
  Part known;
};

Turn TurnOf(int64_t n, int64_t number, bool backward) {
  const int64_t done = number * kBlock, next = std::min(done + kBlock, n);
  if (!backward) return {{done, next}, {0, done}};
  return {{n - next, n - done}, {n - done, n}};
}

// Slots: a, b; out.
template <typename T>
struct TriangularSolveKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const TriangularAttrs& attrs) {
    const opwright::Shape& out = ctx.output(0).shape();
    n_ = ctx.input(0).shape().dim(-1);
    rows_ = out.dim(-2);
    columns_ = out.dim(-1);
    systems_ = attrs.left ? columns_ : rows_;
    chunks_ = (systems_ + kSystems - 1) / kSystems;
    a_stacks_ = Stacks(out, ctx.input(0).shape());
    b_stacks_ = Stacks(out, ctx.input(1).shape());
    gemm_ = BestGemm<T>();
    const int64_t units = out.numel() == 0 ? 0 : out.numel() / (rows_ * columns_) * chunks_;
    const int64_t work = units * std::min(systems_, kSystems) * n_ * n_;
    const int64_t most = std::min(units, work / (64 * 1024));
    threads_ = static_cast<int32_t>(std::clamp<int64_t>(most, 1, std::max(ctx.n_threads(), 1)));
    units_ = units;
    ctx.SetWorkspace(static_cast<uint64_t>(threads_ * kItems) * sizeof(T));
    ctx.SetEstimate(100 + static_cast<uint64_t>(work / 16 / threads_));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const TriangularAttrs& attrs) const {
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part part = PartOf(units_, 1, thread, n_threads);
      T* scratch = ctx.workspace<T>() + thread * kItems;
      for (int64_t unit = part.begin; unit < part.end; ++unit) {
        const int64_t stack = unit / chunks_, first = unit % chunks_ * kSystems;
        const T* a = ctx.input(0).template data<T>() + a_stacks_.OffsetOf(stack);
        const T* b = ctx.input(1).template data<T>() + b_stacks_.OffsetOf(stack);
        T* out = ctx.output(0).template data<T>() + stack * rows_ * columns_;
        Matrix<T> matrix{a, n_, 1};
        if (attrs.transpose) matrix = matrix.Turned();
        const int64_t count = std::min(kSystems, systems_ - first);
        const bool is_upper = attrs.upper != attrs.transpose;
        if (attrs.left) {
          FromLeft(matrix, is_upper, attrs.unit_diagonal, count, b + first, out + first, scratch);
        } else {
          const int64_t offset = first * columns_;
          FromRight(matrix, is_upper, attrs.unit_diagonal, count, b + offset, out + offset,
                    scratch);
        }
      }
    });
    return opwright::Status::Ok();
  }

 private:
  static constexpr int64_t kItems = kGemmScratch + kBlock * kSystems;

  void FromLeft(const Matrix<T>& a, bool is_upper, bool is_unit, int64_t count, const T* b, T* out,
                T* scratch) const {
    for (int64_t i = 0; i < n_; ++i) std::copy_n(b + i * columns_, count, out + i * columns_);
    for (int64_t number = 0; number * kBlock < n_; ++number) {
      const Turn turn = TurnOf(n_, number, is_upper);
      const int64_t size = turn.block.end - turn.block.begin;
      T* unknown = out + turn.block.begin * columns_;
      if (turn.known.begin < turn.known.end) {
        gemm_(GemmCall<T>{size, count, turn.known.end - turn.known.begin,
                          a.At(turn.block.begin, turn.known.begin), a.row, a.col,
                          out + turn.known.begin * columns_, columns_, 1, unknown, columns_, T(-1),
                          T(1), scratch});
      }
      const Matrix<T> diagonal{a.At(turn.block.begin, turn.block.begin), a.row, a.col};
      Substitute(size, diagonal, is_upper, is_unit, count, unknown, columns_);
    }
  }

  // Transposes each block of columns before its substitution so that a SIMD vector holds elements
  // of one column.
  void FromRight(const Matrix<T>& a, bool is_upper, bool is_unit, int64_t count, const T* b, T* out,
                 T* scratch) const {
    T* turned = scratch + kGemmScratch;
    std::copy_n(b, count * columns_, out);
    for (int64_t number = 0; number * kBlock < n_; ++number) {
      const Turn turn = TurnOf(n_, number, !is_upper);
      const int64_t size = turn.block.end - turn.block.begin;
      T* unknown = out + turn.block.begin;
      if (turn.known.begin < turn.known.end) {
        gemm_(GemmCall<T>{count, size, turn.known.end - turn.known.begin, out + turn.known.begin,
                          columns_, 1, a.At(turn.known.begin, turn.block.begin), a.row, a.col,
                          unknown, columns_, T(-1), T(1), scratch});
      }
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t j = 0; j < size; ++j) turned[j * kSystems + i] = unknown[i * columns_ + j];
      }
      const Matrix<T> diagonal{a.At(turn.block.begin, turn.block.begin), a.row, a.col};
      Substitute(size, diagonal.Turned(), !is_upper, is_unit, count, turned, kSystems);
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t j = 0; j < size; ++j) unknown[i * columns_ + j] = turned[j * kSystems + i];
      }
    }
  }

  int64_t n_ = 0, rows_ = 0, columns_ = 0, systems_ = 0, chunks_ = 0, units_ = 0;
  Stacks a_stacks_, b_stacks_;
  GemmFn<T> gemm_ = nullptr;
  int32_t threads_ = 1;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("triangular_solve", "cpu", opwright_cpu::TriangularSolveKernel, float,
                             double);
