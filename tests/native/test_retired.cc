// Tests when and in which order objects that only plugins can free are freed.
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "plans.h"
#include "runtime/border.h"
#include "runtime/retired.h"
#include "runtime/values/tensor.h"
#include "tests.h"

namespace {

using opwright::FreeRetired;

// The functions of the device and its kernel that were called, in order.
std::vector<std::string> calls;
std::mutex device_lock;
std::function<void()> inside_allocate;

void Note(const char* call) { calls.emplace_back(call); }

// Function names contain their subject, because all test files may be compiled as one.
int32_t LockingAllocate(void*, uint64_t bytes, void** handle, const ow_error*) {
  const std::lock_guard<std::mutex> lock(device_lock);
  Note("allocate");
  if (inside_allocate) inside_allocate();
  *handle = std::malloc(bytes);
  return OW_OK;
}

void LockingFree(void*, void* handle) {
  CHECK(device_lock.try_lock());  // lock() would wait forever
  Note("free");
  std::free(handle);
  device_lock.unlock();
}

const ow_device& LockingTable() {
  static const ow_device table = [] {
    ow_device made{};
    made.size = sizeof(made);
    made.name = "locking";
    made.dlpack_code = kDLExtDev;
    made.alignment = 64;
    made.count = [](const ow_device*, int32_t* n, const ow_error*) -> int32_t {
      *n = 1;
      return OW_OK;
    };
    made.open = [](const ow_device*, int32_t, void** state, const ow_error*) -> int32_t {
      *state = nullptr;
      return OW_OK;
    };
    made.close = [](void*) { Note("close"); };
    made.allocate = LockingAllocate;
    made.free = LockingFree;
    made.copy = [](void*, void*, void*, int32_t, const void*, int32_t, uint64_t,
                   const ow_error*) -> int32_t { return OW_OK; };
    made.synchronize = [](void*, const ow_error*) -> int32_t { return OW_OK; };
    return made;
  }();
  return table;
}

std::shared_ptr<opwright::Device> OpenLocking() {
  auto device = opwright::MakeRetirable<opwright::Device>(&LockingTable(), 0, nullptr);
  calls.clear();  // drops calls that freed objects of an earlier test
  return device;
}

std::shared_ptr<const opwright::Tensor> Put(const std::shared_ptr<opwright::Device>& device) {
  return opwright::MakeTensor(device, plans::kFloat32, {8}, "x");
}

void ADestructorCallsNoDevice() {
  const auto device = OpenLocking();
  auto dropped = Put(device);
  inside_allocate = [&dropped] { dropped = nullptr; };
  const auto kept = Put(device);
  inside_allocate = nullptr;
  CHECK_EQ(calls.size(), 2u);  // allocate, allocate
  Put(device);
  CHECK_EQ(calls[2], "free");
  CHECK_EQ(calls[3], "allocate");
}

void NothingIsFreedDuringACallOfAPlugin() {
  const auto device = OpenLocking();
  Put(device);
  {
    const opwright::InsidePlugin inside;
    FreeRetired();
    CHECK_EQ(calls.size(), 1u);
  }
  FreeRetired();
  CHECK_EQ(calls.back(), "free");
}

std::shared_ptr<const opwright::Plan> PlanOn(const std::shared_ptr<opwright::Device>& device) {
  static const ow_kernel kernel = [] {
    ow_kernel made{};
    made.size = sizeof(made);
    made.op_type = "noted";
    made.prepare = [](ow_prepare* prepare) -> int32_t {
      prepare->prepared = &calls;
      return OW_OK;
    };
    made.release = [](void*) { Note("release"); };
    made.bind = [](const ow_call*, void** bound) -> int32_t {
      *bound = &calls;
      return OW_OK;
    };
    made.unbind = [](void*, void*) { Note("unbind"); };
    made.run = [](const ow_call*) -> int32_t { return OW_OK; };
    return made;
  }();
  opwright::PrepareRequest request;
  request.device = device;
  request.outputs = {{{{8}, plans::kFloat32}}};
  opwright::PlanBuilder builder(device, "plan");
  builder.SetBuffers({32}, nullptr);
  opwright::KernelRequest step;
  step.prepared = opwright::PrepareNative(&kernel, request, nullptr);
  step.args = {
      builder.AddValue(plans::kFloat32, {8}, opwright::ValueKind::kArena, 0, nullptr, nullptr)};
  step.slot_begin = {0, 1};
  builder.AddKernel(std::move(step));
  return builder.Build(nullptr);
}

void UnbindComesFirstAndCloseLast() {
  auto plan = PlanOn(OpenLocking());
  CHECK_EQ(plans::Run(plan, nullptr, {}).status, OW_OK);
  plan = nullptr;
  CHECK_EQ(calls.size(), 1u);  // allocate
  FreeRetired();
  const std::vector<std::string> expected = {"allocate", "unbind", "free", "release", "close"};
  CHECK(calls == expected);
}

void APreparedKernelKeepsItsDeviceOpen() {
  auto device = OpenLocking();
  auto plan = PlanOn(device);
  auto prepared = plan->steps[0].prepared;
  plan = nullptr;
  device = nullptr;
  FreeRetired();
  CHECK(calls.empty());
  prepared = nullptr;
  FreeRetired();
  const std::vector<std::string> expected = {"release", "close"};
  CHECK(calls == expected);
}

}  // namespace

void AddRetiredTests(check::Tests* tests) {
  tests->push_back({"ADestructorCallsNoDevice", ADestructorCallsNoDevice});
  tests->push_back({"NothingIsFreedDuringACallOfAPlugin", NothingIsFreedDuringACallOfAPlugin});
  tests->push_back({"UnbindComesFirstAndCloseLast", UnbindComesFirstAndCloseLast});
  tests->push_back({"APreparedKernelKeepsItsDeviceOpen", APreparedKernelKeepsItsDeviceOpen});
}
