// A kernel that blocks until `gate` is set, like a kernel that waits for another process.
#include <opwright/sdk.hpp>

#include <atomic>
#include <chrono>
#include <thread>

namespace {

std::atomic<int> gate{0};

template <typename T>
struct WaitKernel {
  static void Configure(opwright::KernelOptions& options) { options.blocks = true; }
  static opwright::Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&) {
    while (gate.load() == 0) {
      OPWRIGHT_RETURN_IF_ERROR(ctx.Poll());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ctx.output(0).data<T>()[0] = ctx.input(0).data<T>()[0];
    return opwright::Status::Ok();
  }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) void set_gate(int open) { gate.store(open); }

OPWRIGHT_REGISTER_KERNEL_FOR("relu", "cpu", WaitKernel, float);
OPWRIGHT_PLUGIN("acme");
