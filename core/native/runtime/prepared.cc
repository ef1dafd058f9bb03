#include "runtime/prepared.h"

#include <utility>

#include "runtime/border.h"
#include "runtime/flat_args.h"
#include "runtime/fork.h"
#include "runtime/host.h"
#include "runtime/plugin_table.h"
#include "runtime/status.h"

namespace opwright {

namespace {

[[noreturn]] void ThrowPrepareFailed(const ow_kernel& kernel, int32_t status, const char* message) {
  if (status == OW_REFUSED) throw Error(ErrorKind::kRefused, message);
  Throw(status == OW_OUT_OF_MEMORY ? ErrorKind::kOutOfMemory : ErrorKind::kKernel, kernel.op_type,
        ": prepare failed with status ", status, message[0] ? ": " : "", message);
}

void TakePacks(const ow_prepare& frame, const ow_kernel& kernel, const FlatArgs& flat,
               const PrepareRequest& request, Prepared* prepared) {
  for (uint32_t i = 0; i < frame.n_packs; ++i) {
    const ow_pack& wish = frame.packs[i];
    const bool allowed = wish.arg < flat.args.size() && wish.arg < request.arg_flags.size() &&
                         (request.arg_flags[wish.arg] & OW_ARG_PACKABLE) != 0;
    const uint64_t alignment = wish.alignment == 0 ? 64 : wish.alignment;
    if (!allowed || kernel.pack == nullptr || (alignment & (alignment - 1)) != 0) {
      Throw(ErrorKind::kProgram, kernel.op_type,
            ": prepare may ask to pack packable arguments of a kernel with pack, got argument ",
            wish.arg);
    }
    prepared->packs.push_back(wish);
  }
}

}  // namespace

Prepared::Prepared(const ow_kernel* kernel, void* state, std::shared_ptr<void> keep_alive)
    : kernel_(kernel), state_(state), keep_alive_(std::move(keep_alive)), fork_count_(ForkCount()) {
  op_type = kernel->op_type;
}

bool Prepared::is_orphan() const { return n_threads > 1 && fork_count_ != ForkCount(); }

Prepared::~Prepared() {
  if (is_orphan()) {
    static_cast<void>(new std::shared_ptr<void>(keep_alive_));  // its library stays open
    return;
  }
  if (kernel_->release == nullptr || state_ == nullptr) return;
  FreeAtBorder("a kernel's release ", [this] { kernel_->release(state_); });
}

std::shared_ptr<Prepared> PrepareNative(const ow_kernel* kernel, const PrepareRequest& request,
                                        std::shared_ptr<void> keep_alive) {
  CheckKernelTable(kernel);
  const Device& device = *request.device;
  const FlatArgs flat({&request.inputs, &request.outputs}, device);
  if (!request.arg_flags.empty() && request.arg_flags.size() != flat.args.size()) {
    Throw(ErrorKind::kProgram, kernel->op_type, ": arg_flags must have one entry an argument, got ",
          request.arg_flags.size(), " for ", flat.args.size());
  }
  const std::vector<uint32_t> no_flags(request.arg_flags.empty() ? flat.args.size() : 0);
  std::vector<ow_pack> packs(flat.args.size());
  char message[1024] = {0};
  ow_prepare frame{};
  frame.size = sizeof(frame);
  frame.host = HostServices();
  frame.kernel = kernel;
  frame.device = device.is_host() ? nullptr : device.table();
  frame.device_state = device.state();
  frame.op_type = kernel->op_type;
  frame.args = flat.args.data();
  frame.slot_begin = flat.slot_begin.data();
  frame.arg_flags = request.arg_flags.empty() ? no_flags.data() : request.arg_flags.data();
  frame.n_slots = static_cast<uint32_t>(request.inputs.size() + request.outputs.size());
  frame.n_inputs = static_cast<uint32_t>(request.inputs.size());
  frame.attrs = request.attrs.data();
  frame.n_attrs = request.attrs.size();
  frame.attr_stride = sizeof(ow_attr);
  frame.n_threads = request.n_threads;
  frame.pack_capacity = static_cast<uint32_t>(packs.size());
  frame.packs = packs.data();
  frame.message = message;
  frame.message_bytes = sizeof(message);
  frame.flags = request.is_deterministic ? OW_PREPARE_DETERMINISTIC : 0u;
  const int32_t status =
      kernel->prepare == nullptr
          ? OW_OK
          : CallAtBorder(message, sizeof(message), [&] { return kernel->prepare(&frame); });
  message[sizeof(message) - 1] = '\0';
  if (status != OW_OK) ThrowPrepareFailed(*kernel, status, message);
  auto prepared = std::make_shared<Prepared>(kernel, frame.prepared, std::move(keep_alive));
  prepared->workspace_bytes = frame.workspace_bytes;
  prepared->estimate_ns = frame.estimate_ns;
  prepared->n_threads = request.n_threads;
  prepared->capturable = (kernel->flags & OW_KERNEL_CAPTURABLE) != 0 &&
                         (frame.out_flags & OW_PREPARED_NOT_CAPTURABLE) == 0;
  if (frame.n_packs > frame.pack_capacity) {
    Throw(ErrorKind::kProgram, kernel->op_type, ": n_packs must be at most ", frame.pack_capacity,
          ", got ", frame.n_packs);
  }
  TakePacks(frame, *kernel, flat, request, prepared.get());
  return prepared;
}

}  // namespace opwright
