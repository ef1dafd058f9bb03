#include "runtime/library/infer.h"

#include <algorithm>

#include "runtime/border.h"
#include "runtime/library/host.h"
#include "runtime/library/limits.h"
#include "runtime/plan/flat_args.h"
#include "runtime/status.h"

namespace opwright {

namespace {

// The target of `infer_handle`.
struct InferState {
  std::vector<std::vector<InferredMeta>> outputs;
  // The error of a set_output call; it is kept because the plugin may ignore the status.
  std::optional<Error> complaint;
};

int32_t Complain(const ow_infer* infer, const std::string& text,
                 ErrorKind kind = ErrorKind::kPlugin) {
  static_cast<InferState*>(infer->infer_handle)->complaint = Error(kind, text);
  WriteMessage(infer->message, infer->message_bytes, text.c_str());
  return OW_ERROR;
}

// Whether an array with these known dims can exist.
bool HasSize(const int64_t* shape, int32_t ndim) {
  constexpr int64_t kMaxItem = 8;
  Shape known(shape, shape + ndim);
  std::replace(known.begin(), known.end(), int64_t{-1}, int64_t{1});
  try {
    CheckedNumel("", known.data(), ndim, kMaxItem);
    return true;
  } catch (const Error&) {
    return false;
  }
}

int32_t SetOutput(const ow_infer* infer, uint32_t slot, uint32_t index, int32_t ndim,
                  const int64_t* shape, DLDataType dtype) {
  auto* state = static_cast<InferState*>(infer->infer_handle);
  if (state == nullptr) return OW_ERROR;  // a message can be stored only within infer
  if (slot >= state->outputs.size() || index >= state->outputs[slot].size()) {
    return Complain(infer, Concat("set_output: got output ", index, " of slot ", slot,
                                  ", which is not wanted; see output_counts"));
  }
  if (ndim < 0 || ndim > kMaxRank) {
    return Complain(infer, Concat("set_output: a rank must be in 0 to ", kMaxRank, ", got ", ndim));
  }
  if (ndim > 0 && shape == nullptr) {
    return Complain(infer, Concat("set_output: shape must be set, got NULL for rank ", ndim));
  }
  for (int32_t i = 0; i < ndim; ++i) {
    if (shape[i] < -1) {
      return Complain(infer, Concat("set_output: dimensions must be at least 0, or -1 where "
                                    "unknown, got ",
                                    ShapeText(shape, ndim)));
    }
  }
  if (!HasSize(shape, ndim)) {
    // The operator's arguments may be the cause of this error.
    return Complain(infer,
                    Concat("set_output: the size in bytes must fit in 64 bits, got shape ",
                           ShapeText(shape, ndim)),
                    ErrorKind::kShape);
  }
  if (dtype.bits != 0 && !IsKnownDtype(dtype)) {
    return Complain(infer, Concat("set_output: a dtype must be one of opwright's, or have 0 bits "
                                  "to leave it to the OpProto, got DLPack's code ",
                                  int{dtype.code}, " with ", int{dtype.bits}, " bits and ",
                                  dtype.lanes, " lanes"));
  }
  state->outputs[slot][index] = Meta{Shape(shape, shape + ndim), dtype};
  return OW_OK;
}

}  // namespace

int32_t SetInferredOutput(const ow_infer* infer, uint32_t slot, uint32_t index, int32_t ndim,
                          const int64_t* shape, DLDataType dtype) noexcept {
  return CallAtBorder(infer->message, infer->message_bytes,
                      [&] { return SetOutput(infer, slot, index, ndim, shape, dtype); });
}

std::vector<std::vector<InferredMeta>> InferNative(const ow_op& op, const InferRequest& request) {
  if (op.infer == nullptr) {
    Throw(ErrorKind::kPlugin, op.type, ": its library has no infer function; fill in ow_op.infer");
  }
  FlatArgs flat({&request.inputs}, *HostDevice());
  for (DLTensor& tensor : flat.tensors) tensor.strides = nullptr;  // as specified for ow_infer
  InferState state;
  for (const uint32_t count : request.output_counts) state.outputs.emplace_back(count);
  char message[1024] = {0};
  ow_infer frame{};
  frame.size = sizeof(frame);
  frame.host = HostServices();
  frame.op_type = op.type;
  frame.inputs = flat.args.data();
  frame.slot_begin = flat.slot_begin.data();
  frame.output_counts = request.output_counts.data();
  frame.n_inputs = static_cast<uint32_t>(request.inputs.size());
  frame.n_outputs = static_cast<uint32_t>(request.output_counts.size());
  frame.attrs = request.attrs.data();
  frame.n_attrs = request.attrs.size();
  frame.attr_stride = sizeof(ow_attr);
  frame.infer_handle = &state;
  frame.message = message;
  frame.message_bytes = sizeof(message);
  const int32_t status = CallAtBorder(message, sizeof(message), [&] { return op.infer(&frame); });
  if (state.complaint) {
    Throw(state.complaint->kind(), op.type, ": ", state.complaint->what());
  }
  if (status == OW_OK) return state.outputs;
  if (message[0] == '\0') {
    Throw(ErrorKind::kShape, op.type, ": infer_shape failed with status ", status);
  }
  Throw(status == OW_OUT_OF_MEMORY ? ErrorKind::kOutOfMemory : ErrorKind::kShape, op.type, ": ",
        message);
}

}  // namespace opwright
