#include "driver/driver.h"

#include <dlfcn.h>

#include <cstdlib>

namespace opwright_cuda {

namespace {

// The cubins are for CUDA 13, which requires driver 580 or newer.
constexpr int kLeastVersion = 13000;

std::string VersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Status LoadFunctions(void* library, const std::string& path, Driver* driver) {
#define OPWRIGHT_CUDA_LOAD(name, symbol, parameters)                                       \
  driver->name = reinterpret_cast<CUresult(*) parameters>(dlsym(library, symbol));         \
  OPWRIGHT_ENFORCE(driver->name != nullptr, "CUDA: the driver ", path, " has no ", symbol, \
                   "; install NVIDIA's driver 580 or newer");
  OPWRIGHT_CUDA_DRIVER_FUNCTIONS(OPWRIGHT_CUDA_LOAD)
#undef OPWRIGHT_CUDA_LOAD
  return Status::Ok();
}

Status Load(Driver* driver, void** handle) {
  const char* given = std::getenv("OPWRIGHT_CUDA_DRIVER");
  const std::string path = given != nullptr && given[0] != '\0' ? given : "libcuda.so.1";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Status::Error("CUDA: NVIDIA's driver is not installed here, got \"", dlerror(),
                         "\"; install driver 580 or newer, or run on device=\"cpu\"");
  }
  OPWRIGHT_RETURN_IF_ERROR(LoadFunctions(library, path, driver));
  *handle = library;
  int version = 0;
  OPWRIGHT_RETURN_IF_ERROR(Check(*driver, driver->DriverGetVersion(&version), "its version"));
  OPWRIGHT_ENFORCE(version >= kLeastVersion, "CUDA: the driver must support CUDA ",
                   VersionText(kLeastVersion), " or newer, got ", VersionText(version),
                   "; update NVIDIA's driver to 580 or newer");
  const CUresult ready = driver->Init(0);
  if (ready == kNoDevice) return Status::Ok();  // CountDevices reports 0
  return Check(*driver, ready, "the driver's start");
}

struct Opened {
  Driver driver;
  void* library = nullptr;
  Status status = Load(&driver, &library);
};

const Opened& TheDriver() {
  static const auto* opened = new Opened;  // never freed: may be used while statics are destroyed
  return *opened;
}

const char* Advice(CUresult result) {
  switch (result) {
    case 3:
      return "; a GPU does not survive fork(): start processes with multiprocessing's \"spawn\"";
    case 209:
    case 222:
      return "; the kernel was compiled for another GPU or a newer driver: empty the cache folder";
    case 700:
    case 710:
    case 714:
    case 715:
    case 716:
    case 717:
    case 718:
    case 719:
      return "; the GPU's context is lost and this process cannot use it any more: restart it, and "
             "set OPWRIGHT_CUDA_BLOCKING=1 to learn which operator it was";
    case 803:
      return "; the driver's kernel module and its library differ: restart the machine";
    default:
      return "";
  }
}

}  // namespace

Status OpenDriver(const Driver** driver) {
  const Opened& opened = TheDriver();
  *driver = &opened.driver;
  return opened.status;
}

void* FindInDriver(const char* symbol) {
  void* library = TheDriver().library;
  return library == nullptr ? nullptr : dlsym(library, symbol);
}

Status CountDevices(int* n) {
  const Driver* driver = nullptr;
  OPWRIGHT_RETURN_IF_ERROR(OpenDriver(&driver));
  *n = 0;
  const CUresult result = driver->DeviceGetCount(n);
  // A driver that did not detect a device when it was initialized reports "not initialized" here.
  return *n == 0 ? Status::Ok() : Check(*driver, result, "counting devices");
}

// The driver needs a current context, but any context will do. No context is created here, since
// GPU memory cannot exist without a context.
Status FindDevice(CUdeviceptr pointer, int* ordinal) {
  const Driver* driver = nullptr;
  OPWRIGHT_RETURN_IF_ERROR(OpenDriver(&driver));
  *ordinal = -1;
  const auto ask = [&] {
    const CUresult result = driver->PointerGetAttribute(ordinal, kDeviceOrdinal, pointer);
    if (result == kInvalidValue) return Status::Ok();
    return Check(*driver, result, "finding the GPU of an address");
  };
  CUcontext current = nullptr;
  driver->CtxGetCurrent(&current);
  if (current != nullptr) return ask();
  int n = 0;
  OPWRIGHT_RETURN_IF_ERROR(CountDevices(&n));
  for (CUdevice device = 0; device < n; ++device) {
    unsigned flags = 0;
    int is_active = 0;
    driver->DevicePrimaryCtxGetState(device, &flags, &is_active);
    if (is_active == 0) continue;
    OPWRIGHT_RETURN_IF_ERROR(
        Check(*driver, driver->DevicePrimaryCtxRetain(&current, device), "using a context"));
    driver->CtxSetCurrent(current);
    const Status status = ask();
    driver->CtxSetCurrent(nullptr);
    driver->DevicePrimaryCtxRelease(device);
    return status;
  }
  return Status::Ok();
}

Status CheckAnyDevice(int n) {
  if (n > 0) return Status::Ok();
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr) {
    return Status::Error("CUDA: no GPU is visible, got CUDA_VISIBLE_DEVICES=\"", visible,
                         "\"; unset it, or name a GPU that nvidia-smi lists");
  }
  return Status::Error("CUDA: there is no GPU, though the driver is installed; see nvidia-smi");
}

std::string ErrorText(const Driver& driver, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  driver.GetErrorName(result, &name);
  driver.GetErrorString(result, &text);
  std::string full = name != nullptr ? name : "error " + std::to_string(result);
  if (text != nullptr) full += std::string(" (") + text + ")";
  return full + Advice(result);
}

Status Check(const Driver& driver, CUresult result, const char* what) {
  if (result == kSuccess) return Status::Ok();
  const std::string text =
      std::string("CUDA: ") + what + " failed with " + ErrorText(driver, result);
  return Status(result == kOutOfMemory ? OW_OUT_OF_MEMORY : OW_ERROR, text);
}

}  // namespace opwright_cuda
