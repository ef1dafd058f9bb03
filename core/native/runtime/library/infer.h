// Runs the shape inference of a compiled operator, from input metas to output metas.
#ifndef OPWRIGHT_RUNTIME_INFER_H_
#define OPWRIGHT_RUNTIME_INFER_H_

#include <optional>
#include <vector>

#include "runtime/plan/prepared.h"

namespace opwright {

// An output set by `ow_host.set_output`; if dtype.bits is 0, the OpProto determines the dtype.
using InferredMeta = std::optional<Meta>;  // empty if it was not set

struct InferRequest {
  std::vector<std::vector<Meta>> inputs;  // slot by slot, in OpProto order
  std::vector<ow_attr> attrs;
  std::vector<uint32_t> output_counts;
};

// Calls op->infer. Throws kShape with the reason if the operator fails, and kPlugin if the operator
// passes an impossible meta to set_output.
std::vector<std::vector<InferredMeta>> InferNative(const ow_op& op, const InferRequest& request);

// The implementation of ow_host.set_output.
int32_t SetInferredOutput(const ow_infer* infer, uint32_t slot, uint32_t index, int32_t ndim,
                          const int64_t* shape, DLDataType dtype) noexcept;

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_INFER_H_
