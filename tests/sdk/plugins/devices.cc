// Devices whose functions fail, throw or omit their result if a test requests it. One device works
// synchronously, one enqueues work on streams, and one can also record graphs. Their addresses are
// not valid on the host.
#include <algorithm>
#include <functional>
#include <mutex>
#include <opwright/sdk.hpp>

using opwright::Status;

namespace {

constexpr uintptr_t kOffset = uintptr_t{1} << 60;

template <typename T = char>
T* HostSide(const void* handle) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(handle) - kOffset);
}

struct Silent : std::exception {
  const char* what() const noexcept override { return nullptr; }
};

// Tests set these variables between calls, while the device is idle.
std::string faulty_function;  // NOLINT: a test sets it
std::string fault;            // NOLINT

// Fails or throws if `function` is the faulty function; sets `forgets` to omit the result instead.
Status Try(const std::string& function, bool* forgets = nullptr) {
  if (function != faulty_function) return Status::Ok();
  if (forgets != nullptr) *forgets = fault == "forgets";
  if (fault == "fails") return Status::Error("the rope is torn in ", function);
  if (fault == "is full") return Status::OutOfMemory("the hold has 7 bytes left");
  if (fault == "throws") throw std::runtime_error("the rope is torn");
  if (fault == "throws bad_alloc") throw std::bad_alloc();
  if (fault == "throws 42") throw 42;
  if (fault == "throws what says nothing") throw Silent();
  return Status::Ok();
}

// Allocates memory with the alignment that the host expects; std::free releases it.
void* Aligned(uint64_t bytes) {
  constexpr uint64_t kAlignment = 128;
  return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

// Sets the result of a function unless a test requests that it is omitted.
template <typename T, typename Make>
Status Set(const char* function, T* result, const Make& make) {
  bool forgets = false;
  OPWRIGHT_RETURN_IF_ERROR(Try(function, &forgets));
  if (!forgets) *result = make();
  return Status::Ok();
}

// The common base of all devices.
template <typename Base>
class Hold : public Base {
 public:
  explicit Hold(int32_t number) : number_(number) {
    if (const Status status = Try("open"); !status.ok())
      throw opwright::Exception(status.message());
  }
  ~Hold() override {
    if (const Status status = Try("close"); !status.ok()) throw opwright::Exception("stuck");
  }

  static void Configure(opwright::DeviceOptions& options) { options.addressable = true; }
  static Status Count(int32_t* n) {
    *n = 2;
    return Try("Count");
  }

  Status Allocate(uint64_t bytes, void** handle) override {
    return Set("Allocate", handle, [bytes] {
      return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(Aligned(bytes)) + kOffset);
    });
  }
  void Free(void* handle) override {
    std::free(HostSide(handle));
    if (const Status status = Try("Free"); !status.ok()) throw opwright::Exception("stuck");
  }

  int32_t number() const { return number_; }

 private:
  int32_t number_;
};

Status CopyNow(const char* function, void* to, const void* from, uint64_t bytes) {
  OPWRIGHT_RETURN_IF_ERROR(Try(function));
  std::memmove(to, from, bytes);
  return Status::Ok();
}

class Plain : public Hold<opwright::Device> {
 public:
  using Hold::Hold;
  Status CopyFromHost(void* to, const void* from, uint64_t bytes) override {
    return CopyNow("CopyFromHost", HostSide(to), from, bytes);
  }
  Status CopyToHost(void* to, const void* from, uint64_t bytes) override {
    return CopyNow("CopyToHost", to, HostSide(from), bytes);
  }
  Status CopyWithin(void* to, const void* from, uint64_t bytes) override {
    return CopyNow("CopyWithin", HostSide(to), HostSide(from), bytes);
  }
  Status Synchronize() override { return Try("Synchronize"); }
};

using Work = std::vector<std::function<void()>>;

// A stream that runs its work when a caller waits for it.
class Queue {
 public:
  ~Queue() { Take(); }

  void Add(std::function<void()> work) {
    const std::lock_guard<std::mutex> lock(mutex_);
    work_.push_back(std::move(work));
  }
  void Run() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& step : work_) step();
    work_.clear();
  }
  Work Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(work_, {});
  }

 private:
  std::mutex mutex_;
  Work work_;
};

struct Mark {
  Queue* queue = nullptr;
};

// A device with streams; Base is StreamDevice or GraphDevice.
template <typename Base>
class Enqueuing : public Hold<Base> {
 public:
  using Hold<Base>::Hold;

  // Enqueued work can still use the memory.
  void Free(void* handle) override {
    if (main_ == nullptr) return std::free(HostSide(handle));
    main_->Add([handle] { std::free(HostSide(handle)); });
  }

  Status CopyFromHost(Queue& queue, void* to, const void* from, uint64_t bytes) override {
    OPWRIGHT_RETURN_IF_ERROR(Try("CopyFromHost"));
    const auto* begin = static_cast<const char*>(from);
    queue.Add([to, kept = std::vector<char>(begin, begin + bytes)] {
      std::memcpy(HostSide(to), kept.data(), kept.size());
    });
    return Status::Ok();
  }
  Status CopyToHost(Queue& queue, void* to, const void* from, uint64_t bytes) override {
    OPWRIGHT_RETURN_IF_ERROR(Try("CopyToHost"));
    queue.Add([=] { std::memcpy(to, HostSide(from), bytes); });
    return Status::Ok();
  }
  Status CopyWithin(Queue& queue, void* to, const void* from, uint64_t bytes) override {
    OPWRIGHT_RETURN_IF_ERROR(Try("CopyWithin"));
    queue.Add([=] { std::memmove(HostSide(to), HostSide(from), bytes); });
    return Status::Ok();
  }
  Status Synchronize() override { return Try("Synchronize"); }

  Status CreateStream(std::unique_ptr<Queue>* queue) override {
    return Set("CreateStream", queue, [this] {
      auto made = std::make_unique<Queue>();
      if (main_ == nullptr) main_ = made.get();
      return made;
    });
  }
  Status SynchronizeStream(Queue& queue) override {
    queue.Run();
    return Try("SynchronizeStream");
  }
  Status CreateEvent(std::unique_ptr<Mark>* mark) override {
    return Set("CreateEvent", mark, [] { return std::make_unique<Mark>(); });
  }
  Status RecordEvent(Mark& mark, Queue& queue) override {
    mark.queue = &queue;
    return Try("RecordEvent");
  }
  Status WaitEvent(Mark& mark, Queue& /*queue*/) override {
    mark.queue->Run();
    return Try("WaitEvent");
  }
  Status SynchronizeEvent(Mark& mark) override {
    mark.queue->Run();
    return Try("SynchronizeEvent");
  }

 private:
  Queue* main_ = nullptr;  // the first queue, which exists as long as the device
};

class Queued : public Enqueuing<opwright::StreamDevice<Queue, Mark>> {
 public:
  using Enqueuing::Enqueuing;
  Status AllocateHost(uint64_t bytes, void** pointer) override {
    return Set("AllocateHost", pointer, [bytes] { return std::malloc(bytes); });
  }
  void FreeHost(void* pointer) override { std::free(pointer); }
  Status MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) override {
    *free_bytes = 7;
    *total_bytes = 9;
    return Try("MemoryInfo");
  }
};

class Recorded : public Enqueuing<opwright::GraphDevice<Queue, Mark, Work>> {
 public:
  using Enqueuing::Enqueuing;
  Status BeginCapture(Queue& /*queue*/) override { return Try("BeginCapture"); }
  Status EndCapture(Queue& queue, std::unique_ptr<Work>* graph) override {
    Work recorded = queue.Take();
    return Set("EndCapture", graph, [&] { return std::make_unique<Work>(std::move(recorded)); });
  }
  Status Replay(Queue& queue, Work& graph) override {
    for (const auto& step : graph) queue.Add(step);
    return Try("Replay");
  }
};

// A device whose memory is accessible to the host, so it needs only one copy function.
class Shared : public opwright::Device {
 public:
  explicit Shared(int32_t /*number*/) {}
  static void Configure(opwright::DeviceOptions& options) {
    options.host_memory = true;
    options.unshared_memory = true;
    options.alignment = 128;
    options.dlpack_code = kDLCPU;
  }
  Status Allocate(uint64_t bytes, void** handle) override {
    *handle = Aligned(bytes);
    return Status::Ok();
  }
  void Free(void* handle) override { std::free(handle); }
  Status CopyFromHost(void* /*to*/, const void* /*from*/, uint64_t /*bytes*/) override {
    return Status::Error("all memory is the host's");
  }
  Status CopyToHost(void* /*to*/, const void* /*from*/, uint64_t /*bytes*/) override {
    return Status::Error("all memory is the host's");
  }
  Status CopyWithin(void* to, const void* from, uint64_t bytes) override {
    std::memmove(to, from, bytes);
    return Status::Ok();
  }
  Status Synchronize() override { return Status::Ok(); }
};

// ---- kernels ------------------------------------------------------------------------------------

// Runs a step on the stream, or immediately without a stream.
template <typename Step>
void Do(const opwright::RunContext& ctx, Step step) {
  if (auto* queue = ctx.stream<Queue>()) {
    queue->Add(step);
  } else {
    step();
  }
}

template <typename T>
struct Add {
  static void Configure(opwright::KernelOptions& options) { options.capturable = true; }

  static Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&) {
    const T* x = HostSide<T>(ctx.input(0).raw());
    const T* y = HostSide<T>(ctx.input(1).raw());
    T* out = HostSide<T>(ctx.output(0).raw());
    Do(ctx, [=, n = ctx.output(0).numel()] {
      for (int64_t i = 0; i < n; ++i) out[i] = x[i] + y[i];
    });
    return Try("Run");
  }
};

// out = -x - 100 * (index of the device). Not capturable.
template <typename T, typename D>
struct NegativeOn {
  T shift = 0;

  Status Prepare(opwright::PrepareContext& ctx, const opwright::NoAttrs&) {
    shift = static_cast<T>(100 * ctx.device_state<D>()->number());
    return Status::Ok();
  }

  Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&) const {
    const T* x = HostSide<T>(ctx.input(0).raw());
    T* out = HostSide<T>(ctx.output(0).raw());
    Do(ctx, [=, less = shift, n = ctx.output(0).numel()] {
      for (int64_t i = 0; i < n; ++i) out[i] = -x[i] - less;
    });
    return Status::Ok();
  }
};
template <typename T>
struct PlainNegative : NegativeOn<T, Plain> {};
template <typename T>
struct RecordedNegative : NegativeOn<T, Recorded> {};

}  // namespace

OPWRIGHT_REGISTER_DEVICE(plain, "plain", Plain);
OPWRIGHT_REGISTER_DEVICE(queued, "queued", Queued);
OPWRIGHT_REGISTER_DEVICE(recorded, "recorded", Recorded);
OPWRIGHT_REGISTER_DEVICE(shared, "shared", Shared);
OPWRIGHT_DECLARE_OP(add, "add", opwright::Op<>);
OPWRIGHT_REGISTER_KERNEL(add, "plain", Add, float);
OPWRIGHT_REGISTER_KERNEL(add, "queued", Add, float);
OPWRIGHT_REGISTER_KERNEL(add, "recorded", Add, float);
OPWRIGHT_DECLARE_OP(negative, "negative", opwright::Op<>);
OPWRIGHT_REGISTER_KERNEL(negative, "plain", PlainNegative, float);
OPWRIGHT_REGISTER_KERNEL(negative, "recorded", RecordedNegative, float);
OPWRIGHT_PLUGIN("test", plain, queued, recorded, shared, add, negative);

// Makes a function of every device fail from now on, for example "Allocate" with "throws". An empty
// name makes all functions succeed.
extern "C" __attribute__((visibility("default"))) void set_fault(const char* function,
                                                                 const char* how) {
  faulty_function = function;
  fault = how;
}
