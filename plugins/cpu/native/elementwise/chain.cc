// Applies several element-wise functions in one step, block by block. The results of a function
// stay in the L1 cache for the next function and are not stored in a tensor. 16-bit floats are
// widened when they are read, and rounded after the last function.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "common/parallel.h"
#include "common/stream.h"
#include "elementwise/kernel.h"

namespace opwright_cpu {
namespace {

struct ChainAttrs {
  std::vector<std::string> functions;
  std::vector<int64_t> operands;
  std::vector<double> parameters;
  OPWRIGHT_ATTRIBUTES(functions, operands, parameters);
};

// Bytes per streamed block; longer than for a single function, to amortize several calls.
constexpr int64_t kChainStreamBytes = 2 * kStreamBlockBytes;
constexpr int64_t kMaxSources = 64;  // maximum number of inputs plus functions

// One function of the chain. Source indices count the inputs first, then the registers, which are
// blocks of results.
struct Link {
  Loop loop = nullptr;
  Parameters parameters;
  uint32_t n_sources = 0;
  std::array<uint32_t, 2> sources{};
  uint32_t target = 0;  // index of a register; the last function writes the output
};

class ChainKernel {
 public:
  static void Configure(opwright::KernelOptions& options) { SetReuse(options, "out", {}); }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const ChainAttrs& attrs) {
    const opwright::Meta out = ctx.output(0);
    n_ = out.numel();
    item_bytes_ = out.dtype().bits / 8;
    const bool is_half = IsHalf(out.dtype());
    if (is_half) rows_ = HalfRowsOf(out.dtype());
    block_bytes_ = kBlock * WideDtype(out.dtype()).bits / 8;
    double bytes = static_cast<double>(n_ * item_bytes_);
    for (uint32_t i = 0; i < ctx.input_count(0); ++i) {
      const opwright::Meta input = ctx.input(0, i);
      operands_.emplace_back(out.shape(), input.shape(), item_bytes_);
      buffers_.push_back(operands_.back().direct() ? -1 : n_buffers_++);
      bytes += static_cast<double>(input.numel() * item_bytes_);
    }
    OPWRIGHT_RETURN_IF_ERROR(MakeLinks(attrs, WideDtype(out.dtype())));
    stream_ = n_ * item_bytes_ >= kStreamBytes;
    const int64_t n_blocks = n_registers_ + (is_half ? n_inputs() + 2 : 1);
    bytes_per_thread_ = n_buffers_ * kBufferBytes + n_blocks * block_bytes_;
    ctx.SetWorkspace(static_cast<uint64_t>(bytes_per_thread_ * std::max(ctx.n_threads(), 1)));
    ctx.SetEstimate(EstimateNs(n_, bytes, ns_, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const ChainAttrs&) const {
    const int32_t most = n_ < 2 * kElementGrain ? 1 : ctx.n_threads();
    Parallel(most, [&](int32_t thread, int32_t n_threads) {
      const Part part = n_threads == 1 ? Part{0, n_} : PartOf(n_, kBlock, thread, n_threads);
      if (part.begin < part.end) {
        RunPart(ctx, ctx.workspace<char>() + thread * bytes_per_thread_, part);
      }
    });
    return opwright::Status::Ok();
  }

 private:
  opwright::Status MakeLinks(const ChainAttrs& attrs, DLDataType dtype);
  void AssignRegisters(const std::vector<size_t>& last_readers);
  void RunPart(const opwright::RunContext& ctx, char* workspace, Part part) const;
  void RunLinks(std::array<const void*, kMaxSources>& sources, char* registers, char* out,
                int64_t count) const;

  int64_t n_inputs() const { return static_cast<int64_t>(operands_.size()); }

  int64_t n_ = 0;
  int64_t item_bytes_ = 0;
  std::vector<Operand> operands_;
  std::vector<int64_t> buffers_;  // buffer offset of each operand, -1 if it is read in place
  int64_t n_buffers_ = 0;
  std::vector<Link> links_;
  int64_t n_registers_ = 0;
  int64_t block_bytes_ = 0;  // size of a register
  HalfRows rows_;            // unset if the inputs are not 16-bit floats
  double ns_ = 0;
  bool stream_ = false;
  int64_t bytes_per_thread_ = 0;
};

opwright::Status ChainKernel::MakeLinks(const ChainAttrs& attrs, DLDataType dtype) {
  const size_t n_links = attrs.functions.size();
  OPWRIGHT_ENFORCE(n_links > 0 && n_inputs() + static_cast<int64_t>(n_links) <= kMaxSources,
                   "inputs and functions together must be at most ", kMaxSources, ", got ",
                   n_inputs(), " inputs and ", n_links, " functions");
  OPWRIGHT_ENFORCE(attrs.parameters.size() == 2 * n_links,
                   "each function must have two parameters, got ", attrs.parameters.size());
  size_t next = 0;
  for (size_t i = 0; i < n_links; ++i) {
    const NamedFunction* function = FindFunction(attrs.functions[i]);
    if (function == nullptr || function->select(dtype) == nullptr) {
      return opwright::Status::Refused("does not support ", attrs.functions[i], " for ",
                                       opwright::DtypeName(dtype));
    }
    Link& link = links_.emplace_back();
    link.loop = function->select(dtype);
    link.parameters = {attrs.parameters[2 * i], attrs.parameters[2 * i + 1]};
    link.n_sources = static_cast<uint32_t>(function->n_inputs);
    ns_ += (dtype.bits > 32 ? 2 : 1) * (function->ns + 0.1);
    for (uint32_t k = 0; k < link.n_sources; ++k, ++next) {
      const int64_t known = n_inputs() + static_cast<int64_t>(i);
      OPWRIGHT_ENFORCE(
          next < attrs.operands.size() && attrs.operands[next] >= 0 && attrs.operands[next] < known,
          "each function must have operands that are inputs or earlier results");
      link.sources[k] = static_cast<uint32_t>(attrs.operands[next]);
    }
  }
  OPWRIGHT_ENFORCE(next == attrs.operands.size(), "operands must be ", next, ", got ",
                   attrs.operands.size());
  std::vector<size_t> last_readers(n_links, 0);
  for (size_t i = 0; i < n_links; ++i) {
    for (uint32_t k = 0; k < links_[i].n_sources; ++k) {
      const int64_t result = links_[i].sources[k] - n_inputs();
      if (result >= 0) last_readers[static_cast<size_t>(result)] = i;
    }
  }
  AssignRegisters(last_readers);
  return opwright::Status::Ok();
}

// A few registers suffice for many functions, since the last function that reads a register frees
// and can overwrite it.
void ChainKernel::AssignRegisters(const std::vector<size_t>& last_readers) {
  std::vector<uint32_t> free;
  std::vector<uint32_t> registers(links_.size());
  for (size_t i = 0; i < links_.size(); ++i) {
    for (size_t result = 0; result < i; ++result) {
      if (last_readers[result] == i) free.push_back(registers[result]);
    }
    if (free.empty()) free.push_back(static_cast<uint32_t>(n_registers_++));
    registers[i] = free.back();
    free.pop_back();
    links_[i].target = registers[i];
    for (uint32_t k = 0; k < links_[i].n_sources; ++k) {
      const int64_t result = links_[i].sources[k] - n_inputs();
      if (result < 0) continue;
      const uint32_t source = registers[static_cast<size_t>(result)];
      links_[i].sources[k] = static_cast<uint32_t>(n_inputs()) + source;
    }
  }
}

void ChainKernel::RunPart(const opwright::RunContext& ctx, char* workspace, Part part) const {
  char* const registers = workspace + n_buffers_ * kBufferBytes;
  char* const streamed = registers + n_registers_ * block_bytes_;
  char* const out = static_cast<char*>(ctx.output(0).raw());
  std::array<const void*, kMaxSources> sources{};
  for (int64_t i = 0; i < n_registers_; ++i)
    sources[static_cast<size_t>(n_inputs() + i)] = registers + i * block_bytes_;
  const auto buffer = [&](size_t i) { return workspace + buffers_[i] * kBufferBytes; };
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (buffers_[i] >= 0)
      operands_[i].Begin(ctx.input(0, static_cast<uint32_t>(i)).raw(), part.end - part.begin,
                         buffer(i));
  }
  for (int64_t position = part.begin; position < part.end;) {
    char* const to = out + position * item_bytes_;
    const int64_t block =
        stream_ ? StreamCount(to, kChainStreamBytes / item_bytes_, item_bytes_) : kBlock;
    int64_t count = std::min(block, part.end - position);
    for (size_t i = 0; i < operands_.size(); ++i) {
      const void* data = ctx.input(0, static_cast<uint32_t>(i)).raw();
      sources[i] = operands_[i].Read(data, position, &count, buffers_[i] < 0 ? nullptr : buffer(i));
      if (stream_ && operands_[i].direct()) FetchAhead(sources[i], count * item_bytes_);
    }
    RunLinks(sources, registers, stream_ ? streamed : to, count);
    if (stream_) StreamBlock(streamed, to, count * item_bytes_);
    position += count;
  }
  if (stream_) StreamFence();
}

// The memory after the registers holds the streamed block and, if elements are widened, the operand
// blocks and a block for the float results of the last function.
void ChainKernel::RunLinks(std::array<const void*, kMaxSources>& sources, char* registers,
                           char* out, int64_t count) const {
  char* const wide = registers + (n_registers_ + 1) * block_bytes_;
  char* const last = rows_.widen == nullptr ? out : wide + n_inputs() * block_bytes_;
  for (int64_t i = 0; rows_.widen != nullptr && i < n_inputs(); ++i) {
    const void*& source = sources[static_cast<size_t>(i)];
    auto* block = reinterpret_cast<float*>(wide + i * block_bytes_);
    rows_.widen(source, block, count);
    source = block;
  }
  for (const Link& link : links_) {
    const void* inputs[] = {sources[link.sources[0]], sources[link.sources[1]]};
    char* target = &link == &links_.back() ? last : registers + link.target * block_bytes_;
    link.loop(inputs, target, count, link.parameters);
  }
  if (rows_.widen != nullptr) rows_.narrow(reinterpret_cast<const float*>(last), out, count);
}

template <typename T>
using KernelOf = ChainKernel;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("std.elementwise_chain", "cpu", opwright_cpu::KernelOf,
                             OPWRIGHT_CPU_FLOATS, OPWRIGHT_CPU_HALVES);
