// Code shared by the collective kernels.
#ifndef OPWRIGHT_NCCL_KERNEL_H_
#define OPWRIGHT_NCCL_KERNEL_H_

#include <mutex>
#include <string>

#include "cuda.h"
#include "group.h"
#include "memory.h"
#include "opwright/sdk.hpp"

namespace opwright_nccl {

struct GroupAttrs {
  std::string group;
  OPWRIGHT_ATTRIBUTES(group);
};
struct ReduceAttrs {
  std::string group;
  std::string reduce;
  std::string unequal_rows;
  OPWRIGHT_ATTRIBUTES(group, reduce, unequal_rows);
};

inline int64_t BytesOf(const opwright::Meta& meta) {
  return meta.numel() * ((meta.dtype().bits + 7) / 8);
}

struct CollectiveKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "nccl";
    options.capturable = true;
    options.blocks = true;  // a later wait for the GPU can wait for other processes
  }

  // Finds the group, which this engine must have connected; a group of one process is allowed.
  opwright::Status PrepareGroup(opwright::PrepareContext& ctx, const std::string& name) {
    group = FindGroup(name);
    if (group == nullptr) {
      if (FindGroup("world") != nullptr) {
        return opwright::Status::Refused("NCCL must connect group '", name,
                                         "' with this process, got none");
      }
      return opwright::Status::Unsupported(
          "a group '", name, "' of processes that NCCL connects; `opwright-nccl run` does, and ",
          "under another launcher OPWRIGHT_DIST_ENGINE=nccl");
    }
    device = ctx.device_state();
    is_blocking = Services().is_blocking(device) != 0;
    if (is_blocking) ctx.ForbidCapture();
    return opwright::Status::Ok();
  }

  // Runs `body` in the device context, for one collective of the group at a time.
  template <typename Body>
  opwright::Status Meet(const char* who, const opwright::RunContext& ctx, const Body& body) const {
    const std::lock_guard<std::mutex> lock(group->mutex);
    const Within within(device);
    OPWRIGHT_RETURN_IF_ERROR(group->Enter(who, device));
    OPWRIGHT_RETURN_IF_ERROR(body());
    return is_blocking ? Wait(ctx) : opwright::Status::Ok();
  }

  // Runs an NCCL call and makes the call stream wait for it.
  template <typename Enqueue>
  opwright::Status Exchange(const opwright::RunContext& ctx, Operation operation, const Fork& fork,
                            const Enqueue& enqueue) const {
    OPWRIGHT_RETURN_IF_ERROR(group->Begin(ctx, operation, fork, enqueue));
    return Group::End(ctx, fork);
  }

  Group* group = nullptr;
  void* device = nullptr;
  bool is_blocking = false;

 private:
  opwright::Status Wait(const opwright::RunContext& ctx) const {
    const ow_call* call = ctx.frame();
    const int32_t code = Services().wait(device, call->stream, call->message, call->message_bytes);
    if (code == OW_OK) return opwright::Status::Ok();
    return opwright::Status(code, call->message != nullptr ? call->message : "");
  }
};

inline opwright::Status BindScratch(void* device, int64_t bytes, Scratch* scratch) {
  OPWRIGHT_RETURN_IF_ERROR(scratch->fork.Make(device));
  return scratch->memory.Allocate(device, bytes);
}

}  // namespace opwright_nccl

// The dtypes of numeric operators.
#define OPWRIGHT_NCCL_NUMBERS opwright::Float16, opwright::BFloat16, float, double, int32_t, int64_t

#endif  // OPWRIGHT_NCCL_KERNEL_H_
