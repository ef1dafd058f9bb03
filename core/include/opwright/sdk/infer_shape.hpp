// Arguments and results of a shape rule.
#ifndef OPWRIGHT_SDK_INFER_SHAPE_HPP_
#define OPWRIGHT_SDK_INFER_SHAPE_HPP_

#include <cstdint>
#include <string>
#include <type_traits>

#include "opwright/abi.h"
#include "opwright/sdk/attributes.hpp"
#include "opwright/sdk/op_maker.hpp"
#include "opwright/sdk/shape.hpp"
#include "opwright/sdk/status.hpp"

namespace opwright {

// One output, whose shape the rule sets. It must set each present output once.
class InferredOutput {
 public:
  InferredOutput(const ow_infer* infer, uint32_t slot, uint32_t index)
      : infer_(infer), slot_(slot), index_(index) {}

  // The dtype comes from the description: SameDtypeAs, or the only one of Dtypes.
  Status SetShape(const Shape& shape) const { return SetMeta(shape, DLDataType{0, 0, 0}); }

  Status SetMeta(const Shape& shape, DLDataType dtype) const {
    for (int64_t dim : shape.dims()) {
      OPWRIGHT_ENFORCE(dim >= -1, "a dimension must be at least 0, or -1 where it is unknown, got ",
                       shape, " for output ", slot_);
    }
    const int32_t code =
        infer_->host->set_output(infer_, slot_, index_, shape.rank(), shape.dims().data(), dtype);
    if (code == OW_OK) return Status::Ok();
    return Status(code, infer_->message != nullptr ? infer_->message : "");
  }

 private:
  const ow_infer* infer_;
  uint32_t slot_;
  uint32_t index_;
};

// Slots are counted in the order of AddInput and AddOutput.
class InferShapeContext {
 public:
  explicit InferShapeContext(const ow_infer* infer) : infer_(infer) {}

  const char* op_type() const { return infer_->op_type; }
  AttributeReader attributes() const {
    return AttributeReader(infer_->attrs, infer_->n_attrs, infer_->attr_stride);
  }

  uint32_t n_inputs() const { return infer_->n_inputs; }
  uint32_t input_count(uint32_t slot) const {
    CheckSlot("input", slot, infer_->n_inputs);
    return infer_->slot_begin[slot + 1] - infer_->slot_begin[slot];
  }
  bool has_input(uint32_t slot) const { return input_count(slot) > 0; }
  Meta input(uint32_t slot, uint32_t index = 0) const {
    CheckIndex("input", slot, index, input_count(slot));
    return Meta(infer_->inputs[infer_->slot_begin[slot] + index]);
  }

  uint32_t n_outputs() const { return infer_->n_outputs; }
  uint32_t output_count(uint32_t slot) const {
    CheckSlot("output", slot, infer_->n_outputs);
    return infer_->output_counts[slot];
  }
  bool has_output(uint32_t slot) const { return output_count(slot) > 0; }
  InferredOutput output(uint32_t slot, uint32_t index = 0) const {
    CheckIndex("output", slot, index, output_count(slot));
    return InferredOutput(infer_, slot, index);
  }

 private:
  static void CheckSlot(const char* kind, uint32_t slot, uint32_t count) {
    if (slot >= count) throw Exception("there are ", count, " ", kind, " slots, got slot ", slot);
  }
  static void CheckIndex(const char* kind, uint32_t slot, uint32_t index, uint32_t count) {
    if (index >= count) {
      throw Exception(kind, " ", slot, " has ", count, " variables, got index ", index);
    }
  }

  const ow_infer* infer_;
};

namespace detail {

// ow_op.infer of an operator.
template <typename OpT>
int32_t InferBridge(const ow_infer* infer) noexcept {
  return AtBorder(infer->message, infer->message_bytes, [infer]() -> Status {
    using Attrs = typename OpT::Attributes;
    InferShapeContext ctx(infer);
    if constexpr (std::is_invocable_v<decltype(&OpT::InferShape), InferShapeContext&,
                                      const Attrs&>) {
      Attrs attrs{};
      OPWRIGHT_RETURN_IF_ERROR(ReadAttributes<OpT>(ctx.attributes(), &attrs));
      return OpT::InferShape(ctx, attrs);
    } else {
      return OpT::InferShape(ctx);
    }
  });
}

}  // namespace detail
}  // namespace opwright

#endif  // OPWRIGHT_SDK_INFER_SHAPE_HPP_
