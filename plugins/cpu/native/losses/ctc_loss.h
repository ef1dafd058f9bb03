// The paths of ctc_loss through the states of a row, in log space. States 0, 2, ..., 2n are blanks,
// and state 2i + 1 is label i. In each time step, a path stays, advances by one state, or skips a
// blank between two different labels.
#ifndef OPWRIGHT_CPU_LOSSES_CTC_LOSS_H_
#define OPWRIGHT_CPU_LOSSES_CTC_LOSS_H_

#include <opwright/functors.h>
#include <opwright/functors/sequences.h>
#include <algorithm>
#include <cstdint>
#include <optional>
#include <opwright/sdk.hpp>

#include "common/clones.h"
#include "losses/class_ids.h"

namespace opwright_cpu {

struct CtcShape {
  int64_t rows = 0;
  int64_t time = 0;
  int64_t classes = 0;
  int64_t labels = 0;

  int64_t states() const { return 2 * labels + 1; }
};

// The labels of all rows, and for each row its length and the length of its label.
class CtcInputs {
 public:
  CtcInputs(const opwright::RunContext& ctx, const CtcShape& shape)
      : shape_(shape), label_(ctx.input(1)) {
    if (ctx.has_input(2)) lengths_.emplace(ctx.input(2));
    if (ctx.has_input(3)) label_lengths_.emplace(ctx.input(3));
  }

  int64_t Label(int64_t row, int64_t i) const { return label_[row * shape_.labels + i]; }
  int64_t Length(int64_t row) const { return lengths_ ? (*lengths_)[row] : shape_.time; }
  int64_t LabelLength(int64_t row) const {
    return label_lengths_ ? (*label_lengths_)[row] : shape_.labels;
  }

  opwright::Status Check(int64_t blank) const {
    if (blank >= shape_.classes) {
      return opwright::Status::Error("blank must be in [0, ", shape_.classes, "), got ", blank);
    }
    for (int64_t row = 0; row < shape_.rows; ++row) OPWRIGHT_RETURN_IF_ERROR(CheckRow(row, blank));
    return opwright::Status::Ok();
  }

 private:
  opwright::Status CheckRow(int64_t row, int64_t blank) const {
    using opwright::Status;
    const int64_t length = Length(row), count = LabelLength(row);
    if (length < 0 || length > shape_.time) {
      return Status::Error("lengths must be in [0, ", shape_.time + 1, "), got ", length);
    }
    if (count < 0 || count > shape_.labels) {
      return Status::Error("label_lengths must be in [0, ", shape_.labels + 1, "), got ", count);
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t id = Label(row, i);
      if (id < 0 || id >= shape_.classes) {
        return Status::Error("label must be in [0, ", shape_.classes, "), got ", id);
      }
      if (id == blank) return Status::Error("label must not be blank, ", blank);
    }
    return Status::Ok();
  }

  CtcShape shape_;
  ClassIds label_;
  std::optional<ClassIds> lengths_;
  std::optional<ClassIds> label_lengths_;
};

// Log-probabilities of states are double, because their magnitude grows with the row length, and
// their last digits determine the shares.
constexpr double kNever = opwright::functors::NeverLog();
using opwright::functors::LogOfSum;

// Advances the states by one time step. `from` must be preceded by two unreachable states.
OPWRIGHT_CPU_CLONES void StepForward(const double* from, const double* skips, const double* scores,
                                     int64_t n, double* to) {
  for (int64_t k = 0; k < n; ++k) {
    to[k] = LogOfSum(from[k], from[k - 1], from[k - 2] + skips[k]) + scores[k];
  }
}

// Moves the states back by one time step. `onward` and `skips` must be followed by two unreachable
// states.
OPWRIGHT_CPU_CLONES void StepBack(const double* onward, const double* skips, int64_t n,
                                  double* betas) {
  for (int64_t k = 0; k < n; ++k) {
    betas[k] = LogOfSum(onward[k], onward[k + 1], onward[k + 2] + skips[k + 2]);
  }
}

// Sets shares[k] to the share of the likelihood that passes through state k.
OPWRIGHT_CPU_CLONES void FindShares(const double* alphas, const double* betas, double end,
                                    int64_t n, double* shares) {
  for (int64_t k = 0; k < n; ++k) shares[k] = opwright::functors::Exp(alphas[k] + betas[k] - end);
}

// Holds the states of one row at a time in a block of the workspace.
class CtcRow {
 public:
  // Arrays of states have two padding states on one side.
  static int64_t Stride(const CtcShape& shape) { return shape.states() + 2; }

  // Returns the number of workspace elements for classes, skips, scores, betas, onward, shares, and
  // the alphas of `n_kept` time steps.
  static int64_t SizeOf(const CtcShape& shape, int64_t n_kept) {
    return Stride(shape) * (6 + n_kept);
  }

  CtcRow(const CtcShape& shape, int64_t n_kept, double* room)
      : shape_(shape), n_kept_(n_kept), stride_(Stride(shape)), room_(room) {
    std::fill(room_, room_ + SizeOf(shape, n_kept), kNever);
  }

  void Read(const CtcInputs& inputs, int64_t row, int64_t blank) {
    const int64_t count = inputs.LabelLength(row);
    n_ = 2 * count + 1;
    length_ = inputs.Length(row);
    double* skip = skips();
    std::fill(skip, skip + stride_, kNever);
    for (int64_t k = 0; k < n_; ++k) {
      classes()[k] = static_cast<int32_t>(k % 2 == 0 ? blank : inputs.Label(row, k / 2));
      if (k % 2 == 1 && k > 1 && classes()[k] != classes()[k - 2]) skip[k] = 0.0;
    }
  }

  int64_t n() const { return n_; }
  int64_t length() const { return length_; }
  int32_t* classes() { return reinterpret_cast<int32_t*>(room_); }
  double* skips() { return room_ + 1 * stride_; }
  double* scores() { return room_ + 2 * stride_; }
  double* betas() { return room_ + 3 * stride_; }
  double* onward() { return room_ + 4 * stride_; }
  double* shares() { return room_ + 5 * stride_; }
  double* Alphas(int64_t t) { return room_ + (6 + t % n_kept_) * stride_ + 2; }

  template <typename T>
  void ReadScores(const T* x) {
    for (int64_t k = 0; k < n_; ++k) scores()[k] = static_cast<double>(x[classes()[k]]);
  }

  // Runs the forward pass and returns the log-likelihood of the labels. Before the first step,
  // every path is in state 0, from which it stays or advances to the first label.
  template <typename T>
  double GoForward(const T* x) {
    double* first = Alphas(0);
    std::fill(first, first + n_, kNever);
    first[0] = 0.0;
    for (int64_t t = 0; t < length_; ++t) {
      ReadScores(x + t * shape_.classes);
      StepForward(Alphas(t), skips(), scores(), n_, Alphas(t + 1));
    }
    const double* last = Alphas(length_);
    return LogOfSum(last[n_ - 1], n_ > 1 ? last[n_ - 2] : kNever, kNever);
  }

 private:
  CtcShape shape_;
  int64_t n_kept_;
  int64_t stride_;
  double* room_;
  int64_t n_ = 0;
  int64_t length_ = 0;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_LOSSES_CTC_LOSS_H_
