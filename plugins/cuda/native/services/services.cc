// Services of this library for other packages.
#include "services.h"

#include <opwright/sdk/status.hpp>

#include "device/device.h"
#include "driver/driver.h"

namespace opwright_cuda {

namespace {

Device& Of(void* device) { return *static_cast<Device*>(device); }

int32_t Ordinal(void* device) { return Of(device).ordinal(); }

int32_t IsBlocking(void* device) { return Of(device).is_blocking() ? 1 : 0; }

void* Enter(void* device) {
  const Driver& api = Of(device).driver();
  CUcontext before = nullptr;
  api.CtxGetCurrent(&before);
  if (before != Of(device).context()) api.CtxSetCurrent(Of(device).context());
  return before;
}

void Leave(void* device, void* before) {
  // As in Current, a thread that had no context before keeps this one.
  if (before != nullptr && before != Of(device).context()) {
    Of(device).driver().CtxSetCurrent(static_cast<CUcontext>(before));
  }
}

int32_t Wait(void* device, void* stream, char* message, uint64_t message_bytes) {
  return opwright::detail::AtBorder(message, message_bytes,
                                    [&] { return Of(device).Wait(static_cast<CUstream>(stream)); });
}

void Lose(void* device, const char* text) { Of(device).Lose(text); }

}  // namespace

}  // namespace opwright_cuda

extern "C" __attribute__((visibility("default"))) const opwright_cuda_services*
opwright_cuda_services_v1() {
  using namespace opwright_cuda;
  static const opwright_cuda_services services = {
      sizeof(opwright_cuda_services), FindInDriver, Ordinal, IsBlocking, Enter, Leave, Wait, Lose};
  return &services;
}
