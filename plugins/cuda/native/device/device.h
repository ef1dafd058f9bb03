// One opened GPU: its primary context, which CuPy also uses, its memory and its fault record.
#ifndef OPWRIGHT_CUDA_DEVICE_DEVICE_H_
#define OPWRIGHT_CUDA_DEVICE_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include <opwright/abi.h>

#include "cu/fault.h"
#include "driver/driver.h"
#include "driver/staging.h"

namespace opwright_cuda {

class Blas;
class Cudnn;

class Device {
 public:
  // Returns an error that names what is missing: the driver, the device or memory.
  static Status Open(int ordinal, std::unique_ptr<Device>* device);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return *driver_; }
  int ordinal() const { return ordinal_; }
  CUcontext context() const { return context_; }
  // Returns whether graphs are disabled and each step waits, so that faults name their operator.
  bool is_blocking() const { return is_blocking_; }

  Status Allocate(uint64_t bytes, void** pointer);
  void Free(void* pointer);
  Status Copy(CUstream stream, void* destination, bool to_host, const void* source, bool from_host,
              uint64_t bytes);
  Status MakeStream(CUstream* stream);
  Status Wait(CUstream stream);

  // Returns the record in which kernels report invalid values, such as an index out of range.
  CUdeviceptr fault_pointer() const { return fault_pointer_; }
  // Returns a fault reported since the last call as an error. The stream must be synchronized.
  Status TakeFault();

  // Marks the work that another library recorded in graphs as invalid. The next wait, and every
  // graph from now on, fails with this message. May be called in any thread.
  void Lose(const std::string& text);
  // Returns OK until Lose is called, then an error with the message given to Lose.
  Status CheckGraphs();

  // Returns cuBLASLt on this device; the first call opens it.
  Status GetBlas(const Blas** blas);
  // Returns cuDNN on this device; the first call opens it.
  Status GetCudnn(Cudnn** cudnn);

 private:
  Device() = default;
  Status Start();

  const Driver* driver_ = nullptr;
  int ordinal_ = 0;
  CUdevice handle_ = 0;
  CUcontext context_ = nullptr;
  CUmemoryPool pool_ = nullptr;     // null if the device has none
  CUstream main_stream_ = nullptr;  // the first stream, which orders allocations and frees
  bool is_blocking_ = false;
  Fault* fault_ = nullptr;  // in host memory, written by the device
  CUdeviceptr fault_pointer_ = 0;
  std::unique_ptr<Staging> staging_;
  std::mutex mutex_;
  std::atomic<bool> has_lost_graphs_{false};
  std::string loss_;
  std::unique_ptr<Blas> blas_;
  std::unique_ptr<Cudnn> cudnn_;
};

// Makes a device context current in this thread, and later restores the previous one, which CuPy
// may use.
class Current {
 public:
  explicit Current(const Device& device);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Driver& driver_;
  CUcontext before_ = nullptr;
  bool changed_ = false;
};

// Registers a fault message that contains "{value}"; returns the number that kernels report.
int RegisterFault(const std::string& text);

// Returns whether an environment variable is set to a value other than an empty string or 0.
bool IsSet(const char* variable);

// Returns the device's function table, which the host reads.
const ow_device& DeviceTable();

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_DEVICE_DEVICE_H_
