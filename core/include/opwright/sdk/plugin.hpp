// The tables of a plugin, and the macros that fill them.
//
// A registration is a pointer in a section of the library, which the linker collects from all
// files: no code runs when the library is loaded. The entry function reads the section when the
// host requests the table.
#ifndef OPWRIGHT_SDK_PLUGIN_HPP_
#define OPWRIGHT_SDK_PLUGIN_HPP_

#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "opwright/abi.h"
#include "opwright/sdk/device_bridge.hpp"
#include "opwright/sdk/host.hpp"
#include "opwright/sdk/infer_shape.hpp"
#include "opwright/sdk/kernel.hpp"
#include "opwright/sdk/op_maker.hpp"

#if !defined(__ELF__)
#error "opwright/sdk.hpp gathers registrations as ELF linkers do; elsewhere fill abi.h's tables"
#endif

namespace opwright {
namespace detail {

// Owns the objects that the tables point to, in deques, whose elements do not move.
class PluginTables {
 public:
  explicit PluginTables(const char* name, const char* version) {
    plugin_.size = sizeof(ow_plugin);
    plugin_.abi_major = OW_ABI_MAJOR;
    plugin_.abi_minor = OW_ABI_MINOR;
    plugin_.name = name;
    plugin_.version = version;
  }

  template <typename OpT>
  OPWRIGHT_COLD void AddOp(const char* type) {
    OpMaker<typename OpT::Attributes> maker(type);
    OpT::Make(maker);
    OpRules(maker.description()).Check();
    OpRow& kept = op_rows_.emplace_back();
    kept.description = maker.description();
    kept.proto = EncodeOp(kept.description);
    for (const std::string& need : kept.description.gradient_needs) {
      kept.gradient_needs.push_back(need.c_str());
    }
    ops_.push_back(MakeRow(kept, &InferBridge<OpT>));
  }

  // One row for each dtype, since each is a different instance of the template.
  template <typename OpT, template <typename> class Kernel, typename... Dtypes>
  void AddKernels(const std::string& op_type, const char* device) {
    static_assert(sizeof...(Dtypes) > 0, "a kernel is registered for one dtype or more");
    const TypedKernel kernels[] = {MakeTyped<OpT, Kernel<Dtypes>, Dtypes>()...};
    AddKernelsOfType(op_type, device, kernels, std::size(kernels));
  }

  template <template <typename> class Kernel, typename... Dtypes>
  void AddKernelsForOthers(const char* op_type, const char* device) {
    static_assert(sizeof...(Dtypes) > 0, "a kernel is registered for one dtype or more");
    const TypedKernel kernels[] = {
        MakeTyped<OpOfOthers<Kernel<Dtypes>>, Kernel<Dtypes>, Dtypes>()...};
    AddKernelsOfType(op_type, device, kernels, std::size(kernels));
  }

  template <typename D>
  void AddDevice(const char* name) {
    devices_.push_back(DeviceBridge<D>::Table());
    devices_.back().name = name;
  }

  void Finish() {
    plugin_.ops = ops_.data();
    plugin_.n_ops = ops_.size();
    plugin_.op_stride = sizeof(ow_op);
    plugin_.kernels = kernels_.data();
    plugin_.n_kernels = kernels_.size();
    plugin_.kernel_stride = sizeof(ow_kernel);
    plugin_.devices = devices_.data();
    plugin_.n_devices = devices_.size();
    plugin_.device_stride = sizeof(ow_device);
  }

  const ow_plugin* plugin() const { return &plugin_; }

 private:
  struct OpRow {
    OpDescription description;
    std::string proto;
    std::vector<const char*> gradient_needs;
  };

  struct KernelRow {
    std::string op_type;
    KernelOptions options;
    DLDataType dtype;
    std::vector<ow_reuse> may_reuse;
  };

  static ow_op MakeRow(const OpRow& kept, int32_t (*infer)(const ow_infer*)) {
    const OpDescription& op = kept.description;
    ow_op row{};
    row.size = sizeof(ow_op);
    row.type = op.type.c_str();
    row.proto = kept.proto.data();
    row.proto_bytes = kept.proto.size();
    row.infer = infer;
    if (!op.gradient_type.empty()) row.gradient_type = op.gradient_type.c_str();
    if (!op.no_gradient_reason.empty()) row.no_gradient_reason = op.no_gradient_reason.c_str();
    row.flags = op.hidden ? OW_OP_HIDDEN : 0u;
    row.n_gradient_needs = static_cast<uint32_t>(kept.gradient_needs.size());
    row.gradient_needs = kept.gradient_needs.data();
    return row;
  }

  // A kernel class with the dtype, or the set of dtypes, that it is registered for. Never static,
  // since g++ would merge equal names of two libraries.
  struct TypedKernel {
    KernelFunctions functions;
    DLDataType dtype;
    bool any_dtype;
    bool narrow_dtypes;
  };

  template <typename OpT, typename K, typename Dtype>
  static constexpr TypedKernel MakeTyped() {
    TypedKernel kernel{KernelBridge<OpT, K>::Functions(), {}, false, false};
    if constexpr (std::is_same_v<Dtype, NarrowDtypes>) {
      kernel.narrow_dtypes = true;
    } else if constexpr (std::is_same_v<Dtype, AnyDtype>) {
      kernel.any_dtype = true;
    } else {
      kernel.dtype = DtypeOf<Dtype>();
    }
    return kernel;
  }

  OPWRIGHT_COLD void AddKernelsOfType(const std::string& op_type, const char* device,
                                      const TypedKernel* kernels, size_t n_kernels) {
    for (size_t i = 0; i < n_kernels; ++i) AddKernel(op_type, device, kernels[i]);
  }

  OPWRIGHT_COLD void AddKernel(const std::string& op_type, const char* device,
                               const TypedKernel& kernel) {
    KernelRow& kept = kernel_rows_.emplace_back();
    kept.op_type = op_type;
    const KernelFunctions& functions = kernel.functions;
    if (functions.configure != nullptr) functions.configure(kept.options);
    ow_kernel row = MakeRow(functions, kept.options);
    row.op_type = kept.op_type.c_str();
    row.device = device;
    if (!kept.options.library.empty()) row.library = kept.options.library.c_str();
    if (kernel.narrow_dtypes) {
      row.dtypes = detail::kNarrowDtypes;
      row.n_dtypes = std::size(detail::kNarrowDtypes);
    } else if (!kernel.any_dtype) {
      kept.dtype = kernel.dtype;
      row.dtypes = &kept.dtype;
      row.n_dtypes = 1;
    }
    for (const auto& [output, input] : kept.options.may_reuse) {
      kept.may_reuse.push_back(ow_reuse{output.c_str(), input.c_str()});
    }
    row.may_reuse = kept.may_reuse.data();
    row.n_may_reuse = kept.may_reuse.size();
    kernels_.push_back(row);
  }

  // Fills in everything except names and dtypes.
  static ow_kernel MakeRow(const KernelFunctions& functions, const KernelOptions& options) {
    ow_kernel row{};
    row.size = sizeof(ow_kernel);
    row.priority = options.priority;
    row.flags = (options.capturable ? OW_KERNEL_CAPTURABLE : 0u) |
                (options.deterministic ? 0u : OW_KERNEL_NONDETERMINISTIC) |
                (options.by_threads ? OW_KERNEL_BY_THREADS : 0u) |
                (options.blocks ? OW_KERNEL_BLOCKS : 0u) |
                (options.strided ? OW_KERNEL_STRIDED : 0u);
    row.prepare = functions.prepare;
    row.release = functions.release;
    row.bind = functions.bind;
    row.unbind = functions.unbind;
    row.pack = functions.pack;
    row.run = functions.run;
    return row;
  }

  ow_plugin plugin_{};
  std::deque<OpRow> op_rows_;
  std::deque<KernelRow> kernel_rows_;
  std::vector<ow_op> ops_;
  std::vector<ow_kernel> kernels_;
  std::vector<ow_device> devices_;
};

struct Registration {
  const char* tag;  // NULL: not listed
  void (*fill)(PluginTables* tables);
};

// The linker names the ends of the section. Weak, since plugins without entries lack the section.
extern "C" OPWRIGHT_LOCAL __attribute__((weak))
const Registration* const __start_opwright_registrations[];
extern "C" OPWRIGHT_LOCAL __attribute__((weak))
const Registration* const __stop_opwright_registrations[];

// Splits "a, b", a list that a macro turned into a string.
inline std::set<std::string> SplitTags(const char* list) {
  std::set<std::string> tags;
  for (std::string tag = NextName(&list); !tag.empty(); tag = NextName(&list)) tags.insert(tag);
  return tags;
}

inline void FillTables(const char* tag_list, PluginTables* tables) {
  const std::set<std::string> tags = SplitTags(tag_list);
  std::set<std::string> found;
  for (const Registration* const* entry = __start_opwright_registrations;
       entry != __stop_opwright_registrations; ++entry) {
    const char* const tag = (*entry)->tag;
    if (tag != nullptr && tags.count(tag) == 0) {
      throw Exception("something is registered under ", tag,
                      ", which OPWRIGHT_PLUGIN does not list");
    }
    if (tag != nullptr) found.insert(tag);
    (*entry)->fill(tables);
  }
  for (const std::string& tag : tags) {
    if (found.count(tag) == 0) {
      throw Exception("OPWRIGHT_PLUGIN lists ", tag,
                      ", but nothing is registered under it; is its file linked into the library?");
    }
  }
}

// The result of the entry function, created at the first call and never destroyed: kernels may run
// in other threads while statics are destroyed.
struct LoadedPlugin {
  int32_t code = OW_OK;
  std::string message;
  const ow_plugin* plugin = nullptr;
};

OPWRIGHT_LOCAL inline const LoadedPlugin* LoadPlugin(const ow_host* host, const char* name,
                                                     const char* version, const char* tags) {
  loaded_as = {name, host};
  auto loaded = std::make_unique<LoadedPlugin>();
  auto tables = std::make_unique<PluginTables>(name, version);
  char message[2048] = "";
  loaded->code = AtBorder(message, sizeof(message), [&]() -> Status {
    FillTables(tags, tables.get());
    tables->Finish();
    return Status::Ok();
  });
  if (loaded->code == OW_OUT_OF_MEMORY) throw std::bad_alloc();  // the next call fills them again
  loaded->message = std::string(name) + ": " + message;
  if (loaded->code != OW_OK) tables = std::make_unique<PluginTables>(name, version);
  loaded->plugin = tables.release()->plugin();
  return loaded.release();
}

OPWRIGHT_LOCAL inline int32_t EnterPlugin(const ow_host* host, const ow_plugin** plugin,
                                          const char* name, const char* version,
                                          const char* tags) noexcept {
  try {
    static const LoadedPlugin* loaded = LoadPlugin(host, name, version, tags);
    *plugin = loaded->plugin;
    if (loaded->code != OW_OK && host != nullptr && host->log != nullptr) {
      host->log(OW_LOG_ERROR, loaded->message.c_str());
    }
    return loaded->code;
  } catch (...) {  // no memory for the tables
    return OW_OUT_OF_MEMORY;
  }
}

}  // namespace detail
}  // namespace opwright

#define OPWRIGHT_JOIN_(a, b) a##b
#define OPWRIGHT_JOIN(a, b) OPWRIGHT_JOIN_(a, b)

// Adds code that fills the tables to the library's list; `tag` is a string, or nullptr.
#define OPWRIGHT_REGISTRATION_(tag, id, ...)                                                  \
  OPWRIGHT_COLD static void OPWRIGHT_JOIN(opwright_fill_,                                     \
                                          id)(::opwright::detail::PluginTables * tables) {    \
    __VA_ARGS__;                                                                              \
  }                                                                                           \
  static const ::opwright::detail::Registration OPWRIGHT_JOIN(opwright_registration_, id) = { \
      tag, &OPWRIGHT_JOIN(opwright_fill_, id)};                                               \
  __attribute__((section("opwright_registrations"),                                           \
                 used)) static const ::opwright::detail::Registration* const                  \
  OPWRIGHT_JOIN(opwright_entry_, id) = &OPWRIGHT_JOIN(opwright_registration_, id)

// Declares `tag` as the operator `type` described by class `op`. For headers.
#define OPWRIGHT_DECLARE_OP(tag, type, op)               \
  struct opwright_op_##tag {                             \
    using Op = op;                                       \
    static constexpr const char* Type() { return type; } \
  }

// Registers a declared operator.
#define OPWRIGHT_DEFINE_OP(tag)                                 \
  OPWRIGHT_REGISTRATION_(#tag, OPWRIGHT_JOIN(tag, __COUNTER__), \
                         tables->AddOp<opwright_op_##tag::Op>(opwright_op_##tag::Type()))

// Declares and registers an operator.
#define OPWRIGHT_REGISTER_OP(tag, type, op) \
  OPWRIGHT_DECLARE_OP(tag, type, op);       \
  OPWRIGHT_DEFINE_OP(tag)

// Adds Kernel<T> for each dtype T that follows: OPWRIGHT_REGISTER_KERNEL(tag, "cpu", K, float).
#define OPWRIGHT_REGISTER_KERNEL(tag, device, kernel, ...)                               \
  OPWRIGHT_REGISTRATION_(#tag, OPWRIGHT_JOIN(tag, __COUNTER__),                          \
                         tables->AddKernels<opwright_op_##tag::Op, kernel, __VA_ARGS__>( \
                             opwright_op_##tag::Type(), device))

// As above, for the operator's gradient, which has the attributes of the operator.
#define OPWRIGHT_REGISTER_GRADIENT_KERNEL(tag, device, kernel, ...)                      \
  OPWRIGHT_REGISTRATION_(#tag, OPWRIGHT_JOIN(tag, __COUNTER__),                          \
                         tables->AddKernels<opwright_op_##tag::Op, kernel, __VA_ARGS__>( \
                             std::string(opwright_op_##tag::Type()) + "_grad", device))

// Adds Kernel<T> for each dtype T to an operator that another package describes, named by its type:
// OPWRIGHT_REGISTER_KERNEL_FOR("relu_grad", "cpu", K, float). The kernel's attributes are a struct
// with OPWRIGHT_ATTRIBUTES, or NoAttrs. It has no tag.
#define OPWRIGHT_REGISTER_KERNEL_FOR(type, device, kernel, ...)            \
  OPWRIGHT_REGISTRATION_(nullptr, OPWRIGHT_JOIN(for_others_, __COUNTER__), \
                         tables->AddKernelsForOthers<kernel, __VA_ARGS__>(type, device))

// Adds a device class: OPWRIGHT_REGISTER_DEVICE(tag, "shelf", Shelf). Kernels for it are registered
// like kernels for the host, with its name.
#define OPWRIGHT_REGISTER_DEVICE(tag, name, device) \
  OPWRIGHT_REGISTRATION_(#tag, OPWRIGHT_JOIN(tag, __COUNTER__), tables->AddDevice<device>(name))

#define OPWRIGHT_PLUGIN_(name, ...)                                                     \
  extern "C" __attribute__((visibility("default"))) int32_t opwright_plugin_v1(         \
      const ow_host* host, const ow_plugin** plugin) {                                  \
    return ::opwright::detail::EnterPlugin(host, plugin, name, OPWRIGHT_PLUGIN_VERSION, \
                                           #__VA_ARGS__);                               \
  }                                                                                     \
  static_assert(true, "a macro that ends with a semicolon")

#ifndef OPWRIGHT_PLUGIN_VERSION
#define OPWRIGHT_PLUGIN_VERSION "0"
#endif

// The library's entry: the plugin's name, as in the package's entry point, and all tags.
#define OPWRIGHT_PLUGIN(...) OPWRIGHT_PLUGIN_(__VA_ARGS__, )

#endif  // OPWRIGHT_SDK_PLUGIN_HPP_
