#include "elementwise/kernel.h"

#include <algorithm>

#include "common/parallel.h"
#include "common/stream.h"

namespace opwright_cpu {
namespace {

// Floats per block of widened 16-bit elements. Four such blocks and the operands leave most of the
// L1 cache free.
constexpr int64_t kWideBlock = kBlock / 2;

Functions MakeFunctions() {
  Functions functions;
  AddUnaryFunctions(functions);
  AddActivationFunctions(functions);
  AddArithmeticFunctions(functions);
  AddComparisonFunctions(functions);
  AddTrigonometricFunctions(functions);
  AddRoundingFunctions(functions);
  AddDivisionFunctions(functions);
  AddKinkedFunctions(functions);
  AddSmoothFunctions(functions);
  AddPowerFunctions(functions);
  AddBitFunctions(functions);
  AddSpecialFunctions(functions);
  return functions;
}

}  // namespace

const NamedFunction* FindFunction(const std::string& op_type) {
  static const Functions functions = MakeFunctions();
  const auto found = functions.find(op_type);
  return found == functions.end() ? nullptr : &found->second;
}

uint64_t EstimateNs(int64_t n, double bytes, double ns_per_element, int32_t n_threads) {
  constexpr double kBytesPerNs = 10;  // bytes read and written per ns by one thread
  constexpr double kStepNs = 15;      // fixed cost of each step
  const double work = std::max(bytes / kBytesPerNs, static_cast<double>(n) * ns_per_element);
  const int64_t threads = std::clamp<int64_t>(n / kElementGrain, 1, std::max(n_threads, 1));
  return static_cast<uint64_t>(kStepNs + work / static_cast<double>(threads));
}

opwright::Status MapKernel::PlanByName(opwright::PrepareContext& ctx, const Parameters& parameters,
                                       const std::vector<uint32_t>& slots) {
  const NamedFunction* function = FindFunction(ctx.op_type());
  const DLDataType dtype = WideDtype(ctx.input(slots[0]).dtype());
  if (function == nullptr || function->select(dtype) == nullptr) {
    return opwright::Status::Refused("does not support ", opwright::DtypeName(dtype));
  }
  const double ns = dtype.bits > 32 ? 2 * function->ns : function->ns;
  const Loop line_loop =
      function->select_lines == nullptr ? nullptr : function->select_lines(dtype);
  return Plan(ctx, {function->select(dtype), parameters, ns, slots, line_loop});
}

opwright::Status MapKernel::Plan(opwright::PrepareContext& ctx, const MapPlan& plan) {
  const opwright::Meta out = ctx.output(0);
  if (plan.loop == nullptr) {
    return opwright::Status::Refused("does not support ", opwright::DtypeName(out.dtype()));
  }
  loop_ = plan.loop;
  round_ = !plan.moves_bits && IsHalf(out.dtype());
  parameters_ = plan.parameters;
  n_ = out.numel();
  n_inputs_ = plan.slots.size();
  out_bytes_ = (out.dtype().bits + 7) / 8;
  out_arg_ = ctx.frame()->slot_begin[ctx.frame()->n_inputs];
  direct_ = true;
  int64_t widest = out_bytes_;
  double bytes = static_cast<double>(n_ * out_bytes_);
  for (size_t i = 0; i < n_inputs_; ++i) {
    const opwright::Meta input = ctx.input(plan.slots[i]);
    args_[i] = ctx.frame()->slot_begin[plan.slots[i]];
    in_bytes_[i] = (input.dtype().bits + 7) / 8;
    widen_[i] = !plan.moves_bits && IsHalf(input.dtype());
    if (widen_[i]) rows_ = HalfRowsOf(input.dtype());
    operands_.emplace_back(out.shape(), input.shape(), in_bytes_[i]);
    direct_ = direct_ && operands_.back().direct();
    widest = std::max(widest, in_bytes_[i]);
    bytes += static_cast<double>(input.numel() * in_bytes_[i]);
  }
  // A block has at least one cache line of the output. A line of bool has as many elements as two
  // blocks of double.
  stream_block_ = std::max(kStreamBlockBytes / widest, kLineBytes / out_bytes_);
  stream_ = n_ * out_bytes_ >= kStreamBytes;
  line_loop_ = direct_ ? plan.line_loop : nullptr;
  small_ = direct_ && rows_.widen == nullptr && n_ < 2 * kElementGrain;
  ctx.SetEstimate(EstimateNs(n_, bytes, plan.ns_per_element, ctx.n_threads()));
  return opwright::Status::Ok();
}

void MapKernel::RunParts(int32_t n_threads, const Inputs& inputs, void* out) const {
  // If the output shares the memory of an input, the cache lines of the output are already loaded.
  const bool in_place =
      std::find(inputs.begin(), inputs.begin() + n_inputs_, out) != inputs.begin() + n_inputs_;
  ParallelFor(n_threads, n_, kElementGrain, kBlock, [&](int64_t begin, int64_t end) {
    if (rows_.widen != nullptr) {
      RunWidened(inputs, out, stream_ && !in_place, Part{begin, end});
    } else if (stream_ && !in_place && line_loop_ != nullptr) {
      StreamWhole(inputs, out, begin, end);
    } else if (stream_ && !in_place) {
      StreamBlocks(inputs, out, begin, end);
    } else if (direct_) {
      RunLoop(loop_, inputs, out, begin, end);
    } else {
      RunBlocks(inputs, out, begin, end);
    }
  });
}

void MapKernel::RunLoop(Loop loop, const Inputs& inputs, void* out, int64_t begin,
                        int64_t end) const {
  Inputs from{};
  for (size_t i = 0; i < n_inputs_; ++i) {
    from[i] = static_cast<const char*>(inputs[i]) + begin * in_bytes_[i];
  }
  loop(from.data(), static_cast<char*>(out) + begin * out_bytes_, end - begin, parameters_);
}

void MapKernel::StreamWhole(const Inputs& inputs, void* out, int64_t begin, int64_t end) const {
  const char* to = static_cast<char*>(out) + begin * out_bytes_;
  const int64_t first = std::min(begin + BytesToLine(to) / out_bytes_, end);
  const int64_t last = first + ((end - first) & -(kLineBytes / out_bytes_));
  RunLoop(loop_, inputs, out, begin, first);
  RunLoop(line_loop_, inputs, out, first, last);
  RunLoop(loop_, inputs, out, last, end);
  StreamFence();
}

void MapKernel::RunBlocks(const Inputs& inputs, void* out, int64_t begin, int64_t end) const {
  alignas(kLineBytes) char buffers[kMaxInputs][kBufferBytes];
  for (size_t i = 0; i < n_inputs_; ++i) operands_[i].Begin(inputs[i], end - begin, buffers[i]);
  for (int64_t position = begin; position < end;) {
    int64_t count = std::min(kBlock, end - position);
    Inputs from{};
    for (size_t i = 0; i < n_inputs_; ++i) {
      from[i] = operands_[i].Read(inputs[i], position, &count, buffers[i]);
    }
    loop_(from.data(), static_cast<char*>(out) + position * out_bytes_, count, parameters_);
    position += count;
  }
}

// Widens inputs into blocks of floats in the L1 cache, runs the loop on them, and rounds the
// results when they are written.
void MapKernel::RunWidened(const Inputs& inputs, void* out, bool stream, Part part) const {
  alignas(kLineBytes) char buffers[kMaxInputs][kBufferBytes];
  alignas(kLineBytes) float wide[kMaxInputs][kWideBlock];
  alignas(kLineBytes) float results[kWideBlock];
  alignas(kLineBytes) char streamed[kWideBlock * kMaxItemBytes];
  for (size_t i = 0; i < n_inputs_; ++i) {
    operands_[i].Begin(inputs[i], part.end - part.begin, buffers[i]);
  }
  for (int64_t position = part.begin; position < part.end;) {
    char* const to = static_cast<char*>(out) + position * out_bytes_;
    const int64_t block = stream ? StreamCount(to, stream_block_, out_bytes_) : kWideBlock;
    int64_t count = std::min(block, part.end - position);
    Inputs from{};
    for (size_t i = 0; i < n_inputs_; ++i) {
      from[i] = operands_[i].Read(inputs[i], position, &count, buffers[i]);
    }
    for (size_t i = 0; i < n_inputs_; ++i) {
      if (stream && operands_[i].direct()) FetchAhead(from[i], count * in_bytes_[i]);
      if (!widen_[i]) continue;
      rows_.widen(from[i], wide[i], count);
      from[i] = wide[i];
    }
    char* const target = stream ? streamed : to;
    loop_(from.data(), round_ ? static_cast<void*>(results) : target, count, parameters_);
    if (round_) rows_.narrow(results, target, count);
    if (stream) StreamBlock(streamed, to, count * out_bytes_);
    position += count;
  }
  if (stream) StreamFence();
}

void MapKernel::StreamBlocks(const Inputs& inputs, void* out, int64_t begin, int64_t end) const {
  alignas(kLineBytes) char buffers[kMaxInputs][kBufferBytes];
  alignas(kLineBytes) char results[kStreamBlockBytes];
  for (size_t i = 0; i < n_inputs_; ++i) operands_[i].Begin(inputs[i], end - begin, buffers[i]);
  for (int64_t position = begin; position < end;) {
    char* to = static_cast<char*>(out) + position * out_bytes_;
    int64_t count = std::min(StreamCount(to, stream_block_, out_bytes_), end - position);
    Inputs from{};
    for (size_t i = 0; i < n_inputs_; ++i) {
      from[i] = operands_[i].Read(inputs[i], position, &count, buffers[i]);
    }
    loop_(from.data(), results, count, parameters_);
    for (size_t i = 0; i < n_inputs_; ++i) {
      if (operands_[i].direct()) FetchAhead(from[i], count * in_bytes_[i]);
    }
    StreamBlock(results, to, count * out_bytes_);
    position += count;
  }
  StreamFence();
}

}  // namespace opwright_cpu
