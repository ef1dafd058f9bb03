// An operator that one file defines; a second file has a kernel for it, and a third file lists it.
#include <opwright/sdk.hpp>

struct Negate : opwright::Op<> {
  static void Make(opwright::OpMaker<opwright::NoAttrs>& op) {
    op.AddComment("out = -x");
    op.AddInput("x", "any shape");
    op.AddOutput("out", "shape and dtype of x").SameDtypeAs("x");
  }
  static opwright::Status InferShape(opwright::InferShapeContext& ctx) {
    return ctx.output(0).SetShape(ctx.input(0).shape());
  }
};

OPWRIGHT_DECLARE_OP(negate, "test.negate", Negate);
