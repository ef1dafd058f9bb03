// The kernel of all element-wise operators; they differ only in their loops.
#ifndef OPWRIGHT_CPU_ELEMENTWISE_KERNEL_H_
#define OPWRIGHT_CPU_ELEMENTWISE_KERNEL_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "common/attributes.h"
#include "common/half_rows.h"
#include "common/parallel.h"
#include "elementwise/attributes.h"
#include "elementwise/map.h"
#include "elementwise/operand.h"

namespace opwright_cpu {

constexpr size_t kMaxInputs = 3;

// The arguments of Plan, except for shapes.
struct MapPlan {
  Loop loop = nullptr;
  Parameters parameters;
  double ns_per_element = 0;          // arithmetic per element in one thread
  std::vector<uint32_t> slots = {0};  // input slots that the loop reads, in the loop's order
  Loop line_loop = nullptr;           // loop over cache lines that bypasses the caches, or NULL
  bool moves_bits = false;            // the loop reads 16-bit floats without widening them
};

// Estimates the duration of a run over n elements that reads and writes `bytes` bytes.
uint64_t EstimateNs(int64_t n, double bytes, double ns_per_element, int32_t n_threads);

class MapKernel {
 public:
  template <typename Attrs>
  opwright::Status Run(const opwright::RunContext& ctx, const Attrs&) const {
    Inputs inputs;
    for (size_t i = 0; i < n_inputs_; ++i) inputs[i] = DataOf(ctx, args_[i]);
    void* out = DataOf(ctx, out_arg_);
    if (small_) {
      loop_(inputs.data(), out, n_, parameters_);
    } else {
      RunParts(ctx.n_threads(), inputs, out);
    }
    return opwright::Status::Ok();
  }

 protected:
  opwright::Status Plan(opwright::PrepareContext& ctx, const MapPlan& plan);

  // Calls Plan with the operator's registered function for the dtype of the first slot.
  opwright::Status PlanByName(opwright::PrepareContext& ctx, const Parameters& parameters,
                              const std::vector<uint32_t>& slots);

 private:
  using Inputs = std::array<const void*, kMaxInputs>;

  // Omits the checks of ctx.input, which Plan has already made; they would take as long as a step
  // on few elements.
  static char* DataOf(const opwright::RunContext& ctx, uint32_t arg) {
    const DLTensor* tensor = ctx.frame()->args[arg];
    return static_cast<char*>(tensor->data) + tensor->byte_offset;
  }

  void RunParts(int32_t n_threads, const Inputs& inputs, void* out) const;
  void RunLoop(Loop loop, const Inputs& inputs, void* out, int64_t begin, int64_t end) const;
  void StreamWhole(const Inputs& inputs, void* out, int64_t begin, int64_t end) const;
  void RunBlocks(const Inputs& inputs, void* out, int64_t begin, int64_t end) const;
  void StreamBlocks(const Inputs& inputs, void* out, int64_t begin, int64_t end) const;
  void RunWidened(const Inputs& inputs, void* out, bool stream, Part part) const;

  bool small_ = false;   // one call of the loop suffices
  bool direct_ = false;  // no operand broadcasts
  bool stream_ = false;  // the output is too large for the caches
  HalfRows rows_;        // conversions of 16-bit floats; unset if nothing is widened
  bool round_ = false;   // the output is a 16-bit float and must be rounded
  Loop loop_ = nullptr;
  Loop line_loop_ = nullptr;  // NULL also if an operand broadcasts
  Parameters parameters_;
  int64_t n_ = 0;
  int64_t stream_block_ = 0;  // elements that are computed and streamed at a time
  size_t n_inputs_ = 0;
  std::array<uint32_t, kMaxInputs> args_{};
  uint32_t out_arg_ = 0;
  std::array<int64_t, kMaxInputs> in_bytes_{};
  std::array<bool, kMaxInputs> widen_{};
  int64_t out_bytes_ = 0;
  std::vector<Operand> operands_;
};

// Allows `output` to share the memory of the inputs, since every element is read before it is
// written.
inline void SetReuse(opwright::KernelOptions& options, const char* output,
                     std::initializer_list<const char*> inputs) {
  options.library = "native";
  for (const char* input : inputs) options.may_reuse.emplace_back(output, input);
}

inline Parameters ParametersOf(const NoAttrs&) { return {}; }
inline Parameters ParametersOf(const AlphaAttrs& attrs) { return {attrs.alpha}; }
inline Parameters ParametersOf(const BetaAttrs& attrs) { return {attrs.beta}; }
inline Parameters ParametersOf(const HardSigmoidAttrs& attrs) { return {attrs.alpha, attrs.beta}; }
inline Parameters ParametersOf(const ThresholdAttrs& attrs) { return {attrs.threshold}; }
inline Parameters ParametersOf(const StanhAttrs& attrs) { return {attrs.scale_a, attrs.scale_b}; }
inline Parameters ParametersOf(const ExponentAttrs& attrs) { return {attrs.exponent}; }
inline Parameters ParametersOf(const OrderAttrs& attrs) { return {static_cast<double>(attrs.n)}; }
inline Parameters ParametersOf(const StepAttrs& attrs) { return {attrs.step}; }
inline Parameters ParametersOf(const NanToNumAttrs& attrs) {
  return {attrs.nan, attrs.posinf, attrs.neginf};
}
inline Parameters ParametersOf(const ScaleAttrs& attrs) { return {attrs.scale, attrs.bias}; }
inline Parameters ParametersOf(const ClipAttrs& attrs) { return {attrs.min, attrs.max}; }
inline Parameters ParametersOf(const GeluAttrs& attrs) {
  return {attrs.approximate == "tanh" ? 1.0 : 0.0};
}

// A kernel for x -> out.
template <typename Attrs = NoAttrs>
struct UnaryKernel : MapKernel {
  static void Configure(opwright::KernelOptions& options) { SetReuse(options, "out", {"x"}); }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs& attrs) {
    return PlanByName(ctx, ParametersOf(AttributesIn(ctx.input(0).dtype(), attrs)), {0});
  }
};

// A kernel for x, y -> out.
struct BinaryKernel : MapKernel {
  static void Configure(opwright::KernelOptions& options) { SetReuse(options, "out", {"x", "y"}); }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs&) {
    return PlanByName(ctx, {}, {0, 1});
  }
};

// The gradient of a function that needs x: x, out_grad -> x_grad.
template <typename Attrs = NoAttrs>
struct GradientOfX : MapKernel {
  static void Configure(opwright::KernelOptions& options) {
    SetReuse(options, "x_grad", {"x", "out_grad"});
  }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs& attrs) {
    return PlanByName(ctx, ParametersOf(AttributesIn(ctx.input(0).dtype(), attrs)), {0, 1});
  }
};

// The gradient of an operator that needs out: x (its shape only), out, out_grad -> x_grad.
template <typename Attrs = NoAttrs>
struct GradientOfOut : MapKernel {
  static void Configure(opwright::KernelOptions& options) {
    SetReuse(options, "x_grad", {"out", "out_grad"});
  }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs& attrs) {
    return PlanByName(ctx, ParametersOf(AttributesIn(ctx.input(0).dtype(), attrs)), {1, 2});
  }
};

template <template <typename> class Kernel, typename... Dtypes>
void AddMapKernels(opwright::detail::PluginTables* tables, const char* op_type) {
  tables->AddKernelsForOthers<Kernel, Dtypes...>(op_type, "cpu");
  constexpr bool kHasFloat = (std::is_same_v<Dtypes, float> || ...);
  if constexpr (kHasFloat && std::is_base_of_v<MapKernel, Kernel<float>>) {
    tables->AddKernelsForOthers<Kernel, OPWRIGHT_CPU_HALVES>(op_type, "cpu");
  }
}

}  // namespace opwright_cpu

// Registers one class for several dtypes; the class reads the dtype in Prepare. One class per dtype
// would duplicate the code between the C interface and the kernel. A MapKernel for float also
// supports float16 and bfloat16.
#define OPWRIGHT_CPU_REGISTER_AS(type, name, kernel, ...) \
  namespace opwright_cpu {                                \
  template <typename T>                                   \
  using name = kernel;                                    \
  }                                                       \
  OPWRIGHT_REGISTRATION_(                                 \
      nullptr, OPWRIGHT_JOIN(map_, __COUNTER__),          \
      opwright_cpu::AddMapKernels<opwright_cpu::name, __VA_ARGS__>(tables, type))
#define OPWRIGHT_CPU_REGISTER(type, kernel, ...) \
  OPWRIGHT_CPU_REGISTER_AS(#type, type##_kernel, kernel, __VA_ARGS__)
#define OPWRIGHT_CPU_REGISTER_GRADIENT(type, kernel, ...) \
  OPWRIGHT_CPU_REGISTER_AS(#type "_grad", type##_grad_kernel, kernel, __VA_ARGS__)

#endif  // OPWRIGHT_CPU_ELEMENTWISE_KERNEL_H_
