// A sequence of primitives, with reorders between primitives whose layouts differ.
#ifndef OPWRIGHT_CPU_ONEDNN_PIPELINE_H_
#define OPWRIGHT_CPU_ONEDNN_PIPELINE_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/parallel.h"
#include "onednn/activation.h"
#include "onednn/dnnl.h"
#include "onednn/primitive.h"

namespace opwright_cpu {

// Memory that primitives read or write, given by the index of a kernel tensor (below
// kFirstTemporary) or of a workspace block.
using Operand = int32_t;
constexpr Operand kFirstTemporary = 16;

// Immutable after Prepare.
class Pipeline {
 public:
  struct Argument {
    int argument;  // DNNL_ARG_...
    dnnl::memory::desc desc;
    Operand operand;
  };

  // Adds a workspace block whose contents are valid during one run.
  Operand AddTemporary(const dnnl::memory::desc& desc) {
    offsets_.push_back(temporary_bytes_);
    temporary_bytes_ += WholeLines(desc.get_size());
    return kFirstTemporary + static_cast<Operand>(offsets_.size()) - 1;
  }

  template <typename Description>
  void Add(const Description& description, const std::vector<Argument>& arguments) {
    Step step{Primitive(description), {}};
    for (const Argument& argument : arguments) {
      step.primitive.Add(argument.argument, argument.desc);
      step.operands.push_back(argument.operand);
    }
    scratchpad_bytes_ = std::max(scratchpad_bytes_, WholeLines(step.primitive.scratchpad_bytes()));
    steps_.push_back(std::move(step));
  }

  void AddReorder(const dnnl::memory::desc& from, Operand source, const dnnl::memory::desc& to,
                  Operand destination) {
    const dnnl::reorder::primitive_desc description(CpuEngine(), from, CpuEngine(), to,
                                                    UserScratchpad());
    Add(description, {{DNNL_ARG_FROM, from, source}, {DNNL_ARG_TO, to, destination}});
  }

  // Returns the operand in layout `to`: the operand itself, or a copy that each run makes.
  Operand Converted(Operand operand, const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
    if (from == to) return operand;
    const Operand copy = AddTemporary(to);
    AddReorder(from, operand, to, copy);
    return copy;
  }

  // Sets a function that runs after all steps, on the first n float32 elements of `operand`, a
  // tensor of the kernel.
  void SetLast(OwnActivation function, Operand operand, int64_t n) {
    last_ = {function, operand, n};
  }

  bool empty() const { return steps_.empty(); }
  uint64_t workspace_bytes() const { return scratchpad_bytes_ + temporary_bytes_; }

 private:
  friend class PipelineExecution;

  struct Step {
    Primitive primitive;
    std::vector<Operand> operands;
  };

  struct Last {
    OwnActivation function = nullptr;
    Operand operand = 0;
    int64_t n = 0;
  };

  std::vector<Step> steps_;
  Last last_;
  std::vector<uint64_t> offsets_;  // offsets of the temporaries, after the scratchpad
  uint64_t temporary_bytes_ = 0;
  uint64_t scratchpad_bytes_ = 0;
};

// The memory objects of a pipeline in one running instance.
class PipelineExecution {
 public:
  void Bind(const Pipeline& pipeline) {
    pipeline_ = &pipeline;
    executions_.resize(pipeline.steps_.size());
    for (size_t i = 0; i < executions_.size(); ++i) {
      executions_[i].Bind(pipeline.steps_[i].primitive);
    }
  }

  // `tensors` are the tensors of the kernel, by index.
  void Run(int32_t n_threads, char* workspace, void* const* tensors) {
    char* const temporaries = workspace + pipeline_->scratchpad_bytes_;
    for (size_t i = 0; i < executions_.size(); ++i) {
      const std::vector<Operand>& operands = pipeline_->steps_[i].operands;
      for (size_t j = 0; j < operands.size(); ++j) {
        const Operand operand = operands[j];
        executions_[i].SetData(
            j, operand < kFirstTemporary ? tensors[operand] : temporaries + Offset(operand));
      }
      executions_[i].SetScratchpad(workspace);
      executions_[i].Execute(n_threads);
    }
    const Pipeline::Last& last = pipeline_->last_;
    if (last.function == nullptr) return;
    auto* numbers = static_cast<float*>(tensors[last.operand]);
    ParallelFor(n_threads, last.n, kElementGrain, kLineFloats,
                [&](int64_t begin, int64_t end) { last.function(numbers + begin, end - begin); });
  }

 private:
  static constexpr int64_t kLineFloats = 16;  // floats per cache line, which one thread writes

  uint64_t Offset(Operand operand) const {
    return pipeline_->offsets_[static_cast<size_t>(operand - kFirstTemporary)];
  }

  const Pipeline* pipeline_ = nullptr;
  std::vector<Execution> executions_;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ONEDNN_PIPELINE_H_
