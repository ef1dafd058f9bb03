// A bundle: a file with plans, their weights, and the names of the plugin libraries that contain
// their kernels.
#ifndef OPWRIGHT_RUNTIME_BUNDLE_H_
#define OPWRIGHT_RUNTIME_BUNDLE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "runtime/bundle/sha256.h"
#include "runtime/bundle/tokens.h"
#include "runtime/library/library.h"
#include "runtime/plan/plan.h"
#include "runtime/values/scope.h"

namespace opwright {

// An input or output of a call.
struct Port {
  std::string name;
  DLDataType dtype;
  std::vector<Affine> dims;

  Shape At(int64_t batch) const;  // throws kShape beyond 64 bits
  std::string Text() const;       // "x float32(n, 784)"
};

// A plugin library. An optional library contains only kernels that are tried after other kernels
// have refused.
struct Requirement {
  std::string file;
  std::string folder;  // the name of the package's own folder, which is also searched
  std::string plugin;
  std::string version;
  bool is_optional;
  std::shared_ptr<Library> library;  // set after it is opened
};

struct BundleOptions {
  std::vector<std::string> folders;  // folders in which libraries are searched first
  bool check_tensors = false;        // whether the checksums of weights are compared
};

// Adds the folders of a list with the separator ":"; NULL is an empty list.
void AddFolders(const char* list, std::vector<std::string>* folders);

// Immutable except for its caches; shared by threads.
class Bundle : public std::enable_shared_from_this<Bundle> {
 public:
  static constexpr int64_t kMostBatch = int64_t{1} << 40;

  // Throws kFormat for a file that is damaged or not a bundle, and kPlugin for a library that is
  // missing, has a different version or cannot be opened.
  static std::shared_ptr<Bundle> Open(const std::string& path, const BundleOptions& options);
  // Opens a bundle in memory that the caller keeps valid as long as the bundle exists; errors begin
  // with `who`.
  static std::shared_ptr<Bundle> OpenMemory(const void* data, uint64_t bytes, const char* who,
                                            const BundleOptions& options);

  const std::string& who() const { return who_; }
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  const std::vector<Requirement>& requirements() const { return requirements_; }
  const std::vector<std::string>& written() const { return written_; }
  int64_t least_batch() const { return least_; }
  int64_t most_batch() const { return most_; }

  // Returns the batch size for which the inputs have these shapes; throws kFeed, with the name of
  // the first input that does not fit.
  int64_t BatchOf(const std::vector<const DLTensor*>& inputs) const;
  // Returns a cached or new plan for a batch size and a number of threads. Throws kFeed for a batch
  // size out of range, and kKernel if no kernel accepts it.
  std::shared_ptr<const Plan> PlanFor(int64_t batch, int32_t n_threads);
  // The variables; if possible, they use the weights in the mapped file without a copy.
  const std::shared_ptr<Scope>& scope() const { return scope_; }
  // Returns a scope with its own copies of the variables that runs write, or the common scope if
  // runs write none.
  std::shared_ptr<Scope> NewScope() const;

 private:
  friend class PlanReader;

  struct KernelName {
    uint32_t requirement;
    std::string op_type;
    std::string library;
    DLDataType dtype;
    const ow_kernel* kernel = nullptr;  // set by the first lookup
  };
  struct Variant {
    int64_t least;
    int64_t most;
    int32_t least_threads;
    int32_t most_threads;
    const uint8_t* data;
    size_t size;
  };
  struct Kept {
    int64_t batch;
    int32_t n_threads;
    uint32_t fork_count;
    std::shared_ptr<const Plan> plan;
  };

  Bundle(std::string who, BundleOptions options)
      : who_(std::move(who)),
        options_(std::move(options)),
        scope_(std::make_shared<Scope>(nullptr)) {}

  template <typename... Parts>
  [[noreturn]] void Fail(const Parts&... parts) const {
    Throw(ErrorKind::kFormat, who_, ": ", parts...);
  }
  void Read(const uint8_t* data, uint64_t bytes, const std::shared_ptr<void>& owner);
  void ReadHead(Tokens* tokens, const uint8_t* data, uint64_t bytes,
                const std::shared_ptr<void>& owner);
  std::vector<Port> ReadPorts(Tokens* tokens, size_t n_texts);
  void ReadTensor(Tokens* tokens, const uint8_t* data, uint64_t bytes,
                  const std::shared_ptr<void>& owner);
  void ReadKernels(Tokens* tokens);
  void ReadVariants(Tokens* tokens);
  std::vector<std::string> ListFolders() const;
  void OpenLibrary(Requirement* requirement) const;
  // Throws kPlugin if the kernel is not found.
  const ow_kernel& FindKernel(uint32_t number);
  std::shared_ptr<const Plan> MakePlan(const Variant& variant, int64_t batch, int32_t n_threads);

  const std::string who_;
  const BundleOptions options_;
  std::string folder_;  // folder of the file; empty for memory
  std::vector<uint8_t> descriptor_;
  std::vector<Requirement> requirements_;
  std::vector<KernelName> kernels_;
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  std::vector<std::string> written_;
  std::vector<Variant> variants_;
  int64_t least_ = 1;
  int64_t most_ = 1;
  const std::shared_ptr<Scope> scope_;
  std::list<Kept> kept_;  // guarded; most recently used first
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_BUNDLE_H_
