// Creates the functions of an ow_kernel from a kernel class.
//
//   template <typename T>
//   struct Kernel {
//     Status Run(const RunContext&, const Attrs&) const;            // or static
//
//     // Everything below is optional:
//     static void Configure(KernelOptions&);                        // priority, library, reuse ...
//     Status Prepare(PrepareContext&, const Attrs&);                // fills members of the kernel
//     struct Bound { ... };                                         // one per running instance
//     Status Bind(const RunContext&, const Attrs&, Bound&) const;   // Run then takes a Bound&, too
//     Status Pack(const RunContext&, uint32_t arg, const InputTensor& source, void* to) const;
//   };
//
// A kernel object is created once per attributes, shapes and threads, and shared by all threads
// that run it; therefore Run is const. None of these functions may be overloaded.
#ifndef OPWRIGHT_SDK_KERNEL_HPP_
#define OPWRIGHT_SDK_KERNEL_HPP_

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "opwright/abi.h"
#include "opwright/sdk/kernel_context.hpp"
#include "opwright/sdk/op_maker.hpp"
#include "opwright/sdk/status.hpp"

namespace opwright {

// Properties of a kernel.
struct KernelOptions {
  int32_t priority = 50;      // 0 to 99; among kernels for one key the highest is tried first
  std::string library;        // implementation, such as "onednn"; empty: the plugin's name
  bool capturable = false;    // run only enqueues work on the stream
  bool deterministic = true;  // two runs produce the same bits
  bool strided = false;       // accepts any strides; otherwise tensors are compact row-major
  bool by_threads = false;    // the last bits may depend on n_threads()
  bool blocks = false;        // may wait for another process; then Run calls ctx.Poll()
  // Pairs of an output and an input slot: the output may reuse memory of an input not used later.
  std::vector<std::pair<std::string, std::string>> may_reuse;
};

namespace detail {

template <typename K, typename = void>
struct HasConfigure : std::false_type {};
template <typename K>
struct HasConfigure<K, std::void_t<decltype(&K::Configure)>> : std::true_type {};

template <typename K, typename = void>
struct HasPrepare : std::false_type {};
template <typename K>
struct HasPrepare<K, std::void_t<decltype(&K::Prepare)>> : std::true_type {};

template <typename K, typename = void>
struct HasBound : std::false_type {};
template <typename K>
struct HasBound<K, std::void_t<typename K::Bound>> : std::true_type {};

template <typename K, typename = void>
struct HasPack : std::false_type {};
template <typename K>
struct HasPack<K, std::void_t<decltype(&K::Pack)>> : std::true_type {};

// The type of the attributes that a function of a kernel accepts.
template <typename Function>
struct SecondParameter {
  static_assert(AlwaysFalse<Function>::value,
                "Prepare, or Run of a kernel without it, takes a context and const Attributes&");
};
template <typename R, typename Context, typename Attrs, typename... Rest>
struct SecondParameter<R (*)(Context, const Attrs&, Rest...)> {
  using Type = Attrs;
};
template <typename R, typename K, typename Context, typename Attrs, typename... Rest>
struct SecondParameter<R (K::*)(Context, const Attrs&, Rest...)> {
  using Type = Attrs;
};
template <typename R, typename K, typename Context, typename Attrs, typename... Rest>
struct SecondParameter<R (K::*)(Context, const Attrs&, Rest...) const> {
  using Type = Attrs;
};

template <typename K>
constexpr auto FunctionWithAttributes() {
  if constexpr (HasPrepare<K>::value) {
    return &K::Prepare;
  } else {
    return &K::Run;
  }
}

// Represents an operator of another package: the part that its kernel K needs.
template <typename K>
struct OpOfOthers {
  using Attributes = typename SecondParameter<decltype(FunctionWithAttributes<K>())>::Type;
  static_assert(ReadsItself<Attributes>::value,
                "a kernel for another package's operator must declare the attributes it reads: a "
                "struct with OPWRIGHT_ATTRIBUTES, or opwright::NoAttrs");
};

// The bytes that the kernel prepared by this thread has reported by AddHeldBytes.
inline uint64_t& HeldBytes() noexcept {
  static thread_local uint64_t bytes = 0;
  return bytes;
}

// The functions of a kernel class; NULL for missing functions.
struct KernelFunctions {
  void (*configure)(KernelOptions& options);
  int32_t (*prepare)(ow_prepare* prepare);
  void (*release)(void* prepared);
  int32_t (*bind)(const ow_call* call, void** bound);
  void (*unbind)(void* prepared, void* bound);
  int32_t (*pack)(const ow_call* call, uint32_t arg, const DLTensor* source, void* destination);
  int32_t (*run)(const ow_call* call);
};

// Prepares a kernel with `make`; exceptions do not reach the host.
OPWRIGHT_COLD inline int32_t PrepareAtBorder(ow_prepare* prepare, Status (*make)(ow_prepare*)) {
  HeldBytes() = 0;
  const int32_t code =
      AtBorder(prepare->message, prepare->message_bytes, [prepare, make] { return make(prepare); });
  if (code == OW_OK && OW_HAS(prepare, held_bytes)) prepare->held_bytes = HeldBytes();
  // A host of 1.0 treats every other status as a failure, and does not try another kernel.
  const bool is_old = prepare->host->abi_minor < 1;
  return code == OW_UNSUPPORTED && is_old ? OW_REFUSED : code;
}

// The functions of kernel K of operator OpT.
template <typename OpT, typename K>
struct KernelBridge {
  using Attrs = typename OpT::Attributes;

  // The result of prepare. The frame of run lacks the number of input slots.
  struct Prepared {
    uint32_t n_inputs = 0;
    Attrs attrs{};
    K kernel{};
  };

  OPWRIGHT_COLD static Status Make(ow_prepare* prepare) {
    auto made = std::make_unique<Prepared>();
    made->n_inputs = prepare->n_inputs;
    const AttributeReader reader(prepare->attrs, prepare->n_attrs, prepare->attr_stride);
    OPWRIGHT_RETURN_IF_ERROR(ReadAttributes<OpT>(reader, &made->attrs));
    if constexpr (HasPrepare<K>::value) {
      PrepareContext ctx(prepare);
      const Attrs& attrs = made->attrs;
      OPWRIGHT_RETURN_IF_ERROR(made->kernel.Prepare(ctx, attrs));
    }
    prepare->prepared = made.release();
    return Status::Ok();
  }

  OPWRIGHT_COLD static int32_t Prepare(ow_prepare* prepare) noexcept {
    return PrepareAtBorder(prepare, &Make);
  }

  OPWRIGHT_COLD static void Release(void* prepared) noexcept {
    delete static_cast<Prepared*>(prepared);
  }

  static int32_t Bind(const ow_call* call, void** bound) noexcept {
    return AtBorder(call->message, call->message_bytes, [call, bound]() -> Status {
      const auto& made = *static_cast<const Prepared*>(call->prepared);
      auto state = std::make_unique<typename K::Bound>();
      const RunContext ctx(call, made.n_inputs);
      OPWRIGHT_RETURN_IF_ERROR(made.kernel.Bind(ctx, made.attrs, *state));
      *bound = state.release();
      return Status::Ok();
    });
  }

  static void Unbind(void* /*prepared*/, void* bound) noexcept {
    delete static_cast<typename K::Bound*>(bound);
  }

  static int32_t Pack(const ow_call* call, uint32_t arg, const DLTensor* source,
                      void* destination) noexcept {
    return AtBorder(call->message, call->message_bytes, [=]() -> Status {
      const auto& made = *static_cast<const Prepared*>(call->prepared);
      return made.kernel.Pack(RunContext(call, made.n_inputs), arg, InputTensor(source),
                              destination);
    });
  }

  static int32_t Run(const ow_call* call) noexcept {
    return AtBorder(call->message, call->message_bytes, [call]() -> Status {
      const auto& made = *static_cast<const Prepared*>(call->prepared);
      const RunContext ctx(call, made.n_inputs);
      if constexpr (HasBound<K>::value) {
        return made.kernel.Run(ctx, made.attrs, *static_cast<typename K::Bound*>(call->bound));
      } else {
        return made.kernel.Run(ctx, made.attrs);
      }
    });
  }

  static constexpr KernelFunctions Functions() {
    KernelFunctions functions{nullptr, &Prepare, &Release, nullptr, nullptr, nullptr, &Run};
    if constexpr (HasConfigure<K>::value) functions.configure = &K::Configure;
    if constexpr (HasBound<K>::value) {
      functions.bind = &Bind;
      functions.unbind = &Unbind;
    }
    if constexpr (HasPack<K>::value) functions.pack = &Pack;
    return functions;
  }
};

}  // namespace detail

// For use in Prepare: adds memory, such as generated code, to the reported size of its result.
// opwright bounds the sum over all kernels that it caches.
inline void AddHeldBytes(uint64_t bytes) noexcept { detail::HeldBytes() += bytes; }

}  // namespace opwright

#endif  // OPWRIGHT_SDK_KERNEL_HPP_
