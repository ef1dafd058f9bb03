#include "runtime/plan/prepared.h"

#include <algorithm>
#include <new>
#include <utility>

#include "runtime/border.h"
#include "runtime/library/host.h"
#include "runtime/library/limits.h"
#include "runtime/library/plugin_table.h"
#include "runtime/plan/flat_args.h"
#include "runtime/status.h"
#include "runtime/threads/fork.h"

namespace opwright {

namespace {

[[noreturn]] void ThrowPrepareFailed(const ow_kernel& kernel, int32_t status, const char* message) {
  if (status == OW_REFUSED) throw Error(ErrorKind::kRefused, message);
  if (status == OW_UNSUPPORTED) throw Error(ErrorKind::kUnsupported, message);
  Throw(status == OW_OUT_OF_MEMORY ? ErrorKind::kOutOfMemory : ErrorKind::kKernel, kernel.op_type,
        ": prepare failed with status ", status, message[0] ? ": " : "", message);
}

void CheckNumbers(const ow_prepare& frame, const ow_kernel& kernel) {
  if (frame.workspace_bytes > kMaxBytes) {
    Throw(ErrorKind::kKernel, kernel.op_type, ": prepare may request at most ", kMaxBytes,
          " bytes of workspace, got ", frame.workspace_bytes);
  }
}

void CheckPack(const ow_pack& wish, const ow_kernel& kernel, const PrepareRequest& request,
               const Prepared& prepared) {
  const bool packable =
      wish.arg < request.arg_flags.size() && (request.arg_flags[wish.arg] & OW_ARG_PACKABLE) != 0;
  bool twice = false;
  for (const ow_pack& other : prepared.packs) twice = twice || other.arg == wish.arg;
  if (!packable || twice || kernel.pack == nullptr) {
    Throw(ErrorKind::kKernel, kernel.op_type,
          ": prepare may request a pack once per packable argument of a kernel with pack, got "
          "argument ",
          wish.arg, twice ? " twice" : "");
  }
  if (wish.bytes == 0 || wish.bytes > kMaxBytes ||
      (wish.alignment != 0 && !IsAlignment(wish.alignment))) {
    Throw(ErrorKind::kKernel, kernel.op_type, ": a packed copy must have 1 to ", kMaxBytes,
          " bytes, aligned to a power of two of at most ", kMaxAlignment, ", got ", wish.bytes,
          " bytes aligned to ", wish.alignment);
  }
}

// `packs` was passed to prepare; the pointer in the frame is not used, as the kernel may change it.
void TakePacks(uint32_t n_packs, const std::vector<ow_pack>& packs, const ow_kernel& kernel,
               const PrepareRequest& request, Prepared* prepared) {
  if (n_packs > packs.size()) {
    Throw(ErrorKind::kKernel, kernel.op_type, ": n_packs must be at most ", packs.size(), ", got ",
          n_packs);
  }
  for (uint32_t i = 0; i < n_packs; ++i) {
    CheckPack(packs[i], kernel, request, *prepared);
    prepared->packs.push_back(packs[i]);
  }
}

}  // namespace

Prepared::Prepared(const ow_kernel* kernel, void* state, std::shared_ptr<Device> device,
                   std::shared_ptr<void> keep_alive)
    : kernel_(kernel),
      state_(state),
      keep_alive_(std::move(keep_alive)),
      device_(std::move(device)),
      fork_count_(ForkCount()) {
  op_type = kernel->op_type;
}

bool Prepared::is_orphan() const { return n_threads > 1 && fork_count_ != ForkCount(); }

Prepared::~Prepared() {
  if (is_orphan()) {
    static_cast<void>(new (std::nothrow)
                          std::shared_ptr<void>(keep_alive_));  // its library stays open
    return;
  }
  if (!needs_plugin()) return;
  FreeAtBorder("a kernel's release ", [this] { kernel_->release(state_); });
}

std::shared_ptr<Prepared> PrepareNative(const ow_kernel* kernel, const PrepareRequest& request,
                                        std::shared_ptr<void> keep_alive) {
  CheckKernelTable(kernel);
  FreeRetired();
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
  if (status != OW_OK) ThrowPrepareFailed(*kernel, status, message);
  auto prepared =
      MakeRetirable<Prepared>(kernel, frame.prepared, request.device, std::move(keep_alive));
  prepared->workspace_bytes = frame.workspace_bytes;
  prepared->estimate_ns = std::min(frame.estimate_ns, kMaxEstimateNs);
  prepared->held_bytes = std::min<uint64_t>(frame.held_bytes, kMaxBytes);
  prepared->n_threads = request.n_threads;
  prepared->capturable = (kernel->flags & OW_KERNEL_CAPTURABLE) != 0 &&
                         (frame.out_flags & OW_PREPARED_NOT_CAPTURABLE) == 0;
  CheckNumbers(frame, *kernel);  // released if the checks fail
  TakePacks(frame.n_packs, packs, *kernel, request, prepared.get());
  return prepared;
}

}  // namespace opwright
