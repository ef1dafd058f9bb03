// Tests bundles without Python: their results, and that opening arbitrary bytes is safe.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "runtime/bundle/session.h"
#include "tests.h"

namespace {

using opwright::Bundle;
using opwright::Session;

constexpr int64_t kFloat = 2 | 32 << 8 | 1 << 16;
constexpr int64_t kBool = 6 | 8 << 8 | 1 << 16;

// Writes tokens in the format of opwright.run.bundles.tokens.
class Writer {
 public:
  Writer& Int(int64_t value) {
    bytes += '\0';
    return Signed(value);
  }
  Writer& Ints(std::initializer_list<int64_t> values) {
    for (const int64_t value : values) Int(value);
    return *this;
  }
  Writer& Batch() {  // 1 * n + 0
    bytes += '\1';
    return Signed(1).Signed(0);
  }
  Writer& Text(const std::string& text) {
    bytes += '\2';
    Varint(text.size());
    bytes += text;
    return *this;
  }
  Writer& Raw(const std::string& other) {
    bytes += other;
    return *this;
  }

  std::string bytes;

 private:
  Writer& Signed(int64_t value) {
    Varint(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63));
    return *this;
  }
  void Varint(uint64_t value) {
    for (; value > 0x7f; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
    bytes += static_cast<char>(value);
  }
};

// Adds a float32 value [n, 2]; values of kind 0 are in the arena, values of kind 1 are external.
void AddValue(Writer* plan, int64_t kind, int64_t index) {
  plan->Ints({2, kFloat, kind, index, 2}).Batch().Int(2);
}

void AddSum(Writer* plan, int64_t x, int64_t y, int64_t out, bool only_better = false) {
  plan->Ints({3, 0});
  if (only_better) {
    plan->Ints({1, 0});
  } else {
    plan->Ints({2, 0, 1});  // first kernel 0, then kernel 1
  }
  plan->Ints({0, 0, 3, 2});  // threads of the process; 3 slots
  for (const int64_t value : {x, y, out}) plan->Ints({1, value, 0});
  plan->Ints({0, 2'000'000});  // no attributes; a run polls after each kernel estimated at 2 ms
}

// Returns plans in which out is x doubled three times; the result is out + out if `flag` is true,
// otherwise out + x.
std::string MakePlans(bool only_better) {
  Writer plans;
  plans.Int(4);
  plans.Text("turn").Ints({1, 3}).Text("c").Int(0);
  AddValue(&plans, 1, 0);
  AddValue(&plans, 0, 0);
  AddSum(&plans, 0, 0, 1, only_better);
  plans.Ints({9, 1, 0});
  for (const bool first : {true, false}) {
    plans.Text("branch");
    for (const char* name : {"a", "b", "out"}) {
      plans.Ints({1, 3}).Text(name).Int(0);
    }
    for (int64_t i = 0; i < 3; ++i) AddValue(&plans, 1, i);
    AddSum(&plans, 0, first ? 0 : 1, 2);
    plans.Int(0);
  }
  plans.Text("main").Ints({1, 0}).Text("x").Int(0);
  plans.Ints({1, 2}).Text("flag").Int(0).Ints({1, 1}).Text("y").Int(0);
  AddValue(&plans, 1, 0);
  plans.Ints({2, kBool, 1, 1, 1, 1});
  AddValue(&plans, 0, 0);
  AddValue(&plans, 1, 2);
  plans.Ints({4, 0, 2, 1});                                          // copy x
  plans.Ints({7, 0, 0, -1, 1, 2, 0, 1, 3, -1, 0, 0, -1, -1, 0, 1});  // three turns
  plans.Ints({6, 1});
  for (const int64_t child : {1, 2}) plans.Ints({child, 3, 2, 0, 0, 1, 3, 2});
  plans.Int(2);
  plans.Ints({8, 3, 10, 0, 0});
  return plans.bytes;
}

std::string Descriptor(bool only_better = false) {
  Writer head;
  head.Ints({1, 8, 1}).Text("bundle_plugin.so").Text("none").Text("bundle").Text("1.0").Int(0);
  for (const char* name : {"x", "y"}) {
    head.Int(1).Text(name).Ints({kFloat, 2}).Batch().Int(2);
  }
  head.Ints({0, 1}).Text("flag").Ints({kBool, 1, 1, 0}).Text(std::string(32, '\0'));
  head.Int(2);
  for (const char* library : {"better", "plain"}) {
    head.Int(0).Text("bundle.add").Text(library).Int(kFloat);
  }
  const std::string plans = MakePlans(only_better);
  head.Ints({1, 1, 8, 1, 1024, static_cast<int64_t>(plans.size())}).Raw(plans);
  return head.bytes;
}

// A bundle file in memory whose address is a multiple of 64 bytes.
struct File {
  explicit File(const std::string& descriptor, bool flag = true) {
    const size_t begin = (64 + descriptor.size() + 63) / 64 * 64;
    size = begin + 64;
    data = static_cast<uint8_t*>(std::aligned_alloc(64, size));
    std::memset(data, 0, size);
    const auto* bytes = reinterpret_cast<const uint8_t*>(descriptor.data());
    const opwright::Digest digest = opwright::Sha256(bytes, descriptor.size());
    const uint32_t numbers[] = {1, 64};
    const uint64_t sizes[] = {descriptor.size(), size};
    std::memcpy(data, "\x89OWB\r\n\x1a\n", 8);
    std::memcpy(data + 8, numbers, 8);
    std::memcpy(data + 16, sizes, 16);
    std::memcpy(data + 32, digest.data(), digest.size());
    std::memcpy(data + 64, descriptor.data(), descriptor.size());
    data[begin] = flag ? 1 : 0;
  }
  ~File() { std::free(data); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::shared_ptr<Bundle> Open() const {
    return Bundle::OpenMemory(data, size, "test", {{OPWRIGHT_TEST_PLUGINS}, false});
  }

  uint8_t* data;
  size_t size;
};

DLTensor View(std::vector<float>* elements, int64_t (*shape)[2]) {
  DLTensor tensor{};
  tensor.data = elements->data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 2;
  tensor.dtype = {kDLFloat, 32, 1};
  tensor.shape = *shape;
  return tensor;
}

void RunOnce(Session* session, int64_t n, float factor) {
  int64_t shape[2] = {n, 2};
  std::vector<float> x(static_cast<size_t>(2 * n));
  std::vector<float> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) - 3;
  const DLTensor input = View(&x, &shape);
  const DLTensor output = View(&y, &shape);
  session->Run({&input}, {&output});
  for (size_t i = 0; i < x.size(); ++i) CHECK(y[i] == factor * x[i]);
}

void LoopsAndBranchesRunForEachBatch() {
  for (const bool flag : {true, false}) {
    const File file(Descriptor(), flag);
    Session session(file.Open());
    for (const int64_t n : {1, 2, 8}) RunOnce(&session, n, flag ? 16 : 9);
  }
}

void ThreadsShareOneModel() {
  const File file(Descriptor());
  const std::shared_ptr<Bundle> bundle = file.Open();
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&bundle, t] {
      Session session(bundle);
      for (int64_t i = 0; i < 50; ++i) RunOnce(&session, 1 + (t + i) % 8, 16);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Until its destruction, calls a function at the beginning of each kernel. An open bundle owns the
// library.
struct OnRun {
  explicit OnRun(void (*function)()) { Set(function); }
  ~OnRun() { Set(nullptr); }
  OnRun(const OnRun&) = delete;
  OnRun& operator=(const OnRun&) = delete;

  static void Set(void (*function)()) {
    void* library = dlopen(OPWRIGHT_TEST_PLUGINS "/bundle_plugin.so", RTLD_NOW | RTLD_LOCAL);
    CHECK(library != nullptr);
    void* symbol = dlsym(library, "bundle_set_on_run");
    CHECK(symbol != nullptr);
    reinterpret_cast<void (*)(void (*)())>(symbol)(function);
    dlclose(library);
  }
};

std::string MessageOf(Session* session) {
  try {
    RunOnce(session, 2, 16);
  } catch (const opwright::Error& error) {
    return error.what();
  }
  return "";
}

bool Has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

Session* current = nullptr;
std::atomic<int> n_kernels{0};

// The canceling thread exits before the first kernel continues, so no second kernel may run.
void CancelEndsARunAfterTheCurrentKernel() {
  const File file(Descriptor());
  Session session(file.Open());
  current = &session;
  {
    n_kernels = 0;
    const OnRun on_run([] {
      if (n_kernels++ == 0) std::thread([] { current->Cancel(); }).join();
    });
    CHECK(Has(MessageOf(&session), "the run was cancelled"));
    CHECK(n_kernels == 1);
  }
  RunOnce(&session, 2, 16);
}

void ASecondRunOfOneSessionIsRefused() {
  const File file(Descriptor());
  Session session(file.Open());
  current = &session;
  n_kernels = 0;
  static std::string message;
  const OnRun on_run([] {
    if (n_kernels++ == 0) std::thread([] { message = MessageOf(current); }).join();
  });
  RunOnce(&session, 2, 16);
  CHECK(Has(message, "a session must run once at a time, got a second run"));
  CHECK(n_kernels == 4);
}

void ManyThreadsMisuseOneSessionAtOnce() {
  const File file(Descriptor());
  const std::shared_ptr<Bundle> bundle = file.Open();
  Session session(bundle);
  std::atomic<bool> is_over{false};
  std::thread canceller([&] {
    while (!is_over) session.Cancel();
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const std::string text = MessageOf(&session);
        CHECK(text.empty() || Has(text, "once at a time") || Has(text, "cancelled"));
        Session own(file.Open());
        RunOnce(&own, 3, 16);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  is_over = true;
  canceller.join();
}

void TheErrorNamesAKernelForABetterProcessor() {
  const File file(Descriptor(/*only_better=*/true));
  const std::shared_ptr<Bundle> bundle = file.Open();
  Session session(bundle);
  const std::string text = MessageOf(&session);
  CHECK(Has(text, "bundle.add"));
  CHECK(Has(text, "needs a better processor"));
}

void NothingGrowsOverManyOpens() {
  const File file(Descriptor());
  for (int i = 0; i < 300; ++i) {
    Session session(file.Open());
    RunOnce(&session, 2, 16);
  }
}

// Opens bytes as a bundle and builds plans; returns false if an Error reports damage.
bool Survives(const std::string& descriptor) {
  const File file(descriptor);
  try {
    const std::shared_ptr<Bundle> bundle = file.Open();
    const Session session(bundle);
    bundle->PlanFor(bundle->least_batch(), 1);
    bundle->PlanFor(bundle->most_batch(), 2);
    return true;
  } catch (const opwright::Error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Changes, moves, repeats or cuts off one to three bytes, and updates the checksum.
std::string Mutate(std::string bytes, std::mt19937* random) {
  const auto below = [random](size_t n) { return (*random)() % n; };
  for (size_t i = below(3) + 1; i > 0 && !bytes.empty(); --i) {
    const size_t at = below(bytes.size());
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8));
        break;
      case 2:
        bytes.erase(at, below(8) + 1);
        break;
      case 3:
        bytes.insert(at, bytes.substr(below(bytes.size()), below(40)));
        break;
      case 4: {
        Writer number;
        const int64_t values[] = {0, 1, -1, 255, INT32_MAX, INT64_MAX, INT64_MIN, int64_t{1} << 40};
        bytes.insert(at, number.Int(values[below(8)]).bytes);
        break;
      }
      default:
        bytes[at] = bytes[below(bytes.size())];
    }
  }
  return bytes;
}

void MutatedBundlesAreHarmless() {
  const char* text = std::getenv("OPWRIGHT_MUTATIONS");
  const int n_mutations = text == nullptr ? 3000 : std::atoi(text);
  const std::string whole = Descriptor();
  CHECK(Survives(whole));
  std::mt19937 random(7);
  int n_survived = 0;
  for (int i = 0; i < n_mutations; ++i) n_survived += Survives(Mutate(whole, &random)) ? 1 : 0;
  std::printf("  %d of %d mutations are bundles\n", n_survived, n_mutations);
  CHECK(n_survived < n_mutations);
}

}  // namespace

void AddBundleTests(check::Tests* tests) {
  tests->push_back(
      {"loops and branches of a bundle run for each batch", LoopsAndBranchesRunForEachBatch});
  tests->push_back({"threads share one model", ThreadsShareOneModel});
  tests->push_back(
      {"cancel ends a run after the current kernel", CancelEndsARunAfterTheCurrentKernel});
  tests->push_back({"a second run of one session is refused", ASecondRunOfOneSessionIsRefused});
  tests->push_back({"many threads misuse one session at once", ManyThreadsMisuseOneSessionAtOnce});
  tests->push_back(
      {"the error names a kernel for a better processor", TheErrorNamesAKernelForABetterProcessor});
  tests->push_back({"nothing grows over many opens of a bundle", NothingGrowsOverManyOpens});
  tests->push_back({"mutated bundles are harmless", MutatedBundlesAreHarmless});
}
