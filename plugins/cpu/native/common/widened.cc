#include "common/widened.h"

#include <algorithm>

#include "common/parallel.h"

namespace opwright_cpu {
namespace {

constexpr uint64_t kAlignment = 64;

uint64_t RoundedUp(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

int64_t NumelOf(const DLTensor& tensor) {
  int64_t n = 1;
  for (int32_t axis = 0; axis < tensor.ndim; ++axis) n *= tensor.shape[axis];
  return n;
}

char* DataOf(const DLTensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

// Returns the slot whose only argument is `arg`.
uint32_t SlotOf(const ow_prepare& frame, uint32_t arg) {
  const uint32_t* end = frame.slot_begin + frame.n_slots;
  return static_cast<uint32_t>(std::upper_bound(frame.slot_begin, end, arg) - frame.slot_begin) - 1;
}

}  // namespace

WideArguments::WideArguments(DLTensor* const* args, uint32_t n_args) : tensors_(n_args) {
  for (DLTensor& tensor : tensors_) args_.push_back(&tensor);
  Update(args);
}

void WideArguments::Update(DLTensor* const* args) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    tensors_[i] = *args[i];
    tensors_[i].dtype = WideDtype(args[i]->dtype);
  }
}

WidePrepare::WidePrepare(const opwright::PrepareContext& ctx)
    : arguments_(ctx.frame()->args, ctx.frame()->slot_begin[ctx.frame()->n_slots]),
      frame_(*ctx.frame()),
      context_(&frame_) {
  frame_.args = arguments_.args();
  context_ = opwright::PrepareContext(&frame_);
}

opwright::Status Widening::Finish(opwright::PrepareContext& ctx, const WidePrepare& wide) {
  const ow_prepare& frame = *ctx.frame();
  n_inputs_ = frame.n_inputs;
  n_args_ = frame.slot_begin[frame.n_slots];
  std::vector<bool> packed(n_args_, false);
  for (uint32_t i = frame.n_packs; i < wide.frame().n_packs; ++i) {
    const ow_pack pack = wide.frame().packs[i];
    packed[pack.arg] = true;
    OPWRIGHT_RETURN_IF_ERROR(ctx.Pack(SlotOf(frame, pack.arg), pack.bytes, pack.alignment));
  }
  int64_t elements = 0;
  for (uint32_t arg = 0; arg < n_args_; ++arg) {
    const DLTensor& tensor = *frame.args[arg];
    if ((frame.arg_flags[arg] & OW_ARG_DYNAMIC) != 0) {
      return opwright::Status::Refused("does not support outputs whose shape depends on values");
    }
    if (IsHalf(tensor.dtype)) dtype_ = tensor.dtype;
    const bool has_data = (frame.arg_flags[arg] & OW_ARG_SHAPE_ONLY) == 0 && !packed[arg];
    const int64_t n = NumelOf(tensor);
    if (!IsHalf(tensor.dtype) || !has_data || n == 0) continue;
    const bool is_input = arg < frame.slot_begin[n_inputs_];
    (is_input ? inputs_ : outputs_).push_back(Copy{arg, n, bytes_});
    bytes_ += RoundedUp(static_cast<uint64_t>(n) * sizeof(float));
    elements += n;
  }
  rows_ = HalfRowsOf(dtype_);
  ctx.SetWorkspace(bytes_ + wide.frame().workspace_bytes);
  if (wide.frame().estimate_ns > 0) {
    const int64_t threads = std::clamp<int64_t>(elements / kElementGrain, 1, ctx.n_threads());
    ctx.SetEstimate(wide.frame().estimate_ns + static_cast<uint64_t>(elements / threads));
  }
  if ((wide.frame().out_flags & OW_PREPARED_NOT_CAPTURABLE) != 0) ctx.ForbidCapture();
  return opwright::Status::Ok();
}

const Widening::Copy& Widening::CopyOf(const Copy& output, DLTensor* const* args) const {
  const char* data = DataOf(*args[output.arg]);
  for (const Copy& input : inputs_) {
    if (input.n == output.n && DataOf(*args[input.arg]) == data) return input;
  }
  return output;
}

void Widening::Widen(const opwright::RunContext& ctx, WideCall& wide) const {
  const ow_call& call = *ctx.frame();
  ow_call& frame = wide.frame();
  WideArguments& arguments = wide.arguments();
  auto* const workspace = ctx.workspace<char>();
  frame = call;
  frame.args = arguments.args();
  frame.workspace = workspace + bytes_;
  frame.workspace_bytes = call.workspace_bytes - bytes_;
  arguments.Update(call.args);
  const auto place = [&](uint32_t arg, const Copy& copy) {
    DLTensor& tensor = arguments.tensor(arg);
    tensor.data = workspace + copy.offset_bytes;
    tensor.byte_offset = 0;
    return static_cast<float*>(tensor.data);
  };
  for (const Copy& input : inputs_) {
    const char* from = DataOf(*call.args[input.arg]);
    float* to = place(input.arg, input);
    ParallelFor(ctx.n_threads(), input.n, kElementGrain, 64, [&](int64_t begin, int64_t end) {
      rows_.widen(from + begin * 2, to + begin, end - begin);
    });
  }
  for (const Copy& output : outputs_) place(output.arg, CopyOf(output, call.args));
}

void Widening::Round(const opwright::RunContext& ctx, WideCall& wide) const {
  for (const Copy& output : outputs_) {
    const auto* from = static_cast<const float*>(wide.arguments().tensor(output.arg).data);
    char* to = DataOf(*ctx.frame()->args[output.arg]);
    ParallelFor(ctx.n_threads(), output.n, kElementGrain, 64, [&](int64_t begin, int64_t end) {
      rows_.narrow(from + begin, to + begin * 2, end - begin);
    });
  }
}

}  // namespace opwright_cpu
