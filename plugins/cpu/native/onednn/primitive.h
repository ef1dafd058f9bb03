// Wrappers of oneDNN objects. Primitives are created once and shared; memory objects belong to one
// running instance.
#ifndef OPWRIGHT_CPU_ONEDNN_PRIMITIVE_H_
#define OPWRIGHT_CPU_ONEDNN_PRIMITIVE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "onednn/dnnl.h"
#include "onednn/held_signals.h"
#include "onednn/lack_of_memory.h"
#include "onednn/threads.h"

namespace opwright_cpu {

// Returns the CPU engine. The engine is never destroyed, since kernels may run in other threads
// while statics are destroyed.
OPWRIGHT_LOCAL inline const dnnl::engine& CpuEngine() {
  static const auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

// Primitives do not allocate scratch memory; the plan allocates it once for all of its steps.
inline dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

inline dnnl::memory::desc Strided(const dnnl::memory::dims& dims, dnnl::memory::data_type dtype,
                                  const dnnl::memory::dims& strides) {
  return dnnl::memory::desc(dims, dtype, strides);
}

// A primitive and the descriptors of its arguments. The code of a primitive is generated only when
// a running instance first needs it, since passes prepare more kernels than a plan runs.
class Primitive {
 public:
  // The size of a primitive's generated code, as measured for products and convolutions.
  static constexpr uint64_t kCodeBytes = 96 * 1024;

  Primitive() = default;

  template <typename Description>
  explicit Primitive(const Description& description)
      : made_(std::make_shared<Made>(description)),
        moves_stack_(MovesStack(description)),
        scratchpad_(description.scratchpad_desc()) {
    opwright::AddHeldBytes(kCodeBytes);
  }

  // Adds an argument (DNNL_ARG_...); Execution numbers arguments in this order.
  void Add(int argument, const dnnl::memory::desc& desc) {
    arguments_.emplace_back(argument, desc);
  }

  // Returns the primitive; the first call generates its code.
  dnnl_primitive_t get() const {
    std::call_once(made_->once, [this] {
      made_->primitive = dnnl::primitive(made_->description.get());
      made_->description = {};
    });
    return made_->primitive.get();
  }
  const std::vector<std::pair<int, dnnl::memory::desc>>& arguments() const { return arguments_; }
  const dnnl::memory::desc& scratchpad() const { return scratchpad_; }
  bool moves_stack() const { return moves_stack_; }
  uint64_t scratchpad_bytes() const { return scratchpad_.get_size(); }

 private:
  struct Made {
    explicit Made(dnnl::primitive_desc_base described) : description(std::move(described)) {}

    std::once_flag once;
    dnnl::primitive_desc_base description;
    dnnl::primitive primitive;
  };

  std::shared_ptr<Made> made_;
  bool moves_stack_ = false;
  dnnl::memory::desc scratchpad_;
  std::vector<std::pair<int, dnnl::memory::desc>> arguments_;
};

// The memory objects of one primitive in one running instance. Creating these objects for each run
// would cost more than a small primitive itself.
class Execution {
 public:
  void Bind(const Primitive& primitive) {
    CallOneDnn([&] {
      primitive_ = primitive.get();
      moves_stack_ = primitive.moves_stack();
      memories_.clear();
      data_.clear();
      args_.clear();
      stream_ = dnnl::stream(CpuEngine());
      for (const auto& [argument, desc] : primitive.arguments()) AddMemory(argument, desc);
      AddMemory(DNNL_ARG_SCRATCHPAD, primitive.scratchpad());
    });
  }

  // Runs with the data of the arguments in the order of Primitive::Add.
  template <typename... Pointers>
  void Run(int32_t n_threads, void* scratchpad, Pointers... data) {
    size_t i = 0;
    (SetData(i++, const_cast<void*>(static_cast<const void*>(data))), ...);
    SetData(i, scratchpad);
    Execute(n_threads);
  }

  // SetData and Run are separate steps that support a varying number of arguments.
  void SetData(size_t i, void* data) {
    if (data_[i] == data) return;
    CheckOneDnn(dnnl_memory_set_data_handle(memories_[i].get(), data),
                "oneDNN could not take a pointer");
    data_[i] = data;
  }
  void SetScratchpad(void* data) { SetData(memories_.size() - 1, data); }
  void Execute(int32_t n_threads) {
    const ThreadCount count(n_threads);
    std::optional<HeldSignals> held;
    if (moves_stack_) held.emplace();
    CheckOneDnn(dnnl_primitive_execute(primitive_, stream_.get(), static_cast<int>(args_.size()),
                                       args_.data()),
                "oneDNN could not execute a primitive");
  }

 private:
  void AddMemory(int argument, const dnnl::memory::desc& desc) {
    memories_.emplace_back(desc, CpuEngine(), nullptr);
    data_.push_back(nullptr);
    args_.push_back(dnnl_exec_arg_t{argument, memories_.back().get()});
  }

  dnnl_primitive_t primitive_ = nullptr;
  bool moves_stack_ = false;
  dnnl::stream stream_;
  std::vector<dnnl::memory> memories_;
  std::vector<void*> data_;
  std::vector<dnnl_exec_arg_t> args_;
};

inline const void* At(const void* array, int64_t byte) {
  return array == nullptr ? nullptr : static_cast<const char*>(array) + byte;
}
inline void* At(void* array, int64_t byte) {
  return array == nullptr ? nullptr : static_cast<char*>(array) + byte;
}

// Rounds up to complete cache lines so that threads do not share lines.
inline uint64_t WholeLines(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

// Copies one array into another layout, in the calling thread.
inline void Reorder(const dnnl::memory::desc& from, const void* source,
                    const dnnl::memory::desc& to, void* destination) {
  const ThreadCount count(1);
  CallOneDnn([&] {
    dnnl::stream stream(CpuEngine());
    dnnl::memory input(from, CpuEngine(), const_cast<void*>(source));
    dnnl::memory output(to, CpuEngine(), destination);
    dnnl::reorder(input, output).execute(stream, input, output);
    stream.wait();
  });
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ONEDNN_PRIMITIVE_H_
