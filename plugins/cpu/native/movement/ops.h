// The operators of opwright-std that this room has kernels for, with the attributes they read.
#ifndef OPWRIGHT_CPU_MOVEMENT_OPS_H_
#define OPWRIGHT_CPU_MOVEMENT_OPS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct NoAttrs {};

struct WithoutAttributes : opwright::Op<NoAttrs> {
  static void Make(opwright::OpMaker<NoAttrs>&) {}
};

struct AxisAttrs {
  int64_t axis;
};

struct WithAxis : opwright::Op<AxisAttrs> {
  static void Make(opwright::OpMaker<AxisAttrs>& op) {
    op.AddAttr(&AxisAttrs::axis, "axis", "counted from the back where negative");
  }
};

struct TransposeAttrs {
  std::vector<int64_t> axes;
};

struct TransposeOp : opwright::Op<TransposeAttrs> {
  static void Make(opwright::OpMaker<TransposeAttrs>& op) {
    op.AddAttr(&TransposeAttrs::axes, "axes", "a permutation; empty: reversed");
  }
};

struct SliceAttrs {
  std::vector<int64_t> axes;
  std::vector<int64_t> starts;
  std::vector<int64_t> ends;
  std::vector<int64_t> steps;
};

struct SliceOp : opwright::Op<SliceAttrs> {
  static void Make(opwright::OpMaker<SliceAttrs>& op) {
    op.AddAttr(&SliceAttrs::axes, "axes", "the axes to cut");
    op.AddAttr(&SliceAttrs::starts, "starts", "first position");
    op.AddAttr(&SliceAttrs::ends, "ends", "position behind the last");
    op.AddAttr(&SliceAttrs::steps, "steps", "distance between positions; empty: all 1");
  }
};

struct PadAttrs {
  std::vector<int64_t> paddings;
  std::string mode;
  double value;
};

struct PadOp : opwright::Op<PadAttrs> {
  static void Make(opwright::OpMaker<PadAttrs>& op) {
    op.AddAttr(&PadAttrs::paddings, "paddings", "begin and end of each axis");
    op.AddAttr(&PadAttrs::mode, "mode", "constant, reflect or edge");
    op.AddAttr(&PadAttrs::value, "value", "the border's value");
  }
};

struct EmbeddingAttrs {
  int64_t padding_index;
};

struct EmbeddingOp : opwright::Op<EmbeddingAttrs> {
  static void Make(opwright::OpMaker<EmbeddingAttrs>& op) {
    op.AddAttr(&EmbeddingAttrs::padding_index, "padding_index", "whose vector is 0; -1: none");
  }
};

struct OneHotAttrs {
  int64_t depth;
};

struct OneHotOp : opwright::Op<OneHotAttrs> {
  static void Make(opwright::OpMaker<OneHotAttrs>& op) {
    op.AddAttr(&OneHotAttrs::depth, "depth", "number of classes");
  }
};

struct UniformAttrs {
  int64_t seed;
  std::optional<int64_t> stream;
  double min;
  double max;
};

struct UniformOp : opwright::Op<UniformAttrs> {
  static void Make(opwright::OpMaker<UniformAttrs>& op) {
    op.AddAttr(&UniformAttrs::seed, "seed", "64-bit key");
    op.AddAttr(&UniformAttrs::stream, "stream", "absent: 0");
    op.AddAttr(&UniformAttrs::min, "min", "lower end");
    op.AddAttr(&UniformAttrs::max, "max", "upper end");
  }
};

struct NormalAttrs {
  int64_t seed;
  std::optional<int64_t> stream;
  double mean;
  double std;
};

struct NormalOp : opwright::Op<NormalAttrs> {
  static void Make(opwright::OpMaker<NormalAttrs>& op) {
    op.AddAttr(&NormalAttrs::seed, "seed", "64-bit key");
    op.AddAttr(&NormalAttrs::stream, "stream", "absent: 0");
    op.AddAttr(&NormalAttrs::mean, "mean", "centre");
    op.AddAttr(&NormalAttrs::std, "std", "standard deviation");
  }
};

struct DropoutAttrs {
  int64_t seed;
  std::optional<int64_t> stream;
  double probability;
  bool training;
};

struct DropoutOp : opwright::Op<DropoutAttrs> {
  static void Make(opwright::OpMaker<DropoutAttrs>& op) {
    op.AddAttr(&DropoutAttrs::seed, "seed", "64-bit key");
    op.AddAttr(&DropoutAttrs::stream, "stream", "absent: 0");
    op.AddAttr(&DropoutAttrs::probability, "probability", "of an element to be dropped");
    op.AddAttr(&DropoutAttrs::training, "training", "whether to drop anything");
  }
};

}  // namespace opwright_cpu

OPWRIGHT_DECLARE_OP(reshape, "reshape", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(reshape_like, "reshape_like", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(squeeze, "squeeze", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(unsqueeze, "unsqueeze", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(flatten, "flatten", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(transpose, "transpose", opwright_cpu::TransposeOp);
OPWRIGHT_DECLARE_OP(concat, "concat", opwright_cpu::WithAxis);
OPWRIGHT_DECLARE_OP(split, "split", opwright_cpu::WithAxis);
OPWRIGHT_DECLARE_OP(slice, "slice", opwright_cpu::SliceOp);
OPWRIGHT_DECLARE_OP(pad, "pad", opwright_cpu::PadOp);
OPWRIGHT_DECLARE_OP(gather, "gather", opwright_cpu::WithAxis);
OPWRIGHT_DECLARE_OP(embedding, "embedding", opwright_cpu::EmbeddingOp);
OPWRIGHT_DECLARE_OP(one_hot, "one_hot", opwright_cpu::OneHotOp);
OPWRIGHT_DECLARE_OP(nonzero, "nonzero", opwright_cpu::WithoutAttributes);
OPWRIGHT_DECLARE_OP(uniform, "uniform", opwright_cpu::UniformOp);
OPWRIGHT_DECLARE_OP(normal, "normal", opwright_cpu::NormalOp);
OPWRIGHT_DECLARE_OP(dropout, "dropout", opwright_cpu::DropoutOp);

#endif  // OPWRIGHT_CPU_MOVEMENT_OPS_H_
