// Runs the same steps on parts of the images in parallel. All threads share the work before and
// after these steps.
#ifndef OPWRIGHT_CPU_ONEDNN_SPLIT_PIPELINE_H_
#define OPWRIGHT_CPU_ONEDNN_SPLIT_PIPELINE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "common/parallel.h"
#include "onednn/dnnl.h"
#include "onednn/pipeline.h"

namespace opwright_cpu {

// Divides images among threads, with one part per thread. If there are fewer images than threads,
// oneDNN divides a single part among its own threads. If results must be bitwise independent of the
// number of threads, each image is one part instead.
struct ImageSplit {
  ImageSplit() = default;
  ImageSplit(int64_t images, const opwright::PrepareContext& ctx) : n_images(images) {
    const int32_t threads = ctx.n_threads();
    if (images >= threads || ctx.deterministic()) {
      n_parts = static_cast<int32_t>(std::min<int64_t>(images, threads));
    } else {
      n_threads = threads;
    }
  }

  Part part(int32_t i) const { return PartOf(n_images, 1, i, n_parts); }

  int64_t n_images = 0;
  int32_t n_parts = 1;
  int32_t n_threads = 1;  // threads per part
};

// The sizes that determine the steps of a part.
struct PartSizes {
  int64_t n_images = 1;
  int64_t n_rows = 0;  // rows per output; 0 for all rows
  // The number of zero rows before and after the rows of x.
  int64_t padding_begin = 0, padding_end = 0;

  bool operator!=(const PartSizes& other) const {
    return std::tie(n_images, n_rows, padding_begin, padding_end) !=
           std::tie(other.n_images, other.n_rows, other.padding_begin, other.padding_end);
  }
};

// The byte offset in each tensor, by tensor index.
using ImageBytes = std::array<int64_t, kFirstTemporary>;

// Immutable after Prepare.
class SplitPipeline {
 public:
  // Adds a part that begins at these byte offsets of the tensors if steps for its sizes exist.
  // Returns whether such steps exist. Creating the steps again would recompile the same code.
  bool AddLike(const PartSizes& sizes, const ImageBytes& offsets) {
    for (size_t i = 0; i < pipelines_.size(); ++i) {
      if (pipelines_[i].sizes != sizes) continue;
      parts_.push_back({i, offsets});
      return true;
    }
    return false;
  }

  // Adds a part with its own steps.
  void Add(const PartSizes& sizes, Pipeline steps, const ImageBytes& offsets, int32_t n_threads) {
    part_bytes_ = std::max(part_bytes_, steps.workspace_bytes());
    pipelines_.push_back({sizes, std::move(steps)});
    parts_.push_back({pipelines_.size() - 1, offsets});
    n_threads_ = n_threads;
  }

  bool empty() const { return parts_.empty(); }
  uint64_t workspace_bytes() const { return part_bytes_ * parts_.size(); }

 private:
  friend class SplitExecution;

  struct Steps {
    PartSizes sizes;
    Pipeline pipeline;
  };
  struct Portion {
    size_t pipeline;
    ImageBytes offsets;
  };
  const Pipeline& PipelineOf(size_t part) const {
    return pipelines_[parts_[part].pipeline].pipeline;
  }

  std::vector<Steps> pipelines_;
  std::vector<Portion> parts_;
  uint64_t part_bytes_ = 0;
  int32_t n_threads_ = 1;  // threads per part
};

class SplitExecution {
 public:
  void Bind(const SplitPipeline& pipeline) {
    pipeline_ = &pipeline;
    executions_.resize(pipeline.parts_.size());
    for (size_t i = 0; i < executions_.size(); ++i) {
      executions_[i].Bind(pipeline.PipelineOf(i));
    }
  }

  template <size_t kTensors>
  void Run(int32_t n_threads, char* workspace, const std::array<void*, kTensors>& tensors) {
    static_assert(kTensors <= kFirstTemporary, "the other numbers are temporaries'");
    const auto n_parts = static_cast<int32_t>(executions_.size());
    opwright::Parallel(std::min(n_threads, n_parts), n_parts, [&](int32_t i) {
      const auto part = static_cast<size_t>(i);
      std::array<void*, kTensors> own;
      for (size_t tensor = 0; tensor < kTensors; ++tensor) {
        own[tensor] = At(tensors[tensor], pipeline_->parts_[part].offsets[tensor]);
      }
      executions_[part].Run(pipeline_->n_threads_, workspace + pipeline_->part_bytes_ * part,
                            own.data());
    });
  }

 private:
  const SplitPipeline* pipeline_ = nullptr;
  std::vector<PipelineExecution> executions_;
};

// Copies an array to a different layout, in parts along its first axis. Immutable after Make.
class LayoutChange {
 public:
  void Make(const dnnl::memory::desc& from, const dnnl::memory::desc& to, int32_t n_threads) {
    const ThreadCount one_each(1);
    for (int32_t i = 0; i < n_threads && AddPart(from, to, i, n_threads); ++i) {
    }
  }

  bool empty() const { return parts_.empty(); }
  uint64_t workspace_bytes() const { return scratchpad_bytes_ * parts_.size(); }

 private:
  friend class LayoutChangeExecution;

  // Returns how many elements along the first axis a layout keeps adjacent.
  static int64_t BlockOf(const dnnl::memory::desc& layout) {
    const dnnl::memory::dims blocks = layout.get_inner_blks(), axes = layout.get_inner_idxs();
    int64_t block = 1;
    for (size_t i = 0; i < blocks.size(); ++i) block *= axes[i] == 0 ? blocks[i] : 1;
    return block;
  }

  // Adds a part; returns whether more parts may follow.
  bool AddPart(const dnnl::memory::desc& from, const dnnl::memory::desc& to, int32_t i,
               int32_t n_parts) {
    const int64_t step = std::lcm(BlockOf(from), BlockOf(to));
    dnnl::memory::dims dims = from.get_dims(), first(dims.size(), 0);
    const Part range = PartOf(dims[0], step, i, n_parts);
    if (range.begin >= range.end) return true;
    dims[0] = range.end - range.begin;
    first[0] = range.begin;
    const dnnl::memory::desc source = from.submemory_desc(dims, first, true);
    const dnnl::memory::desc destination = to.submemory_desc(dims, first, true);
    const bool is_whole = !source.get(true) || !destination.get(true);
    const dnnl::reorder::primitive_desc description(CpuEngine(), is_whole ? from : source,
                                                    CpuEngine(), is_whole ? to : destination,
                                                    UserScratchpad());
    if (is_whole) parts_.clear();
    parts_.emplace_back(description);
    parts_.back().Add(DNNL_ARG_FROM, description.src_desc());
    parts_.back().Add(DNNL_ARG_TO, description.dst_desc());
    scratchpad_bytes_ = std::max(scratchpad_bytes_, WholeLines(parts_.back().scratchpad_bytes()));
    return !is_whole;
  }

  std::vector<Primitive> parts_;
  uint64_t scratchpad_bytes_ = 0;
};

class LayoutChangeExecution {
 public:
  void Bind(const LayoutChange& change) {
    change_ = &change;
    executions_.resize(change.parts_.size());
    for (size_t i = 0; i < executions_.size(); ++i) executions_[i].Bind(change.parts_[i]);
  }

  void Run(char* workspace, const void* from, void* to) {
    const auto n_parts = static_cast<int32_t>(executions_.size());
    opwright::Parallel(n_parts, n_parts, [&](int32_t i) {
      const auto part = static_cast<size_t>(i);
      executions_[part].Run(1, workspace + change_->scratchpad_bytes_ * part, from, to);
    });
  }

 private:
  const LayoutChange* change_ = nullptr;
  std::vector<Execution> executions_;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ONEDNN_SPLIT_PIPELINE_H_
