// cdist: computes distances from differences, which keep full precision for close vectors, in
// output tiles that stay in registers.
#include <algorithm>
#include <cmath>
#include <limits>

#include "algebra/attributes.h"
#include "algebra/stacks.h"
#include "algebra/vectors.h"
#include "common/clones.h"
#include "common/parallel.h"

namespace opwright_cpu {
namespace {

constexpr int64_t kRows = 4;  // vectors of x per tile

template <typename T>
constexpr int64_t kColumns = static_cast<int64_t>(2 * 64 / sizeof(T));  // vectors of y per panel

// Packs kColumns vectors of y, each of k elements, side by side; missing vectors are 0.
template <typename T>
OPWRIGHT_CPU_CLONES void FillPanel(const T* y, int64_t count, int64_t k, T* panel) {
  for (int64_t j = 0; j < kColumns<T>; ++j) {
    for (int64_t p = 0; p < k; ++p) panel[p * kColumns<T> + j] = j < count ? y[j * k + p] : T(0);
  }
}

// Computes a distance whose square overflows or underflows T, scaled by the greatest difference.
template <typename T>
T ScaledDistance(const T* x, const T* y, int64_t k, int64_t y_step) {
  T most = 0, sum = 0, total = 0;
  for (int64_t p = 0; p < k; ++p) {
    const T apart = std::abs(x[p] - y[p * y_step]);
    most = std::max(most, apart);
    total += apart;
  }
  if (most == 0 || !(most <= std::numeric_limits<T>::max()) || total != total) return total;
  for (int64_t p = 0; p < k; ++p) {
    const T share = (x[p] - y[p * y_step]) / most;
    sum += share * share;
  }
  return most * std::sqrt(sum);
}

template <typename T>
OPWRIGHT_CPU_INLINE void FinishSquares(const T* x, const T* panel, int64_t k, T* sums) {
  constexpr T kLeast = std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon();
  constexpr T kMost = std::numeric_limits<T>::max();
  T roots[kColumns<T>];
  int32_t n_extreme = 0;
  for (int64_t j = 0; j < kColumns<T>; ++j) {
    n_extreme += !((sums[j] >= kLeast) & (sums[j] <= kMost));
    roots[j] = std::sqrt(sums[j]);
  }
  for (int64_t j = 0; n_extreme > 0 && j < kColumns<T>; ++j) {
    if (sums[j] >= kLeast && sums[j] <= kMost) continue;
    roots[j] = ScaledDistance(x, panel + j, k, kColumns<T>);
  }
  std::copy_n(roots, kColumns<T>, sums);
}

// Computes the distances between kRows vectors and a panel; the last vector may be repeated.
template <typename T, bool kSquares>
OPWRIGHT_CPU_CLONES void FillTile(const T* const (&x)[kRows], const T* panel, int64_t k,
                                  T (&tile)[kRows][kColumns<T>]) {
  using V = typename Vector<T>::Type;
  constexpr int64_t kHalf = kColumns<T> / 2;
  V sums[kRows][2] = {};
  for (int64_t p = 0; p < k; ++p, panel += kColumns<T>) {
    V y[2];
    Get(panel, y[0]);
    Get(panel + kHalf, y[1]);
    for (int64_t i = 0; i < kRows; ++i) {
      for (int h = 0; h < 2; ++h) {
        const V apart = y[h] - x[i][p];
        if (kSquares) {
          sums[i][h] += apart * apart;
        } else {
          sums[i][h] += apart < 0 ? -apart : apart;
        }
      }
    }
  }
  for (int64_t i = 0; i < kRows; ++i) {
    Put(sums[i][0], tile[i]);
    Put(sums[i][1], tile[i] + kHalf);
    if (kSquares) FinishSquares(x[i], panel - k * kColumns<T>, k, tile[i]);
  }
}

// Slots: x, y; out.
template <typename T>
struct CdistKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const CdistAttrs& attrs) {
    if (attrs.p != 1 && attrs.p != 2) {
      return opwright::Status::Refused("supports only p=1 and p=2, got p=", attrs.p);
    }
    const opwright::Shape out = ctx.output(0).shape();
    n_ = out.dim(-2);
    m_ = out.dim(-1);
    k_ = ctx.input(0).dim(-1);
    x_stacks_ = Stacks(out, ctx.input(0).shape());
    y_stacks_ = Stacks(out, ctx.input(1).shape());
    panels_ = (m_ + kColumns<T> - 1) / kColumns<T>;
    units_ = out.numel() == 0 ? 0 : out.numel() / (n_ * m_) * panels_;
    const int64_t work = units_ * n_ * std::max<int64_t>(k_, 1) * kColumns<T>;
    const int64_t most = std::min(units_, work / (64 * 1024));
    threads_ = static_cast<int32_t>(std::clamp<int64_t>(most, 1, std::max(ctx.n_threads(), 1)));
    ctx.SetWorkspace(static_cast<uint64_t>(threads_ * k_ * kColumns<T>) * sizeof(T));
    ctx.SetEstimate(100 + static_cast<uint64_t>(work / 16 / threads_));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const CdistAttrs& attrs) const {
    const T* x = ctx.input(0).template data<T>();
    const T* y = ctx.input(1).template data<T>();
    T* out = ctx.output(0).template data<T>();
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part part = PartOf(units_, 1, thread, n_threads);
      T* panel = ctx.workspace<T>() + thread * k_ * kColumns<T>;
      for (int64_t unit = part.begin; unit < part.end; ++unit) {
        const int64_t stack = unit / panels_, first = unit % panels_ * kColumns<T>;
        const int64_t count = std::min(kColumns<T>, m_ - first);
        FillPanel(y + y_stacks_.OffsetOf(stack) + first * k_, count, k_, panel);
        const T* rows = x + x_stacks_.OffsetOf(stack);
        T* to = out + stack * n_ * m_ + first;
        if (attrs.p == 2) {
          FillColumns<true>(rows, panel, count, to);
        } else {
          FillColumns<false>(rows, panel, count, to);
        }
      }
    });
    return opwright::Status::Ok();
  }

 private:
  template <bool kSquares>
  void FillColumns(const T* x, const T* panel, int64_t count, T* out) const {
    T tile[kRows][kColumns<T>];
    for (int64_t i = 0; i < n_; i += kRows) {
      const T* rows[kRows];
      for (int64_t r = 0; r < kRows; ++r) rows[r] = x + std::min(i + r, n_ - 1) * k_;
      FillTile<T, kSquares>(rows, panel, k_, tile);
      for (int64_t r = 0; r < std::min(kRows, n_ - i); ++r) {
        std::copy_n(tile[r], count, out + (i + r) * m_);
      }
    }
  }

  int64_t n_ = 0, m_ = 0, k_ = 0, panels_ = 0, units_ = 0;
  Stacks x_stacks_, y_stacks_;
  int32_t threads_ = 1;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("cdist", "cpu", opwright_cpu::CdistKernel, float, double);
