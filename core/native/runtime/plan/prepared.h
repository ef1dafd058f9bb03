// A kernel that is prepared for attributes and metas. The kernel is immutable and shared by plans
// and threads.
#ifndef OPWRIGHT_RUNTIME_PREPARED_H_
#define OPWRIGHT_RUNTIME_PREPARED_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/values/meta.h"

namespace opwright {

struct Meta {
  Shape shape;
  DLDataType dtype;
};

// The arguments of `ow_kernel.prepare`; slots are in OpProto order, and an absent slot is empty.
struct PrepareRequest {
  std::vector<std::vector<Meta>> inputs;
  std::vector<std::vector<Meta>> outputs;
  std::vector<ow_attr> attrs;
  std::vector<uint32_t> arg_flags;  // empty, or one item per argument
  int32_t n_threads = 1;
  bool is_deterministic = false;  // whether n_threads is the fixed count
  std::shared_ptr<Device> device;
};

class Prepared : public Retirable {
 public:
  // Takes ownership of `state`, which kernel->release frees. `keep_alive` outlives `state`, as does
  // the device (null for the host), where `state` may own memory.
  Prepared(const ow_kernel* kernel, void* state, std::shared_ptr<Device> device,
           std::shared_ptr<void> keep_alive);
  ~Prepared() override;
  bool needs_plugin() const {
    return kernel_->release != nullptr && state_ != nullptr && !is_orphan();
  }

  const ow_kernel& kernel() const { return *kernel_; }
  void* state() const { return state_; }
  // Whether the kernel's threads are missing, since the process was forked after `prepare`. Such a
  // kernel must be neither used nor freed, since a `release` that joins threads would wait forever.
  bool is_orphan() const;
  bool needs_gil() const { return (kernel_->flags & OW_KERNEL_NEEDS_GIL) != 0; }

  uint64_t workspace_bytes = 0;
  uint64_t estimate_ns = 0;
  uint64_t held_bytes = 0;  // size of `state`, as declared by the kernel
  int32_t n_threads = 1;
  bool capturable = false;
  std::string op_type;  // for messages, since a Python kernel's table does not contain it
  std::vector<ow_pack> packs;

 private:
  const ow_kernel* kernel_;
  void* state_;
  std::shared_ptr<void> keep_alive_;
  std::shared_ptr<Device> device_;
  uint32_t fork_count_;  // ForkCount() when it was created
};

// Calls kernel->prepare. Throws kRefused or kUnsupported with the kernel's reason, kOutOfMemory or
// kKernel if prepare fails, and kKernel if its result is invalid.
std::shared_ptr<Prepared> PrepareNative(const ow_kernel* kernel, const PrepareRequest& request,
                                        std::shared_ptr<void> keep_alive);

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_PREPARED_H_
